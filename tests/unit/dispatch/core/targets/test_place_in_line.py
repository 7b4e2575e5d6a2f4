"""The place in the line of an array with a target, once it is known how long its tasks take."""

from random import Random

from lbd.dispatch.core.discipline import Target
from lbd.dispatch.core.targets.task_times import Earlier
from tests.unit.dispatch.core.targets.test_arrays import Table


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
    table, rng, ends = Table(slots=4), Random(7), []
    for n in range(1, 26):
        table.arrive(n)
    table.array(1, 20, Target(180.0, is_deadline=True), known=Earlier())
    for n in range(26, 76):
        table.arrive(n)
    began = set()
    while table.running:
        for id_ in set(table.running) - began:
            began.add(id_)
            lasts_s = 6.0 if int(id_) > 1000 else rng.uniform(5, 15)
            ends.append((table.now_s + lasts_s, id_))
        ends.sort()
        table.now_s, id_ = ends.pop(0)
        table.ended(id_)
        if id_ == "1020":
            assert table.now_s < 180.0
    assert len(began) == 95
