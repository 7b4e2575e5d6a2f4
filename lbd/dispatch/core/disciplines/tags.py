"""tags: Task Assignment by Guessing Size (Harchol-Balter, section 4).

Every job starts in tier 1. A job that has used s_i seconds of CPU in tier i is killed and starts
from scratch at the end of tier i + 1; the last tier has no limit. So small jobs never wait behind
large ones, without anybody knowing which is which. A job that may not restart goes straight to the
last tier.

Several hosts may share a tier: they serve its one line. A host in several tiers serves the lowest
first, whose jobs are likely the smallest; no job starves that the hosts had capacity for. With
`work_conserving`, a host with nothing to do in its own tiers helps a lower one. The job it takes
keeps the lower tier's cutoff, so the host's own jobs never wait longer than that for it.

Until cutoffs have been solved, there is one tier, which is fcfs.
"""

from collections.abc import Sequence
from random import Random

from lbd.dispatch.core.discipline import HostConnection, Hosts, HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.tiers import tier_for, tiers_of


class Tags:
    def __init__(self, cutoffs_s: Sequence[float], work_conserving: bool = False) -> None:
        self.cutoffs_s = tuple(cutoffs_s)
        self._work_conserving = work_conserving

    @property
    def tiers(self) -> int:
        return len(self.cutoffs_s) + 1

    def join(self, job: QueuedJob, hosts: Hosts, now_s: float, rng: Random) -> HostConnection:
        tier = min(job.tier, self.tiers) if job.may_restart else self.tiers
        return tier_for(job, tier, self.tiers, hosts)

    def serves(self, host: HostSlots, hosts: Sequence[HostSlots]) -> tuple[HostConnection, ...]:
        own = tiers_of(host, hosts, self.tiers)
        if not self._work_conserving:
            return tuple(own)
        return (*own, *(tier for tier in range(1, max(own)) if tier not in own))

    def cutoff_s(self, line: HostConnection) -> float | None:
        assert isinstance(line, int)
        return self.cutoffs_s[line - 1] if line < self.tiers else None
