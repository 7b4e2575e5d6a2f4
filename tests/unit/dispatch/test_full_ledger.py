"""What a dispatcher answers while the disk of its ledger is full, or cannot be written."""

import asyncio
import sqlite3
import time

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.dispatch import orders
from lbd.dispatch.core.ledger_room import Disk, Excess
from lbd.dispatch.core.records import Changed, Fate
from lbd.dispatch.host_connection import HostConnection
from lbd.dispatch.ledger import batches
from lbd.dispatch.ledger.sqlite import SqliteLedger
from lbd.dispatch.metrics import dispatcher_metrics
from lbd.lbm.session.queue_json import why_unrecorded
from lbd.metrics.collector import why_unready
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s
from tests.unit.dispatch.services import asking, opened
from tests.unit.dispatch.test_host_connection import Far
from tests.unit.until import until

FULL = Disk(0, 1 << 40, "/srv/ledger")


@pytest.fixture
async def world(tmp_path):
    async with opened(tmp_path / "ledger.sqlite", Config(host=HostConfig(name="h1"))) as world:
        yield world


@pytest.fixture
async def ticking(world):
    """The world, whose dispatcher looks at the time, and for room, by itself."""
    ticks = asyncio.create_task(world.dispatcher._tick())
    yield world
    ticks.cancel()


@pytest.mark.parametrize("verb", ["kill", "hold"])
async def test_the_first_order_on_a_full_disk_is_refused_at_once(world, verb):
    """Nothing had failed yet: the order was taken, hung, and was carried out much later."""
    await world.submit(asking())
    world.ledger.disk = lambda: FULL
    order = {"verb": verb, "selectors": ["1"], "user": "ann", "cancels_waiting": True}
    reply = await world.act(**order)
    why = "nothing was done; try again once there is room on h1: /srv/ledger is full"
    assert (list(reply.errors), list(reply.done_ids)) == ([why], [])
    assert world.dispatcher.life.jobs["1"].held == ""
    reply = await world.act(**order | {"selectors": ["1-1"], "by_number": True})
    assert list(reply.done_ids) == ["1"], "of an lbrun that ends"


async def test_an_order_whose_own_write_fails_is_not_said_to_be_done(world, monkeypatch):
    """It hung until the client gave up, and did not say what becomes of it."""
    for _ in range(2):
        await world.submit(asking())
    monkeypatch.setattr(orders, "ACTS_AT_ONCE", 1)
    broken, writes = [True], SqliteLedger._write_group

    def write_group(self, db, group):
        if broken:
            raise sqlite3.OperationalError("disk I/O error")
        return writes(self, db, group)

    monkeypatch.setattr(SqliteLedger, "_write_group", write_group)
    reply = await world.act(verb="hold", selectors=["1", "2"], user="ann")
    assert list(reply.done_ids) == []
    other, why = sorted(reply.errors, reverse=True)
    assert other.startswith("job 2: not done; try again once h1 can write the ledger: ")
    assert why.startswith("job 1: done only once h1 can write the ledger: ")
    assert why.endswith("disk I/O error; not at all if the dispatcher is restarted before")
    broken.clear()
    await until(lambda: not world.ledger.trouble)
    await world.dispatcher.settled()
    assert [job.reason == "held by ann" for job in (await world.jobs()).jobs] == [True, False]


async def test_a_waiting_job_whose_end_is_not_on_disk_is_not_said_to_have_run(world, monkeypatch):
    """It was listed as pending because `the command has ended`."""
    await world.submit(asking())
    monkeypatch.setattr(
        world.ledger, "record", lambda *_: asyncio.get_running_loop().create_future()
    )
    world.ledger.trouble = "/srv/ledger is full"
    world.dispatcher.carry(
        world.dispatcher.life.kill("1", 0, clock_s(), world.dispatcher.rng, of="ann")
    )
    (job,) = (await world.jobs()).jobs
    (unexplained,) = (await world.jobs(unexplained=True)).jobs
    once = "once h1 can write the ledger: /srv/ledger is full"
    assert (job.state, job.reason) == (
        "pending", f"it was ended while it waited; it can be recorded {once}",
    )  # fmt: skip
    assert why_unrecorded([unexplained]) == job.reason, "`lbctl wait` says it"


