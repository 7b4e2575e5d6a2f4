"""sita-e: Size Interval Task Assignment with Equal load (Harchol-Balter, section 2).

As tags, but a job goes straight to the tier of its estimate and nothing is killed: the cutoffs are
those that give every tier the same work. A job without an estimate goes to the last tier, where it
cannot hold up the small ones. Until cutoffs have been solved, it is fcfs.
"""

from bisect import bisect_left
from collections.abc import Sequence
from random import Random

from lbd.dispatch.core.discipline import HostConnection, Hosts, HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.tiers import tier_for, tiers_of


class SitaE:
    def __init__(self, cutoffs_s: Sequence[float]) -> None:
        self.cutoffs_s = tuple(cutoffs_s)  # none: one tier

    def join(self, job: QueuedJob, hosts: Hosts, now_s: float, rng: Random) -> HostConnection:
        tiers = len(self.cutoffs_s) + 1
        known = job.estimate_s
        tier = tiers if known is None else bisect_left(self.cutoffs_s, known) + 1
        return tier_for(job, tier, tiers, hosts)

    def serves(self, host: HostSlots, hosts: Sequence[HostSlots]) -> tuple[HostConnection, ...]:
        return tuple(tiers_of(host, hosts, len(self.cutoffs_s) + 1))

    def cutoff_s(self, line: HostConnection) -> None:
        return None
