"""On a host whose disk of outputs is full no job begins that prints, and none is refused there."""

import errno

import pytest

from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.records import Begin, Cause, Ending
from lbd.dispatch.core.restore import queued_job
from lbd.dispatch.core.why_waiting import waiting_reason
from lbd.dispatch.intake import heartbeat_fault, slots_of
from lbd.model import JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2
from lbd.net.spooled_output import ERR, OUT, is_spooled
from tests.unit.dispatch.core.test_lifecycle import H1, H2, Table
from tests.unit.dispatch.services import asking, opened, request

FULL = "no room for its output: the disk of /var/lib/lbd/spool is full"
FILE = {"spooled": False}


def begins(actions):
    return [(action.job, action.host) for action in actions if isinstance(action, Begin)]


def told(table, host, no_room="", slots=2):
    """The actions after a heartbeat of that host."""
    known = HostSlots(host, slots, tiers=(1, 2, 3), no_room=no_room)
    return begins(table.life.host_is(known, *table.when))


def reason(table, name):
    return waiting_reason(table.life, table.life.jobs[JobId(name)])


@pytest.mark.parametrize("mode", ["fcfs", "random", "shortest-queue", "tags"])
def test_what_prints_goes_where_there_is_room(mode):
    table = Table(mode)
    told(table, H1, FULL)
    told(table, H2)
    assert begins(table.submit("own", only=H1, **FILE)) == [("own", H1)]
    found = [begins(table.submit(str(number))) for number in (1, 2, 3)]
    assert found == [[("1", H2)], [("2", H2)], []]


def test_jobs_wait_for_room_without_an_attempt_and_let_those_with_files_of_their_own_pass():
    table = Table()
    told(table, H1, FULL)
    told(table, H2, FULL)
    assert table.submit("1") == []
    assert table.submit("2", only=H1) == []
    assert [job for job, _ in begins(table.submit("3", **FILE))] == ["3"]
    assert FULL in reason(table, "1")
    assert f"{H1}, {H2}: {FULL}" in reason(table, "1")
    assert reason(table, "2").endswith(FULL)
    assert [job for job, _ in told(table, H2)] == ["1"]
    assert told(table, H1) == [("2", H1)]


def test_a_job_in_line_leaves_a_host_that_fills_up():
    table = Table("shortest-queue")
    for name in ("1", "2", "3"):
        table.submit(name)
    for host in (H1, H2):
        told(table, host, FULL, slots=1)
    assert FULL in reason(table, "3")
    assert told(table, H2, slots=2) == [("3", H2)]


def test_what_was_refused_before_is_asked_again_soon_after_there_is_room():
    """The pauses grow to ten minutes."""
    table = Table()
    table.life.host_gone(H2, *table.when)
    (begin,) = table.submit("1")
    refused = Ending(Cause.LOST, errno.ENOSPC, reason=FULL)
    for attempt in range(1, 9):
        table.life.refused(begin.host, begin.job, attempt, "stage", refused, *table.when)
        told(table, H1, FULL)
        if attempt < 8:  # an older host would not say that it has no room
            told(table, H1)
            table.now_s += table.life.terms.aside_s * 2**attempt
            table.life.tick(*table.when)
    assert told(table, H1) == []
    table.now_s += table.life.terms.aside_s
    assert begins(table.life.tick(*table.when)) == [("1", H1)]


def test_what_a_host_says_is_bounded_and_one_line():
    beat = pb.Heartbeat(number=1, slots=4, open_slots=4, no_room="no\x1b[2J\nroom")
    assert heartbeat_fault(beat) == ""
    assert slots_of(H1, beat, 9.0, (1,)).no_room.isprintable()
    beat.no_room = "x" * 301
    assert heartbeat_fault(beat) == "no_room"


@pytest.mark.parametrize(
    ("closed", "files", "prints"),
    [
        (0, {}, True), (OUT, {}, True), (ERR, {}, True), (OUT | ERR, {}, False),
        (0, {"output": b"f"}, False), (0, {"error": b"f"}, True), (OUT, {"error": b"f"}, False),
    ],
)  # fmt: skip
def test_which_jobs_print_to_their_host(closed, files, prints):
    request = lbm_pb2.RunRequest(closed_fds=closed)
    assert is_spooled(pb.StoredSpec(**files), request) is prints


async def test_a_later_dispatcher_knows_which_jobs_take_checkpoints(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        for checkpoint in (b"", b"/work/state"):
            spec = pb.StoredSpec(run_request=request().SerializeToString(), checkpoint=checkpoint)
            assert (await world.submit(asking(spec=spec))).error == ""
        jobs = [queued_job(row) for row in await world.ledger.live()]
    assert [job.takes_checkpoints for job in jobs] == [False, True]
    known = [world.dispatcher.life.jobs[job.id].job for job in jobs]
    assert [job.takes_checkpoints for job in known] == [False, True]


async def test_a_later_dispatcher_knows_which_jobs_print(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        for output in (b"", b"file"):
            spec = pb.StoredSpec(run_request=request().SerializeToString(), output=output)
            assert (await world.submit(asking(spec=spec))).error == ""
        rows = await world.ledger.live()
    assert [queued_job(row).spooled for row in rows] == [True, False]
