"""Reads the kernel's queues many times a second and makes one smoothed reading of each second.

The times are jittered: otherwise tasks that wake on the same clock ticks as we do would always be
seen, or never. A scan that costs more than its share of a core runs less often. Where a reading is
that of one file, a thread can take them.
"""

import contextlib
import os
import random
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lbd.config.schema import LoadConfig
from lbd.load import cgroup, index, procfs, scopes
from lbd.load.memory import Memory, own_memory
from lbd.load.reading_thread import ReadingThread
from lbd.load.speed import known_speed
from lbd.model import Queues

JITTER = 0.2  # of the interval, either way
COST_WEIGHT = 0.1  # of the newest scan in the mean cost
PRESSURE = "/proc/pressure/memory"


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of one second."""

    queues: Queues  # smoothed
    utilisation: float  # of the usable cores in that second, 0..1
    smoothed_utilisation: float
    memory: Memory


class Sampler:
    """Call `read` every `interval_s()` seconds; once a second it returns a Reading. Or call it once
    a second, as long as it `reads_itself`."""

    def __init__(self, config: LoadConfig, cores: float, scope: scopes.Scope, now_s: float) -> None:
        self.config = config
        self.cores = cores
        self.scope = scope
        self.readings = 0
        self.cost_s = 0.0  # CPU time of one reading, smoothed
        self._window_began_s = now_s
        self._seen = [0, 0, 0]  # readings, running, blocked: sums over this window
        self._smoothed: tuple[Queues, float] | None = None  # and the utilisation
        self.memory = MemoryQueue(scope.scans)
        self._used_s = scope.cpu_used_s()
        self._machine = MachineCpu()
        self._thread: ReadingThread | None = None

    def start(self) -> None:
        """Takes the readings in a thread from now on, where scope and host allow it."""
        if isinstance(self.scope, scopes.HostScope):
            thread = ReadingThread(self.scope.look, self.interval_s)
            with contextlib.suppress(RuntimeError):
                thread.start()
                self._thread = thread

    def end(self) -> None:
        if self._thread is not None:
            self._thread.end()

    @property
    def reads_itself(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def interval_s(self, jitter: bool = True) -> float:
        """Returns the time to the next reading: in host scope 1 / sample_hz, jitter aside."""
        even_s = 1.0 / self.config.sample_hz
        if self.scope.scans:
            share = self.config.scan_core_share
            even_s = index.scan_interval_s(self.cost_s, share, self.config.sample_hz)
        return even_s * (1 + JITTER * (2 * random.random() - 1)) if jitter else even_s

    def read(self, now_s: float) -> Reading | None:
        """Takes the readings; returns the smoothed result once a second has passed, else None."""
        for counts in self._taken() or [self._read_now()]:
            self.readings += 1
            self._seen[0] += 1
            self._seen[1] += counts.running
            self._seen[2] += counts.blocked
        elapsed_s = now_s - self._window_began_s
        # of a thread's readings, those of any time are enough: the caller's timer is not exact
        least_s = index.HALF_A_WINDOW_S if self.reads_itself else index.WINDOW_S
        return self._close_window(now_s, elapsed_s) if elapsed_s >= least_s else None

    def _taken(self) -> list[scopes.Counts]:
        """Returns the thread's readings since the last call."""
        if self._thread is None or not isinstance(self.scope, scopes.HostScope):
            return []
        return [self.scope.counts(looked) for looked in self._thread.take()]

    def _read_now(self) -> scopes.Counts:
        began = time.thread_time()
        counts = self.scope.read()
        cost_s = time.thread_time() - began
        self.cost_s += (COST_WEIGHT if self.readings else 1.0) * (cost_s - self.cost_s)
        return counts

    def _close_window(self, now_s: float, elapsed_s: float) -> Reading:
        readings, running, blocked = self._seen
        self._seen = [0, 0, 0]
        self._window_began_s = now_s
        mean = Queues(running / readings, blocked / readings, self.memory.read(elapsed_s))
        busy = self._utilisation(elapsed_s)
        smoothing_s = index.smoothing_s(self.config)
        queues, smooth_busy = mean, busy
        if self._smoothed is not None:
            queues = index.smoothed_queues(self._smoothed[0], mean, elapsed_s, smoothing_s)
            smooth_busy = index.smoothed(self._smoothed[1], busy, elapsed_s, smoothing_s)
        self._smoothed = queues, smooth_busy
        return Reading(queues, busy, smooth_busy, self.memory.bytes.read())

    def _utilisation(self, elapsed_s: float) -> float:
        used_s = self.scope.cpu_used_s()
        if used_s is None or self._used_s is None:
            return self._machine.read(elapsed_s)
        share = (used_s - self._used_s) / elapsed_s / self.cores
        self._used_s = used_s
        return min(1.0, max(0.0, share))


