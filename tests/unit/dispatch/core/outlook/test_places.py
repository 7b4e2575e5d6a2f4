"""How many jobs are ahead of one that waits."""

from random import Random

import pytest

from lbd.dispatch.core.discipline import ONLY_LINE, HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.fcfs import Fcfs
from lbd.dispatch.core.outlook.forecast import Forecast
from lbd.dispatch.core.queues import Queues
from lbd.model import Facts, HostId, JobId, Needs
from tests.unit.dispatch.core.outlook.test_forecast import known
from tests.unit.dispatch.core.test_queues import Table

GPU_HOST = Facts(("linux",), (("gpu", 1, 0),))


def test_behind_one_that_came_back_jobs_with_needs_have_a_place_too():
    table = Table()
    table.host("h1", facts=GPU_HOST)
    table.arrive("1")
    for job in "23":
        table.arrive(job, needs=Needs((("gpu", 1),)))
    table.host("h1", open_slots=0, facts=GPU_HOST)
    table.lost("1")
    forecast = Forecast(table.queues)
    places = [forecast.places.of(table.queues.registry[JobId(job)], 0.0) for job in "123"]
    assert [place.jobs for place in places] == [0, 1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_a_place_is_that_in_the_order_of_starting_whatever_left_or_came_back(seed):
    rng = Random(seed)
    queues = Queues(Fcfs())
    queues.host_is(HostSlots(HostId("h1"), 4), 0.0, rng)
    running = []
    for number in range(1, 300):
        job = QueuedJob(JobId(str(number)), slots=rng.choice((1, 1, 2)))
        running += queues.arrived(job, 0.0, rng)
        if running and rng.random() < 0.1:
            running += queues.lost(running.pop(0).job.id, 0.0, rng)
        elif rng.random() < 0.2:
            queues.ended(JobId(str(rng.randrange(1, number + 1))), 0.0, rng)
        running = [one for one in running if one.job.id in queues.registry]
    forecast, waiting = Forecast(queues), queues.lines[ONLY_LINE]
    order = waiting.order()
    assert len(order) > 100
    assert waiting.in_order_of_arrival() is not None
    slots = 0
    for jobs, waiter in enumerate(order):
        assert forecast.places.of(queues.registry[waiter.id], 0.0) == (jobs, slots)
        slots += waiter.slots


def test_where_arrays_take_turns_a_place_is_that_in_their_turns():
    queues, rng = Queues(Fcfs()), Random(1)
    for number in range(1, 7):
        array = 1 if number < 4 else 4
        queues.arrived(QueuedJob(JobId(str(number)), array=array, array_index=number), 0.0, rng)
    queues.host_is(HostSlots(HostId("h1"), 2, open_slots=0), 0.0, rng)
    assert queues.lines[ONLY_LINE].in_order_of_arrival() is None
    forecast = Forecast(queues)
    places = [forecast.places.of(queues.registry[JobId(str(n))], 0.0).jobs for n in range(1, 7)]
    assert places == [0, 2, 4, 1, 3, 5]


def test_tasks_that_started_since_the_last_look_are_ahead_of_none():
    """Beside one other array, `9 jobs are ahead of it` was said of one of short tasks."""
    table = Table()
    table.host("h1")
    for number in range(1, 13):
        table.arrive(str(number), array=1 if number < 7 else 7)
    places, registry = Forecast(table.queues).places, table.queues.registry
    last = places.of(registry[JobId("12")], 0.0)
    assert last.jobs > 8
    running = "1"
    while (left := places.of(registry[JobId("12")], 0.5)).jobs > 1:
        (start,) = table.ended(running)
        running = start.partition("@")[0]
        assert places.of(registry[JobId("12")], 0.5).jobs == left.jobs - 1


def test_tasks_that_left_since_the_line_was_played_have_no_begin():
    table = Table()
    table.host("h1")
    for task in "1234":
        table.arrive(task, array=1)
    forecast = known(table)
    played = forecast.played(ONLY_LINE, 0.0)
    table.ended("3")
    found = forecast.plays.next_of_array(played, 1, 0.0)
    assert sorted(found) == ["2", "4"]
    assert 0.0 < found["2"] < found["4"]
