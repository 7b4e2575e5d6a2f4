"""Gangs: jobs of an array that start together or not at all."""

import pytest

from lbd.dispatch.core.dependencies.dependents import Waits
from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.gangs.gang import DISBANDED
from lbd.dispatch.core.records import (
    Begin,
    Cause,
    Changed,
    Ending,
    Live,
    Release,
    Signal,
)
from lbd.dispatch.core.why_waiting import stuck_reason
from lbd.errors import LbdError
from lbd.model import CANCEL, DISBAND, REGROUP, JobId, JobState
from tests.unit.dispatch.gangs import H1, H2, H3, LATE, LOST, MISSING, OK, Table, of_kind

# Together


def test_all_tasks_are_held_with_all_hosts_and_released_once_all_are_ready():
    table = Table()
    begins = table.gang(4)
    assert [begin.gang_hosts for begin in begins] == [tuple(begin.host for begin in begins)] * 4
    assert {begin.host for begin in begins} == {H1, H2, H3}
    for begin in begins[:3]:
        assert table.ready(begin) == []
    released = table.ready(begins[3])
    assert released == [Release(one.job, 1, one.host) for one in begins]


def test_its_hosts_are_named_in_the_order_of_its_tasks():
    table = Table(hosts=())
    for name, load in ((H1, 0.3), (H2, 0.2), (H3, 0.1)):
        table.host(name, 1, load=load)
    begins = table.gang(3)
    assert sorted((one.job, one.host) for one in begins) == [("1", H3), ("2", H2), ("3", H1)]
    assert {one.gang_hosts for one in begins} == {(H3, H2, H1)}


def test_a_host_that_starts_its_task_unasked_starts_no_other():
    table = Table()
    begins = table.gang(3)
    table.ready(begins[0])
    assert of_kind(Release, table.begun(begins[1])) == []
    assert {one.job for one in table.ready(begins[2])} == {begins[0].job, begins[2].job}


def test_no_part_of_a_gang_starts_alone():
    table = Table()
    (alone,) = table.submit()
    assert table.gang(6) == []
    begins = of_kind(Begin, table.ended(alone))
    assert len(begins) == 6


def test_its_tasks_run_on_as_many_slots_each_as_they_ask_for():
    table = Table()
    begins = table.gang(3, slots=2)
    assert {begin.host for begin in begins} == {H1, H2, H3}
    assert [begin.slots for begin in begins] == [2, 2, 2]


def test_a_gang_that_names_its_host_is_placed_there_as_a_whole():
    begins = Table().gang(2, only=H2)
    assert [begin.host for begin in begins] == [H2, H2]
    table = Table()
    assert table.gang(3, only=H2) == []
    assert stuck_reason(table.life, JobId("1")).startswith("needs 3 slots together; the hosts")


def test_a_gang_that_is_too_large_waits_for_hosts_and_says_so():
    table = Table(hosts=(H1, H2))
    assert table.gang(6) == []
    said = "needs 6 slots together; the hosts it may use have 4"
    assert stuck_reason(table.life, JobId("1")) == said
    assert table.why(3) == said
    (passes,) = table.submit()
    assert passes.job == "7"
    table.ended(passes)
    assert len(of_kind(Begin, table.host(H3))) == 6


# Giving slots back


def test_one_refusal_gives_all_slots_back_and_the_gang_waits_again():
    table = Table()
    begins = table.gang(4)
    table.ready(begins[0])
    actions = table.refused(begins[3])
    stops = of_kind(Signal, actions)
    assert [(one.job, one.stop_reason, one.number) for one in stops] == [
        (one.job, REGROUP, 0) for one in begins[:3]
    ]
    for begin in begins[:2]:
        assert not of_kind(Begin, table.refused(begin, "late"))
    table.host(begins[3].host)
    again = of_kind(Begin, table.refused(begins[2], "late"))
    assert [one.attempt for one in again] == [2] * 4
    assert all(live.stop_reason == "" for live in table.life.leased.values())


