import asyncio

from lbd.dispatch.core.malleable.decision import Speedups
from lbd.dispatch.speedup_learner import fit_speedups


class Seen(Speedups):
    """Signals that it has been given a fit."""

    __slots__ = ("given",)

    def fitted(self, key, found):
        Speedups.fitted(self, key, found)
        self.given.set()


async def test_ended_jobs_are_fitted_outside_the_event_loop():
    speedups = Seen()
    speedups.given = asyncio.Event()
    for slots in (1, 2, 4, 8):
        speedups.ended("ann", "solve", slots, 80.0 / slots)
    fitting = asyncio.create_task(fit_speedups(speedups, 0.001))
    await asyncio.wait_for(speedups.given.wait(), 60)
    fitting.cancel()
    assert not speedups.of("ann", "solve", 8, 1.0).linear
    assert speedups.to_fit() is None
