"""The clock for leases, which must also expire while the machine sleeps, and the boot it counts
from; and the time of day as daemons say it."""

import time

BOOT_ID = "/proc/sys/kernel/random/boot_id"
ID_CHARS = 64


def clock_s() -> float:
    """Returns a clock that runs during suspend and cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def time_of_day(unix_s: float) -> str:
    """14:02; with the day if it is another day."""
    then, now = time.localtime(unix_s), time.localtime()
    same_day = then[:3] == now[:3]
    return time.strftime("%H:%M" if same_day else "%a %H:%M", then)


def boot_id() -> str:
    """Returns an id that this machine has until it is booted again. Raises OSError."""
    with open(BOOT_ID, encoding="ascii", errors="replace") as file:
        return file.read(ID_CHARS).strip()
