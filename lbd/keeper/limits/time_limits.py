"""The wall-clock and CPU-time limits of queued jobs, enforced by the keeper.

The keeper also enforces the lease: if the LBM hangs, the job still ends before the dispatcher may
start it elsewhere. It measures the CPU time of a job's whole process tree by the job's cgroup where
that is counted. Otherwise it adds up the processes that exist; the time of a process that is gone
is in its parent's total, if the parent has waited for it.
"""

import contextlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lbd.keeper import spawn_order as spawn_order
from lbd.keeper.limits.portions import at_once, entries_of
from lbd.keeper.limits.process_reads import ProcessReads
from lbd.keeper.protocol import LIMIT
from lbd.load import cgroup, process_table
from lbd.load.process_table import Entry
from lbd.load.procfs import TICKS_PER_S
from lbd.local import frames
from lbd.process.boot_clock import clock_s

# The fields of LIMIT, beside JOB: how long the job may run and how much CPU time it may use.
LEASE_UNTIL_MS = b"u"  # of the boot clock, which also counts while the keeper hangs
CPU_US = b"C"  # 0 = no limit
OVER = b"O"  # keeper -> LBM, in EXITED: which limit ended the job, else ""
LEASE, CPU = "lease", "cpu"
KEEPER = "keeper"  # the keeper was stopped
GRACE_S = 0.3  # after a lease until the warden acts; the dispatcher waits for at least a second
LOOK_S_MIN = 0.02
LOOK_S_MAX = 0.5
LOOK_SHARE = 10  # a look may take at most this fraction (1/N) of the time
READING_S = 0.005  # until it is seen again whether a look has ended
FAR_S = 3600.0


def limit_frame(job: str, until_s: float, cpu_s: float) -> bytes:
    """Packs a LIMIT frame: run until then on the boot clock, with so much CPU time (0 = any) of the
    whole tree, unless another one follows."""
    fields = (
        (spawn_order.JOB, job.encode()),
        (LEASE_UNTIL_MS, b"%d" % (until_s * 1e3)),
        (CPU_US, b"%d" % (cpu_s * 1e6)),
    )
    return frames.pack(LIMIT, frames.pack_fields(fields))


@dataclass(slots=True)
class Limit:
    """The limits of one job."""

    pid: int
    group: str
    until_s: float = FAR_S
    cpu_s: float = 0.0  # 0 = no limit
    look_at_s: float = 0.0
    over: str = ""
    leave_until_s: float = 0.0  # to the warden
    before_s: float = 0.0  # what its cgroup had used before the job
    alive: dict[int, "Used"] = field(default_factory=dict)
    gone_s: float = 0.0

    @property
    def due_s(self) -> float:
        """Returns when to look at it."""
        return min(self.until_s, self.look_at_s) if self.cpu_s else self.until_s

    def counted_s(self) -> float | None:
        """Returns the CPU time that its cgroup counts; None if there is none that does."""
        counted = group_cpu_s(self.group)
        return counted - self.before_s if counted is not None else None

    def judge(self, used_s: float, now_s: float) -> None:
        """Notes whether its CPU time is over, and when to look again."""
        left_s = self.cpu_s - used_s
        if left_s <= 0:
            self.over = CPU
        # The job cannot use the rest any sooner than on all cores at once.
        pause_s = left_s / (os.cpu_count() or 1)
        self.look_at_s = now_s + min(LOOK_S_MAX, max(LOOK_S_MIN, pause_s))

    def added_up_s(self, seen: Mapping[int, "Used"]) -> float:
        """Returns the CPU time of its processes, which are `seen`, and of those seen before."""
        for pid, process in self.alive.items():
            if pid not in seen and process.parent not in seen:
                self.gone_s += process.cpu_s
        self.alive = dict(seen)
        return self.gone_s + sum(process.cpu_s for process in seen.values())


@dataclass(frozen=True, slots=True)
class Used:
    """The CPU time of a process, with the children it has waited for."""

    parent: int
    cpu_s: float


class CpuLook:
    """A look at the CPU time of jobs' processes, without cgroups that count it."""

    def __init__(self, limits: Mapping[str, Limit], now_s: float) -> None:
        self.began_s = now_s
        entries = at_once(entries_of(process_table.pids()))
        self._jobs = {job: processes_of(it.pid, it.group, entries) for job, it in limits.items()}
        self._entries = {pid: entry for it in self._jobs.values() for pid, entry in it.items()}
        self._reads = ProcessReads(self._entries, self._used_ticks, process_table.uid_of)

    def _used_ticks(self, pid: int) -> int:
        """Returns -1 if it is gone."""
        task = process_table.task_of(pid)
        is_it = process_table.life_of(pid) == self._entries[pid].life
        return task.cpu_ticks + task.waited_ticks if task is not None and is_it else -1

    def close(self) -> None:
        self._reads.close()

    def found(self) -> dict[str, dict[int, Used]] | None:
        """Returns each job's processes; None if they have not all been read yet."""
        if (answers := self._reads.answers()) is None:
            return None
        used: dict[int, Used] = {}
        for pid, ticks in answers.items():
            cpu_s = ticks / TICKS_PER_S if ticks is not None else process_table.cpu_clock_s(pid)
            if cpu_s is not None and cpu_s >= 0:
                used[pid] = Used(self._entries[pid].parent, cpu_s)
        return {
            job: {pid: used[pid] for pid in pids if pid in used} for job, pids in self._jobs.items()
        }


