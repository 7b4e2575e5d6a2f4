"""Which store a configuration selects, and the error for one that is impossible."""

import asyncio
import contextlib
import sqlite3
import sys
from random import Random
from types import SimpleNamespace

import grpc
import grpc.aio
import pytest

from lbd.cli.daemons import aids, dispatcher
from lbd.cli.daemons.aids import drop_removed
from lbd.cli.daemons.dispatcher import Service, make_lead
from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import Config, HostConfig
from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.disciplines.fcfs import Fcfs
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.ledger_rows import Deposed, LedgerTrouble
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.ledger import leadership, sqlite
from lbd.dispatch.ledger.leadership import OneFile
from lbd.dispatch.service import SERVICE
from lbd.errors import ConfigError
from lbd.local.json_socket import serve_json
from lbd.model import HostId
from lbd.net.transport import Plain
from lbd.process import last_words
from lbd.text.dispatcher_phrases import cause_in, silence
from tests.unit.net.call_server import free_port
from tests.unit.until import until

URL = "postgresql://lbd@db/lbd"


def lead(**dispatch):
    return make_lead(Config(dispatch=DispatchConfig(host="h1", **dispatch)))


@pytest.mark.parametrize("store", ["", "sqlite:///var/lib/ledger", URL, "postgres://db/lbd"])
def test_valid_stores(store):
    assert lead(store=store) is not None


@pytest.mark.parametrize(
    ("dispatch", "says"),
    [
        (
            {"store": "mysql://db/lbd"},
            "must be sqlite:///srv/lbd/ledger.sqlite .a whole path. or postgresql://",
        ),
        ({"store": "sqlite://relative"}, "must be sqlite:///srv/lbd/ledger.sqlite"),
        ({"store": "nothing"}, "must be sqlite:///srv/lbd/ledger.sqlite"),
        ({"standby": ("h2",)}, "only with dispatch.store = .postgresql"),
    ],
)
def test_invalid_stores(dispatch, says):
    with pytest.raises(ConfigError, match=says):
        lead(**dispatch)


@pytest.mark.parametrize("name", ["ledger.sqlite", "elsewhere/jobs"])
async def test_jobs_in_the_file_are_not_abandoned_for_a_database(tmp_path, name):
    from lbd.dispatch.ledger.sqlite import open_jobs

    file = tmp_path / name
    host = HostConfig(state_dir=str(tmp_path))
    store = "" if name == "ledger.sqlite" else f"sqlite://{file}"
    before = make_lead(Config(host=host, dispatch=DispatchConfig(host="h1", store=store)))
    await before.lead(print)
    await before.end()
    config = Config(host=host, dispatch=DispatchConfig(host="h1", store=URL))
    assert make_lead(config) is not None
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        columns = connection.execute("PRAGMA table_info(jobs)").fetchall()
        values = {name: "" for _, name, _, needed, default, _ in columns if needed and not default}
        for number, state in ((1, "pending"), (2, "done")):
            row = values | {"id": number, "state": state}
            marks = ", ".join("?" * len(row))
            names = ", ".join(row)
            connection.execute(f"INSERT INTO jobs ({names}) VALUES ({marks})", (*row.values(),))
    assert open_jobs(file) == 1
    with pytest.raises(ConfigError, match=f"1 job of the queue is in {file}"):
        make_lead(config)
    new = tmp_path / "new.sqlite"
    moved = Config(host=host, dispatch=DispatchConfig(host="h1", store=f"sqlite://{new}"))
    says = f"1 job of the queue is in {file}, and there is no {new}: copy it there"
    with pytest.raises(ConfigError, match=says):
        make_lead(moved)
    new.write_bytes(file.read_bytes())
    assert make_lead(moved) is not None
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE jobs SET state = 'done', submitted = 1.0, finished = 9e9")
    with pytest.raises(ConfigError, match=f"{new} is older than {file}, the ledger that was used"):
        make_lead(moved)  # the job would run again
    file.unlink()
    assert make_lead(moved) is not None


def test_a_ledger_used_last_that_cannot_be_read_is_not_taken_for_empty(tmp_path):
    """As one with a -wal where the unit may only read: a new queue began."""
    last, new = tmp_path / "last.sqlite", tmp_path / "new.sqlite"
    last.write_bytes(b"x" * 5000)
    (tmp_path / "ledger.last").write_text(str(last))
    own = DispatchConfig(host="h1", store=f"sqlite://{new}")
    config = Config(host=HostConfig(state_dir=str(tmp_path)), dispatch=own)
    with pytest.raises(ConfigError, match=f"may be in {last}, which cannot be read, and there is"):
        make_lead(config)
    last.unlink()
    assert make_lead(config) is not None


