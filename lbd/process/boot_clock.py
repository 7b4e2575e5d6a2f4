"""The clock for leases, which must also expire while the machine sleeps."""

import time


def clock_s() -> float:
    """Returns a clock that runs during suspend and cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
