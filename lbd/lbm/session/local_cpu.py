"""The CPU time and the result of a command that stays: its client has become it, and we are not its
parent.

The kernel says both at once and exactly of a process that has ended, until its parent has heard; a
shell mostly hears first. So one that runs for a while is looked at now and then, ever more rarely;
what it used after the last look is taken to have gone on in the same proportion. How it ended is
known afterwards too, by its pidfd, since Linux 6.15.
"""

import asyncio
import contextlib
import fcntl
import functools
import os
import struct

from lbd.lbm.session.peer_process import wait_for_process
from lbd.load.process_table import TaskStat, task_of
from lbd.load.procfs import read_small

FIRST_LOOK_S = 0.2
LOOKS_APART_MAX_S = 60.0
REAPED_WITHIN_S = 0.5  # by a parent; later ones are not waited for
LOOK_AGAIN_S = 0.02
BY_SIGNAL = 128
# linux/pidfd.h: struct pidfd_info as it first was, and what is asked of it
INFO = struct.Struct("=QQ11Ii")
PIDFD_GET_INFO = 0xC000FF0B | INFO.size << 16
PIDFD_INFO_EXIT = 1 << 3
EXIT_CODE = 49  # of the words in /proc/PID/stat after the name


class LocalCpu:
    """From when the command begins, or an earlier LBM's watch ended: `age_s` after it began."""

    def __init__(self, pid: int, age_s: float) -> None:
        self._pid = pid
        self._loop = asyncio.get_running_loop()
        self._began_s = self._looked_s = self._loop.time() - age_s
        self._cpu_s: float | None = None
        self._pause_s = FIRST_LOOK_S
        self._timer: asyncio.TimerHandle | None = None
        self._has_ended = False
        self.status: int | None = None  # its exit status, or 128+N, if that could be seen
        if pid > 0:  # 0: in a PID namespace out of our sight
            self._timer = self._loop.call_later(FIRST_LOOK_S, self._look)

    def _look(self) -> None:
        found = task_of(self._pid)
        if found is not None:
            self._cpu_s, self._looked_s = found.cpu_s, self._loop.time()
        self._pause_s = min(2 * self._pause_s, LOOKS_APART_MAX_S)
        self._timer = self._loop.call_later(self._pause_s, self._look)

    async def watch(self, pidfd: int) -> None:
        """Until it has ended."""
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
        """None: it was too short to be seen."""
        if self._timer is not None:
            self._timer.cancel()
        if self._has_ended:
            return self._cpu_s
        if self._pid <= 0:
            return None
        found = task_of(self._pid)
        if found is not None and found.has_ended:
            self.status = status_in_stat(self._pid, found)
            return found.cpu_s
        seen_s = self._looked_s - self._began_s
        if self._cpu_s is None or seen_s <= 0:
            return None
        return self._cpu_s * (self._loop.time() - self._began_s) / seen_s


@functools.cache
def knows_results() -> bool:
    """Does this kernel say how a process has ended that was waited for?"""
    release = os.uname().release.split(".")
    return tuple(int(part) for part in release[:2] if part.isdecimal()) >= (6, 15)


def status_by_pidfd(pidfd: int) -> int | None:
    """Of a process that was waited for; None before, and where the kernel does not say."""
    asked = bytearray(INFO.pack(PIDFD_INFO_EXIT, *(0,) * 13))
    try:
        fcntl.ioctl(pidfd, PIDFD_GET_INFO, asked)
    except OSError:
        return None
    mask, *_, code = INFO.unpack(asked)
    return status_of(code) if mask & PIDFD_INFO_EXIT else None


def status_in_stat(pid: int, seen: TaskStat) -> int | None:
    """Of one that was not waited for yet, if we may see that: else the kernel shows 0."""
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