class Limits:
    def __init__(self) -> None:
        self._jobs: dict[str, Limit] = {}
        self._due_s = math.inf  # nothing is due before; perhaps not then either
        self._is_over = False  # some limit
        self._under_way: CpuLook | None = None

    def set(self, job: str, pid: int, group: str, given: dict[bytes, bytes]) -> float:
        """Sets a job's limits. `given`: the fields of LIMIT. Returns when the lease ends, on the
        boot clock. Raises KeyError, ValueError."""
        cpu_s, until_s = int(given[CPU_US]) / 1e6, int(given[LEASE_UNTIL_MS]) / 1e3
        limit = self._jobs.get(job)
        if limit is None:
            limit = self._jobs[job] = Limit(pid, group)
            limit.before_s = (group_cpu_s(group) or 0.0) if cpu_s else 0.0
        if not limit.over:
            limit.until_s, limit.cpu_s = until_s, cpu_s
        self._due_s = min(self._due_s, limit.due_s)
        return limit.until_s

    def sooner_ms(self, poll_ms: int) -> int:
        """Shortens a poll timeout to the next deadline. -1: no timeout. The result never exceeds
        what poll() allows."""
        if not self._jobs or not poll_ms:
            return poll_ms
        due_ms = max(0, int(min(FAR_S, self._due_s - clock_s()) * 1000)) + 1
        return due_ms if poll_ms < 0 else min(poll_ms, due_ms)

    def over(self) -> list[str]:
        """Returns the jobs to end, again each time until they have ended. If this process was late
        to see that a lease is over, the warden is at it, and is left alone with it for a moment:
        both would take the processor from the processes that are to stop, and kill what the other
        has not found all of."""
        if not self._jobs or ((now_s := clock_s()) < self._due_s and not self._is_over):
            return []
        found = []
        self._look(now_s)
        for job, limit in self._jobs.items():
            if not limit.over and now_s >= limit.until_s:
                limit.over = LEASE
                if now_s >= limit.until_s + GRACE_S:
                    limit.leave_until_s = now_s + LOOK_S_MAX
            if limit.over:
                limit.until_s = now_s + LOOK_S_MAX
                limit.cpu_s = 0.0
                if now_s >= limit.leave_until_s:
                    found.append(job)
        self._due_s = min(limit.due_s for limit in self._jobs.values())
        self._is_over = bool(found)
        return found

    def _look(self, now_s: float) -> None:
        """Measures each job's CPU time when a look is due for one of them: this may read all
        processes of the host. If looks take long, they are made less often."""
        looked = {name: one for name, one in self._jobs.items() if one.cpu_s and not one.over}
        if not any(now_s >= limit.look_at_s for limit in looked.values()):
            return
        uncounted: dict[str, Limit] = {}
        for job, limit in looked.items():
            if (used_s := limit.counted_s()) is not None:
                limit.judge(used_s, now_s)
            else:
                uncounted[job] = limit
        if uncounted:
            self._look_at_processes(uncounted, now_s)

    def _look_at_processes(self, uncounted: Mapping[str, Limit], now_s: float) -> None:
        look = self._under_way = self._under_way or CpuLook(uncounted, now_s)
        if (found := look.found()) is None:
            for limit in uncounted.values():
                limit.look_at_s = now_s + READING_S
            return
        self._under_way = None
        least_s = now_s + LOOK_SHARE * (clock_s() - look.began_s)
        for job, limit in uncounted.items():
            if job in found:
                limit.judge(limit.added_up_s(found[job]), now_s)
            limit.look_at_s = max(limit.look_at_s, least_s)

    def ended(self, job: str) -> str:
        """Returns which limit ended the job, "" if none did."""
        limit = self._jobs.pop(job, None)
        if not self._jobs and self._under_way is not None:
            self._under_way.close()
            self._under_way = None
        return limit.over if limit is not None else ""


def group_cpu_s(group: str) -> float | None:
    """Returns the CPU time of a cgroup's processes, including ended ones; None if it is not
    counted."""
    return cgroup.cpu_used_s(Path(group)) if group else None


def processes_of(leader: int, group: str, entries: Mapping[int, Entry]) -> dict[int, Entry]:
    """Returns the processes of the cgroup, else of the leader's session, with all descendants."""
    found = {pid for pid, entry in entries.items() if entry.session == leader}
    with contextlib.suppress(OSError, ValueError):
        found |= {
            int(pid) for pid in Path(group or "/nowhere", "cgroup.procs").read_bytes().split()
        }
    found = process_table.with_descendants(found, entries)
    return {pid: entries[pid] for pid in found if pid in entries}