def test_a_task_that_is_not_ready_in_time_releases_the_slots_of_the_others():
    """For a while its gang does not go to that host, with any of its tasks."""
    table = Table(hosts=(H1, H2), gang_hold_s=20.0, lease_s=1000.0, aside_s=5.0)
    begins = table.gang(3)
    for begin in begins[:2]:
        table.ready(begin)
    table.now_s = 19.0
    assert table.life.tick(*table.when) == []
    table.now_s = 20.0
    stops = of_kind(Signal, table.life.tick(*table.when))
    assert [one.stop_reason for one in stops] == [REGROUP] * 3
    for begin in begins:
        table.refused(begin, "late")
    assert not table.life.leased
    late = begins[2].host
    assert table.life.jobs[begins[2].job].reason == f"{late}: was not ready within 20 s"
    said = f"needs 3 slots together; the hosts it may use have 2; {late}: was not ready within 20 s"
    assert table.why(1).startswith(said)
    table.now_s = 24.0
    assert of_kind(Begin, table.life.tick(*table.when)) == []
    table.now_s = 25.0
    assert len(of_kind(Begin, table.life.tick(*table.when))) == 3


def test_if_a_host_lacks_the_command_of_one_task_all_are_tried_elsewhere():
    table = Table()
    begins = table.gang(2)
    table.refused(begins[0], "exec", MISSING)
    again = of_kind(Begin, table.refused(begins[1], "late"))
    assert len(again) == 2
    assert again[0].host != begins[0].host


def test_a_task_that_can_start_nowhere_ends_the_gang():
    table = Table(hosts=(H1,), slots=2)
    begins = table.gang(2)
    actions = table.refused(begins[0], "exec", MISSING)
    (failed,) = of_kind(Changed, actions)
    assert (failed.state, failed.ending.exit_status) == (JobState.FAILED, 127)
    assert [one.stop_reason for one in of_kind(Signal, actions)] == [DISBAND]
    (cancelled,) = of_kind(Changed, table.refused(begins[1], "late"))
    assert (cancelled.state, cancelled.reason) == (JobState.CANCELLED, DISBANDED)
    assert not table.life.jobs


def test_a_gang_too_large_for_the_hosts_that_have_not_refused_it_ends():
    """It waited for ever, and was said to need more slots than the others have."""
    table = Table(hosts=(H1, H2), slots=2)
    begins = table.gang(3)
    alone = next(one for one in begins if [other.host for other in begins].count(one.host) == 1)
    (failed,) = of_kind(Changed, table.refused(alone, "exec", MISSING))
    assert (failed.state, failed.ending.exit_status) == (JobState.FAILED, 127)
    said = f"{alone.host}: {MISSING.reason}; the other hosts are too small for its gang"
    assert failed.reason == failed.ending.reason == said
    for other in begins:
        if other is not alone:
            (cancelled,) = of_kind(Changed, table.refused(other, "late"))
            assert cancelled.state is JobState.CANCELLED
    assert not table.life.jobs


def test_a_gang_waits_for_a_host_that_takes_no_jobs_now_if_the_others_are_too_small():
    table = Table(hosts=(H1, H2, H3), slots=2)
    begins = table.gang(6)
    table.life.host_gone(H3, *table.when)
    actions = table.refused(next(one for one in begins if one.host == H2), "exec", MISSING)
    assert {one.stop_reason for one in of_kind(Signal, actions)} == {REGROUP}


# All or nothing


def test_a_lost_task_restarts_all():
    table = Table()
    begins = table.running(3)
    actions = table.ended(begins[0], LOST)
    assert [one.stop_reason for one in of_kind(Signal, actions)] == [REGROUP] * 2
    killed = Ending(Cause.SIGNALLED, None, 15)
    assert not of_kind(Begin, table.ended(begins[1], killed))
    # including one that has finished in the meantime
    again = of_kind(Begin, table.ended(begins[2], OK))
    assert [one.attempt for one in again] == [2, 2, 2]
    assert [live.crashes for live in table.life.jobs.values()] == [1, 0, 0]


@pytest.mark.parametrize("cause", [Cause.CUT, Cause.CHECKPOINT, Cause.EVICTED])
def test_a_task_that_would_restart_alone_restarts_all(cause):
    """Its host was not asked to do any of these."""
    table = Table()
    begins = table.running(2)
    actions = table.ended(begins[0], Ending(cause))
    assert [one.stop_reason for one in of_kind(Signal, actions)] == [REGROUP]
    again = of_kind(Begin, table.ended(begins[1], Ending(Cause.SIGNALLED, None, 15)))
    assert [one.attempt for one in again] == [2, 2]
    assert table.life.may_move(again[0].job) is False


