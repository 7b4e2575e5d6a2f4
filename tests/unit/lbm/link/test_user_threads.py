"""A host without a thread to spare: any user can have all of its processes for a while."""

import asyncio
import os
import select
import threading

import pytest

from lbd.lbm.link.user_threads import THREADS_MAX, Threads, Watch
from lbd.local import unwanted_descriptors
from lbd.local.unwanted_descriptors import Unwanted, close_apart

WITHIN_S = 10


class Shortage:
    """While it lasts, no thread starts."""

    def __init__(self, monkeypatch):
        self.lasts, start = True, threading.Thread.start

        def begin(thread):
            if self.lasts:
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", begin)


@pytest.fixture
def shortage(monkeypatch):
    return Shortage(monkeypatch)


def a_descriptor():
    """Returns the end of a pipe to write to, and whether it has been closed."""
    reader, writer = os.pipe()

    async def is_closed():
        return await asyncio.to_thread(os.read, reader, 1) == b""

    return writer, is_closed


async def test_what_needs_a_thread_waits_for_one(shortage):
    """A refusal then failed as the command's descriptors were to be closed, so that its client
    heard nothing for ten seconds, and then that the command might have run."""
    threads = Threads()
    writer, is_closed = a_descriptor()
    threads.close(writer)
    calls = [asyncio.create_task(threads.run(lambda: "done")) for _ in range(2 * THREADS_MAX)]
    await asyncio.sleep(0)
    assert not any(call.done() for call in calls)
    shortage.lasts = False
    async with asyncio.timeout(WITHIN_S):
        assert await asyncio.gather(*calls) == ["done"] * len(calls)
        assert await is_closed()
    assert not threads.are_stuck


async def test_what_is_to_be_polled_is_refused_and_later_ones_are_polled(shortage):
    """Nothing of that user was polled any more, for as long as anybody knew of its threads."""
    watch, loop, seen = Watch(), asyncio.get_running_loop(), asyncio.Event()
    reader, writer = os.pipe()
    with pytest.raises(BlockingIOError):
        watch.add(reader, select.POLLIN, seen.set, loop)
    assert not watch.is_busy
    shortage.lasts = False
    watch.add(reader, select.POLLIN, seen.set, loop)
    os.write(writer, b"x")
    async with asyncio.timeout(WITHIN_S):
        await seen.wait()
    os.close(reader)
    os.close(writer)


async def test_what_a_user_sent_unasked_is_closed_with_what_comes_later(shortage):
    unwanted = Unwanted()
    first, later = a_descriptor(), a_descriptor()
    unwanted.close(1000, [first[0]])
    shortage.lasts = False
    unwanted.close(1000, [later[0]])
    async with asyncio.timeout(WITHIN_S):
        assert await first[1]()
        assert await later[1]()


async def test_a_keeper_that_can_start_no_thread_goes_on(shortage):
    """It ended, and all commands with it, if its LBM was replaced just then."""
    first, later = a_descriptor(), a_descriptor()
    close_apart([first[0]])
    assert list(unwanted_descriptors.UNCLOSED) == [first[0]]
    shortage.lasts = False
    close_apart([later[0]])
    async with asyncio.timeout(WITHIN_S):
        assert await first[1]()
        assert await later[1]()