async def test_a_job_whose_begin_is_not_on_disk_runs_and_has_not_ended_while_it_waited(
    world, monkeypatch
):
    """It was listed as pending, and after its end because `it was ended while it waited`."""
    await world.submit(asking())
    line = world.host("h2")
    await until(lambda: line.starts)
    never = asyncio.get_running_loop().create_future()
    monkeypatch.setattr(world.ledger, "record", lambda *_: never)
    world.ledger.disk, world.ledger.trouble = lambda: FULL, "/srv/ledger is full"
    said, counted = [], []

    async def look():
        (job,) = (await world.jobs()).jobs
        status = await world.status()
        said.append((job.state, job.host, job.reason))
        counted.append((status.queued, status.running))

    await look()
    for event in ({"event": "begun"}, {"event": "ended", "cause": "exited", "exit_status": 0}):
        report = pb.AttemptReport(job="1", attempt=1, **event)
        world.dispatcher.heard("h2", line, pb.WorkUp(reports=[report], sent_s=clock_s()))
        await look()
    recorded = "it can be recorded once there is room on h1: /srv/ledger is full"
    assert said == [
        ("pending", "h2", "starting on h2"),
        ("running", "h2", f"it runs on h2; {recorded}"),
        ("running", "h2", f"the command has ended; {recorded}"),
    ]
    assert counted == [(1, 0), (0, 1), (0, 1)]


async def test_what_begins_while_nothing_can_be_written_is_not_lost(world, monkeypatch):
    """On a disk full for longer than a lease, waiting jobs that may not restart ended as lost,
    though no host had got them, and others were said to run perhaps."""
    broken, writes = [True], SqliteLedger._write_group

    def write_group(self, db, group):
        if broken:
            raise sqlite3.OperationalError("disk I/O error")
        return writes(self, db, group)

    await world.submit(asking(may_restart=False))
    monkeypatch.setattr(SqliteLedger, "_write_group", write_group)
    host = world.host("h1", slots=1)
    later_s = clock_s() + 10 * world.dispatcher.life.terms.waited_s
    world.dispatcher.carry(world.dispatcher.life.tick(later_s, world.dispatcher.rng))
    await until(lambda: world.ledger.trouble)
    (job,) = (await world.jobs()).jobs
    assert (job.state, host.starts) == ("pending", [])
    assert ((await world.status()).queued, (await world.status()).running) == (1, 0)
    assert job.reason.startswith("it begins once h1 can write the ledger: ")
    broken.clear()
    await until(lambda: host.starts)
    assert [start.attempt for start in host.starts] == [1]


async def test_none_begins_on_a_full_disk_although_ends_can_be_written(ticking):
    """The status said that none begins; each end that could be written let the next ones begin."""
    world = ticking
    for _ in range(2):
        await world.submit(asking())
    host = world.host("h2", slots=1)
    await until(lambda: host.starts)
    world.ledger.disk = lambda: FULL
    await until(lambda: world.dispatcher.life.queues.begins_none)
    report = pb.AttemptReport(job="1", attempt=1, event="ended", cause="exited", exit_status=0)
    world.dispatcher.heard("h2", host, pb.WorkUp(reports=[report], sent_s=clock_s()))
    await until(lambda: "1" not in world.dispatcher.life.jobs)
    await world.dispatcher.settled()
    assert [start.job for start in host.starts] == ["1"]
    assert "begins none" in (await world.status()).full
    world.ledger.disk = lambda: None
    await until(lambda: len(host.starts) == 2)
    assert [(start.job, start.attempt) for start in host.starts] == [("1", 1), ("2", 1)]


