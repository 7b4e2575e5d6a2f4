"""Reading /proc as cheaply as Python can: open descriptors, bytes.

process_table.py parses what it says about processes.
"""

import os
from collections.abc import Container, Iterable

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
STAT_BYTES = 1024  # more than one task's stat line
# fields of a line of /proc/stat: user, nice, system; and irq, softirq
TASKS = (1, 2, 3)
BUSY = (*TASKS, 6, 7)
STEAL = 8
MACHINE_STAT_BYTES = 1 << 14
RUNNING_BYTES = 512  # of the end of /proc/stat: `procs_running` and what follows it


class HeldFile:
    """A file of /proc that is read repeatedly from the start; closed with its last reader."""

    _fd = -1

    def __init__(self, path: str, size: int) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._size = size

    def read(self) -> bytes:
        data = os.pread(self._fd, self._size, 0)
        if len(data) == self._size:  # it grew: many processors, many interrupts
            self._size *= 2
            return self.read()
        return data

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    __del__ = close


def read_small(path: str, most_bytes: int = STAT_BYTES) -> bytes:
    """Reads the start of a file. Raises OSError if the file is gone."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, most_bytes)
    finally:
        os.close(fd)


def running_and_blocked(stat: bytes) -> tuple[int, int]:
    """Returns `procs_running` and `procs_blocked` of /proc/stat."""
    at = stat.index(b"procs_running ") + 14
    running = int(stat[at : stat.index(b"\n", at)])
    at = stat.index(b"procs_blocked ") + 14
    return running, int(stat[at : stat.index(b"\n", at)])


def busy_ticks(stat: bytes, fields: Iterable[int] = BUSY) -> int:
    """Returns the machine's non-idle ticks, from /proc/stat."""
    words = stat[: stat.index(b"\n")].split()
    return sum(int(words[at]) for at in fields)


def machine_cpu_s() -> float:
    """Returns the CPU seconds that this machine has been busy since boot."""
    return busy_ticks(read_small("/proc/stat")) / TICKS_PER_S


def tasks_cpu_s() -> float:
    """Returns the CPU seconds of all tasks since boot: without interrupts."""
    return busy_ticks(read_small("/proc/stat"), TASKS) / TICKS_PER_S


def ticks_taken(stat: bytes, cpus: Container[int]) -> dict[int, int]:
    """Returns each processor's ticks that were not idle, including those taken by other virtual
    machines (steal). An offline processor is missing."""
    found: dict[int, int] = {}
    for line in stat.partition(b"\nintr ")[0].split(b"\n")[1:]:  # the first line is their sum
        words = line.split()
        if (cpu := int(words[0][3:])) in cpus:
            found[cpu] = sum(int(words[at]) for at in (*BUSY, STEAL))
    return found


def psi_stall_us(pressure: bytes) -> float:
    """Returns `some ... total=` of a pressure file, microseconds since boot."""
    at = pressure.index(b"total=") + 6
    return float(pressure[at : pressure.index(b"\n", at)])
