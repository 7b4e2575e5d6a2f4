"""An attempt is the business of the ledger that had it started, and of no other dispatcher."""

import pytest

from lbd.lbm.core.execution import Asked
from lbd.lbm.core.execution_events import GivenUp
from lbd.lbm.keeper_link import ProcessExit
from lbd.lbm.queue.held_attempts import all_reports
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s
from tests.unit.lbm.queue.test_attempt_guards import KEY, attempts, host, start, start_of
from tests.unit.until import until

__all__ = ["attempts", "host"]

OURS, OTHER = b"one", b"another"
LEASE_S = 30.0


@pytest.fixture
async def line(attempts):
    attempts._held.connected(OURS, 0.0)
    attempt = start(attempts)
    await until(lambda: attempt.execution.process is not None)
    return attempts


def hears(line, token, down=None):
    """A dispatcher of that ledger is connected, and says this."""
    line._held.connected(token, 0.0)
    line._pending.take()
    for obey in line._orders_in(down or pb.WorkDown()):
        obey()
    return line._held.get(KEY)


async def test_another_hears_nothing_of_it_and_can_neither_renew_nor_end_it(line):
    """A host that was named for three seconds killed what ran."""
    until_s, about = line._leases.until_s[KEY], pb.Held(job=KEY[0], attempt=KEY[1])
    stop = pb.Stop(job=KEY[0], attempt=KEY[1], signal=9, stop_reason="cancel")
    held = hears(line, OTHER, pb.WorkDown(stops=[stop], released=[about]))
    number = line._leases.heartbeat(clock_s())
    reply = pb.HeartbeatReply(number=number, lease_s=3600.0, renewed=[about])
    line._client.leads, line._client.leader = lambda _: None, "h3"
    line._answered(pb.WorkDown(reply=reply))
    assert (held.attempt.execution.asked, line._leases.until_s[KEY]) == (Asked.NOT, until_s)
    assert not line._held.names
    assert not line._held.of_ledger()
    assert not all_reports(line._held.of_ledger().values()).take()
    assert hears(line, OURS) is held
    line._held.connected(OTHER, 0.0)
    line._held.connected(OURS, clock_s() - 3600.0)
    line._answered(pb.WorkDown(reply=reply))
    assert line._leases.until_s[KEY] > until_s + 3000.0
    assert {*line._held.of_ledger()} == {KEY}
    assert line._held.names == {held.attempt.id}
    assert hears(line, OURS, pb.WorkDown(stops=[stop])).attempt.execution.asked is not Asked.NOT


async def test_nothing_runs_for_long_by_the_word_of_who_was_just_named(line):
    """What a host had started that was named for three seconds ran on for an hour."""
    own_s, now_s = line._host.config.dispatch.lease_s, clock_s()
    line._held.connected(OTHER, now_s)
    order = start_of()
    order.job, order.lease_s, order.anchor = "77", 3600.0, line._leases.heartbeat(now_s)
    hears(line, OTHER, pb.WorkDown(starts=[order]))
    assert own_s - 5.0 < line._leases.until_s["77", 1] - now_s <= own_s
    line._client.leads, line._client.leader = lambda _: None, "h3"
    renewed = [pb.Held(job="77", attempt=1)]
    number = line._leases.heartbeat(now_s)
    line._answered(
        pb.WorkDown(reply=pb.HeartbeatReply(number=number, lease_s=3600.0, renewed=renewed))
    )
    assert line._leases.until_s["77", 1] - now_s <= own_s + 5.0
    assert line._leases.lease_s <= own_s + 5.0, "heartbeats are sent as often as that asks for"
    line._held["77", 1].attempt.feed(GivenUp("the test is over"))


async def test_its_end_is_kept_for_who_had_it_started(host, line):
    """A host that was named for six seconds had it forgotten, and the job ran again."""
    about = pb.Held(job=KEY[0], attempt=KEY[1])
    held = hears(line, OTHER)
    host.link.spawns[0].exited.set_result(ProcessExit(0, 0.0, 0.0, 0, False))
    await until(lambda: held.attempt.is_over)
    assert not line._pending.take()
    assert hears(line, OTHER, pb.WorkDown(settled=[about])) is held
    line._held.connected(OURS, 0.0)
    reports = all_reports(line._held.of_ledger().values()).take()
    assert [one.event for one in reports] == ["begun", "ended"]
    assert hears(line, OURS, pb.WorkDown(settled=[about])) is None


async def test_what_another_has_started_does_not_pass_for_its_job(line):
    """The job counted as done with the exit status of a command that was not its own."""
    order = start_of()
    order.anchor = line._leases.heartbeat(clock_s())
    held = hears(line, OTHER, pb.WorkDown(starts=[order]))
    (said,) = line._pending.take()
    assert (said.event, said.phase) == ("refused", "late")
    assert line._held[KEY] is held
    assert held.attempt.execution.asked is Asked.NOT


async def test_what_another_has_started_ends_when_its_lease_would_have(host, line):
    held = line._held[KEY]
    line._held.connected(OTHER, 100.0)
    for now_s in (100.0, 129.9):
        line._held.end_others(now_s)
    assert held.attempt.execution.asked is Asked.NOT
    line._held.connected(OURS, 129.0)
    line._held.end_others(129.5)
    line._held.connected(OTHER, 130.0)
    line._held.connected(b"a third", 140.0)
    line._held.end_others(159.9)
    assert held.attempt.execution.asked is Asked.NOT
    line._held.end_others(160.0)
    assert held.attempt.execution.asked is Asked.END
    host.link.spawns[0].exited.set_result(ProcessExit(15, 0.0, 0.0, 0, False))
    await until(lambda: held.attempt.is_over)
    assert "does not have this job" in held.end.reason
    line._held.end_others(161.0)
    line._held.connected(OURS, 162.0)
    assert (line._held.data, line._held.orders.number) == ({}, 0)


async def test_what_another_has_started_and_was_refused_is_forgotten_at_once(host, line):
    """Twenty thousand orders in three seconds left no place for any other."""
    host.slots.total = 0
    line._held.connected(OTHER, 0.0)
    order = start_of()
    order.job, order.anchor = "77", line._leases.heartbeat(clock_s())
    hears(line, OTHER, pb.WorkDown(starts=[order]))
    await until(lambda: line._held["77", 1].end is not None and line._held["77", 1].attempt.is_over)
    assert line._held["77", 1].end.event == "refused"
    line._held.end_others(1.0)
    assert ("77", 1) in line._held, "its dispatcher is connected"
    line._held.connected(OURS, 2.0)
    line._held.end_others(2.0)
    assert {*line._held} == {KEY}


@pytest.mark.parametrize(
    ("reader", "awaits"), [("h2", True), ("", True), ("h3", False), ("h1", False)]
)
async def test_who_waits_for_it_is_where_it_came_from(line, reader, awaits):
    """It was submitted on h2, and runs on h1; "" is a host without a certificate."""
    assert line.is_awaited_by(reader, *KEY) == awaits
    assert not line.is_awaited_by(reader, KEY[0], KEY[1] + 1)
    line._held[KEY].attempt.execution.is_reported = True
    assert not line.is_awaited_by(reader, *KEY)
