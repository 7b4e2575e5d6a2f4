"""One array with a target: what it aims for, and which end it reports."""

import math

import pytest

from lbd.dispatch.core.discipline import Target
from lbd.dispatch.core.targets.plan import SURE
from lbd.dispatch.core.targets.target_array import before_deadline_s
from lbd.dispatch.core.targets.task_times import Earlier
from lbd.model import JobId
from lbd.theory.batch_end import quantile_s
from lbd.theory.target_time import STEERED, harmonic
from tests.unit.dispatch.core.targets.test_arrays import MEAN_S, Table


@pytest.mark.parametrize(("slots", "left"), [(4, 4), (4, 64), (1, 3), (9, 2)])
def test_a_deadline_is_targeted_ahead_of_time(slots, left):
    """By the end of the drain that 95 % do not exceed, and a little for the control error."""
    at_once = min(slots, left)
    drain_s = quantile_s(0.95, at_once, at_once, MEAN_S) - MEAN_S * harmonic(at_once)
    steered = min(left - at_once, STEERED) / at_once**2
    expected_s = math.hypot(drain_s, SURE * MEAN_S * math.sqrt(steered))
    assert before_deadline_s(slots, left, MEAN_S) == pytest.approx(expected_s)


def test_the_last_task_ends_as_long_after_its_start_as_such_tasks_take():
    """Its end slid along with the clock. A task older than all that ended takes as long again."""
    table = Table(slots=1)
    table.array(1, 1, 1e6, known=Earlier(others_s=(10.0,) * 20))
    for now_s, left_s in ((0.0, 10.0), (4.0, 6.0), (9.5, 0.5), (12.0, 12.0), (20.0, 20.0)):
        table.now_s = now_s
        assert table.standing(1001).end.mean_s == pytest.approx(left_s)


def test_a_task_that_ran_before_a_new_dispatcher_ends_as_much_sooner():
    table = Table(slots=1)
    table.array(1, 1, 1e6, known=Earlier(others_s=(10.0,) * 20))
    table.queues.ran_before(JobId("1001"), 4.0)
    assert table.standing(1001).end.mean_s == pytest.approx(6.0)


def test_each_of_several_late_arrays_later_gets_what_the_others_leave():
    """50 and 10 tasks of 10 s on four slots: everything is done in 150 s plus about 10 s of
    drain."""
    table = Table(slots=4)
    known = Earlier(others_s=(10.0,) * 20)
    for number, tasks in ((1, 50), (2, 10)):
        table.array(number, tasks, 1.0, known=known)
    assert 125.0 < table.standing(1001).end.mean_s <= 150.0 + 10.0 * harmonic(4)
    assert table.queues.targets.first_end_s(table.queues.registry["1001"].job, 0.0) > 0.0


@pytest.mark.parametrize(
    ("rules", "at_once", "limit"),
    [
        ({"user_slots": 3}, 0, "dispatch.user_slots allows a user"),
        ({"name_jobs": (("fit", 3),)}, 5, "dispatch.name_jobs allows of its name"),
        ({"user_slots": 4}, 3, "its own %3 allows"),
        ({"user_slots": 100}, 0, "there are slots for"),
    ],
    ids=str,
)
def test_limits_count_as_what_it_may_have_and_are_named(rules, at_once, limit):
    slots = 3 if limit == "there are slots for" else 8
    table = Table(slots=slots, **rules)
    table.array(1, 64, 1.0, name="fit", user="ann", at_once=at_once)
    assert len(table.running) == 3
    assert table.standing(1001).at_once == 3
    assert table.standing(1001).why.startswith(f"as many as {limit}; it will end ")


def test_what_other_arrays_leave_is_no_limit_of_slots():
    table = Table(slots=4)
    for number in (1, 2):
        table.array(number, 40, 1.0)
    why = table.standing(2001).why
    assert why.startswith("as many as other arrays with targets leave it; it will end "), why


def test_a_few_milliseconds_are_neither_late_nor_early():
    table = Table(slots=4)
    table.array(1, 20, Target(30.001), known=Earlier(others_s=(6.0,) * 20))
    found = table.standing(1001)
    assert found.end.mean_s == pytest.approx(30.0, abs=0.01)
    assert "late" not in found.why
    assert "early" not in found.why
