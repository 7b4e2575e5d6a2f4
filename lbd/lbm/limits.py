"""For how long, and for how much CPU time, the keeper lets a job of the queue go on.

The keeper holds the lease, too: should the LBM hang, the job ends all the same before the
dispatcher may start it elsewhere. And it measures what a job's whole process tree has used, by the
job's cgroup where that counts it. Else it adds up the processes there are, with what they have got
from children they waited for, and what the vanished were last seen to have used unless their parent
has it by now.
"""

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from lbd.lbm import spawn_order
from lbd.load import cgroup
from lbd.rpc import frames
from lbd.rpc.boot_clock import clock_s

# LBM -> keeper, with JOB: it may go on for so long from now, and use so much; then it is ended
LIMIT = b"M"
LEASE_MS = b"l"
CPU_US = b"C"  # 0 = any
OVER = b"O"  # keeper -> LBM, in EXITED: what of these ended it, else ""
LEASE, CPU = "lease", "cpu"
KEEPER = "keeper"  # which was told to end
LOOK_S_MIN = 0.02
LOOK_S_MAX = 0.5
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
FAR_S = 3600.0


def limit_frame(job: str, lease_s: float, cpu_s: float) -> bytes:
    """For so long, and so much CPU time (0 = any) of all of it, until this is said anew."""
    pairs = (LEASE_MS, max(0.0, lease_s) * 1e3), (CPU_US, cpu_s * 1e6)
    fields = [(spawn_order.JOB, job.encode()), *((key, b"%d" % value) for key, value in pairs)]
    return frames.pack(LIMIT, frames.pack_fields(fields))


@dataclass(slots=True)
class Process:
    parent: int
    cpu_s: float  # its own and that of the children it has waited for


@dataclass(slots=True)
class Limit:
    """Of one job."""

    pid: int
    group: str
    until_s: float = FAR_S
    cpu_s: float = 0.0  # 0 = none
    look_at_s: float = 0.0
    over: str = ""
    before_s: float = 0.0  # what its cgroup had used before it
    alive: dict[int, Process] = field(default_factory=dict)
    gone_s: float = 0.0

    def used_s(self) -> float:
        counted = group_cpu_s(self.group)
        return counted - self.before_s if counted is not None else self._added_up_s()

    def _added_up_s(self) -> float:
        seen = processes_of(self.pid, self.group)
        for pid, process in self.alive.items():
            if pid not in seen and process.parent not in seen:
                self.gone_s += process.cpu_s
        self.alive = seen
        return self.gone_s + sum(process.cpu_s for process in seen.values())


class Limits:
    def __init__(self) -> None:
        self._jobs: dict[str, Limit] = {}

    def set(
        self, job: str, pid: int, group: str, given: dict[bytes, bytes], said_s: float
    ) -> float:
        """`given`: the fields of LIMIT; `said_s`: when it came, on the boot clock. Returns when its
        lease is over on that clock. Raises KeyError, ValueError."""
        lease_s, cpu_s = int(given[LEASE_MS]) / 1e3, int(given[CPU_US]) / 1e6
        limit = self._jobs.get(job)
        if limit is None:
            limit = self._jobs[job] = Limit(pid, group)
            limit.before_s = (group_cpu_s(group) or 0.0) if cpu_s else 0.0
        if not limit.over:
            limit.until_s, limit.cpu_s = said_s + lease_s, cpu_s
        return limit.until_s

    def sooner_ms(self, poll_ms: int) -> int:
        """No later than the next one is due. -1: for ever."""
        if not self._jobs:
            return poll_ms
        due_s = min(
            min(limit.until_s, limit.look_at_s if limit.cpu_s else FAR_S + limit.until_s)
            for limit in self._jobs.values()
        )
        due_ms = max(0, int((due_s - clock_s()) * 1000)) + 1
        return due_ms if poll_ms < 0 else min(poll_ms, due_ms)

    def over(self) -> list[str]:
        """The jobs to be ended, until they are."""
        now_s = clock_s()
        found = []
        for job, limit in self._jobs.items():
            if not limit.over and now_s >= limit.until_s:
                limit.over = LEASE
            if not limit.over and limit.cpu_s and now_s >= limit.look_at_s:
                left_s = limit.cpu_s - limit.used_s()
                if left_s <= 0:
                    limit.over = CPU
                # It cannot use the rest any sooner than on all cores at once.
                pause_s = left_s / (os.cpu_count() or 1)
                limit.look_at_s = now_s + min(LOOK_S_MAX, max(LOOK_S_MIN, pause_s))
            if limit.over:
                limit.until_s = now_s + LOOK_S_MAX
                limit.cpu_s = 0.0
                found.append(job)
        return found

    def ended(self, job: str) -> str:
        """Why it was ended by us, "" if it was not."""
        limit = self._jobs.pop(job, None)
        return limit.over if limit is not None else ""


def group_cpu_s(group: str) -> float | None:
    """What the processes of a cgroup have used, the dead ones too; None if nobody counts it."""
    return cgroup.cpu_used_s(Path(group)) if group else None


def processes_of(leader: int, group: str) -> dict[int, Process]:
    """Those of the cgroup, else of the leader's session, and all below them."""
    everybody: dict[int, tuple[Process, int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b") ")[2].split()
                cpu_s = sum(int(ticks) for ticks in fields[11:15]) / TICKS_PER_S
                everybody[int(name)] = Process(int(fields[1]), cpu_s), int(fields[3])
    found = {pid for pid, (_, session) in everybody.items() if session == leader}
    with contextlib.suppress(OSError, ValueError):
        found |= {
            int(pid) for pid in Path(group or "/nowhere", "cgroup.procs").read_bytes().split()
        }
    grown = True
    while grown:
        below = {pid for pid, (process, _) in everybody.items() if process.parent in found}
        grown = not below <= found
        found |= below
    return {pid: everybody[pid][0] for pid in found if pid in everybody}
