"""Timing side by side on a machine that others use too, with a measure of their disturbance.

The cases of a comparison are measured in turns within the same seconds, in a new random order each
round, and the ratio is that of the medians. `Others` measures the CPU that other processes took
meanwhile.
"""

import contextlib
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

WARM_UP_ROUNDS = 3
QUIET_CORE_SHARE = 0.12  # quiet: others take less than this of a core
NOISY_CORE_SHARE = 0.25
PEEK_S = 0.3
AUTOGROUP_FAVOUR = -15

# As a login gives it: no pyenv shims on the way, byte code allowed.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": os.path.expanduser("~"),
    "LANG": "C.UTF-8",
    "USER": os.environ.get("USER", "root"),
    "LOGNAME": os.environ.get("LOGNAME", "root"),
}
DEVNULL = (
    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
    (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
)


class CannotMeasureError(Exception):
    """One line that says why this figure, or this rival, is not available here."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of samples; `low` is the tenth percentile, steadier on a busy machine."""

    median: float
    p95: float
    low: float
    runs: int


def summarise(samples: list[float]) -> Summary:
    ordered = sorted(samples)
    return Summary(
        statistics.median(ordered), quantile(ordered, 0.95), quantile(ordered, 0.10), len(ordered)
    )


def quantile(ordered: list[float], share: float) -> float:
    place = (len(ordered) - 1) * share
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def run_s(argv: list[str], environment: dict[str, str]) -> float:
    """Seconds from spawning `argv` to having its status, stdin and stdout at /dev/null."""
    began_s = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, environment, file_actions=DEVNULL)
    _, status = os.waitpid(pid, 0)
    elapsed_s = time.perf_counter() - began_s
    if status:
        raise CannotMeasureError(f"{' '.join(argv)} ended with wait status {status}")
    return elapsed_s


def in_turns(
    cases: dict[str, Callable[[], float]], rounds: int, rng: random.Random, warm_up: int
) -> dict[str, list[float]]:
    """`rounds` samples of each case; each round takes every case once, in a new random order."""
    samples: dict[str, list[float]] = {name: [] for name in cases}
    order = list(cases)
    for turn in range(-warm_up, rounds):
        rng.shuffle(order)
        for name in order:
            sample = cases[name]()
            if turn >= 0:
                samples[name].append(sample)
    return samples


# -- other processes -----------------------------------------------------------------------------


class Others:
    """CPU taken by all processes but ours: the machine's busy time less our own cgroup's."""

    def __init__(self) -> None:
        self._group: Path | None = None
        self._usage: Path | None = None
        self._home: Path | None = None
        for point, file in (
            ("cpuacct", "cpuacct.usage"),
            ("unified", "cpu.stat"),
            ("", "cpu.stat"),
        ):
            if self._join(Path("/sys/fs/cgroup", point), file):
                break

    def _join(self, home: Path, file: str) -> bool:
        group = home / f"lbd-bench-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            return False
        try:
            (group / file).read_text()
            (group / "cgroup.procs").write_text(str(os.getpid()))
        except OSError:
            group.rmdir()
            return False
        self._home, self._group, self._usage = home, group, group / file
        return True

    def leave(self) -> None:
        """Returns to the parent cgroup; removes ours once it is empty."""
        if self._group is None or self._home is None:
            return
        with contextlib.suppress(OSError):
            (self._home / "cgroup.procs").write_text(str(os.getpid()))
        for _ in range(50):
            try:
                self._group.rmdir()
                return
            except OSError:
                time.sleep(0.02)

    def mark(self) -> tuple[float, float] | None:
        """(now, CPU seconds of the others so far); None if our own CPU is not accounted for."""
        if self._usage is None:
            return None
        ticks = [int(text) for text in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        busy_s = sum(ticks[i] for i in (0, 1, 2, 5, 6, 7)) / os.sysconf("SC_CLK_TCK")
        text = self._usage.read_text().split()
        ours_s = int(text[0]) / 1e9 if len(text) == 1 else int(text[1]) / 1e6
        return time.monotonic(), busy_s - ours_s

    def share_since(self, mark: tuple[float, float] | None) -> float | None:
        """The others' share of one core since `mark`."""
        now = self.mark()
        if mark is None or now is None or now[0] - mark[0] < 0.05:
            return None
        return max(0.0, (now[1] - mark[1]) / (now[0] - mark[0]))

    def wait_until_quiet(self, at_most_s: float) -> None:
        deadline_s = time.monotonic() + at_most_s
        while time.monotonic() < deadline_s:
            mark = self.mark()
            time.sleep(PEEK_S)
            share = self.share_since(mark)
            if share is None or share < QUIET_CORE_SHARE:
                return


def own_session() -> None:
    """Where the kernel shares CPU time by session, our session and the rivals' must weigh the
    same."""
    with contextlib.suppress(OSError):
        os.setsid()
    favour(os.getpid())


def favour(pid: int) -> None:
    """Gives the session of `pid` weight against other processes; both sides of a comparison get it.

    Needs root and a kernel with autogroups; without either nothing happens.
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(AUTOGROUP_FAVOUR))


def above_others() -> None:
    """Real-time priority for us and all we start, rivals too. Raises CannotMeasureError."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError as problem:
        raise CannotMeasureError(f"real-time priority: {problem.strerror}") from None


# -- processes -----------------------------------------------------------------------------------


def descendants(pid: int) -> list[int]:
    """`pid` and all its descendants."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b") ")[2].split()
                parents[int(name)] = int(fields[1])
    found = [pid] if pid in parents else []
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def cpu_s(pid: int) -> float:
    """CPU seconds of all its threads that live now, to the nanosecond; 0 if it is gone."""
    total_ns = 0
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            total_ns += int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])
    return total_ns / 1e9


def pss_mib(pid: int) -> float:
    """Its own memory and its share of common pages; 0 if it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def wait_for(condition: Callable[[], object], timeout_s: float, what: str) -> None:
    deadline_s = time.monotonic() + timeout_s
    while True:
        with contextlib.suppress(Exception):  # any exception means "not yet"
            if condition():
                return
        if time.monotonic() > deadline_s:
            raise CannotMeasureError(f"{what}: not within {timeout_s:g} s")
        time.sleep(0.05)


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)
