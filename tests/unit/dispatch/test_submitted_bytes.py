"""Submissions on their way to the queue: nobody fills the dispatcher's memory with long ones."""

import asyncio

import pytest

from lbd.dispatch import calls
from lbd.dispatch.submissions import Submissions
from lbd.net.gen import dispatch_pb2 as pb
from tests.unit.dispatch.services import asking, opened

LONG = 1 << 20


@pytest.fixture
async def world(tmp_path, monkeypatch):
    """The ledger writes nothing until `go_on`."""
    monkeypatch.setattr(calls, "SUBMITTED_OF_USER", 3 * LONG)
    monkeypatch.setattr(calls, "SUBMITTED_OF_HOST", 6 * LONG)
    monkeypatch.setattr(calls, "SUBMITTED_OF_ALL", 9 * LONG)
    go_on = asyncio.Event()

    async def slow(_submissions, _asked):
        await go_on.wait()
        return pb.SubmitReply(first=1, count=1)

    monkeypatch.setattr(Submissions, "take", slow)
    async with opened(tmp_path / "ledger.sqlite") as world:
        world.go_on = go_on
        yield world
        go_on.set()


def begun(world, user, origin="h2", **fields):
    world.trust.name = origin
    spec = pb.StoredSpec(input=bytes(LONG))
    asked = asking(user=user, origin=origin, spec=spec, **fields)
    return asyncio.create_task(world.submit(asked))


async def under_way(world, *given, count, **fields):
    tasks = []
    for _ in range(count):
        tasks.append(begun(world, *given, **fields))
        for _ in range(10):
            await asyncio.sleep(0)
    return tasks


async def errors(tasks):
    for task in tasks:
        assert task.done()
    return [(await task).error for task in tasks]


async def test_those_of_a_user_of_a_host_and_of_all_are_within_a_budget(world):
    await under_way(world, "ann", count=2)
    assert await errors(await under_way(world, "ann", count=1)) == [
        "ann on h2 has too much on the way to the queue at once: the limit is 3.0M; try again later"
    ]
    await under_way(world, "bob", count=2)
    await under_way(world, "eve", count=1)
    assert await errors(await under_way(world, "eve", count=1)) == [
        "all users of h2 have too much on the way to the queue at once: the limit is 6.0M; try "
        "again later"
    ]
    await under_way(world, "ann", "h3", count=2)
    await under_way(world, "bob", "h3", count=1)
    assert await errors(await under_way(world, "bob", "h4", count=1)) == [
        "all hosts have too much on the way to the queue at once: the limit is 9.0M; try again "
        "later"
    ]


async def test_what_goes_on_when_its_call_has_ended_counts(world):
    """Its call gave back the bytes it had read, and the next one could bring as many again."""
    for task in await under_way(world, "ann", count=2, after=["ok:1"]):
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    (refused,) = await errors(await under_way(world, "ann", count=1))
    assert "too much" in refused


async def test_the_bytes_of_a_queued_submission_are_given_back(world):
    tasks = await under_way(world, "ann", count=2)
    world.go_on.set()
    await asyncio.gather(*tasks)
    assert [(await task).error for task in await under_way(world, "ann", count=2)] == ["", ""]
    assert not world.desk._calls._submitted.held
