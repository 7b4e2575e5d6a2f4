"""The place in the line of an array with a target: when it keeps that, and when it takes turns."""

from random import Random

import pytest

from lbd.dispatch.core.discipline import Target
from lbd.dispatch.core.targets.task_times import Earlier
from tests.unit.dispatch.core.targets.test_arrays import Table

TASKS, TASK_S = 20, 6.0
TURNS = "that is too late to keep its place, so it takes turns with other jobs"


class Line(Table):
    """Four slots: jobs of others, then an array of tasks of 6 s, then 50 more jobs of others."""

    def __init__(self, before_s, deadline_s, *, later_at_s=0.5, seed=1, **more):
        super().__init__(slots=4)
        self.sizes, self.takes_s, self.ends, self.found = Random(seed), {}, [], []
        self.ended_s = {}
        target = Target(deadline_s, is_deadline=True)
        self.others(1, before_s)
        self.array(1, TASKS, target, known=Earlier(), user="ann", **more)
        later_s = [self.sizes.uniform(5.0, 15.0) for _ in range(50)]
        while self.ends or later_s:
            if later_s and (not self.ends or min(self.ends)[0] > later_at_s):
                self.now_s, later_s = later_at_s, self.others(len(before_s) + 1, later_s)
                continue
            self.ends.remove(first := min(self.ends))
            self.now_s, id_ = first
            self.ended(id_)
            self.ended_s[id_] = self.now_s
            if array := self.queues.targets.arrays.get(1):
                self.found.append((self.now_s, array.end(self.now_s)))

    def others(self, first, times_s):
        for n, time_s in enumerate(times_s, first):
            self.takes_s[str(n)] = time_s
            self.arrive(n, user="bob")
        return []

    def note(self, starts):
        for start in starts:
            takes_s = self.takes_s.get(start.job.id) or TASK_S + self.sizes.uniform(0.0, 0.02)
            self.ends.append((self.now_s + takes_s, start.job.id))
        return super().note(starts)

    @property
    def end_s(self):
        return max(at_s for id_, at_s in self.ended_s.items() if int(id_) > 1000)


@pytest.mark.parametrize(
    ("deadline_s", "more"),
    [(50.0, {}), (50.0, {"work_s": TASK_S}), (40.0, {"work_s": TASK_S}), (70.0, {})],
    ids=str,
)
def test_a_deadline_that_all_slots_can_just_meet_is_met(deadline_s, more):
    """As four tasks were about to end together, it seemed too late, and gave its place up to 46
    jobs that came later: it ended two minutes late."""
    assert Line([3.0, 8.0, 8.0, 8.0], deadline_s, **more).end_s < deadline_s


@pytest.mark.parametrize("seed", range(4))
def test_so_is_one_behind_a_long_line(seed):
    """The first task tells how long they take, 6 s after the slots have begun to come free."""
    sizes = Random(seed)
    before_s = [sizes.uniform(5.0, 15.0) for _ in range(25)]
    deadline_s = sum(before_s) / 4 + 2 * TASK_S + 5 * TASK_S + 10.0
    assert Line(before_s, deadline_s, later_at_s=8.0, seed=seed).end_s < deadline_s


def test_what_is_left_does_not_jump_up_as_several_tasks_are_about_to_end():
    """Of a known length of 6 s, four tasks of an age of 5 s made 12 s: it was to end 37 s later."""
    line = Line([3.0, 8.0, 8.0, 8.0], 50.0, work_s=TASK_S)
    ends_s = [at_s + end.mean_s for at_s, end in line.found]
    assert min(ends_s) > line.end_s - 2.0
    assert max(ends_s) < line.end_s + 10.0
    assert all(abs(end_s - line.end_s) < 0.5 for end_s in ends_s[-8:])


def test_a_deadline_that_is_missed_by_little_is_not_missed_by_much():
    """Twenty tasks of 6 s on four slots that come free after 3 to 8 s end after 35 s."""
    assert Line([3.0, 8.0, 8.0, 8.0], 25.0, work_s=TASK_S).end_s < 40.0


def test_what_came_before_goes_first_however_tight_its_deadline_is():
    line = Line([10.0] * 8, 30.0, work_s=TASK_S)
    assert max(line.ended_s[str(n)] for n in range(1, 9)) == 20.0


def test_an_array_beyond_help_takes_turns_and_that_is_said():
    """Its tasks take 30 s on all slots, which is more than twice the time it was given."""
    table = Table(slots=4)
    for n in range(1, 5):
        table.arrive(n, user="bob")
    known = Earlier(others_s=(TASK_S,) * 20)
    table.array(1, TASKS, Target(14.0, is_deadline=True), known=known)
    table.arrive("9", user="bob")
    assert table.standing(1001).why.endswith(f"late on average; {TURNS}")
    assert (table.ended(1), table.ended(2)) == (["1001"], ["9"])
    near = Table(slots=4)
    near.array(1, TASKS, Target(16.0, is_deadline=True), known=known)
    near.arrive("9", user="bob")
    assert TURNS not in near.standing(1001).why
    near.now_s = 6.0
    assert [near.ended(1001 + n) for n in range(4)] == [[str(1005 + n)] for n in range(4)]


def test_once_its_tasks_are_known_it_has_its_place_by_submission_before_those_that_came_later():
    """Its only trial task had moved it behind all that came while that ran, for good."""
    table = Table(slots=4)
    for n in range(1, 7):
        table.arrive(n)
    table.array(1, 20, 100.0, known=Earlier())
    for n in range(7, 57):
        table.arrive(n)
    table.now_s = 8.0
    assert table.ended(1) == ["5"]
    assert table.ended(2) == ["6"]
    assert table.ended(3) == ["1001"]
    assert table.ended(4) == ["7"]  # until it is known how long a task takes, it takes turns
    table.now_s = 14.0
    assert table.ended(1001) == ["1002"]
    assert table.ended(5) == ["1003"]
    assert table.standing(1004).at_once == 2
    assert table.ended(6) == ["8"]  # what it does not need


def test_unknown_tasks_meet_the_deadline_although_fifty_jobs_come_after_them():
    sizes = Random(7)
    before_s = [sizes.uniform(5.0, 15.0) for _ in range(25)]
    line = Line(before_s, 180.0)
    assert line.end_s < 180.0
    assert len(line.ended_s) == 95
