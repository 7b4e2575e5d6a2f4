"""Of very many waiting jobs few are looked at in one turn, and what it takes is charged."""

import pytest

from lbd.dispatch.core.discipline import ONLY_LINE, QueuedJob
from lbd.dispatch.core.outlook import places
from lbd.dispatch.core.outlook.allowance import FOUND_STEPS, LINES, OF_USER, PER_S
from lbd.dispatch.core.outlook.forecast import Forecast
from lbd.dispatch.core.outlook.places import FRESH_S, PIECE_EVERY_S, Place
from lbd.dispatch.core.waiting_line import Group
from lbd.model import JobId, Needs
from tests.unit.dispatch.core.outlook.test_forecast import known
from tests.unit.dispatch.core.outlook.test_places import GPU_HOST
from tests.unit.dispatch.core.test_queues import Table

TASKS, PIECE = 12, 10
NEW = QueuedJob(JobId(""), user="eve")


@pytest.fixture
def table(monkeypatch):
    """Two arrays of twelve tasks."""
    monkeypatch.setattr(places, "PIECE_JOBS", PIECE)
    monkeypatch.setattr(places, "FEW", 1)
    table = Table()
    table.host("h1", open_slots=0)
    for n in range(1, 2 * TASKS + 1):
        table.arrive(f"{n}", array=1 + TASKS * (n > TASKS))
    return table


@pytest.fixture
def read(monkeypatch):
    """Returns the list of jobs that are read from arrays."""
    found, order = [], Group.order

    def reading(group, line):
        for pair in order(group, line):
            found.append(pair[1].id)
            yield pair

    monkeypatch.setattr(Group, "order", reading)
    return found


def test_a_look_takes_several_turns_and_finds_the_same(table, read):
    found, registry = Forecast(table.queues).places, table.queues.registry
    steps = []
    while not found.look(0.0):
        steps.append(len(read))
    assert [PIECE <= step <= PIECE + 2 for step in steps[:1]] == [True]
    assert max(b - a for a, b in zip([0, *steps], [*steps, len(read)], strict=True)) <= PIECE + 2
    assert len(steps) == 2
    order = [one.id for one in table.queues.lines[ONLY_LINE].order()]
    assert [found.of(registry[job], 0.0).jobs for job in order] == list(range(2 * TASKS))


def test_however_often_it_is_asked_in_one_turn_one_piece_is_looked_at(table, read):
    found, last = Forecast(table.queues).places, table.queues.registry[JobId("24")]
    for n in range(50):
        assert found.of(last, PIECE_EVERY_S * n / 100) is None
    assert len(read) <= PIECE + 2
    assert found.of(last, PIECE_EVERY_S) is None
    assert found.of(last, 2 * PIECE_EVERY_S) == Place(23, 23)


def test_the_last_look_serves_until_the_next_is_done(table):
    found, last = Forecast(table.queues).places, table.queues.registry[JobId("24")]
    while not found.look(0.0):
        pass
    for task in "123":
        table.ended(task)
    later_s = FRESH_S + 1.0
    assert not found.look(later_s)
    assert found.of(last, later_s).jobs == 20, "those that left since are not counted"
    while not found.look(later_s):
        pass
    assert found.of(last, later_s).jobs == 20


def test_jobs_that_come_start_and_leave_between_two_pieces_do_no_harm(table):
    found, registry = Forecast(table.queues).places, table.queues.registry
    assert not found.look(0.0)
    for task in ("2", "3", "14", "24"):
        table.ended(task)
    for n in range(100, 104):
        table.arrive(f"{n}", array=100, at_once=1)
    (started,) = table.host("h1", slots=1)
    table.queues.lost(JobId(started.partition("@")[0]), 0.0, table.rng)
    while not found.look(0.0):
        pass
    waiting = [job for job in map(JobId, map(str, range(4, 24))) if job in registry]
    assert all(found.of(registry[job], 0.0) is not None for job in waiting)


def test_what_all_take_of_other_needs_is_that_of_the_last_look(monkeypatch):
    monkeypatch.setattr(places, "PIECE_JOBS", 2)
    table = Table()
    table.host("h1", open_slots=0, facts=GPU_HOST)
    for n in range(1, 4):
        table.arrive(f"{n}", needs=Needs((("gpu", 1),)))
    found = Forecast(table.queues).places
    assert found.taken_in(ONLY_LINE, 0.0) == {}
    assert found.taken_in(ONLY_LINE, PIECE_EVERY_S)["gpu"] == 3


def test_the_place_of_a_new_job_is_found_once_and_charged(table, read):
    forecast = Forecast(table.queues)
    found, allowance = forecast.places, forecast.plays.allowance
    assert found.of_new(ONLY_LINE, NEW, 0.0) == Place(2, 2)  # one of each array
    count = len(read)
    assert found.of_new(ONLY_LINE, NEW._replace(slots=3), 0.0) == Place(2, 2)
    assert len(read) == count, "nothing has happened since"
    assert allowance._due_s == {"eve": pytest.approx(2 * FOUND_STEPS / (OF_USER * PER_S))}


def test_whose_part_of_the_time_is_used_up_gets_the_last_place_found_or_the_end(table, read):
    forecast = Forecast(table.queues)
    found, allowance = forecast.places, forecast.plays.allowance
    found.of_new(ONLY_LINE, NEW, 0.0)
    table.arrive("99", array=99)
    allowance.took(OF_USER * PER_S, "eve", 0.0)
    read.clear()
    assert found.of_new(ONLY_LINE, NEW, 0.0) == Place(2, 2)
    other = NEW._replace(array=7, at_once=1)
    assert found.of_new(ONLY_LINE, other, 0.0) == Place(25, 25)
    assert read == []
    assert found.of_new(ONLY_LINE, NEW._replace(user="bob"), 0.0) == Place(3, 3)
    assert found.of_new(ONLY_LINE, NEW, 2.0) == Place(3, 3)


def test_to_fill_a_line_that_is_played_is_charged(table):
    forecast = known(table)
    allowance = forecast.plays.allowance
    played = forecast.played(ONLY_LINE, 0.0)
    assert len(played.places) == 2 * TASKS
    steps = played.steps + FOUND_STEPS * 2 * TASKS
    assert allowance._all_due_s == pytest.approx(steps / PER_S)
    assert allowance.has(LINES, 0.0)
