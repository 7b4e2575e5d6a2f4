"""Fits of A and σ to the runs that have ended, made in a thread: each takes some 30 to 120 ms."""

import asyncio

from lbd.dispatch.core.malleable.decision import Speedups
from lbd.theory.speedup_fit import fit

FIT_EVERY_S = 2.0  # one at a time: the thread and the event loop share the interpreter


async def fit_speedups(speedups: Speedups, every_s: float = FIT_EVERY_S) -> None:
    """Runs until cancelled."""
    while True:
        await asyncio.sleep(every_s)
        if (wanted := speedups.to_fit()) is not None:
            command, runs = wanted
            speedups.fitted(command, await asyncio.to_thread(fit, runs))
