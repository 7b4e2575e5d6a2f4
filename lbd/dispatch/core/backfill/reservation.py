"""Which jobs may pass a head that waits for slots or its needs, without delaying it. Pure.

EASY (Lifka 1995): the ends of the running jobs give the place and the latest time at which the head
starts. A job behind it may start now on any other host; on that host if it ends by then, or if the
head leaves it room (`spare`). Only the head is protected: jobs behind it may be passed repeatedly
until they are heads themselves.

The latest end of a job comes from its time limit (`limit`), or (`learnt`) from similar earlier
jobs: if they are alike, a new job takes no longer than the k-th of n earlier ones with probability
k / (n + 1), so the first one is used for which this is at least 1 - risk. If too little is known
the limit counts; without a limit, the job may never end. If no host's slots are certain to become
free, the head's start is unknown, and no job may pass it on a host that it could use.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.registry import Entry
from lbd.dispatch.core.run_times import RunTimes
from lbd.dispatch.core.servers import Server
from lbd.model import Facts, HostId, Needs
from lbd.policy.needs import joined, unmet


@dataclass(frozen=True, slots=True)
class Reservation:
    """Where the head starts, and when at the latest."""

    host: HostId
    at_s: float
    spare: int  # slots of that host that the head does not need then


@dataclass(slots=True)
class Backfill:
    rule: str = "off"  # off | limit | learnt
    risk: float = 0.1  # for learnt: the accepted risk that a job takes longer than assumed
    run_times: RunTimes = field(default_factory=RunTimes)

    def longest_s(self, job: QueuedJob) -> float:
        limit_s = job.limit_s or math.inf
        if self.rule != "learnt":
            return limit_s
        runs_s = self.run_times.of(job, fewest_for(self.risk))
        return min(limit_s, exceeded_rarely_s(runs_s, self.risk))

    def ends_s(self, entry: Entry, now_s: float) -> float:
        """Returns the latest end of a running job. If it has exceeded the learnt time, its limit
        counts."""
        if entry.suspended_s is not None:
            return math.inf
        ends_s = entry.started_s + self.longest_s(entry.job)
        return ends_s if ends_s > now_s else entry.started_s + (entry.job.limit_s or math.inf)

    def reservation(
        self, head: QueuedJob, servers: Iterable[Server], now_s: float
    ) -> Reservation | None:
        """Returns the head's reservation; None if nothing is certain."""
        found: Reservation | None = None
        for server in servers:
            if server.host is None or not server.suits(head):
                continue
            at_s, free, facts = now_s, server.free, server.facts()
            ends = [(self.ends_s(one, now_s), one) for one in server.running.values()]
            for ends_s, entry in sorted(ends, key=lambda one: one[0]):
                if free >= head.slots and unmet(head.needs, facts) is None and ends_s > at_s:
                    break
                at_s, free = max(at_s, ends_s), free + entry.slots
                facts = returned(facts, entry.job.needs)
            if (
                free >= head.slots
                and unmet(head.needs, facts) is None
                and at_s < (found.at_s if found else math.inf)
            ):
                found = Reservation(server.host.name, at_s, free - head.slots)
        return found

    def passes(
        self,
        job: QueuedJob,
        server: Server,
        head: QueuedJob,
        reserved: Reservation | None,
        now_s: float,
    ) -> bool:
        """Whether the job may start on this host now."""
        if reserved is None:
            return not server.suits(head)
        if server.name != reserved.host:
            return True
        fits_beside = job.slots <= reserved.spare and not compete(job.needs, head.needs)
        return fits_beside or self.is_short(job, reserved, now_s)

    def is_short(self, job: QueuedJob, reserved: Reservation, now_s: float) -> bool:
        return now_s + self.longest_s(job) <= reserved.at_s

    def after(
        self, job: QueuedJob, host: HostId, reserved: Reservation | None, now_s: float
    ) -> Reservation | None:
        """Returns the reservation after the job has started there."""
        if reserved is None or reserved.host != host or self.is_short(job, reserved, now_s):
            return reserved
        return replace(reserved, spare=reserved.spare - job.slots)


def returned(facts: Facts, needs: Needs) -> Facts:
    """Returns the facts after a job with those needs has ended there."""
    if not needs:
        return facts
    amounts = {name: -amount for name, amount in needs.resources}
    return joined(facts, amounts, -needs.memory_bytes)


def compete(job: Needs, head: Needs) -> bool:
    """Whether the job would take any of what the head waits for, besides slots."""
    same = {name for name, _ in job.resources} & {name for name, _ in head.resources}
    return bool(same or (job.memory_bytes and head.memory_bytes))


def fewest_for(risk: float) -> int:
    """Returns how many runs are needed to know a time that is exceeded so rarely."""
    return math.ceil((1.0 - risk) / risk - 1e-9)


def exceeded_rarely_s(runs_s: Iterable[float], risk: float) -> float:
    """Returns the time that the next run exceeds only with probability `risk`; infinite if there
    are too few runs."""
    known = sorted(runs_s)
    k = math.ceil((1.0 - risk) * (len(known) + 1) - 1e-9)
    return known[k - 1] if 0 < k <= len(known) else math.inf
