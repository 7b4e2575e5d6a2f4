"""A job as the keeper knows it.

A job that is told to stop must stop as a whole, whatever its leader was doing.

A process waiting in vfork(2) cannot stop before its child has called exec, and a child that was
stopped first never calls it: neither the leader nor its lbrun would be seen to stop. In a terminal
this hardly happens, because C libraries block signals around vfork. SIGSTOP, which an orphaned
group gets instead of SIGTSTP, cannot be blocked. So the keeper lets such a child continue for a
moment.
"""

import contextlib
import os
import resource
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice

from lbd.keeper.fd_store import frame_of
from lbd.keeper.limits.portions import AGAIN_S, AGAIN_S_MAX, PAUSE_S, longer_s
from lbd.keeper.limits.time_limits import OVER, group_cpu_s
from lbd.keeper.protocol import (
    EXITED,
    HEARD,
    NUMBER,
    OUT_OF_MEMORY,
    RSS_KIB,
    SYSTEM_US,
    USER_US,
)
from lbd.keeper.spawn_order import JOB
from lbd.keeper.stdin_watch import members
from lbd.keeper.suspension import Treated
from lbd.launch.signals import deliver, ignored_by, signal_group
from lbd.load import process_table
from lbd.load.procfs import read_small

FIRST_PAUSE_S = 0.01  # doubled each time
LAST_PAUSE_S = 5.0  # after this the leader waits for something else, and stops once it has that
THREADS_MAX = 512  # threads inspected
URGENT_S = 30.0  # what is still there so long after it was first killed hangs in the kernel
NO_USAGE = resource.struct_rusage((0.0,) * 2 + (0,) * 14)
TYPED = 1 << signal.SIGINT | 1 << signal.SIGQUIT
CHANGED = os.WEXITED | os.WSTOPPED | os.WCONTINUED
CHILDREN_BYTES, LAST_CHILDREN = 1 << 18, 16  # the end of the list also holds adopted children


@dataclass(slots=True)
class Stopping:
    """Tracks a stop of one job that its leader has not followed yet."""

    look_at_s: float | None = None
    pause_s: float = FIRST_PAUSE_S
    has_helped: bool = False

    def sent(self, number: int) -> None:
        """Notes that the group, or the leader, was sent this signal."""
        if number == signal.SIGSTOP:
            self.pause_s, self.has_helped = FIRST_PAUSE_S, False
            self.look_at_s = time.monotonic() + FIRST_PAUSE_S
        elif number == signal.SIGCONT:
            self.look_at_s, self.has_helped = None, False

    def seen(self, leader: int, *, stopped: bool) -> None:
        """Notes that the leader has stopped or continued."""
        if stopped:
            self.look_at_s = None
            if self.has_helped:
                self.has_helped = False
                signal_group(leader, signal.SIGSTOP)  # also stops the children that were continued

    def look(self, leader: int, group: str) -> None:
        """Continues, when due, the children that the leader waits for."""
        if self.look_at_s is None or (now_s := time.monotonic()) < self.look_at_s:
            return
        for pid in waited_for(leader, group):
            status = process_table.status_of(pid)
            if status is not None and (status.state, status.parent) == (b"T", leader):
                self.has_helped = True
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGCONT)
        self.pause_s *= 2
        self.look_at_s = now_s + self.pause_s if self.pause_s <= LAST_PAUSE_S else None


