"""Fits A and σ to the ended runs, in a thread, as each fit takes some 30 to 120 ms."""

import asyncio
import time

from lbd.dispatch.core.malleable.decision import Speedups
from lbd.process.wake_ups import next_moment
from lbd.theory.speedup_fit import fit

LOOK_S = 0.4
FIT_SHARE = 0.1  # of the time at most: the thread and the event loop share the interpreter


async def fit_speedups(speedups: Speedups, look_s: float = LOOK_S) -> None:
    """Runs until cancelled."""
    while True:
        await next_moment(look_s)
        if (wanted := speedups.to_fit()) is not None:
            command, runs = wanted
            began_s = time.monotonic()
            speedups.fitted(command, await asyncio.to_thread(fit, runs))
            await asyncio.sleep((time.monotonic() - began_s) / FIT_SHARE)