async def test_a_ledger_that_is_away_is_waited_for(tmp_path, monkeypatch):
    """Its disk may not be mounted yet: an empty one would end the jobs that run."""
    monkeypatch.setattr(leadership, "RETRY_S", 0.01)
    file, note = tmp_path / "disk/ledger.sqlite", tmp_path / "ledger.last"
    one = OneFile(file, note)
    await one.lead(print)
    await one.end()
    file.parent.rename(tmp_path / "away")
    with pytest.raises(LedgerTrouble, match=f"{file}, .* is not there: mount its disk") as caught:
        await one.lead(print)
    assert caught.value.passes
    assert not file.parent.exists(), "nothing was made in its place"
    (tmp_path / "away").rename(file.parent)
    await one.lead(print)
    await one.end()
    file.unlink()
    note.unlink()  # as the message says
    await one.lead(print)
    await one.end()


async def test_of_two_that_see_one_file_one_leads(tmp_path, monkeypatch):
    """A host that says which one has the queue had both lead, and jobs ran twice at once."""
    monkeypatch.setattr(leadership, "RETRY_S", 0.01)
    file = tmp_path / "shared/ledger.sqlite"
    one, other = (OneFile(file, tmp_path / f"{number}.last") for number in (1, 2))
    await one.lead(print)
    for _ in range(2):
        with pytest.raises(
            LedgerTrouble, match="another dispatcher has it open; this one"
        ) as caught:
            await other.lead(print)
        assert caught.value.passes
        await other.end()
    await one.end()
    await other.lead(print)
    await other.end()


async def test_one_whose_lock_file_was_removed_or_replaced_does_not_lead(tmp_path, monkeypatch):
    """Another one can lock the file that is there by now."""
    monkeypatch.setattr(leadership, "RETRY_S", 0.01)
    one = OneFile(tmp_path / "ledger.sqlite", tmp_path / "ledger.last")
    await one.lead(print)
    (watching,) = (asyncio.create_task(task) for task in one.beside().values())
    await asyncio.sleep(0.05)
    assert not watching.done()
    (tmp_path / "ledger.sqlite.lock").unlink()
    with pytest.raises(Deposed, match="has been removed or replaced"):
        await asyncio.wait_for(watching, 10)
    await one.end()


async def test_one_that_waits_for_its_ledger_counts_as_started_and_says_why(tmp_path, monkeypatch):
    """systemd waited for its start before it stopped the LBM, and `queue enable` named no cause."""
    monkeypatch.setattr(leadership, "RETRY_S", 0.01)
    file, note = tmp_path / "ledger.sqlite", tmp_path / "ledger.last"
    note.write_bytes(bytes(file))
    config = Config(host=HostConfig(runtime_dir=str(tmp_path)))
    said = []
    service = Service(config, Plain("h1", "a key"), OneFile(file, note), said.append)
    for _ in range(3):
        await service.term(asyncio.Event())
    await service.waiting.end()
    (why,) = said
    assert f"{file}, the ledger that was used last, is not there" in why
    assert last_words.read(str(tmp_path), "dispatcher") == why


async def test_one_that_waits_for_its_ledger_is_in_trouble_and_tells_hosts_the_cause(
    tmp_path, monkeypatch
):
    """The alert ended on a restart though nothing was better, and no host knew the cause."""
    monkeypatch.setattr(leadership, "RETRY_S", 0.01)
    file, note = tmp_path / "ledger.sqlite", tmp_path / "ledger.last"
    note.write_bytes(bytes(file))
    config = Config(
        host=HostConfig(runtime_dir=str(tmp_path), address="127.0.0.1"),
        dispatch=DispatchConfig(host="h1", port=free_port()),
    )
    trust = Plain("h1", "a key")
    service = Service(config, trust, OneFile(file, note), lambda _: None)
    daemon = SimpleNamespace(is_daemon=True)
    await service.term(asyncio.Event())
    shown = await service.answer({"op": "metrics"}, daemon)
    assert (shown["ledger_trouble"], shown["dispatcher_leads"]) == (True, 0)
    assert shown["waits"] == "its ledger is not there"
    assert shown["disk_free_bytes"] == [], "what is at its place is another disk"
    channel = trust.channel("h1", f"127.0.0.1:{config.dispatch.port}", [])
    for method in ("Status", "Submit"):
        asking = channel.unary_unary(f"/{SERVICE}/{method}")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await asking(b"", metadata=trust.metadata, timeout=20)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        said = silence("h1", caught.value.details())
        assert cause_in(said).startswith(f"{file}, the ledger that was used last, is not there")
    await channel.close()
    note.unlink()
    stop = asyncio.Event()
    leading = asyncio.create_task(service.term(stop))
    await until(lambda: service.dispatcher is not None and not service.trouble)
    assert "waits" not in await service.answer({"op": "metrics"}, daemon)
    stop.set()
    await leading


