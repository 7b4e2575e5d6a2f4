"""Aligns a daemon's periodic work to common moments, so that one wake-up serves all of it.

Wake-ups are the cost of an idle daemon. All work done once a second is done at the same moment in
this process, and so is work of a period that divides a second; other processes of the host have
other moments, so that they do not all become runnable together.
"""

import asyncio
import random

EARLY_S = 0.005  # a timer may fire this early; it is not set for the same moment again
PHASE_S = random.random()  # of this process


def until_next_s(period_s: float, now_s: float) -> float:
    """Returns the time from `now_s`, by the event loop's clock, to the next of the moments
    `period_s` apart. One period's moments include those of its multiples."""
    passed_s = now_s + EARLY_S - PHASE_S
    return period_s - passed_s % period_s + EARLY_S


async def next_moment(period_s: float) -> None:
    """Sleeps until the next of those moments that is at least half a period away, so that slow work
    leaves time for other work."""
    now_s, rest_s = asyncio.get_running_loop().time(), period_s / 2
    await asyncio.sleep(rest_s + until_next_s(period_s, now_s + rest_s))


class Alarm:
    """An event that is set now, or at the earliest of several times."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.set, self.clear, self.wait = self._event.set, self._event.clear, self._event.wait
        self._timer: asyncio.Handle | None = None
        self._due_s = 0.0  # uvloop's shortest timers have no when()

    def set_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time() + seconds
        if self._timer is None or self._due_s > due_s:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._due_s = loop.call_later(seconds, self._due), due_s

    def _due(self) -> None:
        self._timer = None
        self.set()
