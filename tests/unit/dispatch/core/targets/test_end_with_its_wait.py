"""When an array with a target ends, if others have the slots until it begins."""

import math

import pytest

from lbd.dispatch.core.discipline import Target
from lbd.dispatch.core.targets.plan import Begins, Within
from lbd.dispatch.core.targets.task_times import Earlier
from lbd.model import JobId
from lbd.text.units import show_duration
from tests.unit.dispatch.core.targets.test_arrays import Table


def full_table(target, tasks=40):
    """Returns the targets of a table and the job of array 1: tasks of 5 s behind other jobs that
    have all eight slots."""
    table = Table(slots=8)
    for n in range(8):
        table.arrive(f"{n + 1}")
    table.array(1, tasks, target, known=Earlier(others_s=(5.0,) * 20))
    return table, table.queues.targets, table.queues.registry[JobId("1001")].job


def test_the_wait_until_it_begins_counts_in_all_that_is_said_of_its_end():
    """Forty tasks of 5 s on eight slots take 25 s, but others have the slots for 12 s."""
    _, targets, job = full_table(Target(4.9, is_deadline=True))
    at_once = targets.standing(job, 0.0)
    assert at_once.end.mean_s == pytest.approx(25.0)
    begins = Begins(Within(12.0, 8.0, 16.0), (12.0,))
    later = targets.standing(job, 0.0, begins)
    assert later.end.mean_s == pytest.approx(12.0 + at_once.end.mean_s)
    before_s = at_once.end.mean_s - at_once.end.low_s
    assert later.end.mean_s - later.end.low_s == pytest.approx(math.hypot(4.0, before_s))
    assert later.end.low_s >= 8.0 + at_once.end.low_s
    late_s = later.end.mean_s - 4.9
    assert late_s > 30.0
    assert f"it will end {show_duration(late_s)} late on average" in later.why
    assert later.why.endswith("; it begins in about 12s")
    targets.arrays[1].is_steered = True  # a task has ended, and none runs
    next_one = targets.standing(job, 0.0, begins)
    assert next_one.why.endswith("; its next task begins in about 12s")
    targets.arrays[1].is_steered = False
    said = targets.remark(1, 0.0, begins)
    ends = show_duration(later.end.mean_s)
    assert f"8 tasks at once: expected to begin in 12s and to end in {ends} (likely " in said


def test_a_deadline_that_only_the_wait_makes_impossible_is_reported():
    _, targets, job = full_table(60.0)
    assert targets.remark(1, 0.0) == ""
    assert targets.remark(1, 0.0, Begins.at(10.0)) == ""
    assert "cannot be met with 8 tasks at once" in targets.remark(1, 0.0, Begins.at(50.0))
    # With a shorter wait it is planned for the time that is left when it begins.
    found = [targets.standing(job, 0.0, Begins.at(wait_s)) for wait_s in (0.0, 20.0, 30.0)]
    assert [one.at_once for one in found] == sorted({one.at_once for one in found})
    assert all(one.end.mean_s == pytest.approx(60.0) for one in found)
    assert targets.arrays[1].at_once == found[0].at_once  # it is not planned so yet


def test_the_end_of_an_array_is_unknown_while_its_begin_is():
    table, targets, job = full_table(4.9)
    found = targets.standing(job, 0.0, None)
    assert found.end is None
    assert found.why == (
        "as many as there are slots for; it will end late; that is too late to keep its place, "
        "so it takes turns with other jobs; it is not known when it begins"
    )
    assert "it is not known when it begins, and expected to end " in targets.remark(1, 0.0, None)
    table.ended("1")  # one of its tasks begins
    assert targets.standing(job, 0.0, None).end is not None


def test_who_may_just_miss_a_deadline_is_not_called_late():
    table = Table()
    table.array(1, 64, Target(102.0, is_deadline=True))
    end_s = table.standing(1001).end.mean_s
    assert end_s < 102.0
    early = show_duration(102.0 - end_s)
    why = "as many as there are slots for"
    assert table.standing(1001).why == (
        f"{why}; it will end {early} early on average; fewer once fewer will do"
    )
    waits = table.queues.shares.obstacle(table.queues.registry[JobId("1064")].job)
    assert waits == f"8 tasks of its array are running, {why}"
    assert " may not be met with 8 tasks at once: " in table.queues.targets.remark(1, 0.0)


def test_tasks_run_in_whole_rounds_on_slots_that_come_free_one_by_one():
    """Twenty tasks of 5 s on eight slots are three rounds; four slots come free 3 s later."""
    _, targets, job = full_table(1.0, tasks=20)
    assert targets.standing(job, 0.0).end.mean_s == pytest.approx(15.0)
    one_by_one = Begins(Within(12.0, 12.0, 12.0), (12.0,) * 4 + (15.0,) * 4)
    assert targets.standing(job, 0.0, one_by_one).end.mean_s == pytest.approx(27.0)
    late = Begins(Within(12.0, 12.0, 12.0), (12.0,) + (30.0,) * 7)
    assert targets.standing(job, 0.0, late).end.mean_s > 40.0


def test_of_several_arrays_in_line_none_is_done_before_its_tasks_can_be():
    """Twelve tasks of 6 s one at a time were to end 6 s after they began: what all arrays need
    together was counted from now, not from their begin."""
    table = Table(slots=4)
    for n in range(4):
        table.arrive(f"{n + 1}")
    for number in (1, 2, 3):
        table.array(number, 12, Target(70.0, is_deadline=True),
                    known=Earlier(others_s=(6.0,) * 20))  # fmt: skip
    targets, job = table.queues.targets, table.queues.registry[JobId("1001")].job
    found = targets.standing(job, 0.0, Begins.at(51.0))
    assert found.end.mean_s >= 51.0 + 12 * 6.0 / 4
    assert "late on average" in found.why
    assert found.end.low_s > 51.0 + 6.0


def test_who_is_kept_on_average_but_maybe_not_is_told_so_as_the_view_says():
    """It was silent while `lbctl job` said "likely" until 50 s after the deadline."""
    for until_s in range(20, 140, 3):
        table = Table()
        table.array(1, 20, Target(float(until_s), is_deadline=True))
        said = table.queues.targets.remark(1, 0.0)
        end = table.standing(1001).end
        assert bool(said) == (end.high_s > until_s), (until_s, end)
        assert ("may not be met" in said) == (end.mean_s <= until_s < end.high_s)


def test_a_guess_of_when_it_begins_is_marked_as_one():
    _, targets, job = full_table(10.0)
    begins = Begins(Within(12.0, 8.0, 16.0), (12.0,), is_guess=True)
    assert targets.standing(job, 0.0, begins).why.endswith("; it begins in ~12s")