async def test_a_fault_in_what_only_helps_to_estimate_ends_no_queue(tmp_path, monkeypatch, caplog):
    """Whoever had sent what it came of would have ended each dispatcher that followed, too."""
    monkeypatch.setattr(aids, "AGAIN_S", 0.01)
    tries, learnt = [], asyncio.Event()

    async def learn(_):
        tries.append(1)
        if len(tries) < 3:
            raise ZeroDivisionError("a job of no time")
        learnt.set()

    monkeypatch.setattr(dispatcher.Predictions, "learn", learn)
    config = Config(
        host=HostConfig(runtime_dir=str(tmp_path), address="127.0.0.1"),
        dispatch=DispatchConfig(host="h1", port=free_port()),
    )
    file, note = tmp_path / "ledger.sqlite", tmp_path / "ledger.last"
    service = Service(config, Plain("h1", "a key"), OneFile(file, note), lambda _: None)
    stop = asyncio.Event()
    leading = asyncio.create_task(service.term(stop))
    await asyncio.wait(
        {leading, waiting := asyncio.create_task(learnt.wait())}, return_when="FIRST_COMPLETED"
    )
    assert waiting.done()
    assert service.dispatcher is not None
    assert caplog.text.count("learn how predictions came true: it failed") == 2
    stop.set()
    await leading


@pytest.mark.parametrize(
    "number", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE, sqlite3.SQLITE_IOERR_WRITE]
)
async def test_a_full_disk_passes(tmp_path, monkeypatch, number):
    """A dispatcher that ended for it was not started again when there was room."""
    monkeypatch.setattr(leadership, "RETRY_S", 0.01)
    monkeypatch.setattr(sqlite, "is_full", lambda *_given: True)

    def full(*_given):
        problem = sqlite3.OperationalError("of the disk")
        problem.sqlite_errorcode = number
        raise problem

    one = OneFile(tmp_path / "ledger.sqlite", tmp_path / "ledger.last")
    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "migrate", full)
        with pytest.raises(LedgerTrouble, match="disk of the ledger is full") as caught:
            await one.lead(print)
    assert caught.value.passes
    await one.lead(print)
    await one.end()


async def test_a_host_that_was_removed_is_dropped_as_soon_as_the_lim_says_so(tmp_path, monkeypatch):
    """A job with `-H g2` waited for g2 to come back until the dispatcher was restarted."""
    monkeypatch.setattr(aids, "REMOVED_EVERY_S", 0.01)
    life, asked = Lifecycle(Fcfs(), Terms()), []
    hosts, own = life.hosts, SimpleNamespace(life=life, carry=list, rng=Random(1))
    answers = [{}, {"hosts": "g2"}, {"hosts": ["g3"]}, {"hosts": [7, "g2"]}]

    async def lim(request, _caller):
        asked.append(request)
        return answers.pop(0) if answers else {"hosts": []}

    hosts.heard(HostSlots(HostId("g2"), 1))
    sock = None
    dropping = asyncio.create_task(drop_removed(tmp_path / "lim.sock", own))
    try:
        await asyncio.sleep(0)
        hosts.gone(HostId("g2"), None)
        sock = await serve_json(tmp_path / "lim.sock", lim, 0o600)
        await until(lambda: not hosts.known)
    finally:
        dropping.cancel()
        if sock is not None:
            sock.close()
    assert [one["op"] for one in asked] == ["removed"] * 4, (
        "it is not asked while no host is out of contact"
    )


def test_without_its_library_postgresql_says_what_to_install(monkeypatch):
    for name in ("postgres_leadership", "postgres", "connection"):
        monkeypatch.delitem(sys.modules, f"lbd.dispatch.ledger.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ConfigError, match=r"no module asyncpg; .* -m pip install .asyncpg"):
        lead(store=URL)