async def test_what_was_to_begin_as_the_disk_became_full_waits_for_room(ticking, monkeypatch):
    """It began as soon as something could be written, while the status said that none begins."""
    world = ticking
    held, writes = asyncio.Event(), SqliteLedger.record
    await world.submit(asking(may_restart=False))
    full = [FULL]

    def fills_up(*record):
        world.ledger.disk = lambda: full[0]
        held.set()
        return writes(world.ledger, *record)

    monkeypatch.setattr(world.ledger, "record", fills_up)
    host = world.host("h2", slots=1)
    await held.wait()
    await until(lambda: world.dispatcher.life.queues.begins_none)
    await world.dispatcher.settled()
    (job,) = (await world.jobs()).jobs
    assert (job.state, host.starts) == ("pending", [])
    assert job.reason == "it begins once there is room on h1: /srv/ledger is full"
    full[0] = None
    world.host("h2", slots=1)
    await until(lambda: world.dispatcher.lines["h2"].starts)


async def test_a_waiting_job_is_said_to_wait_for_room_before_a_write_has_failed(world):
    """It was said to be the next to begin, while the status said that none begins."""
    await world.submit(asking())
    world.ledger.disk = lambda: FULL
    (job,) = (await world.jobs()).jobs
    assert job.reason == "it begins once there is room on h1: /srv/ledger is full"
    world.ledger.disk = lambda: Disk(1 << 30, 1 << 40, "/srv/ledger")
    assert "room" not in (await world.jobs()).jobs[0].reason


async def test_when_the_room_ends_and_when_it_is_back_is_logged_once(world, caplog):
    """The log was silent until a write had failed, half a minute later."""
    caplog.set_level("INFO", "lbd.dispatch")
    for disk in (FULL, FULL, None, None):
        world.ledger.disk = lambda disk=disk: disk
        world.dispatcher.status()
    assert [record.getMessage() for record in caplog.records] == [
        "/srv/ledger is full, so the queue takes no new jobs and begins none; what runs goes on",
        "the ledger has room: the queue takes jobs again",
    ]


async def test_a_small_disk_is_full_only_when_its_reserve_is_used():
    """A disk of 2 MiB was called full with half of it free."""
    assert not Disk(1 << 19, 2 << 20).is_full
    assert Disk(1 << 16, 2 << 20).is_full


async def test_a_host_whose_queue_takes_no_jobs_is_not_ready(world):
    """/readyz said `ready` until the dispatcher was restarted."""

    def said():
        return why_unready({"dispatcher": dispatcher_metrics(world.dispatcher)})

    assert said() == ""
    world.ledger.disk = lambda: FULL
    assert said() == "dispatcher waits: its ledger has no room"
    world.ledger.disk = lambda: None
    world.ledger.trouble = "/srv/ledger/ledger.sqlite: disk I/O error"
    assert said() == "dispatcher waits: its ledger cannot be written"
    world.ledger.trouble = ""


@pytest.mark.parametrize("by_array", [True, False])
async def test_a_job_that_was_there_is_not_said_never_to_have_been(world, by_array):
    """A script could not tell `dropped from the record` from `never was`."""
    for _ in range(2):
        await world.submit(asking())
    await world.act(verb="kill", selectors=["1"], user="ann", uid=1001)
    await world.dispatcher.settled()
    assert await world.ledger.forget(time.time() + 1.0, Excess("uid"), 10) == 1
    gone, never = "no job 1 in the queue any more; see lbctl history", "no job 3 in the queue"
    for selectors, why in ((["1"], gone), (["3"], never), (["1", "3"], "no job 1, 3 in the queue")):
        asked = await world.jobs(selectors=selectors, user="ann", uid=1001, by_array=by_array)
        assert asked.error == why
    killed = await world.act(verb="kill", selectors=["1", "2", "3"], user="ann", uid=1001)
    assert (list(killed.done_ids), sorted(killed.errors)) == (["2"], [gone, never])


