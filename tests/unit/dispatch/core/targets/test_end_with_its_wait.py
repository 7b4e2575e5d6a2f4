"""When an array with a target ends, if others have the slots until it begins."""

import math

import pytest

from lbd.dispatch.core.discipline import Target
from lbd.dispatch.core.targets.task_times import Earlier
from lbd.model import JobId
from lbd.text.units import show_duration
from lbd.theory.target_time import End
from tests.unit.dispatch.core.targets.test_arrays import Table


def test_the_wait_until_it_begins_counts_in_all_that_is_said_of_its_end():
    """Forty tasks of 5 s on eight slots take 25 s, but others have the slots for 12 s."""
    table = Table(slots=8)
    for n in range(8):
        table.arrive(f"{n + 1}")
    table.array(1, 40, Target(4.9, is_deadline=True), known=Earlier(others_s=(5.0,) * 20))
    targets, job = table.queues.targets, table.queues.registry[JobId("1001")].job
    at_once = targets.standing(job, 0.0)
    later = targets.standing(job, 0.0, End(12.0, 4.0))
    assert later.end.mean_s == pytest.approx(12.0 + at_once.end.mean_s)
    assert later.end.sd_s == pytest.approx(math.hypot(4.0, at_once.end.sd_s))
    late_s = later.end.mean_s - 4.9
    assert late_s > 30.0
    assert f"it will end {show_duration(late_s)} late on average" in later.why
    assert later.why.endswith("; it begins in about 12s")
    said = targets.remark(1, 0.0, End(12.0, 4.0))
    ends = show_duration(later.end.mean_s)
    assert f"8 tasks at once: expected to begin in 12s and to end in {ends} (likely " in said


def test_a_deadline_that_only_the_wait_makes_impossible_is_reported():
    table = Table(slots=8)
    for n in range(8):
        table.arrive(f"{n + 1}")
    table.array(1, 40, 60.0, known=Earlier(others_s=(5.0,) * 20))
    targets, job = table.queues.targets, table.queues.registry[JobId("1001")].job
    assert targets.remark(1, 0.0) == ""
    assert targets.remark(1, 0.0, End(10.0, 0.0)) == ""
    assert "cannot be met with 8 tasks at once" in targets.remark(1, 0.0, End(50.0, 0.0))
    # With a shorter wait it is planned for the time that is left when it begins.
    found = [targets.standing(job, 0.0, End(wait_s, 0.0)) for wait_s in (0.0, 20.0, 30.0)]
    assert [one.at_once for one in found] == sorted({one.at_once for one in found})
    assert all(one.end.mean_s == pytest.approx(60.0) for one in found)
    assert targets.arrays[1].at_once == found[0].at_once  # it is not planned so yet


def test_the_end_of_an_array_is_unknown_while_its_begin_is():
    table = Table(slots=8)
    for n in range(8):
        table.arrive(f"{n + 1}")
    table.array(1, 40, 4.9, known=Earlier(others_s=(5.0,) * 20))
    targets, job = table.queues.targets, table.queues.registry[JobId("1001")].job
    found = targets.standing(job, 0.0, None)
    assert found.end is None
    assert found.why == (
        "the limit; it will end late; other jobs have the slots now; it is not known when it begins"
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
    assert table.standing(1001).why == f"the limit; it will end {early} early on average"
    assert " may not be met with 8 tasks at once: " in table.queues.targets.remark(1, 0.0)
