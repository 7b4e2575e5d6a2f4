"""An attempt that was to end before it began, on a host that holds it all the same."""

import pytest

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.records import Begin, Cause, Changed, Ending, Fate, Live, Signal
from lbd.dispatch.core.why_waiting import waiting_reason
from lbd.model import CANCEL, JobId, JobState
from tests.unit.dispatch.core.test_lifecycle import H1, Table

LEASE_S = 10.0


def sent(**more):
    """Returns a table, and an attempt that was sent to its host."""
    table = Table(lease_s=LEASE_S)
    (begin,) = table.submit("1", **more)
    table.life.sending(begin.job, begin.attempt, table.now_s)
    return table, begin


def held_for(table, begin, seconds):
    """Its host renews it every second. Returns what follows from that and from ticks."""
    actions = []
    for _ in range(seconds):
        table.now_s += 1.0
        _, orders = table.life.heartbeat(begin.host, [(begin.job, 1)], table.now_s)
        actions += [*orders, *table.life.tick(*table.when)]
    return actions


@pytest.mark.parametrize("may_restart", [False, True])
def test_one_that_its_host_holds_and_never_begins_ends_though_it_is_renewed(may_restart):
    """It was `starting on h2` for ever, whatever its user did."""
    table, begin = sent(may_restart=may_restart)
    assert held_for(table, begin, 100) == []
    table.life.kill(begin.job, 0, *table.when, of="ann@h1")
    table.now_s += 1.0
    table.life.kill(begin.job, 0, *table.when, of="ann@h1")
    said = waiting_reason(table.life, table.life.jobs[begin.job], now_s=table.now_s)
    assert said == f"starting on {begin.host}; was told to end at 100 s"
    assert held_for(table, begin, 2 * int(LEASE_S) - 2) == []
    most_s = int(table.life.terms.waited_s) + 2
    over, *orders = held_for(table, begin, most_s)
    assert isinstance(over, Changed)
    assert (over.state, over.fate) == (JobState.CANCELLED, Fate.CANCELLED)
    assert over.reason == f"{begin.host} did not say that it had called it off"
    assert begin.job not in table.life.jobs
    kill = Signal(begin.job, 1, begin.host, 9)
    assert set(orders) <= {kill}, "it does not begin again"
    assert held_for(table, begin, 1) == [kill]


def test_its_lease_ends_there_before_it_ends_here():
    """What the host was last granted must be over: it may run until then, whatever it says."""
    table, begin = sent()
    table.life.kill(begin.job, 0, *table.when)
    renewed_s = table.now_s
    while begin.job in table.life.jobs:
        table.now_s += 0.5
        renewed, _ = table.life.heartbeat(begin.host, [(begin.job, 1)], table.now_s)
        renewed_s = table.now_s if renewed else renewed_s
        table.life.tick(*table.when)
    assert table.now_s >= renewed_s + table.life.terms.waited_s


def test_one_that_begins_after_all_is_renewed():
    """A command that has begun may take its time to end."""
    table, begin = sent()
    table.life.kill(begin.job, 15, *table.when)
    table.life.begun(begin.host, begin.job, 1)
    assert held_for(table, begin, 200) == []


def test_one_that_is_to_begin_again_does_so_though_its_host_does_not_call_it_off():
    table, begin = sent()
    table.life.requeue(begin.job)
    actions = held_for(table, begin, 3 * int(LEASE_S) + 3)
    over = next(one for one in actions if isinstance(one, Changed))
    assert over.reason == f"{begin.host} did not say that it had called it off"
    again = next(one for one in actions if isinstance(one, Begin))
    assert (again.attempt, again.host == begin.host) == (2, False)


def test_a_later_dispatcher_gives_it_the_same_time():
    table = Table(lease_s=LEASE_S)
    live = Live(QueuedJob(JobId("1")), 1, stop_reason=CANCEL)
    table.life.restored(live, (1, H1, 1, False, 1, None), *table.when)
    begin = Begin(JobId("1"), 1, H1, 1, None)
    assert held_for(table, begin, 2 * int(LEASE_S)) == []
    over, *_ = held_for(table, begin, int(table.life.terms.waited_s) + 2)
    assert over.state is JobState.CANCELLED


def test_a_host_that_calls_it_off_in_time_is_not_at_fault():
    table, begin = sent()
    table.life.kill(begin.job, 0, *table.when, of="ann@h1")
    late = Ending(Cause.LOST, reason="it was asked to end", stop_reason=CANCEL)
    over, _ = table.life.refused(begin.host, begin.job, 1, "late", late, *table.when)
    assert over.reason == "cancelled before it ran, by ann@h1"