@dataclass(slots=True)
class Running:
    """A job this keeper has started. `ended` is (wait status, rusage) once its leader is reaped."""

    pid: int
    group: str
    uid: int  # the uid it runs as
    beside: bool = True  # whether it has cgroups beside `group`
    belongings: bytes = b""  # as given by its order
    is_leased: bool = False  # an attempt of a queued job, at which nobody can type
    begun: bool = False
    ended: tuple[int, resource.struct_rusage] | None = None
    kill_at_s: float | None = None
    again_s: float = AGAIN_S  # until the next kill
    killed_s: float | None = None  # when it was first killed, or what its leader left
    look_at_s: float = 0.0  # when to look again at what its leader left
    treated: Treated = field(default_factory=Treated)
    stopping: Stopping = field(default_factory=Stopping)
    heard_signals: int = 0  # of those that are typed; bit N for signal N
    ignored_signals: int = 0  # the same bits
    orphans_s: tuple[float, float] = (0.0, 0.0)  # CPU time of its reaped orphans: user, system

    def signal(self, number: int) -> None:
        """Signals the job, unless its leader has ended: its pid may be another's by then."""
        if 0 < number < signal.NSIG and not self.ended and not has_ended(self.pid):
            self.heard_signals |= 1 << number & TYPED
            self.stopping.sent(deliver(self.pid, number))

    def note_ignored(self) -> None:
        """Notes what the leader ignores. A ^C that comes too late to reach it would have done
        nothing if it was ignored until the end, so it must not end lbrun."""
        self.ignored_signals = ignored_by(self.pid) << 1 & TYPED

    def ask_to_end(self, kill_at_s: float) -> None:
        """Asks its processes, which may be stopped, to end by then."""
        for number in (signal.SIGTERM, signal.SIGCONT):
            signal_group(self.pid, number)
        self.kill_at_s = kill_at_s

    def killed(self, now_s: float) -> None:
        """Notes that the leader was killed; it may not be gone yet. A process of its user's that
        traces it may keep its end from us for as long as it likes."""
        if is_withheld(self.pid):
            self.ended = signal.SIGKILL, NO_USAGE
        self.left(now_s)
        self.kill_at_s = now_s + self.again_s
        self.again_s = longer_s(self.again_s)

    def left(self, now_s: float) -> None:
        """Notes that something of it was killed that may not be gone yet."""
        self.killed_s = now_s if self.killed_s is None else self.killed_s
        self.look_at_s = now_s + (AGAIN_S_MAX if self.hangs(now_s) else 0.0)

    @property
    def reads_group(self) -> bool:
        """Whether its end is not told without what its cgroup has counted: it did not end well, or
        not by itself."""
        assert self.ended is not None
        return self.ended[0] != 0 or self.killed_s is not None or any(self.orphans_s)

    def cpu_us(self) -> tuple[int, int]:
        """Returns the CPU microseconds of an ended job in user and in system mode. Those of its
        leader are not all: a process for which its parent had not waited, as those of a shell that
        was killed, counts with its cgroup only, or if it has none, with what we have adopted."""
        assert self.ended is not None
        (status, usage), (user_s, system_s) = self.ended, self.orphans_s
        is_less = os.WIFSIGNALED(status) or self.killed_s is not None or any(self.orphans_s)
        user_s, system_s = user_s + usage.ru_utime, system_s + usage.ru_stime
        if is_less:
            user_s = max(user_s, (group_cpu_s(self.group) or 0.0) - system_s)
        return int(user_s * 1e6), int(system_s * 1e6)

    @property
    def is_left_alone(self) -> bool:
        """Whether it runs, and nothing is to be done to it."""
        is_let_run = self.ended is None and self.kill_at_s is None
        return is_let_run and self.stopping.look_at_s is None and self.treated.steps is None

    def is_urgent(self, now_s: float) -> bool:
        return self.kill_at_s is not None and not self.hangs(now_s)

    def hangs(self, now_s: float) -> bool:
        """Whether it hangs in the kernel, which a user can have it do for as long as they like (a
        FUSE of their own). Then it is not worth running before all others, nor a look at each
        turn."""
        return self.killed_s is not None and now_s > self.killed_s + URGENT_S

    def due_s(self, now_s: float) -> list[float]:
        """Returns the times at which to look at the job again, on the monotonic clock."""
        if self.is_left_alone:
            return []
        treat_at_s = now_s + PAUSE_S if self.treated.is_changing else None
        kill_at_s = self.look_at_s if self.ended else self.kill_at_s
        times_s = (kill_at_s, self.stopping.look_at_s, treat_at_s)
        return [at_s for at_s in times_s if at_s is not None]


def exited(name: str, job: Running, over: str, *, out_of_memory: bool) -> bytes:
    """Returns the frame that reports the end of a job. `over`: what ended it, else ""."""
    assert job.ended is not None
    status, usage = job.ended
    user_us, system_us = job.cpu_us()
    return frame_of(
        EXITED,
        (JOB, name),
        (NUMBER, status),
        (USER_US, user_us),
        (SYSTEM_US, system_us),
        (RSS_KIB, usage.ru_maxrss),
        (OUT_OF_MEMORY, int(out_of_memory)),
        (OVER, over),
        (HEARD, job.heard_signals | job.ignored_signals),
    )


def waited_for(leader: int, group: str) -> list[int]:
    """Returns the children that a thread of the leader may be waiting for in vfork(2): the last
    ones, since a job may have thousands of processes and be stopped again and again."""
    found: list[int] = []
    for thread in islice(process_table.thread_directories(leader), THREADS_MAX):
        status = process_table.status_of(leader, thread)
        if status is not None and status.state == b"D":
            try:
                children = read_small(f"{thread}/children", CHILDREN_BYTES).split()
            except OSError:  # not every kernel lists children
                return members(leader, group)
            found += map(int, children[-LAST_CHILDREN:])
    return found


def is_withheld(child: int) -> bool:
    """Returns whether the child has ended, and a process that traces it has yet to be told."""
    status = process_table.status_of(child)
    return status is not None and status.has_ended and not has_ended(child)


def has_ended(child: int) -> bool:
    """Returns whether the child has ended, without reaping it."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def reap(child: int, jobs: Collection[Running]) -> tuple[int, int, resource.struct_rusage]:
    """Waits for a child that has changed; pid 0 if it has changed back. `jobs`: those of which it
    may be an orphan; what it used counts with the one in whose session it was."""
    session = process_table.session_of(child) if jobs else -1
    pid, status, usage = os.wait4(child, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
    if session > 0 and pid and (os.WIFEXITED(status) or os.WIFSIGNALED(status)):
        for job in [one for one in jobs if one.pid == session][-1:]:
            user_s, system_s = job.orphans_s
            job.orphans_s = user_s + usage.ru_utime, system_s + usage.ru_stime
    return pid, status, usage


def next_to_reap() -> int:
    """Returns a child that has ended, stopped or continued, which is still to be waited for; 0 if
    there is none."""
    try:
        found = os.waitid(os.P_ALL, 0, CHANGED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    return found.si_pid if found else 0
