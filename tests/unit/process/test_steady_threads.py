"""A pool of threads on a host all of whose processes one user has."""

import asyncio
import threading

import pytest

from lbd.process.steady_threads import SteadyThreads

WITHIN_S = 10


def none_left(_):
    raise RuntimeError("can't start new thread")


async def test_without_a_further_thread_calls_wait_for_those_there_are(monkeypatch):
    """An LBM could not look up whose command it was to run. It said so as an internal error, and
    a queued job failed with that."""
    pool, loop, go_on = SteadyThreads(4), asyncio.get_running_loop(), threading.Event()
    monkeypatch.setattr(threading.Thread, "start", none_left)
    first = loop.run_in_executor(pool, go_on.wait)
    others = [loop.run_in_executor(pool, int, number) for number in range(3)]
    await asyncio.sleep(0.01)
    assert not first.done()
    go_on.set()
    async with asyncio.timeout(WITHIN_S):
        assert await asyncio.gather(*others) == [0, 1, 2]


def test_a_pool_without_any_thread_says_so(monkeypatch):
    monkeypatch.setattr(threading.Thread, "start", none_left)
    with pytest.raises(RuntimeError):
        SteadyThreads(4)