async def on_hold(world, monkeypatch):
    """Starts job 1 on h2. Returns its connection, what is written from now on, and the event that
    lets the ledger be written again."""
    await world.submit(asking())
    fake = world.host("h2")
    await until(lambda: fake.starts)
    world.dispatcher.lines["h2"] = line = HostConnection(Far().write, 1 << 20)
    record, written, has_room = world.ledger.record, list[Changed](), asyncio.Event()

    async def in_turn(changes, unix_s):
        await has_room.wait()
        written.extend(changes)
        await record(changes, unix_s)

    def once_there_is_room(*changes):
        return asyncio.ensure_future(in_turn(*changes))

    monkeypatch.setattr(world.ledger, "record", once_there_is_room)
    return line, written, has_room


def message(reports, **heartbeat):
    beat = pb.Heartbeat(slots=1, **heartbeat) if heartbeat else None
    return pb.WorkUp(reports=reports, heartbeat=beat, sent_s=clock_s()).SerializeToString()


def halts(count):
    events = ["begun", *("stopped", "continued") * (count // 2)]
    return [pb.AttemptReport(job="1", attempt=1, event=one, reason=one) for one in events]


async def test_a_job_that_stops_and_goes_on_meanwhile_has_its_host_heard_all_the_same(
    world, monkeypatch
):
    """Its host was cut off after 40,000 reports, and all jobs there ended with their leases."""
    line, written, has_room = await on_hold(world, monkeypatch)
    monkeypatch.setattr(batches, "UNSAVED_MAX", 4)
    held = [pb.Held(job="1", attempt=1)]
    for number in range(1, 30):
        await world.desk._hear("h2", line, message(halts(40), number=number, held=held))
        assert (line.heartbeat, line.renewed) == (number, 1)
    queued = [action for batch in world.dispatcher.batches._queue for action in batch.actions]
    assert [one.fate for one in queued] == [Fate.RUNNING, Fate.SUSPENDED]
    has_room.set()
    await world.dispatcher.settled()
    await world.dispatcher.settled()
    assert [one.fate for one in written] == [Fate.RUNNING, Fate.SUSPENDED, Fate.RUNNING]
    assert not world.dispatcher.batches.unsaved._of


async def test_of_a_job_that_has_ended_meanwhile_no_halt_is_recorded_later(world, monkeypatch):
    line, written, has_room = await on_hold(world, monkeypatch)
    ended = pb.AttemptReport(job="1", attempt=1, event="ended", cause="exited", exit_status=0)
    await world.desk._hear("h2", line, message([*halts(4), ended, ended]))
    has_room.set()
    await world.dispatcher.settled()
    await world.dispatcher.settled()
    assert [one.fate for one in written] == [Fate.RUNNING, Fate.SUSPENDED, Fate.DONE]


async def test_what_a_host_makes_up_meanwhile_is_bounded(world, monkeypatch):
    """One host could fill the memory: each end that it reports is to be answered, and each attempt
    that it says to hold."""
    line, _, has_room = await on_hold(world, monkeypatch)
    await world.desk._hear("h2", line, message(halts(2)))
    monkeypatch.setattr(batches, "UNSAVED_MAX", 100)
    ends = [pb.AttemptReport(job=str(job), attempt=7, event="refused") for job in range(98)]
    made_up = [pb.Held(job=str(job), attempt=9) for job in range(50)]
    queue = world.dispatcher.batches._queue
    for number in range(1, 30):
        await world.desk._hear("h2", line, message(ends, number=number, held=made_up))
    assert sum(len(batch.actions) for batch in queue) == 100
    more = message([pb.AttemptReport(job="1000", attempt=7, event="refused")])
    with pytest.raises(ValueError, match=r"^100 reports of h2 are not on disk yet$"):
        await world.desk._hear("h2", line, more)
    await world.desk._hear("h3", line, more)
    has_room.set()
    await world.dispatcher.settled()
    await world.desk._hear("h2", line, more)
