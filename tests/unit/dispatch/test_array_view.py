"""When an array ends, as the dispatcher reports it."""

import asyncio
import time
from types import SimpleNamespace

import pytest

from lbd.dispatch import array_view
from lbd.dispatch.array_view import task_of
from lbd.dispatch.core.outlook import places
from lbd.dispatch.core.outlook.places import Places
from lbd.model import JobId
from tests.unit.dispatch.services import asking
from tests.unit.dispatch.test_arrays import begun, ended

WHO = {"user": "ann", "uid": 1001}
ARRAY = {"is_array": True, "first_index": 1, "count": 5}


async def test_when_an_array_ends_is_foreseen_before_it_begins_and_while_it_runs(world):
    run_times = world.dispatcher.life.queues.run_times
    world.host("h1", 2)
    first = (await world.submit(asking(**ARRAY))).first
    (waits,) = (await world.jobs(selectors=[f"{first}"], by_array=True, **WHO)).jobs
    assert not waits.array.HasField("expected_end")
    assert waits.array.expected_by.startswith("not known yet: 0 of the 5 jobs needed have ended")

    task = world.dispatcher.life.jobs[JobId(str(first))].job
    for _ in range(20):
        run_times.ended(task, 600.0)
    world.desk._job_views.forecast.forget()
    (found,) = (await world.jobs(selectors=[f"{first}"], by_array=True, **WHO)).jobs
    assert found.array.expected_end - time.time() == pytest.approx(1800.0, abs=30)
    assert not found.array.HasField("expected_low")  # of fewer than twenty ended jobs
    assert found.array.expected_by == "by ended runs of the same commands"
    assert found.array.comparable == 0
    assert not found.array.takes_turns
    (unexplained,) = (
        await world.jobs(selectors=[f"{first}"], by_array=True, unexplained=True, **WHO)
    ).jobs
    assert not unexplained.array.expected_by
    which = {"selectors": [f"{first}"], "by_array": True, "unforetold": True, **WHO}
    world.desk._job_views.forecast.forget()
    (unforetold,) = (await world.jobs(**which)).jobs
    assert not unforetold.array.expected_by
    assert unforetold.reason == found.reason != ""
    look = world.desk._job_views.forecast.places._last
    assert not look.places, "nor is it looked at what is ahead of each"

    behind = (await world.submit(asking(**ARRAY))).first
    (found,) = (await world.jobs(selectors=[f"{behind}"], by_array=True, **WHO)).jobs
    assert found.predicted_wait_s == pytest.approx(600.0, abs=30)
    assert found.array.takes_turns
    assert found.array.expected_end - time.time() == pytest.approx(3000.0, abs=30)


async def test_the_end_is_foreseen_while_the_next_task_ends_as_it_is_read(world, monkeypatch):
    """Where its first waiting task had ended since the ledger was read, nothing was known of it."""
    first = (await world.submit(asking(**ARRAY))).first
    task = world.dispatcher.life.jobs[JobId(f"{first}")].job
    for _ in range(20):
        world.dispatcher.life.queues.run_times.ended(task, 600.0)
    world.host("h1", 2)
    monkeypatch.setattr(array_view, "next_waiting", lambda tally: first - 1)
    (found,) = (await world.jobs(selectors=[f"{first}"], by_array=True, **WHO)).jobs
    assert found.array.HasField("expected_end")
    assert "ahead" not in found.reason, "it is the last of its tasks that others of it are ahead of"


async def test_a_look_at_very_many_waiting_tasks_lets_hosts_be_heard(world, monkeypatch):
    """One `lbctl job` held the loop for seconds, for as many tasks as one user may have."""
    monkeypatch.setattr(places, "PIECE_JOBS", 10)
    monkeypatch.setattr(places, "FEW", 10)
    world.host("h1", 1)
    for _ in range(2):
        first = (await world.submit(asking(**ARRAY | {"count": 60}))).first
    found, pieces = world.desk._job_views.forecast.places, []
    real = Places.look

    def look(self, now_s):
        asyncio.get_running_loop().call_soon(pieces.append, len(found._next.places))
        return real(self, now_s)

    monkeypatch.setattr(Places, "look", look)
    (job,) = (await world.jobs(selectors=[f"{first + 59}"], by_number=True, **WHO)).jobs
    assert "118 jobs are ahead of it" in job.reason
    assert pieces[:11] == [0, *range(10, 110, 10)], "others are heard between any two"


async def test_the_end_is_foreseen_while_the_last_index_has_ended_and_others_run(world):
    """Of 6 tasks of which the second took longest, `about 2 s, at the rate so far` was said for
    half a minute."""
    first = (await world.submit(asking(**ARRAY | {"count": 2}))).first
    life = world.dispatcher.life
    task = life.jobs[JobId(f"{first}")].job
    for _ in range(20):
        life.queues.run_times.ended(task, 600.0)
    world.host("h1", 2)
    await begun(world, f"{first}", f"{first + 1}")
    await ended(world, f"{first + 1}", 0)
    (found,) = (await world.jobs(selectors=[f"{first}"], by_array=True, **WHO)).jobs
    assert found.array.tasks["done"] == 1
    assert found.array.expected_end - time.time() == pytest.approx(600.0, abs=30)


def test_a_task_that_has_ended_while_a_list_was_made_speaks_for_no_array():
    """A list of arrays failed as a whole where one did."""
    live = SimpleNamespace(job=SimpleNamespace(id="5", array=3))
    row, tally, running = SimpleNamespace(id=3, first=3), SimpleNamespace(waiting=()), {3: live}
    life = SimpleNamespace(jobs={"5": live}, leased={})
    assert task_of(row, tally, life, running) is live
    del life.jobs["5"]
    assert task_of(row, tally, life, running) is None
