"""What shows that somebody uses this machine: terminals, keyboards, pointers, and load."""

import os
import time
from contextlib import suppress

from lbd.keeper.gate import find_account
from lbd.keeper.limits.time_limits import group_cpu_s
from lbd.keeper.stdin_watch import members
from lbd.lbm.core.owner_presence import Seen
from lbd.load import process_table, procfs
from lbd.load.input_devices import InputDevices
from lbd.model import JobId

AT_INPUT = "a keyboard or mouse"


class Signs:
    """Foreign commands, which are none, are known by their roots."""

    def __init__(self) -> None:
        self._inputs = InputDevices()
        self._roots: dict[JobId, tuple[int, str]] = {}
        self._cpu_s: dict[JobId, float] = {}
        self._busy_s, self._busy_at_s = procfs.machine_cpu_s(), time.monotonic()

    @property
    def has_jobs(self) -> bool:
        return bool(self._roots)

    def job_began(self, job: JobId, pid: int, group: str) -> None:
        self._roots[job] = pid, group

    def job_ended(self, job: JobId) -> None:
        for known in (self._roots, self._cpu_s):
            known.pop(job, None)

    def close(self) -> None:
        self._inputs.close()

    def see(self, owners: tuple[str, ...], *, input_too: bool) -> Seen:
        """`owners`: whose terminals count, everybody's if there are none."""
        uids = {account.uid for name in owners if (account := find_account(name)) is not None}
        ours = {terminal_of(pid) for pid, _ in self._roots.values()}
        terminal, used_s = last_used(uids if owners else None, ours)
        now_s = time.time()
        if input_too and (typed_s := self._inputs.look(now_s)) > used_s:
            terminal, used_s = AT_INPUT, typed_s
        idle_s = None if not terminal else max(0.0, now_s - used_s)
        return Seen(idle_s, terminal, self._others_load())

    def _others_load(self) -> float:
        """Cores, since the last look."""
        now_s, busy = time.monotonic(), procfs.machine_cpu_s()
        foreign_s = 0.0
        for job, (pid, group) in self._roots.items():
            cpu_s = cpu_s_of(pid, group)
            foreign_s += max(0.0, cpu_s - self._cpu_s.get(job, cpu_s))
            self._cpu_s[job] = cpu_s
        passed_s = max(0.01, now_s - self._busy_at_s)
        load = (busy - self._busy_s - foreign_s) / passed_s
        self._busy_s, self._busy_at_s = busy, now_s
        return max(0.0, load)


def last_used(uids: set[int] | None, but: set[int]) -> tuple[str, float]:
    """The terminal that was read last and when (UNIX time); "" if there is none. `uids`: whose;
    `but`: none of these devices."""
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
                    if theirs and status.st_rdev not in but and status.st_atime > found[1]:
                        found = shown + name, status.st_atime
    return found


def terminal_of(pid: int) -> int:
    """The device number of its controlling terminal, 0 if it has none."""
    task = process_table.task_of(pid)
    return task.terminal if task is not None else 0


def cpu_s_of(pid: int, group: str) -> float:
    """What a job has used so far, about."""
    counted_s = group_cpu_s(group)
    if counted_s is not None:
        return counted_s
    tasks = (process_table.task_of(member) for member in members(pid, group))
    return sum(task.cpu_ticks for task in tasks if task is not None) / procfs.TICKS_PER_S
