"""Aligns a daemon's periodic work to common moments, so that one wake-up serves all of it.

Wake-ups are the cost of an idle daemon. All work done once a second is done at the same moment in
this process; other processes of the host have other moments, so that they do not all become
runnable together.
"""

import random

EARLY_S = 0.005  # a timer may fire this early; it is not set for the same moment again
PHASE = random.random()  # this process's offset within each period


def until_next_s(period_s: float, now_s: float) -> float:
    """Returns the time from `now_s`, by the event loop's clock, to the next of the moments
    `period_s` apart."""
    passed_s = now_s + EARLY_S - PHASE * period_s
    return period_s - passed_s % period_s + EARLY_S
