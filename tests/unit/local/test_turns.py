"""Who waits for whom where a few at a time get a turn."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from lbd.local.turns import Turns


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


class Holders:
    """Takes turns as it is told to, and records who has one, by key and number."""

    def __init__(self, turns):
        self.turns = turns
        self.have = []
        self._ends, self._tasks = {}, {}

    async def ask(self, *names):
        for name in names:
            self._ends[name] = asyncio.Event()
            self._tasks[name] = asyncio.create_task(self._hold(name))
        await settle()

    async def _hold(self, name):
        async with self.turns.turn(name[0]):
            self.have.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.have.remove(name)

    async def end(self, *names):
        for name in names:
            self._ends[name].set()
        await settle()

    async def cancel(self, name):
        self._tasks[name].cancel()
        await settle()

    async def end_all(self):
        await self.end(*self._ends)
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        assert len(self.turns) == 0


@pytest.fixture
async def holders():
    async with AsyncExitStack() as stack:

        def made(*limits):
            one = Holders(Turns(*limits))
            stack.push_async_callback(one.end_all)
            return one

        yield made


async def test_further_requests_of_a_key_wait_and_delay_no_other(holders):
    one = holders(2)
    await one.ask("a1", "a2", "a3", "a4", "b1")
    assert one.have == ["a1", "a2", "b1"]
    await one.end("a2")
    assert one.have == ["a1", "b1", "a3"]


async def test_a_key_without_a_turn_gets_one_however_many_others_hold(holders):
    """Eight hosts held all reading turns, half a minute each, and no other host was heard."""
    one = holders(4, 3)
    await one.ask(*(f"{key}{n}" for key in "ab" for n in range(4)))
    assert one.have == ["a0", "a1", "a2", "a3", "b0"]
    await one.ask("c0", "c1")
    assert one.have[-1] == "c0"
    await one.end("c0")
    assert one.have[-1] == "c1"


async def test_shared_turns_go_round(holders):
    one = holders(3, 2)
    await one.ask("a0", "a1", "a2", "b0", "b1", "b2", "c0", "c1")
    assert one.have == ["a0", "a1", "a2", "b0", "c0"]
    await one.end("a1", "a2")
    assert one.have[-2:] == ["b1", "c1"]
    await one.end("b1")
    assert one.have[-1] == "b2"


async def test_a_waiter_that_is_cancelled_takes_nothing(holders):
    one = holders(1)
    await one.ask("a0", "a1", "a2")
    await one.cancel("a1")
    await one.end("a0")
    assert one.have == ["a2"]


async def test_a_waiter_that_is_cancelled_as_its_turn_comes_gives_it_back(holders):
    one = holders(1)
    await one.ask("a0", "a1", "a2")
    one._ends["a0"].set()
    await asyncio.sleep(0)
    assert one.have == []
    await one.cancel("a1")
    assert one.have == ["a2"]


async def test_a_waiter_that_is_cancelled_just_before_a_turn_is_free_hides_no_other(holders):
    one = holders(1)
    await one.ask("a0", "a1", "a2")
    one._tasks["a1"].cancel()
    one._tasks["a0"].cancel()
    await settle()
    assert one.have == ["a2"]


async def test_behind_a_cancelled_waiter_nobody_waits_for_a_free_turn(holders):
    """It waited until another key's turn ended, and so for ever if there was no other."""
    one = holders(1)
    await one.ask("a0", "a1")
    one._ends["a0"].set()
    one._ends["a2"] = asyncio.Event()
    one._tasks["a2"] = asyncio.create_task(one._hold("a2"))
    one._tasks["a1"].cancel()
    await settle()
    assert one.have == ["a2"]
