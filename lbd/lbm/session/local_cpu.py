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

from lbd.lbm.core.jobs import Job
from lbd.lbm.link.user_threads import Threads
from lbd.lbm.session.peer_process import wait_for_process
from lbd.load import process_table
from lbd.load.process_table import TaskStat, task_of, tree_cpu_s
from lbd.load.procfs import read_small
from lbd.local.turns import Turns

FIRST_LOOK_S = 0.2
LOOKS_APART_MAX_S = 60.0
LOOKS, REST = Turns(1), 9.0  # of one user, one at a time, with such a multiple of its time between
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
    after it began. It looks in threads of the command's user, whose processes may be very many, or
    hold up who looks (an execve that waits for a file system of theirs)."""

    def __init__(self, job: Job, age_s: float, threads: Threads, *, is_new: bool) -> None:
        """`is_new`: what its process has used so far was before, as of a shell that becomes its
        last command, and all that this has run; else that has been noted in the job."""
        self._job, self._pid, self._threads = job, job.pid, threads
        self._loop = asyncio.get_running_loop()
        self._began_s = self._looked_s = self._loop.time() - age_s
        self._cpu_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._looks: asyncio.Task[None] | None = None
        self._has_ended = False
        self.status: int | None = None  # exit status, or 128+N, if it could be seen
        if self._pid > 0:  # 0: in a PID namespace that we cannot see
            self._timer = self._loop.call_later(FIRST_LOOK_S, self._begin_to_look)
            if is_new:
                threads.start(self._look_before)

    def _look_before(self) -> None:
        self._job.cpu_before_s = cpu_used_s(self._pid)

    def _begin_to_look(self) -> None:
        self._looks = self._loop.create_task(self._look_now_and_then())

    async def _look_now_and_then(self) -> None:
        pause_s = FIRST_LOOK_S
        while True:
            async with LOOKS.turn(self._threads):
                began_s = self._loop.time()
                await self.look()
                await asyncio.sleep(REST * (self._loop.time() - began_s))
            pause_s = min(2 * pause_s, LOOKS_APART_MAX_S)
            await asyncio.sleep(pause_s)

    async def look(self) -> None:
        found_s = await self._threads.run(functools.partial(tree_cpu_s, self._pid))
        if found_s is not None:
            self._cpu_s = max(0.0, found_s - self._job.cpu_before_s)
            self._looked_s = self._loop.time()

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
        for one in (self._timer, self._looks):
            if one is not None:
                one.cancel()
        if self._has_ended:
            return self._cpu_s
        if self._pid <= 0:
            return None
        status = process_table.status_of(self._pid)
        ended = status is not None and status.has_ended  # else its user can hold up who reads more
        if ended and (found := task_of(self._pid)) is not None and found.has_ended:
            self.status = status_in_stat(self._pid, found)
            # of its children it counts those that it had waited for, and a look counts all
            return max(self._cpu_s or 0.0, found.cpu_s - self._job.cpu_before_s)
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
