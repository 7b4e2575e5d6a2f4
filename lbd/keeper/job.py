"""A job as the keeper knows it.

A job that is told to stop stops as a whole, whatever its leader was doing.

Who waits in vfork(2) cannot stop before its child has called exec, and the child, stopped first,
never does: the leader would not be seen to stop, and its lbrun would not either. In a terminal that
hardly happens, for C libraries block signals around vfork; SIGSTOP, which an orphaned group is
given instead of SIGTSTP, cannot be blocked. So such a child goes on for a moment.
"""

import contextlib
import os
import resource
import signal
import time
from dataclasses import dataclass, field
from itertools import islice

from lbd.keeper.limits.portions import PAUSE_S
from lbd.keeper.stdin_watch import members
from lbd.keeper.suspension import Treated
from lbd.launch.signals import deliver, signal_group
from lbd.load import process_table
from lbd.load.procfs import read_small

FIRST_PAUSE_S = 0.01  # and twice as long each time
LAST_PAUSE_S = 5.0  # then it waits for something else, and stops when it has that
THREADS_MAX = 512  # that are looked at
# What was killed may have begun others; and what hangs in the kernel is not to be looked at all the
# time, for there may be many.
AGAIN_S, AGAIN_S_MAX = 0.1, 2.0
CHILDREN_BYTES, LAST_CHILDREN = 1 << 18, 16  # adopted ones, too, are at the end of the list


@dataclass(slots=True)
class Stopping:
    """Of one job: is there a stop that its leader has not followed?"""

    look_at_s: float | None = None
    pause_s: float = FIRST_PAUSE_S
    has_helped: bool = False

    def sent(self, number: int) -> None:
        """The group, or the leader, has been sent this signal."""
        if number == signal.SIGSTOP:
            self.pause_s, self.has_helped = FIRST_PAUSE_S, False
            self.look_at_s = time.monotonic() + FIRST_PAUSE_S
        elif number == signal.SIGCONT:
            self.look_at_s, self.has_helped = None, False

    def seen(self, leader: int, *, stopped: bool) -> None:
        """The leader has stopped, or goes on."""
        if stopped:
            self.look_at_s = None
            if self.has_helped:
                self.has_helped = False
                signal_group(leader, signal.SIGSTOP)  # also whom we let go on

    def look(self, leader: int, group: str) -> None:
        """If it is time: let those go on for whom the leader waits."""
        if self.look_at_s is None or (now_s := time.monotonic()) < self.look_at_s:
            return
        for pid in waited_for(leader, group):
            task = process_table.task_of(pid)
            if task is not None and (task.state, task.parent) == (b"T", leader):
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
    uid: int  # whose it is
    beside: bool = True  # has it cgroups beside `group`?
    belongings: bytes = b""  # as its order says
    begun: bool = False
    ended: tuple[int, resource.struct_rusage] | None = None
    kill_at_s: float | None = None
    again_s: float = AGAIN_S  # from one kill to the next
    treated: Treated = field(default_factory=Treated)
    stopping: Stopping = field(default_factory=Stopping)
    heard_signals: int = 0  # bit N for signal N

    def signal(self, number: int) -> None:
        """Unless its leader has ended: then the pid may be another's by now."""
        if 0 < number < signal.NSIG and not self.ended and not has_ended(self.pid):
            self.heard_signals |= 1 << number
            self.stopping.sent(deliver(self.pid, number))

    def killed(self, now_s: float) -> None:
        """Its leader has been, and may not be gone yet."""
        self.kill_at_s = now_s + self.again_s
        self.again_s = min(2 * self.again_s, AGAIN_S_MAX)

    def due_s(self) -> list[float]:
        """When it is to be looked at again, on the monotonic clock."""
        treat_at_s = time.monotonic() + PAUSE_S if self.treated.is_changing else None
        times_s = (self.kill_at_s, self.stopping.look_at_s, treat_at_s)
        return [at_s for at_s in times_s if at_s is not None]


def waited_for(leader: int, group: str) -> list[int]:
    """For whom a thread of the leader's may wait in vfork(2): of its children the last. A job may
    have thousands of processes, and be told to stop again and again."""
    found: list[int] = []
    for thread, state in islice(process_table.threads(leader), THREADS_MAX):
        if state == b"D":
            try:
                children = read_small(f"{thread}/children", CHILDREN_BYTES).split()
            except OSError:  # not every kernel has a list of them
                return members(leader, group)
            found += map(int, children[-LAST_CHILDREN:])
    return found


def has_ended(child: int) -> bool:
    """It is not reaped by that."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
