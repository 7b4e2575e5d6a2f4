"""The timer of the daemon's loop."""

import asyncio
import time

import pytest
import uvloop

from lbd.lim.daemon import TIMER_EARLY_S, Loop


def test_no_tick_comes_before_its_time():
    """Otherwise a dozen more would follow until that time."""
    early_s = []

    async def tick_often():
        due_s, enough = time.monotonic(), asyncio.Event()

        def tick():
            nonlocal due_s
            now_s = time.monotonic()
            early_s.append(due_s - now_s)
            due_s = now_s + 0.0073
            if len(early_s) == 40:
                enough.set()
            return due_s - time.monotonic() + TIMER_EARLY_S

        ticking = Loop("ticking", tick, pytest.fail)
        ticking.start()
        await enough.wait()
        ticking.cancel()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(tick_often())
    assert max(early_s) <= 0
