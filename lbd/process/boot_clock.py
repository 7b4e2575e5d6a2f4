"""The clock for leases, which must also expire while the machine sleeps, and the boot it counts
from."""

import time

BOOT_ID = "/proc/sys/kernel/random/boot_id"
ID_CHARS = 64


def clock_s() -> float:
    """Returns a clock that runs during suspend and cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Returns an id that this machine has until it is booted again. Raises OSError."""
    with open(BOOT_ID, encoding="ascii", errors="replace") as file:
        return file.read(ID_CHARS).strip()
