"""When a dispatcher with a file waits for another host's word, and that it obeys it."""

import asyncio
import contextlib
import sqlite3
from dataclasses import replace

import pytest

from lbd.cli.daemons.queue_right import QueueRight
from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import Config, HostConfig
from lbd.dispatch.ledger.sqlite import SqliteLedger, has_open_jobs
from lbd.errors import Unavailable
from lbd.process import last_words
from tests.unit.enrolment import enrolled, joined, made_authority, restored


@pytest.fixture
async def ledger(tmp_path):
    path = tmp_path / "ledger.sqlite"
    await SqliteLedger(path).close()
    return path


def put_job(path, reason="", finished=None):
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        columns = file.execute("PRAGMA table_info(jobs)").fetchall()
        row = {name: "" for _, name, _, needed, default, _ in columns if needed and not default}
        row |= {"state": "pending", "reason": reason, "finished": finished}
        marks = ", ".join("?" * len(row))
        file.execute(f"INSERT INTO jobs ({', '.join(row)}) VALUES ({marks})", (*row.values(),))


def right_of(tmp_path, authority, answer, said):
    """`answer`: makes the list that the other host sends; None while it is away."""
    enrolled(authority, "h2")
    tls = joined(authority, "h1")
    own = HostConfig(name="h1", runtime_dir=str(tmp_path), state_dir=str(tmp_path))
    right = QueueRight(Config(host=own, dispatch=DispatchConfig(host="h1", confirm_s=0.0)), tls,
                       said.append)  # fmt: skip
    asked = []

    async def exchange(name, _target):
        asked.append(name)
        if answer is None:
            raise Unavailable("away")
        tls.learn(answer(authority))

    right._standing._hosts = lambda: {"h2": "10.0.0.2:7901"}
    right._standing._calls.exchange = exchange
    return right, asked


@pytest.mark.parametrize(
    ("job", "waits"),
    [(None, False), ({"reason": "held: restored"}, True), ({"finished": 1.0}, False), ({}, True)],
)
async def test_only_jobs_that_could_start_twice_need_another_hosts_word(
    tmp_path, authority, ledger, job, waits
):
    """A new queue starts at once even if no other host is up. Held jobs may be released."""
    if job is not None:
        put_job(ledger, **job)
    assert has_open_jobs(ledger) is waits
    right, asked = right_of(tmp_path, authority, None, [])
    assert await right.given(ledger, asyncio.Event())
    assert asked == ["h2"] * waits


def test_a_ledger_that_cannot_be_read_may_have_jobs(tmp_path):
    assert not has_open_jobs(tmp_path / "none")
    (tmp_path / "damaged").write_bytes(b"x" * 4096)
    assert has_open_jobs(tmp_path / "damaged")


async def test_a_queue_that_nobody_confirms_starts_and_says_so(tmp_path, authority, ledger, caplog):
    put_job(ledger)
    right, asked = right_of(tmp_path, authority, None, [])
    assert await right.given(ledger, asyncio.Event())
    assert await right.given(ledger, asyncio.Event())
    assert asked == ["h2"], "once for each start of the daemon"
    (line,) = caplog.messages
    assert line.startswith("no other host has confirmed within ")


async def test_a_machine_that_was_replaced_does_not_lead(tmp_path, authority, ledger, caplog):
    put_job(ledger)
    said, ended = [], asyncio.Event()
    right, _ = right_of(tmp_path, authority, restored, said)
    task = asyncio.create_task(right.given(ledger, ended))
    await asyncio.wait_for(ended.wait(), 10)
    assert await task is False
    assert not right.leads()
    (text,) = said
    assert text.startswith("this host, h1, is revoked")
    assert text in caplog.messages
    assert last_words.read(str(tmp_path), "dispatcher") == text


async def test_a_queue_that_waits_says_for_whom(tmp_path, authority, ledger, monkeypatch):
    """Programs of this host only knew that the dispatcher did not answer."""
    put_job(ledger)
    monkeypatch.setattr("lbd.net.standing.AGAIN_S", 0.0)
    said, answers = [], iter([False, False, True])
    right, _ = right_of(tmp_path, authority, None, said)
    right._config = replace(right._config, dispatch=DispatchConfig(host="h1", confirm_s=1e6))

    async def hear(_hosts):
        return next(answers)

    right._standing._hear = hear
    assert await right.given(ledger, asyncio.Event())
    (text,) = said
    assert text.startswith("waiting up to 11d13h until another host confirms")
    assert text.endswith(": h2")
    assert last_words.read(str(tmp_path), "dispatcher") == text


@pytest.mark.parametrize(
    ("earlier", "waits"), [(b"", True), (b"another boot", True), (None, False)]
)
async def test_a_queue_that_was_here_in_this_boot_serves_at_once(
    tmp_path, authority, ledger, earlier, waits
):
    """While a restarted dispatcher waited for a host that was off, all leases ran out."""
    right, _ = right_of(tmp_path, authority, None, [])
    assert await right.given(ledger, asyncio.Event())
    if earlier is not None:
        (tmp_path / "dispatcher.led").write_bytes(earlier)
    put_job(ledger)
    again, asked = right_of(tmp_path, made_authority(tmp_path / "again"), None, [])
    assert await again.given(ledger, asyncio.Event())
    assert asked == ["h2"] * waits
