"""What a user was told will be done to a running job: kill and requeue, whatever dies meanwhile."""

from dataclasses import replace

import pytest

from lbd.dispatch.jobs import CANCEL, REQUEUE, Cause, Ending
from lbd.model import JobState
from tests.unit.dispatch.test_lifecycle import H1, H2, OK, Table
from tests.unit.dispatch.world import TERMS, World

WISHES = pytest.mark.parametrize(("wish", "state"), [(CANCEL, "cancelled"), (REQUEUE, "pending")])


@WISHES
def test_what_an_attempt_was_ended_for_outlives_the_dispatcher(wish, state):
    """The host says it with the end, also to one that has not read it on the ledger."""
    table = Table()
    begin = table.begin("1")
    killed = Ending(Cause.SIGNALLED, 143, 15, wish=wish)
    over, *_ = table.ended(begin, killed)
    assert (over.state.value, over.fate.value) == (state, "cancelled")


@WISHES
def test_what_a_user_was_told_outlives_a_dispatcher_that_dies_before_the_host_hears(wish, state):
    """It is on the ledger; the host is told at its next beat, or the lease runs out."""
    world = World("fcfs", 1, hosts=1)
    (host,) = world.hosts.values()
    world.connect(host)
    world.submit(may_restart=True)
    while not host.alive:
        world.commit()
        world.deliver(host, upwards=True)
        world.deliver(host, upwards=False)
    (key,) = host.alive
    world.cut(host)
    world.act("kill" if wish == CANCEL else "requeue")
    while world.batches:
        world.commit()
    world.restart()
    (order,) = world.life.told(host.name, [(*key, "")])
    assert (order.job, order.attempt, order.wish) == (*key, wish)
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
    assert table.life.told(begin.host, [(*key, "")]) == []
    _, order = table.life.kill(begin.job, number, *table.when)
    assert table.life.told(begin.host, [(*key, "")]) == [order]
    assert table.life.told(begin.host, [(*key, CANCEL)]) == []
    _, again = table.life.requeue(begin.job, table.now_s)
    assert table.life.told(begin.host, [(*key, CANCEL)]) == [again]
    other = H2 if begin.host == H1 else H1
    assert table.life.told(other, [(*key, "")]) == []


def test_what_ends_well_before_the_signal_comes_has_ended_well():
    table = Table()
    over, _ = table.ended(table.begin("1"), replace(OK, wish=CANCEL))
    assert over.state is JobState.DONE
