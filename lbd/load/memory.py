"""How much memory the host has, and how much of it new programs can get.

In a container or another cgroup with its own limit, the limit counts as the total. `available` is
the kernel's MemAvailable: what can be had without swapping, so caches count as free.
"""

from pathlib import Path
from typing import NamedTuple

from lbd.load import cgroup
from lbd.load.procfs import HeldFile

MEMINFO = "/proc/meminfo"
MEMINFO_BYTES = 4096
FIELDS = (b"MemTotal:", b"MemAvailable:")


class Memory(NamedTuple):
    """Bytes; 0: unknown."""

    total: int = 0
    available: int = 0


class MemoryReader:
    def __init__(self, path: str = MEMINFO, group: Path | None = None) -> None:
        """`group`: the directory of a cgroup that may have a limit."""
        self._group = group
        self._file: HeldFile | None = None
        try:
            self._file = HeldFile(path, MEMINFO_BYTES)
        except OSError:
            return

    def read(self) -> Memory:
        if self._file is None:
            return Memory()
        try:
            host = of_meminfo(self._file.read())
        except (OSError, ValueError):
            return Memory()
        return host if self._group is None else within(host, self._group)


def of_meminfo(data: bytes) -> Memory:
    """Raises ValueError for other texts."""
    found = []
    for field in FIELDS:
        at = data.index(field) + len(field)
        found.append(int(data[at : data.index(b"\n", at)].split()[0]) << 10)
    return Memory(found[0], min(found[0], found[1]))


def within(host: Memory, group: Path) -> Memory:
    """Limits the host's memory to what a cgroup of version 2 may use."""
    limit, used = cgroup.read(group / "memory.max"), cgroup.read(group / "memory.current")
    if not (limit.strip().isdigit() and used.strip().isdigit()) or int(limit) >= host.total:
        return host
    total = int(limit)
    return Memory(total, max(0, min(host.available, total - int(used))))


PRESSURE = "/proc/pressure/memory"
PRESSURE_BYTES = 256


class PressureReader:
    """The memory pressure of the host, or of its cgroup; 0 where the kernel does not measure it."""

    def __init__(self, path: str = PRESSURE, group: Path | None = None) -> None:
        self._file: HeldFile | None = None
        for name in ([str(group / "memory.pressure")] if group is not None else []) + [path]:
            try:
                self._file = HeldFile(name, PRESSURE_BYTES)
                self._file.read()
                return
            except OSError:
                self._file = None

    def read(self) -> float:
        """Returns the percentage of the last ten seconds in which no task ran for lack of
        memory."""
        try:
            return of_pressure(self._file.read()) if self._file is not None else 0.0
        except (OSError, ValueError):
            return 0.0


def of_pressure(data: bytes) -> float:
    """Raises ValueError for other texts."""
    at = data.index(b"full avg10=") + len(b"full avg10=")
    return float(data[at:].split(b" ", 1)[0])


def own_pressure(own_group: bool) -> PressureReader:
    group = cgroup.own_group("memory") if own_group else None
    return PressureReader(group=group.own if group is not None else None)


def own_memory(own_group: bool) -> MemoryReader:
    group = cgroup.own_group("memory") if own_group else None
    return MemoryReader(group=group.own if group is not None else None)
