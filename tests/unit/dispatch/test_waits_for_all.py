"""A client that waits until all of its jobs have ended costs no more than those in the queue."""

import asyncio
import contextlib

import pytest

from lbd.dispatch import watching as watching_module
from lbd.dispatch.core.job_selection import LARGEST
from lbd.local import steps
from lbd.net.gen import dispatch_pb2 as pb
from tests.unit.dispatch.services import asking
from tests.unit.dispatch.test_watching import Context, QueueContext, until
from tests.unit.turns import others_turns


async def test_who_waits_for_all_to_end_is_sent_nothing_and_no_task_is_looked_up(
    world, monkeypatch
):
    """`lbctl wait` of an array listed all its tasks twice, and was sent each that ended."""
    for _ in range(4):
        await world.submit(asking())
    await world.act(user="ann", verb="kill", selectors=["1"])
    monkeypatch.setattr(world.ledger, "find", None)
    context = Context()
    asked = pb.JobsAsked(user="ann", selectors=["2-3", "1-2"], by_number=True, all_ended=True)
    watching = asyncio.create_task(world.desk._watch(asked.SerializeToString(), context))
    async with asyncio.timeout(10):
        await until(lambda: len(world.dispatcher.watchers))
        (watcher,) = set().union(*world.dispatcher.watchers._by_place.values())
        await until(lambda: watcher.open == 2)
        monkeypatch.undo()
        await world.act(user="ann", verb="kill", selectors=["3"])
        await until(lambda: watcher.open == 1)
        assert not watching.done()
        await world.act(user="ann", verb="kill", selectors=["2"])
        await watching
    assert context.sent.empty()
    assert not len(world.dispatcher.watchers)


async def test_what_is_not_in_the_queue_costs_nothing_while_the_rest_is_waited_for(
    world, monkeypatch
):
    """Each number of a job that never was took 400 bytes, and its watcher was looked at when a job
    near it ended: four million took the dispatcher 1.6 GiB."""
    monkeypatch.setattr(steps, "STEP_S", 0.0)
    await world.submit(asking())
    await world.submit(asking())
    await world.act(user="ann", verb="kill", selectors=["2"])
    context = Context()
    numbers = [str(n * watching_module.BLOCK) for n in range(1, 1000)]
    asked = pb.JobsAsked(user="ann", selectors=["1-2", *numbers], by_number=True, all_ended=True)
    watching = asyncio.create_task(world.desk._watch(asked.SerializeToString(), context))
    async with asyncio.timeout(20):
        with others_turns() as turns:
            await until(lambda: len(world.dispatcher.watchers))
        (watcher,) = set().union(*world.dispatcher.watchers._by_place.values())
        assert list(watcher.ids) == [1]
        assert len(world.dispatcher.watchers) == 1
        assert world.desk._watching._of_user.held == world.desk._watching._of_host.held == 1
        assert turns() >= len(numbers) // watching_module.PIECE_JOBS
        await world.act(user="ann", verb="kill", selectors=["1"])
        await watching
        asked = pb.JobsAsked(user="ann", selectors=numbers, by_number=True, all_ended=True)
        await world.desk._watch(asked.SerializeToString(), context)
    assert context.sent.empty()
    assert not len(world.dispatcher.watchers)


async def test_a_job_that_ends_while_the_others_are_looked_up_is_not_waited_for(world):
    for _ in range(2):
        await world.submit(asking())
    watched, turned = world.desk._watching, asyncio.Event()
    in_turns = watching_module.in_turns

    async def numbers():
        return [1, 2]

    async def slow(jobs):
        async for job in in_turns(jobs):
            yield job
        if not turned.is_set():
            turned.set()
            await world.act(user="ann", verb="kill", selectors=["1"])

    watching_module.in_turns = slow
    try:
        turn = contextlib.nullcontext
        waiting = asyncio.create_task(watched.until_ended(("h2", "ann"), numbers(), turn))
        async with asyncio.timeout(10):
            await until(lambda: len(world.dispatcher.watchers))
            await world.act(user="ann", verb="kill", selectors=["2"])
            await waiting
    finally:
        watching_module.in_turns = in_turns


async def test_the_numbers_are_not_read_before_it_is_the_callers_turn(world):
    """A hundred requests of 20 bytes each held 100,000 numbers while they waited: 380 MiB."""
    read, go_on = asyncio.Event(), asyncio.Event()

    async def numbers():
        read.set()
        return [7]

    @contextlib.asynccontextmanager
    async def turn():
        await go_on.wait()
        yield

    watched = world.desk._watching
    waiting = asyncio.create_task(watched.until_ended(("h2", "ann"), numbers(), turn))
    given_up = asyncio.create_task(watched.until_ended(("h2", "ann"), numbers(), turn))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not read.is_set()
    given_up.cancel()
    await asyncio.wait((given_up,))
    assert not read.is_set()
    go_on.set()
    async with asyncio.timeout(10):
        await waiting
    assert read.is_set()


@pytest.mark.parametrize(
    ("selectors", "error"),
    [
        (["1-200000"], "more than 100000 jobs"),
        (["5", f"3-{LARGEST}"], "more than 100000 jobs"),
        (["last"], "not a queued job's id"),
    ],
)
async def test_what_is_waited_for_is_bounded(world, selectors, error):
    context = QueueContext()
    asked = pb.JobsAsked(user="ann", selectors=selectors, by_number=True, all_ended=True)
    async with asyncio.timeout(10):
        await world.desk._watch(asked.SerializeToString(), context)
    assert error in context.sent.get_nowait().error
