"""Whose tasks are counted: the machine's, our container's, or our jobs'.

    host       /proc/stat: one read, all runnable tasks and all in disk wait, threads too
    container  every task of our PID namespace; in the machine's own PID namespace, of our cgroup
    jobs       only the process trees of the jobs named by the LBM: for hosts that share a
               machine (a lab)

The last two scan. A process with one thread costs one read; its threads are read one by one only if
there are more. Our own daemons and kernel threads are not counted. What a scan reads no process can
hold up: the kernel shows it also while an exec hangs, unlike /proc/PID/stat.

`auto` selects host in the machine's own PID namespace and container in any other: /proc/stat shows
the whole machine everywhere, and so says nothing about a container.
"""

import functools
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lbd.load import cgroup, process_table, procfs

INITIAL_PID_NAMESPACE = 4026531836  # PROC_PID_INIT_INO, linux/proc_ns.h
KTHREADD = 2  # in that namespace: the parent of all other kernel threads


@dataclass(frozen=True, slots=True)
class Counts:
    """Tasks seen in one reading."""

    running: int
    blocked: int


class Scope(Protocol):
    """One way of counting. `scans`: the cost of a reading grows with the number of processes."""

    name: str
    reason: str
    scans: bool

    def read(self) -> Counts: ...

    def cpu_used_s(self) -> float | None:
        """Returns the CPU seconds used by what is counted; None: use the machine's."""
        ...


class HostScope:
    name = "host"
    scans = False

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self._stat = procfs.HeldFile("/proc/stat", procfs.MACHINE_STAT_BYTES)

    def look(self) -> bytes:
        """Returns what `counts` reads of /proc/stat."""
        return self._stat.read()[-procfs.RUNNING_BYTES :]

    def counts(self, looked: bytes) -> Counts:
        running, blocked = procfs.running_and_blocked(looked)
        return Counts(max(0, running - 1), blocked)  # without the task that was reading: us

    def read(self) -> Counts:
        return self.counts(self.look())

    def cpu_used_s(self) -> float | None:
        return None


@dataclass(slots=True)
class Process:
    """A process in a scan."""

    state: bytes
    parent: int
    threads: int
    cpu_s: float


def look_at(pid: int) -> Process | None:
    """Returns None if it is gone."""
    status, cpu_s = process_table.status_of(pid), process_table.cpu_clock_s(pid)
    if status is None or cpu_s is None:
        return None
    return Process(status.state, status.parent, status.threads, cpu_s)


class Tally:
    """Counts tasks over many processes, and adds up the CPU time they were seen to use."""

    def __init__(self) -> None:
        self.used_s = 0.0
        self._first = True  # CPU time used before the first look does not count
        self._cpu_s: dict[int, float] = {}  # by pid, at the last look

    def count(self, processes: Iterable[tuple[int, Process]]) -> Counts:
        running = blocked = 0
        seen: dict[int, float] = {}
        for pid, process in processes:
            several = process.threads > 1
            for state in process_table.thread_states(pid) if several else (process.state,):
                running += state == b"R"
                blocked += state == b"D"
            self.used_s += self._grown_s(pid, process)
            seen[pid] = process.cpu_s
        self._cpu_s = seen
        self._first = False
        return Counts(running, blocked)

    def _grown_s(self, pid: int, process: Process) -> float:
        """Returns the CPU time a process used since the last look; all of it if it is new."""
        before_s = self._cpu_s.get(pid)
        if before_s is not None and before_s <= process.cpu_s:
            return process.cpu_s - before_s
        return 0.0 if self._first else process.cpu_s


