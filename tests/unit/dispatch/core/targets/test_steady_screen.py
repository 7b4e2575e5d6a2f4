"""What is said of an array with a deadline, look by look: it contradicts neither itself nor the
truth."""

from random import Random

import pytest

from lbd.dispatch.core.discipline import Target
from lbd.dispatch.core.targets import target_array
from lbd.dispatch.core.targets.plan import Begins, Within
from lbd.dispatch.core.targets.task_times import FEWEST, Earlier, TaskTimes
from lbd.model import JobId
from tests.unit.dispatch.core.targets.test_arrays import Table

TASKS, TASK_S, SLOTS = 20, 6.0, 4
SO_MANY = "as many as it needs to end by its deadline"


class Looks(Table):
    """An array of tasks that take nearly the same time, looked at each second until it ends."""

    def __init__(self, deadline_s, *, others=0, seed=1):
        super().__init__(slots=SLOTS)
        self.left, self.deadline_s, self.ends_s, self.found = TASKS, deadline_s, {}, []
        self.sizes = Random(seed)
        for n in range(others):
            self.arrive(f"{n + 1}", user="bob")
        self.array(1, TASKS, Target(deadline_s, is_deadline=True), known=Earlier(), user="ann")
        at_s = 0.0
        while self.left:
            at_s += 1.0
            while self.ends_s and min(self.ends_s.values()) <= at_s:
                self.one_ends()
            self.now_s = at_s
            if self.left:
                job = next(one for one in self.queues.registry.values() if one.kind.target)
                found = self.queues.targets.standing(job.job, at_s, Begins.at(0.0))
                self.found.append((at_s, found))

    def note(self, starts):
        for start in starts:
            took_s = TASK_S + self.sizes.uniform(0.0, 0.05)
            if not start.job.target:
                took_s = self.sizes.uniform(5.0, 15.0)
            self.ends_s[start.job.id] = self.now_s + took_s
        return super().note(starts)

    def one_ends(self):
        id_ = min(self.ends_s, key=self.ends_s.get)
        self.now_s = self.ends_s.pop(id_)
        self.left -= int(id_) > 1000
        self.ended(id_)
        self.end_s = self.now_s


@pytest.mark.parametrize("others", [0, 25])
@pytest.mark.parametrize("seed", range(3))
def test_the_end_of_tasks_of_a_known_length_stands_still_and_comes_true(others, seed):
    """Within each task it moved away by half its length, and fell back when it ended; its interval
    of a second lay beside the truth."""
    looks = Looks(180.0 if others else 120.0, others=others, seed=seed)
    known = [one for one in looks.found if 0 < one[1].left < 10 and one[1].at_once == 1]
    ends_s = [at_s + found.end.mean_s for at_s, found in known]
    assert len(known) > 30
    assert max(abs(end_s - looks.end_s) for end_s in ends_s) < 1.5
    for at_s, found in known:
        assert at_s + found.end.low_s <= looks.end_s <= at_s + found.end.high_s
        assert found.end.high_s - found.end.low_s > min(1.0, found.end.mean_s)


@pytest.mark.parametrize("deadline_s", [60.0, 90.0, 120.0, 180.0])
@pytest.mark.parametrize("others", [0, 10, 25])
def test_what_needs_no_more_is_not_expected_after_its_deadline(deadline_s, others):
    looks = Looks(deadline_s, others=others)
    for at_s, found in looks.found:
        if found.end is not None and SO_MANY in found.why:
            assert at_s + found.end.high_s <= deadline_s + 1.0


def test_the_reason_is_the_same_for_two_at_once_as_for_one_a_moment_later():
    """It read "one at a time is enough", then "as many as it needs" of two, and one again."""
    found = [found for _, found in Looks(120.0).found if found.end is not None and found.left > 2]
    assert {one.at_once for one in found} >= {1, 2}
    assert all(one.why.startswith(SO_MANY) for one in found)
    assert all("more once more are needed" in one.why for one in found if one.at_once == 1)


