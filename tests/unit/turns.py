"""Counts the turns that other tasks get on the event loop while something takes long."""

import asyncio
from contextlib import contextmanager


@contextmanager
def others_turns():
    """Yields a function that returns how many turns others have had so far."""
    had = 0

    async def other():
        nonlocal had
        while True:
            had += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(other())
    try:
        yield lambda: had
    finally:
        others.cancel()
