"""When an array ends, as the dispatcher reports it."""

import time

import pytest

from lbd.dispatch import job_view
from lbd.model import JobId
from tests.unit.dispatch.services import asking, opened

WHO = {"user": "ann", "uid": 1001}
ARRAY = {"is_array": True, "first_index": 1, "count": 5}


@pytest.fixture
async def world(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as world:
        yield world


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
    monkeypatch.setattr(job_view, "next_waiting", lambda tally: first - 1)
    (found,) = (await world.jobs(selectors=[f"{first}"], by_array=True, **WHO)).jobs
    assert found.array.HasField("expected_end")
