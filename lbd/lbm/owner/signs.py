"""Signs of a person at the machine: terminals, keyboards, pointers, and load."""

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial

from lbd.keeper.gate import find_account
from lbd.keeper.limits.time_limits import group_cpu_s
from lbd.keeper.stdin_watch import members
from lbd.lbm.core.owner_presence import Seen
from lbd.lbm.link.user_calls import UserCalls
from lbd.load import process_table, procfs
from lbd.load.input_devices import InputDevices
from lbd.load.kernel_threads import KernelThreads
from lbd.local.caller import person_of
from lbd.model import JobId

AT_INPUT = "a keyboard or mouse"
TYPED_MEANWHILE_S = 1.0
NOBODY, INIT = 0, 1
IsForeign = Callable[[os.stat_result], bool]


class Signs:
    """Signs of the owner. Foreign commands do not count; they are known by their root processes."""

    def __init__(self) -> None:
        self._inputs = InputDevices()
        self._kernel_threads = KernelThreads()  # what they do may be for a command
        self._calls = UserCalls()
        # of each user about whom it was asked: terminals used by others than foreign commands
        self._elsewhere: dict[int, set[int]] = {}
        self._asked: set[int] = set()  # about these, since the last look
        self._roots: dict[JobId, tuple[int, str]] = {}
        self._cpu_s: dict[JobId, float] = {}  # what has been counted of each
        self._rest_s = 0.0  # what those have used since that have ended
        self._own_cpu_s = 0.0  # by the last look; the LBM's work is for the commands
        # the CPU time of all processes until the last look, and when that was; time used before the
        # first look was for starting the daemons
        self._busy: tuple[float, float] | None = None

    @property
    def has_jobs(self) -> bool:
        return bool(self._roots)

    def job_began(self, job: JobId, pid: int, group: str) -> None:
        self._roots[job] = pid, group

    def job_ended(self, job: JobId, cpu_s: float) -> None:
        counted_s = self._cpu_s.pop(job, 0.0)
        if self._roots.pop(job, None) is not None:
            self._rest_s += max(0.0, cpu_s - counted_s)

    def close(self) -> None:
        self._inputs.close()

    def see(self, owners: tuple[str, ...], *, input_too: bool) -> Seen:
        """`owners`: whose terminals count; everybody's if empty."""
        uids = {account.uid for name in owners if (account := find_account(name)) is not None}
        whose = uids if owners else None
        terminal, used_s = last_used(whose, self._foreign(), time.time() + TYPED_MEANWHILE_S)
        now_s = time.time()
        if input_too and (typed_s := self._inputs.look(now_s)) > used_s:
            terminal, used_s = AT_INPUT, typed_s
        idle_s = None if not terminal else max(0.0, now_s - used_s)
        return Seen(idle_s, terminal, self._others_load())

    def _foreign(self) -> IsForeign:
        """Returns a test for terminals that foreign commands have made for themselves, in which the
        owner types nothing. A user who has commands here may have terminals of both kinds: the
        owner's was found by `look_elsewhere`."""
        users = {person_of(process_table.uid_of(pid)) for pid, _ in self._roots.values()}

        def is_foreign(terminal: os.stat_result) -> bool:
            user = person_of(terminal.st_uid)
            if user not in users:
                return False
            self._asked.add(user)
            return terminal.st_rdev not in self._elsewhere.get(user, ())

        return is_foreign

    async def look_elsewhere(self) -> None:
        """Finds the terminals in use elsewhere, for the next `see`, of those users about whom the
        last one had to know. A user's process can hold up who asks for its terminal: then what was
        found before counts."""
        asked, self._asked = self._asked, set()
        self._elsewhere = {user: self._elsewhere.get(user, set()) for user in asked}
        if asked:
            roots = [pid for pid, _ in self._roots.values()]
            pids = await asyncio.to_thread(pids_elsewhere, roots, asked)
            await asyncio.gather(*(self._look_at(user, pids[user]) for user in asked))

    async def _look_at(self, user: int, pids: list[int]) -> None:
        found = await self._calls.run(user, "terminals", partial(terminals_of, pids))
        if found is not None:
            self._elsewhere[user] = found

    def _others_load(self) -> float:
        """Cores kept busy since the last look; 0 at the first one."""
        now_s, busy = time.monotonic(), procfs.tasks_cpu_s()
        own_s = time.process_time()
        foreign_s = self._rest_s + own_s - self._own_cpu_s + self._kernel_threads.used_s()
        self._rest_s, self._own_cpu_s = 0.0, own_s
        for job, (pid, group) in self._roots.items():
            cpu_s, counted_s = cpu_s_of(pid, group), self._cpu_s.get(job, 0.0)
            foreign_s += max(0.0, cpu_s - counted_s)
            self._cpu_s[job] = max(cpu_s, counted_s)
        before_s, then_s = self._busy or (busy, now_s)
        self._busy = busy, now_s
        return max(0.0, busy - before_s - foreign_s) / max(0.01, now_s - then_s)


def last_used(uids: set[int] | None, is_foreign: IsForeign, until_s: float) -> tuple[str, float]:
    """Returns the terminal that was read last and when (UNIX time); "" if there is none. `uids`:
    whose terminals count. A time after `until_s` is no sign: anyone with a terminal can set it."""
    found = "", 0.0
    places = [("/dev/pts/", "pts/"), ("/dev/", "")]
    for directory, shown in places:
        with suppress(OSError):
            for name in os.listdir(directory):
                number = name if shown else name.removeprefix("tty")
                if not number.isdecimal() or (number == "0" and not shown):
                    continue
                with suppress(OSError):
                    status = os.stat(directory + name)
                    theirs = uids is None or status.st_uid in uids
                    is_later = found[1] < status.st_atime <= until_s
                    if theirs and is_later and not is_foreign(status):
                        found = shown + name, status.st_atime
    return found


def cpu_s_of(pid: int, group: str) -> float:
    """Roughly the CPU time that a job has used so far."""
    counted_s = group_cpu_s(group)
    if counted_s is not None:
        return counted_s
    return sum(process_table.cpu_clock_s(member) or 0.0 for member in members(pid, group))


def pids_elsewhere(roots: Iterable[int], users: Iterable[int]) -> dict[int, list[int]]:
    """Returns each user's processes that are not below our keeper. `roots`: of foreign commands."""
    everybody = process_table.everybody()
    parents = {everybody[pid].parent for pid in roots if pid in everybody}
    foreign = process_table.with_descendants(parents - {NOBODY, INIT}, everybody)
    found: dict[int, list[int]] = {user: [] for user in users}
    for pid in everybody.keys() - foreign:
        if (user := person_of(process_table.uid_of(pid))) in found:
            found[user].append(pid)
    return found


def terminals_of(pids: Iterable[int]) -> set[int]:
    """Returns the numbers of the processes' terminals."""
    return {task.terminal for task in map(process_table.task_of, pids) if task is not None}
