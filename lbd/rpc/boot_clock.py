"""The clock of leases: they run out while the machine sleeps, too."""

import time


def clock_s() -> float:
    """Goes on while the machine sleeps; nobody sets it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