def test_a_lost_task_ends_all_if_they_may_not_restart():
    table = Table()
    begins = table.running(3, may_restart=False)
    actions = table.ended(begins[0], LOST)
    assert of_kind(Changed, actions)[0].state is JobState.LOST
    assert [one.stop_reason for one in of_kind(Signal, actions)] == [DISBAND] * 2
    (cancelled,) = of_kind(Changed, table.ended(begins[1], Ending(Cause.SIGNALLED, None, 15)))
    assert (cancelled.state, cancelled.reason) == (JobState.CANCELLED, DISBANDED)
    (done,) = of_kind(Changed, table.ended(begins[2], OK))
    assert done.state is JobState.DONE
    assert not table.life.jobs


def test_a_task_that_was_only_held_may_start_again_even_if_it_may_not_restart():
    table = Table(lease_s=10.0)
    begins = table.gang(2, may_restart=False)
    for begin in begins:
        table.life.sending(begin.job, 1, table.now_s)
    table.ready(begins[0])
    table.now_s = table.life.terms.waited_s
    table.life.heartbeat(begins[0].host, [(begins[0].job, 1)], table.now_s)
    lost = of_kind(Changed, table.life.tick(*table.when))
    assert [one.state for one in lost] == [JobState.PENDING]
    assert len(of_kind(Begin, table.refused(begins[0], "late"))) == 2


def test_a_task_that_is_lost_after_another_has_ended_cannot_restart():
    table = Table()
    begins = table.running(3)
    table.ended(begins[0], OK)
    actions = table.ended(begins[1], LOST)
    assert of_kind(Changed, actions)[0].state is JobState.LOST
    assert [one.stop_reason for one in of_kind(Signal, actions)] == [DISBAND]


def test_a_failed_task_ends_nothing_else():
    table = Table()
    begins = table.running(2)
    actions = table.ended(begins[0], Ending(Cause.EXITED, 3))
    assert not of_kind(Signal, actions)
    assert begins[1].job in table.life.leased


# What users do to one of the tasks


def test_killing_one_kills_all():
    table = Table()
    begins = table.gang(3)
    stops = of_kind(Signal, table.life.kill(begins[1].job, 0, *table.when))
    assert [(one.job, one.stop_reason) for one in stops] == [(one.job, CANCEL) for one in begins]
    assert table.gang(6) == []
    ended = of_kind(Changed, table.life.kill(JobId("5"), 15, *table.when))
    assert [one.state for one in ended] == [JobState.CANCELLED] * 6


def test_killing_one_kills_all_before_they_join_the_queue():
    table = Table()
    jobs = [QueuedJob(JobId(f"{n + 1}"), array=1, gang=2, array_index=n) for n in range(2)]
    table.life.submitted_early([(job, Waits((), begin=50.0)) for job in jobs], *table.when)
    ended = of_kind(Changed, table.life.kill(JobId("2"), 0, *table.when))
    assert [one.state for one in ended] == [JobState.CANCELLED] * 2


def test_another_signal_reaches_one_task_only():
    table = Table()
    begins = table.running(2)
    (order,) = table.life.kill(begins[1].job, 10, *table.when)
    assert (order.job, order.number) == (begins[1].job, 10)


def test_holding_or_releasing_one_holds_or_releases_all():
    table = Table(hosts=())
    table.gang(2)
    held = of_kind(Changed, table.life.hold(JobId("2"), "held by ann", *table.when))
    assert [one.reason for one in held] == ["held by ann"] * 2
    table.host(H1)
    assert not table.life.leased
    assert len(of_kind(Begin, table.life.release(JobId("1"), *table.when))) == 2
    with pytest.raises(LbdError, match="job 1 is about to start on h1"):
        table.life.hold(JobId("1"), "held by ann", *table.when)


def test_requeueing_one_restarts_all():
    table = Table()
    begins = table.running(2)
    stops = of_kind(Signal, table.life.requeue(begins[0].job))
    assert [one.stop_reason for one in stops] == ["requeue"] * 2
    assert not of_kind(Begin, table.ended(begins[0], OK))
    again = of_kind(Begin, table.ended(begins[1], Ending(Cause.SIGNALLED, None, 15)))
    assert [one.attempt for one in again] == [2, 2]


