"""The clock of leases: they run out while the machine sleeps, too."""

import time


def clock_s() -> float:
    """A clock that runs during suspend and cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
