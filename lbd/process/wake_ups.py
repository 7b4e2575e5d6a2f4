"""When what a daemon does again and again is done next: together, in one wake-up.

An idle daemon's cost is that of its wake-ups. What looks at something once a second does so in the
same moment as all else in this process; other processes of the host have other moments, so that not
all become runnable together.
"""

import random

EARLY_S = 0.005  # a timer may fire so much too early; it is not set again for the same moment
PHASE = random.random()  # of each period, of this process


def until_next_s(period_s: float, now_s: float) -> float:
    """From `now_s`, by the event loop's clock, to the next moment of those `period_s` apart."""
    passed_s = now_s + EARLY_S - PHASE * period_s
    return period_s - passed_s % period_s + EARLY_S