class MemoryQueue:
    """Tasks held up by a lack of memory: PSI's stall time, else pages swapped in."""

    def __init__(self, own_group: bool) -> None:
        self.bytes = own_memory(own_group)
        group = cgroup.own_group("memory") if own_group else None
        self._file: procfs.HeldFile | None = None
        paths = [str(group.own / "memory.pressure")] if group is not None else []
        for path in [*paths, PRESSURE]:
            try:
                self._file = procfs.HeldFile(path, procfs.STAT_BYTES)
            except OSError:
                continue
            try:
                self._before = procfs.psi_stall_us(self._file.read())
                return
            except (OSError, ValueError):
                self._file.close()
        self._file = None
        self._before = pages_in()

    def read(self, dt_s: float) -> float:
        """Returns the mean number of tasks over the `dt_s` since the last call."""
        now = pages_in() if self._file is None else procfs.psi_stall_us(self._file.read())
        grown, self._before = now - self._before, now
        if self._file is None:
            return index.paging_tasks(grown, dt_s)
        return index.stalled_tasks(grown, dt_s)


def pages_in() -> float:
    """Returns the pages read from swap since boot."""
    import psutil

    return psutil.swap_memory().sin / os.sysconf("SC_PAGESIZE")


class MachineCpu:
    """The utilisation of the processors that this process may use."""

    def __init__(self, path: str = "/proc/stat") -> None:
        self._file = procfs.HeldFile(path, procfs.MACHINE_STAT_BYTES)
        self._before = self._look()

    def _look(self) -> dict[int, int]:
        return procfs.ticks_taken(self._file.read(), os.sched_getaffinity(0))

    def read(self, dt_s: float) -> float:
        """Returns the share of these processors that was busy in the `dt_s` since the last call,
        0..1."""
        now, before = self._look(), self._before
        self._before = now
        grown = sum(ticks - before.get(cpu, ticks) for cpu, ticks in now.items())
        share = grown / procfs.TICKS_PER_S / dt_s / max(1, len(now))
        return min(1.0, max(0.0, share))


def machine() -> dict[str, float]:
    """Returns what `lbctl doctor` shows besides the queues."""
    import psutil  # 0.6 MiB, and rarely needed

    memory = psutil.virtual_memory()
    return {
        "memory_available_bytes": memory.available,
        "memory_total_bytes": memory.total,
        "load_average_1m": os.getloadavg()[0],
    }


def descriptor_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def usable_cores(configured: float) -> float:
    return configured if configured > 0 else cgroup.usable_cores()


def core_speed(configured: float, state_dir: Path) -> float:
    """Returns the configured speed, else the one measured once. Raises OSError if it cannot be
    saved."""
    return configured if configured > 0 else known_speed(state_dir)


def make_sampler(
    config: LoadConfig, cores: float, own_pids: Callable[[], set[int]], now_s: float
) -> Sampler:
    return Sampler(config, cores, scopes.choose(config.scope, own_pids), now_s)
