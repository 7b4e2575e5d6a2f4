"""The CPU time and the result of a command that stays here.

Its client has become the command, and we are not its parent. For a process that has ended, the
kernel tells both exactly, until its parent has waited for it; a shell usually does so first. So a
process that runs for a while is sampled now and then, ever more rarely, with its children, as
compilers work in one; its use after the last sample is extrapolated in proportion. Since Linux 6.15
its result is known afterwards too, by its pidfd.
"""

import asyncio
import contextlib
import fcntl
import functools
import os
import struct

from lbd.lbm.session.peer_process import wait_for_process
from lbd.load.process_table import TaskStat, task_of, tree_cpu_s
from lbd.load.procfs import read_small

FIRST_LOOK_S = 0.2
LOOKS_APART_MAX_S = 60.0
REAPED_WITHIN_S = 0.5  # by a parent; we do not wait longer
LOOK_AGAIN_S = 0.02
BY_SIGNAL = 128
# linux/pidfd.h: the first version of struct pidfd_info, and the requested field
INFO = struct.Struct("=QQ11Ii")
PIDFD_GET_INFO = 0xC000FF0B | INFO.size << 16
PIDFD_INFO_EXIT = 1 << 3
EXIT_CODE = 49  # index in the words of /proc/PID/stat after the name


class LocalCpu:
    """Watches a command from its beginning, or from the end of an earlier LBM's watch: `age_s`
    after it began. `before_s`: CPU time that its process had used before, as a shell that becomes
    its last command has, with all that it has run."""

    def __init__(self, pid: int, age_s: float, before_s: float = 0.0) -> None:
        self._pid, self._before_s = pid, before_s
        self._loop = asyncio.get_running_loop()
        self._began_s = self._looked_s = self._loop.time() - age_s
        self._cpu_s: float | None = None
        self._pause_s = FIRST_LOOK_S
        self._timer: asyncio.TimerHandle | None = None
        self._has_ended = False
        self.status: int | None = None  # exit status, or 128+N, if it could be seen
        if pid > 0:  # 0: in a PID namespace that we cannot see
            self._timer = self._loop.call_later(FIRST_LOOK_S, self._look)

    def _look(self) -> None:
        found_s = tree_cpu_s(self._pid)
        if found_s is not None:
            self._cpu_s = max(0.0, found_s - self._before_s)
            self._looked_s = self._loop.time()
        self._pause_s = min(2 * self._pause_s, LOOKS_APART_MAX_S)
        self._timer = self._loop.call_later(self._pause_s, self._look)

    async def watch(self, pidfd: int) -> None:
        """Returns once the command has ended."""
        await wait_for_process(pidfd)
        self._cpu_s, self._has_ended = self.ended(), True
        if self.status is None and knows_results():
            self.status = status_by_pidfd(pidfd)
            if self.status is None:
                await self._wait_for_result(pidfd)

    async def _wait_for_result(self, pidfd: int) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REAPED_WITHIN_S):
                while self.status is None:
                    await asyncio.sleep(LOOK_AGAIN_S)
                    self.status = status_by_pidfd(pidfd)

    def ended(self) -> float | None:
        """Returns the CPU seconds; None: it was too short to be measured."""
        if self._timer is not None:
            self._timer.cancel()
        if self._has_ended:
            return self._cpu_s
        if self._pid <= 0:
            return None
        found = task_of(self._pid)
        if found is not None and found.has_ended:
            self.status = status_in_stat(self._pid, found)
            # of its children it counts those that it had waited for, and a look counts all
            return max(self._cpu_s or 0.0, found.cpu_s - self._before_s)
        seen_s = self._looked_s - self._began_s
        if self._cpu_s is None or seen_s <= 0:
            return None
        return self._cpu_s * (self._loop.time() - self._began_s) / seen_s


def cpu_used_s(pid: int) -> float:
    """Returns the CPU seconds of a process and the children it has waited for; 0 if it is gone."""
    found = task_of(pid) if pid > 0 else None
    return found.cpu_s if found is not None else 0.0


@functools.cache
def knows_results() -> bool:
    """Whether this kernel tells the result of a process after its parent has waited for it."""
    release = os.uname().release.split(".")
    return tuple(int(part) for part in release[:2] if part.isdecimal()) >= (6, 15)


def status_by_pidfd(pidfd: int) -> int | None:
    """Returns the status of a waited-for process; None before, or if the kernel hides it."""
    asked = bytearray(INFO.pack(PIDFD_INFO_EXIT, *(0,) * 13))
    try:
        fcntl.ioctl(pidfd, PIDFD_GET_INFO, asked)
    except OSError:
        return None
    mask, *_, code = INFO.unpack(asked)
    return status_of(code) if mask & PIDFD_INFO_EXIT else None


def status_in_stat(pid: int, seen: TaskStat) -> int | None:
    """Returns the status of a process not waited for; None if hidden (the kernel shows 0)."""
    try:
        if os.geteuid() not in (0, os.stat(f"/proc/{pid}").st_uid):
            return None
        stat = read_small(f"/proc/{pid}/stat")
        words = stat[stat.rindex(b")") + 2 :].split()
        return status_of(int(words[EXIT_CODE])) if task_of(pid) == seen else None
    except (OSError, ValueError, IndexError):
        return None


def status_of(wait_status: int) -> int:
    if os.WIFSIGNALED(wait_status):
        return BY_SIGNAL + os.WTERMSIG(wait_status)
    return os.waitstatus_to_exitcode(wait_status)
