"""Watching for the owner of this host, and doing with foreign commands what the rules say then."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress

from lbd.lbm import keeper_protocol as keeper
from lbd.lbm import treatment
from lbd.lbm.accounts import find_account
from lbd.lbm.host import Host
from lbd.lbm.limits import group_cpu_s
from lbd.lbm.owner_rules import Presence, Seen, Treatment
from lbd.lbm.readers import members
from lbd.load import procfs
from lbd.model import JobId, JobState

WATCH_S = 1.0
ORDERS = {
    Treatment.NONE: treatment.AS_EVER,
    Treatment.NICE: treatment.NICE_LOWEST,
    Treatment.STILL: treatment.STAND_STILL,
    Treatment.GO: treatment.STAND_STILL,
}


class Owner:
    """`changed`: the owner has come or gone."""

    def __init__(self, host: Host, changed: Callable[[], None]) -> None:
        self._host = host
        self._changed = changed
        self._presence = Presence(host.rules.config.admission)
        self._roots: dict[JobId, tuple[int, str]] = {}
        self._treated: dict[JobId, Treatment] = {}
        self._cpu_s: dict[JobId, float] = {}
        self._busy_s, self._busy_at_s = procfs.machine_cpu_s(), time.monotonic()
        self._wanted = asyncio.Event()

    def job_began(self, job: JobId, pid: int, group: str) -> None:
        self._roots[job] = pid, group
        self._wanted.set()

    def job_ended(self, job: JobId) -> None:
        for known in (self._roots, self._treated, self._cpu_s):
            known.pop(job, None)

    def look_again(self) -> None:
        """The rules have changed."""
        self._wanted.set()

    async def watch(self) -> None:
        """An idle host whose rules do not ask for it is not looked at every second."""
        while True:
            await self.look()
            if not (self._presence.is_watched or self._presence.why or self._roots):
                self._wanted.clear()
                await self._wanted.wait()
            await asyncio.sleep(WATCH_S)

    async def look(self) -> None:
        admission = self._host.rules.config.admission
        self._presence.change(admission)
        seen = Seen(None, "", 0.0)
        if self._presence.is_watched:
            seen = self._see(admission.owners)
        now_s = time.monotonic()
        self._presence.tick(seen, now_s)
        if bool(self._presence.why) != bool(self._host.rules.owner):
            self._changed()
        self._host.rules.owner = self._presence.why
        await self._treat(self._presence.treatment(now_s))

    def _see(self, owners: tuple[str, ...]) -> Seen:
        uids = {account.uid for name in owners if (account := find_account(name)) is not None}
        ours = {terminal_of(pid) for pid, _ in self._roots.values()}
        terminal, used_s = last_used(uids if owners else None, ours)
        idle_s = None if not terminal else max(0.0, time.time() - used_s)
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

    async def _treat(self, wanted: Treatment) -> None:
        for job in list(self._roots):
            before = self._treated.get(job)  # None: not told yet, perhaps by an LBM before us
            if wanted is Treatment.GO and before is Treatment.GO:
                evict = self._host.evictable.get(job)
                if evict is not None and evict():  # it stood still: all that it had printed came
                    self._host.evictable.pop(job, None)
            if wanted is before:
                continue
            self._treated[job] = wanted
            if before is None or ORDERS[wanted] != ORDERS[before]:
                await self._host.link.tell(keeper.TREAT, job, ORDERS[wanted])
                if before is not None or wanted is not Treatment.NONE:
                    self._note(job, ORDERS[wanted] == treatment.STAND_STILL)

    def _note(self, name: JobId, still: bool) -> None:
        job = self._host.jobs.running.get(name)
        if job is not None:
            job.state = JobState.SUSPENDED if still else JobState.RUNNING
            job.reason = self._presence.why


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
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b") ")[2].split()[4])
    return 0


def cpu_s_of(pid: int, group: str) -> float:
    """What a job has used so far, about."""
    counted_s = group_cpu_s(group)
    if counted_s is not None:
        return counted_s
    tasks = (procfs.task_of(member) for member in members(pid, group))
    return sum(task.cpu_ticks for task in tasks if task is not None) / procfs.TICKS_PER_S
