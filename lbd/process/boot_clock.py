"""The clock for leases, which must also expire while the machine sleeps, and the boot it counts
from; and the time of day as daemons say it."""

import time
from collections.abc import Callable
from functools import partial

BOOT_ID = "/proc/sys/kernel/random/boot_id"
ID_CHARS = 64


# A clock that runs during suspend and cannot be set. It is read a dozen times for each command: a
# function around it would take as long again.
clock_s: Callable[[], float] = partial(time.clock_gettime, time.CLOCK_BOOTTIME)


def time_of_day(unix_s: float) -> str:
    """14:02; with the day if it is another day."""
    then, now = time.localtime(unix_s), time.localtime()
    same_day = then[:3] == now[:3]
    return time.strftime("%H:%M" if same_day else "%a %H:%M", then)


def boot_id() -> str:
    """Returns an id that this machine has until it is booted again. Raises OSError."""
    with open(BOOT_ID, encoding="ascii", errors="replace") as file:
        return file.read(ID_CHARS).strip()
