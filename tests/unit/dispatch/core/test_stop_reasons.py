"""What a user was told will be done to a running job: kill and requeue, whatever dies meanwhile."""

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
def test_what_an_attempt_was_ended_for_outlives_the_dispatcher(stop_reason, state):
    """The host says it with the end, also to one that has not read it on the ledger."""
    table = Table()
    begin = table.begin("1")
    killed = Ending(Cause.SIGNALLED, 143, 15, stop_reason=stop_reason)
    over, *_ = table.ended(begin, killed)
    assert (over.state.value, over.fate.value) == (state, "cancelled")


@WISHES
def test_what_a_user_was_told_outlives_a_dispatcher_that_dies_before_the_host_hears(
    stop_reason, state
):
    """It is on the ledger; the host is told at its next heartbeat, or the lease runs out."""
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
def test_a_host_that_is_back_is_told_again_what_it_does_not_know_of(number):
    """The line to it may have broken with the order on its way."""
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


def test_what_ends_well_before_the_signal_comes_has_ended_well():
    table = Table()
    over, _ = table.ended(table.begin("1"), replace(OK, stop_reason=CANCEL))
    assert over.state is JobState.DONE


def test_one_that_succeeds_before_it_is_ended_begins_again_as_its_user_was_told():
    """A script that has itself requeued, and then ends with 0."""
    table = Table()
    begin = table.begin("1")
    table.life.requeue(begin.job)
    over, *rest = table.ended(begin, replace(OK, stop_reason=REQUEUE))
    assert (over.state, over.fate, over.ending.reason) == (
        JobState.PENDING, Fate.DONE, "requeued"
    )  # fmt: skip
    assert [one.attempt for one in rest if isinstance(one, Begin)] == [2]
