"""What the kernel says about processes, and which process descends from which.

`psutil.process_iter` takes 1.5 times as long, and does not show threads.
"""

import errno
import functools
import os
import re
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from lbd.load.procfs import TICKS_PER_S, read_small

STATUS_BYTES = 1 << 14
LONG_STATUS_BYTES = 1 << 20  # of a process in all the groups that the kernel allows, 65536
STATUS = re.compile(
    rb"\nState:\t(.).*?\nPPid:\t(\d+)\n.*?\nThreads:\t(\d+)\n.*?\nSigPnd:\t(\w+)\n", re.DOTALL
)
UID = re.compile(rb"\nUid:\t(\d+)")  # a process writes its name before it, with any \r in it
KILLED = 1 << signal.SIGKILL - 1  # in a mask of pending signals
HELD = b"TtZXx"  # states of threads that run nothing until somebody else acts
CPUCLOCK_SCHED = 2  # linux/posix-timers.h: of the scheduler, precise
TREE_MAX, CHILDREN_BYTES = 400, 1 << 12


@dataclass(slots=True)
class TaskStat:
    """The fields of /proc/PID/stat that we use."""

    state: bytes  # one letter: R runnable, D disk wait ...
    parent: int
    cpu_ticks: int
    threads: int
    started_ticks: int  # since boot; together with the pid, it identifies a process for good
    session: int = 0
    terminal: int = 0  # the device number of its controlling terminal
    waited_ticks: int = 0  # CPU time of the children it has waited for

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs any more."""
        return self.is_zombie and self.threads <= 1

    @property
    def is_zombie(self) -> bool:
        """Whether its first thread has ended. Its other threads may run on, or be stuck in the
        kernel although the process was killed."""
        return self.state in b"ZXx"

    @property
    def cpu_s(self) -> float:
        """CPU time, including that of the children the process has waited for."""
        return (self.cpu_ticks + self.waited_ticks) / TICKS_PER_S


@dataclass(slots=True)
class TaskStatus:
    """The fields of /proc/PID/status that we use.

    Newer kernels show /proc/PID/stat only when no exec of that process is under way, which takes as
    long as its user likes to leave it without a processor; this file they show at once.
    """

    state: bytes
    parent: int
    threads: int
    is_killed: bool  # it was sent SIGKILL, and comes back from no system call

    @property
    def has_ended(self) -> bool:
        """As `TaskStat.has_ended`."""
        return self.state in b"ZXx" and self.threads <= 1

    @property
    def is_held(self) -> bool:
        """Whether its (first) thread runs nothing, and begins nothing."""
        return self.is_killed or self.state in HELD


@dataclass(slots=True)
class Entry:
    """A process. Like a `TaskStatus` it is read without waiting for an exec."""

    life: int  # no other process has it, before or after; later processes have higher ones
    parent: int
    session: int
    has_ended: bool


class Child(Protocol):
    """A process, however it was read."""

    parent: int


def parse_task(stat: bytes) -> TaskStat:
    """Raises ValueError or IndexError on a truncated line."""
    words = stat[stat.rindex(b")") + 2 :].split(b" ", 20)
    return TaskStat(
        words[0],
        int(words[1]),
        int(words[11]) + int(words[12]),
        int(words[17]),
        int(words[19]),
        int(words[3]),
        int(words[4]),
        int(words[13]) + int(words[14]),
    )


def task_of(pid: int) -> TaskStat | None:
    """Returns a process's entry, or None if the process is gone."""
    try:
        return parse_task(read_small(f"/proc/{pid}/stat"))
    except (OSError, ValueError, IndexError):
        return None


def entry_of(pid: int) -> Entry | None:
    """Returns a process's entry, or None if the process is gone."""
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            status, session, life = status_of(pid), session_of(pid), _life_of(pid, handle)
            if status is not None and life is not None:
                with suppress(PermissionError):
                    signal.pidfd_send_signal(handle, 0)  # the pid still is this process's
                return Entry(life, status.parent, session, status.has_ended)
        finally:
            os.close(handle)
    return None


def life_of(pid: int) -> int | None:
    """Returns only the life of an `Entry`, which takes a tenth of the time."""
    with suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            return _life_of(pid, handle)
        finally:
            os.close(handle)
    return None


def _life_of(pid: int, pidfd: int) -> int | None:
    """Returns the number of its pidfd, or on a kernel before 6.9 its start time: no such kernel
    has been seen to let an exec hold up who reads that. None if it is gone."""
    number = pidfd_number(pidfd)
    if number is None and (task := task_of(pid)) is not None:
        return task.started_ticks
    return number


def pidfd_number(pidfd: int) -> int | None:
    """Returns what no other process's pidfd has had since the boot; None on a kernel before 6.9,
    where all have the same."""
    found = os.fstat(pidfd)
    return found.st_ino if found.st_dev != _anonymous_device() else None


@functools.cache
def _anonymous_device() -> int:
    """The device of descriptors that have no numbers of their own."""
    anonymous = os.eventfd(0, os.EFD_CLOEXEC)
    try:
        return os.fstat(anonymous).st_dev
    finally:
        os.close(anonymous)