def test_others_have_the_slots_also_while_its_first_task_runs():
    table = Table(slots=2)
    table.arrive("1")
    table.array(1, 20, Target(300.0, is_deadline=True), known=Earlier())
    found = table.standing(1001)
    assert (found.running, found.at_once) == (1, 2)
    assert found.why.endswith("at most 2 at once; other jobs have the slots now")


def test_it_takes_all_slots_while_it_is_not_known_whether_fewer_will_do():
    """Of two earlier tasks too little is known to be on time in 95 of 100 cases: it was in 92."""
    table = Table(slots=16)
    table.array(1, 40, Target(100.0, is_deadline=True), known=Earlier(others_s=(10.0, 10.0)))
    found = table.standing(1001)
    assert found.at_once == found.running == 16
    assert found.why.startswith("as many as there are slots for; it will end ")
    table.now_s = 10.0
    for n in range(16):
        table.ended(1001 + n)
    assert table.standing(1040).at_once < 16


def test_if_more_slots_come_too_late_that_is_said():
    """Four tasks at once will do on average, and all eight slots also if its tasks take longer, but
    others have these for 40 s."""
    table = Table(slots=8)
    for n in range(1, 8):
        table.arrive(f"{n}")
    table.array(1, 40, Target(100.0, is_deadline=True), known=Earlier(others_s=(3.0, 9.0)))
    job = table.queues.registry[JobId("1001")].job
    later = Begins(Within(0.0, 0.0, 0.0), (40.0,) * 7)
    found = table.queues.targets.standing(job, 0.0, later)
    assert found.at_once < 8
    assert found.end.high_s > 101.0
    assert found.why.startswith("as many as it needs on average; more may come free too late, ")


def test_a_task_that_is_late_is_as_likely_as_not_to_be_as_late_again():
    times = TaskTimes()
    times.add([6.0] * 9 + [6.5])
    left_s = times.left_s([0.0, 4.0, 6.2, 6.5, 8.5])
    assert left_s == pytest.approx([6.0, 2.0, 0.3, 0.0, 2.0])


def test_running_tasks_tell_something_if_they_are_older_than_those_that_ended_or_these_differ():
    one, alike, unlike = TaskTimes(), TaskTimes(), TaskTimes()
    assert one.is_told_by([1.0])  # nothing has ended
    one.add([6.0])
    alike.add([6.0, 6.3])
    unlike.add([6.0, 7.0])
    assert not one.is_told_by([])
    assert [one.is_told_by([1.0, age_s]) for age_s in (5.0, 6.0)] == [False, True]
    assert [alike.is_told_by([1.0, age_s]) for age_s in (6.4, 10.0)] == [False, True]
    assert unlike.is_told_by([1.0])
    alike.add([2.0] * 5)
    assert alike.is_told_by([1.0])
    alike.add([2.0] * 50)
    assert not alike.is_told_by([1.0])


@pytest.mark.parametrize("count", range(2, FEWEST))
def test_so_few_exponential_tasks_seldom_seem_alike(count):
    rng, seeming = Random(count), 0
    for _ in range(2000):
        times = TaskTimes()
        times.add([rng.expovariate(1.0) for _ in range(count)])
        seeming += times.seem_alike
    assert 0.03 < seeming / 2000 < 0.07


@pytest.mark.parametrize(("deadline_s", "at_once"), [(30.0, 100), (300.0, 6)])
def test_what_each_end_of_a_task_costs_does_not_grow_with_the_slots(
    monkeypatch, deadline_s, at_once
):
    """Of very many slots it is not counted when each comes free, but how long all take."""
    counted = []
    monkeypatch.setattr(target_array, "last_of_equal_s", lambda *_: counted.append(1) or 0.0)
    table = Table(slots=100)
    known = Earlier(others_s=(10.0, 11.0) * 10)
    table.array(1, 150, Target(deadline_s, is_deadline=True), known=known)
    table.now_s = 10.0
    table.ended(1001)
    assert (len(table.running), counted) == (at_once, [])