class ContainerScope:
    name = "container"
    scans = True

    def __init__(self, reason: str, own_pids: Callable[[], set[int]]) -> None:
        self.reason = reason
        self._own_pids = own_pids
        self._tally = Tally()
        self._cpu_group = cgroup.own_group("cpuacct")
        self._kernel_threads: set[int] = set()
        self._is_machine = in_initial_pid_namespace()
        # In the machine's own PID namespace the container is our cgroup, if we have one.
        group = cgroup.own_group("pids") if self._is_machine else None
        self._members_of = group.own if group is not None else None

    def read(self) -> Counts:
        return self._tally.count(self._processes())

    def _processes(self) -> Iterable[tuple[int, Process]]:
        group = self._members_of
        pids = process_table.pids() if group is None else cgroup.members(group)
        skipped = self._own_pids() | self._kernel_threads
        for pid in pids:
            if pid in skipped:
                continue
            process = look_at(pid)
            if process is None:
                continue
            if self._is_machine and KTHREADD in (pid, process.parent):
                self._kernel_threads.add(pid)
                continue
            yield pid, process
        if len(self._kernel_threads) > len(pids):  # some are gone, and their pids may be reused
            self._kernel_threads.clear()

    def cpu_used_s(self) -> float | None:
        if self._cpu_group is not None:
            used_s = cgroup.cpu_used_s(self._cpu_group.own)
            if used_s is not None:
                return used_s
        return self._tally.used_s


@dataclass(frozen=True, slots=True)
class Root:
    """Where to find one job's processes: the tree below a pid, a cgroup, or both."""

    pid: int | None
    cgroup: str | None


class JobsScope:
    """The process trees of named jobs. A process once seen in a tree stays counted when orphaned.

    Parents are looked up once for each new process of the machine, so a scan costs one directory
    listing and one read for each process of a job.
    """

    name = "jobs"
    scans = True

    def __init__(self, reason: str, own_pids: Callable[[], set[int]]) -> None:
        self.reason = reason
        self._own_pids = own_pids
        self._tally = Tally()
        self._roots: dict[str, Root] = {}
        self._inside: dict[int, float] = {}  # pid -> CPU time, for processes of jobs
        self._outside: set[int] = set()

    def add(self, job: str, root: Root) -> None:
        self._roots[job] = root
        if root.pid is not None:
            # The process and its children may have been classified as outside before.
            self._outside.clear()

    def remove(self, job: str) -> None:
        self._roots.pop(job, None)

    def read(self) -> Counts:
        if not self._roots and not self._inside:
            return Counts(0, 0)
        return self._tally.count(self._processes())

    def _processes(self) -> Iterable[tuple[int, Process]]:
        own = self._own_pids()
        present = set(process_table.pids())
        self._outside &= present
        named = self._named_pids() & present
        looks = ((pid, look_at(pid)) for pid in present - self._outside)
        processes = {pid: process for pid, process in looks if process is not None}
        self._sort_out(processes, named)
        for pid in self._inside:
            if pid not in own:
                yield pid, processes[pid]

    def _named_pids(self) -> set[int]:
        named = {root.pid for root in self._roots.values() if root.pid is not None}
        for root in self._roots.values():
            if root.cgroup:
                named.update(cgroup.members(Path(root.cgroup)))
        return named

    def _sort_out(self, processes: dict[int, Process], named: set[int]) -> None:
        """Classifies each process as inside or outside the trees. One that has used less CPU time
        than its pid had before is another."""
        known = {
            pid
            for pid, before_s in self._inside.items()
            if pid in processes and processes[pid].cpu_s >= before_s
        }
        inside = process_table.with_descendants(known | named, processes) & processes.keys()
        self._outside |= processes.keys() - inside
        self._inside = {pid: processes[pid].cpu_s for pid in inside}

    def cpu_used_s(self) -> float | None:
        return self._tally.used_s


@functools.cache
def in_initial_pid_namespace() -> bool:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino == INITIAL_PID_NAMESPACE
    except OSError:
        return False


def choose(wanted: str, own_pids: Callable[[], set[int]]) -> Scope:
    """Returns the scope that `load.scope` asks for; it holds the reason for the choice."""
    reason = f"load.scope = {wanted}"
    if wanted == "auto":
        if in_initial_pid_namespace():
            wanted, reason = "host", "auto: the LIM sees all processes of this machine"
        else:
            wanted, reason = "container", "auto: the LIM sees only the processes of its container"
    if wanted == "host" and os.path.exists("/proc/stat"):
        return HostScope(reason)
    if wanted == "jobs":
        return JobsScope(reason, own_pids)
    return ContainerScope(reason, own_pids)
