"""What follows when a host refuses an attempt, by the phase of the refusal; nothing ran. Pure.

A job that cannot start now is held, and retried later, at growing intervals.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.records import Live
from lbd.model import HostId, JobId

# Nobody's fault: the host filled up, or the order came too late.
PASSING = ("slot", "drained", "late")
# For a gang: the member was not ready, so its gang was never released.
BEFORE_READY = ("slot", "drained", "not-yet", "admission", "request", "files", "stage")
NO_KEEPER = "keeper"  # its keeper is being replaced: the host's fault, and no other job's
# Not the host's fault: the job needs what this host lacks, or may not run there, or cannot run
# anywhere, which its host could not know before. Files are unpacked as the job's user, who can make
# that fail anywhere; that must not take the host away from others.
NOT_THERE = ("exec", "chdir", "directory", "admission", "user", "request", "stage")
NOT_FOUND, NOT_EXECUTABLE, FAILED = 127, 126, 125
ENOENT = 2
NOT_YET = "not-yet"  # its host takes its user's commands, but at other times
AWAY = "files"  # the phase at which a host refuses an attempt because its files are unavailable
ASKED_AGAIN_S = 3600.0  # the owner may have changed the rule by then
HELD = "held for a while: "  # start of the reason


@dataclass(slots=True)
class Pauses:
    _counts: dict[JobId, int] = field(default_factory=dict)
    _until_s: dict[JobId, float] = field(default_factory=dict)

    def begin(self, live: Live, terms: Terms, now_s: float) -> str:
        """Holds the job, for longer each time. Returns why it is held."""
        job = live.job.id
        count = self._counts[job] = self._counts.get(job, 0) + 1
        pause_s = terms.aside_s * 2.0 ** min(count - 1, 30)
        return self.until(live, now_s + min(pause_s, terms.aside_max_s))

    def until(self, live: Live, until_s: float) -> str:
        """Holds the job until then. Returns why it is held."""
        self._counts.setdefault(live.job.id, 0)
        self._until_s[live.job.id] = until_s
        return HELD + live.reason

    def over(self, jobs: Mapping[JobId, Live], now_s: float) -> list[JobId]:
        """Returns those of `jobs` to retry now; `jobs` have not ended, and all others are
        forgotten."""
        for job in [job for job in self._counts if job not in jobs]:
            del self._counts[job]
            self._until_s.pop(job, None)
        found = [job for job, until_s in self._until_s.items() if now_s >= until_s]
        for job in found:
            del self._until_s[job]
        return [job for job in found if jobs[job].held.startswith(HELD)]


@dataclass(slots=True)
class Bars:
    """Hosts from which jobs are temporarily barred, each until a given time."""

    _until_s: dict[JobId, dict[HostId, float]] = field(default_factory=dict)
    _next_s: float = math.inf  # when the first may be over

    def __contains__(self, job: JobId) -> bool:
        return job in self._until_s

    def add(self, job: JobId, host: HostId, until_s: float) -> None:
        self._until_s.setdefault(job, {})[host] = until_s
        self._next_s = min(self._next_s, until_s)

    def over(
        self, jobs: Collection[JobId], now_s: float, most: int
    ) -> list[tuple[JobId, frozenset[HostId]]]:
        """Returns which of `jobs`, which have not ended, may go to which hosts again: the first
        `most`, as all bars of a host end at the same time."""
        if now_s < self._next_s:
            return []
        for job in [job for job in self._until_s if job not in jobs]:
            del self._until_s[job]
        found: list[tuple[JobId, frozenset[HostId]]] = []
        for job, hosts in list(self._until_s.items()):
            if len(found) == most:
                break
            if free := frozenset(host for host, until_s in hosts.items() if now_s >= until_s):
                found.append((job, free))
                self._until_s[job] = {one: hosts[one] for one in hosts if one not in free}
                if not self._until_s[job]:
                    del self._until_s[job]
        left_s = (until_s for hosts in self._until_s.values() for until_s in hosts.values())
        self._next_s = min(left_s, default=math.inf)
        return found


def exit_status(phase: str, number: int | None) -> int:
    """Returns the exit status of a job that can start nowhere; `number`: the errno behind that."""
    if phase != "exec":
        return FAILED
    return NOT_FOUND if number == ENOENT else NOT_EXECUTABLE
