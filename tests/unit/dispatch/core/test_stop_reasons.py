"""What a user was told will happen to a running job: kill and requeue, whatever dies meanwhile."""

from dataclasses import replace

import pytest

from lbd.dispatch.core.records import Begin, Cause, Ending, Fate
from lbd.model import CANCEL, REQUEUE, JobState
from lbd.sim.faults.messages import key_of
from tests.unit.dispatch.core.test_lifecycle import H1, H2, OK, Table
from tests.unit.dispatch.world import TERMS, World

WISHES = pytest.mark.parametrize(
    ("stop_reason", "state"), [(CANCEL, "cancelled"), (REQUEUE, "pending")]
)


@WISHES
def test_the_stop_reason_of_an_attempt_outlives_the_dispatcher(stop_reason, state):
    """The host repeats the reason with the end, even to a dispatcher that has not read it."""
    table = Table()
    begin = table.begin("1")
    killed = Ending(Cause.SIGNALLED, 143, 15, stop_reason=stop_reason)
    over, *_ = table.ended(begin, killed)
    assert (over.state.value, over.fate.value) == (state, "cancelled")


@WISHES
def test_the_promise_to_a_user_outlives_a_dispatcher_that_dies_before_the_host_hears(
    stop_reason, state
):
    """The promise is in the ledger; the next heartbeat tells the host, or the lease expires."""
    world = World("fcfs", 1, hosts=1)
    (host,) = world.hosts.values()
    world.connect(host)
    world.submit(may_restart=True)
    while not host.keeper.alive:
        world.commit()
        world.deliver(host, upwards=True)
        world.deliver(host, upwards=False)
    (attempt,) = host.keeper.alive
    key = key_of(attempt)
    world.cut(host)
    world.act("kill" if stop_reason == CANCEL else "requeue")
    while world.batches:
        world.commit()
    world.restart()
    (order,) = world.life.stops_to_repeat(host.name, [(*key, "")])
    assert (order.job, order.attempt, order.stop_reason) == (*key, stop_reason)
    world.wait(2 * TERMS.lease_s)
    while world.batches:
        world.commit()
    (row,) = world.rows("1 = 1")
    assert row.state == state


@pytest.mark.parametrize("number", [0, 9, 15])
def test_a_returning_host_is_told_again_what_it_missed(number):
    """Its connection may have broken while the order was on its way."""
    table = Table()
    begin = table.begin("1")
    key = begin.job, begin.attempt
    assert table.life.stops_to_repeat(begin.host, [(*key, "")]) == []
    _, order = table.life.kill(begin.job, number, *table.when)
    assert table.life.stops_to_repeat(begin.host, [(*key, "")]) == [order]
    assert table.life.stops_to_repeat(begin.host, [(*key, CANCEL)]) == []
    _, again = table.life.requeue(begin.job)
    assert table.life.stops_to_repeat(begin.host, [(*key, CANCEL)]) == [again]
    other = H2 if begin.host == H1 else H1
    assert table.life.stops_to_repeat(other, [(*key, "")]) == []


@pytest.mark.parametrize(("number", "was_told"), [(0, False), (0, True), (9, True), (15, True)])
def test_what_exits_with_0_after_it_was_to_end_was_cancelled_and_else_has_succeeded(
    number, was_told
):
    """A command that traps TERM and exits with 0 was `done`, and what waited for it started. But
    one that got no more than a TERM may have gone on and succeeded."""
    table = Table()
    begin = table.begin("1")
    table.life.kill(begin.job, number, *table.when, of="ann@h1")
    over, _ = table.ended(begin, replace(OK, stop_reason=CANCEL if was_told else ""))
    is_cancelled = was_told and number != 15
    expected = (JobState.CANCELLED, "cancelled by ann@h1") if is_cancelled else (JobState.DONE, "")
    assert (over.state, over.ending.reason) == expected


def test_a_term_after_a_kill_does_not_undo_it():
    table = Table()
    begin = table.begin("1")
    table.life.kill(begin.job, 0, *table.when, of="ann@h1")
    (order,) = table.life.kill(begin.job, 15, *table.when, of="ann@h1")
    assert order.number == 15
    over, _ = table.ended(begin, replace(OK, stop_reason=CANCEL))
    assert (over.state, over.ending.reason) == (JobState.CANCELLED, "cancelled by ann@h1")


def test_a_job_that_succeeds_before_its_requeue_starts_again_as_promised():
    """For example a script that requeues itself and then exits with 0."""
    table = Table()
    begin = table.begin("1")
    table.life.requeue(begin.job)
    over, *rest = table.ended(begin, replace(OK, stop_reason=REQUEUE))
    assert (over.state, over.fate, over.ending.reason) == (
        JobState.PENDING, Fate.DONE, "requeued"
    )  # fmt: skip
    assert [one.attempt for one in rest if isinstance(one, Begin)] == [2]