def test_what_is_left_of_a_gang_is_not_requeued():
    table = Table()
    begins = table.running(2)
    table.ended(begins[0], OK)
    with pytest.raises(LbdError, match="1 of the 2 jobs of its gang have ended; kill the others"):
        table.life.requeue(begins[1].job)


# A dispatcher that takes over


def taken_over(table, *states, may_restart=True):
    """Returns attempts of the previous dispatcher, by whether they are known to have started."""
    for number, begun in enumerate(states, 1):
        job = QueuedJob(
            JobId(str(number)), 1, may_restart, array=1, gang=3, submission=1, array_index=number
        )
        live = Live(job, 1)
        leased = (1, (H1, H2, H3)[number - 1], 1, begun, 1, None)
        table.life.restored(live, leased, *table.when)
    table.made = len(states)


def test_a_new_dispatcher_releases_all_if_none_had_started():
    table = Table()
    taken_over(table, False, False, False)
    assert table.life.ready(H1, JobId("1"), 1) == []
    assert table.life.ready(H2, JobId("2"), 1) == []
    assert len(table.life.ready(H3, JobId("3"), 1)) == 3


def test_a_new_dispatcher_releases_the_rest_if_one_had_started():
    table = Table()
    taken_over(table, False, False, False)
    table.life.ready(H2, JobId("2"), 1)
    actions = table.life.begun(H1, JobId("1"), 1)
    assert of_kind(Release, actions) == [Release(JobId("2"), 1, H2)]
    assert table.life.ready(H3, JobId("3"), 1) == [Release(JobId("3"), 1, H3)]


def test_a_new_dispatcher_releases_the_rest_if_one_had_ended():
    table = Table()
    taken_over(table, False, False)
    assert table.life.ready(H2, JobId("2"), 1) == [Release(JobId("2"), 1, H2)]


def test_a_new_dispatcher_does_not_rerun_a_gang_that_may_have_run():
    table = Table(lease_s=10.0)
    taken_over(table, False, False, False, may_restart=False)
    table.now_s = table.life.terms.waited_s
    lost = of_kind(Changed, table.life.tick(*table.when))
    assert JobState.LOST in {one.state for one in lost}
    assert not of_kind(Begin, lost)


def test_a_new_dispatcher_gives_nothing_back_before_all_hosts_have_reported():
    """Even if a gang is held for less than a lease."""
    table = Table(lease_s=30.0, gang_hold_s=5.0)
    taken_over(table, False, False, False, may_restart=False)
    table.now_s = 10.0
    assert table.life.tick(*table.when) == []
    table.life.ready(H1, JobId("1"), 1)
    assert of_kind(Release, table.life.begun(H2, JobId("2"), 1)) == [Release(JobId("1"), 1, H1)]


@pytest.mark.parametrize("phase", ["slot", "stage"])
def test_a_new_dispatcher_restarts_a_gang_that_was_never_complete(phase):
    """A task without a slot, or without room for its files, was not ready, so none was released."""
    table = Table()
    taken_over(table, False, False, False, may_restart=False)
    actions = table.life.refused(H1, JobId("1"), 1, phase, LATE, *table.when)
    assert {one.stop_reason for one in of_kind(Signal, actions)} == {REGROUP}
    table.life.refused(H2, JobId("2"), 1, "late", LATE, *table.when)
    actions = table.life.refused(H3, JobId("3"), 1, "late", LATE, *table.when)
    table.host(H1)
    assert len(table.life.leased) == 3


def test_nothing_is_kept_of_a_gang_that_has_ended():
    table = Table()
    (first,) = table.submit(slots=2)
    assert table.gang(6) == []  # the gang has its turn, and waits
    begins = of_kind(Begin, table.ended(first))
    assert len(begins) == 6
    for begin in begins:
        table.ready(begin)
    assert of_kind(Release, table.begun(begins[0])) == []  # the gang is released already
    for begin in begins:
        table.ended(begin)
    assert table.life.gangs._gangs == {}
    room = table.life.queues.gangs
    assert (room.tasks, room.parked, dict(room._counts)) == ({}, [], {})
    (alone,) = table.submit()
    assert table.ready(alone) == []