def mark_of(pid: int, pidfd: int) -> str | int | None:
    """Returns what tells a process from any other that has had its number since the boot: the
    number of its pidfd (a text), or on a kernel before 6.9 its start time; None if it is gone."""
    if (number := pidfd_number(pidfd)) is not None:
        return str(number)
    task = task_of(pid)
    return None if task is None or task.has_ended else task.started_ticks


def status_of(pid: int, thread: str = "") -> TaskStatus | None:
    """Returns a process's entry, or that of a thread (its directory in /proc), or None if it is
    gone."""
    file = f"{thread or f'/proc/{pid}'}/status"
    with suppress(OSError):
        reads = (read_small(file, most) for most in (STATUS_BYTES, LONG_STATUS_BYTES))
        if found := next(filter(None, map(STATUS.search, reads)), None):
            state, parent, threads, pending = found.groups()
            is_killed = bool(int(pending, 16) & KILLED)
            return TaskStatus(state, int(parent), int(threads), is_killed)
    return None


def cpu_clock_s(pid: int) -> float | None:
    """Returns the CPU time of a process and all its threads, or None if it is gone.

    Like `status_of`, it waits for no exec. The clock's number is that of clock_getcpuclockid(3).
    """
    try:
        return time.clock_gettime(~pid << 3 | CPUCLOCK_SCHED)
    except OSError:
        return None


def may_fork(pid: int) -> bool:
    """Returns whether the process may begin others yet, although it was sent SIGSTOP: a fork that
    is under way goes on then. (SIGKILL ends it.)"""
    status = status_of(pid)
    if status is None or (status.threads == 1 and status.is_held):
        return False
    if status.threads == 1:
        return True
    found = [status_of(pid, thread) for thread in thread_directories(pid)]
    return not all(one is None or one.is_held for one in found)


def session_of(pid: int) -> int:
    """Returns the session's number, -1 if the process is gone."""
    with suppress(OSError):
        return os.getsid(pid)
    return -1


def send_signal(pid: int, started_ticks: int, number: int) -> None:
    """Signals the process with this pid only if it has this start time. Raises OSError;
    ProcessLookupError if it is gone."""
    handle = os.pidfd_open(pid)
    try:
        task = task_of(pid)
        if task is None or task.started_ticks != started_ticks:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def signal_life(pid: int, life: int, number: int) -> None:
    """Signals the process with this pid only if it has this life, as `entry_of` gave it. Raises
    OSError; ProcessLookupError if it is gone."""
    handle = os.pidfd_open(pid)
    try:
        if _life_of(pid, handle) != life:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def uid_of(pid: int) -> int:
    """Returns the real user id, also for a setuid program; -1 if the process is gone."""
    with suppress(OSError):
        if found := UID.search(read_small(f"/proc/{pid}/status", STATUS_BYTES)):
            return int(found[1])
    return -1


def thread_states(pid: int) -> list[bytes]:
    """Returns the state letters of all threads of a process. It waits for no exec."""
    found = (status_of(pid, thread) for thread in thread_directories(pid))
    return [status.state for status in found if status is not None]


def thread_directories(pid: int) -> list[str]:
    """Returns each thread's directory in /proc."""
    try:
        return [f"/proc/{pid}/task/{name}" for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def pids() -> list[int]:
    """Returns every process of our PID namespace."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def everybody() -> dict[int, Entry]:
    return {pid: entry for pid in pids() if (entry := entry_of(pid)) is not None}


def tree_cpu_s(pid: int) -> float | None:
    """Returns the CPU time of a process and its live descendants with the children they have waited
    for, None if the process is gone. Looks at the tree only, not at all processes; of a tree of
    more than TREE_MAX processes and threads, at as many."""
    root = task_of(pid)
    if root is None:
        return None
    found, left, looked = root.cpu_s, [pid], 1
    while left and looked < TREE_MAX:
        children, threads = _children_of(left.pop(), TREE_MAX - looked)
        looked += threads
        for child in children[: max(0, TREE_MAX - looked)]:
            looked += 1
            if (task := task_of(child)) is not None:
                found += task.cpu_s
                left.append(child)
    return found


def children_of(pid: int) -> list[int]:
    """Returns the children of all its threads; none if the kernel does not list them."""
    return _children_of(pid, TREE_MAX)[0]


def _children_of(pid: int, most: int) -> tuple[list[int], int]:
    """Also returns how many threads were asked, at most `most`."""
    found: list[int] = []
    asked = 0
    with suppress(OSError, ValueError):
        for thread in os.listdir(f"/proc/{pid}/task")[:most]:
            asked += 1
            listed = read_small(f"/proc/{pid}/task/{thread}/children", CHILDREN_BYTES)
            found += map(int, listed.split())
    return found, asked


def with_descendants(ancestors: Iterable[int], tasks: Mapping[int, Child]) -> set[int]:
    """Returns these processes and all their descendants."""
    children: dict[int, list[int]] = {}
    for pid, task in tasks.items():
        children.setdefault(task.parent, []).append(pid)
    left = list(found := set(ancestors))
    while left:
        more = [pid for pid in children.get(left.pop(), ()) if pid not in found]
        found.update(more)
        left += more
    return found
