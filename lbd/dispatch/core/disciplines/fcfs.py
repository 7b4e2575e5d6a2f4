"""fcfs: one central queue; a free slot takes the head. Strictly first come, first served.

It places jobs as well as least-work does, without knowing sizes: the host that is free first is the
one that had the least work left (Harchol-Balter, section 1, Figure 2).
"""

from collections.abc import Sequence
from random import Random

from lbd.dispatch.core.discipline import ONLY_LINE, HostConnection, Hosts, HostSlots, QueuedJob


class Fcfs:
    def join(self, job: QueuedJob, hosts: Hosts, now_s: float, rng: Random) -> HostConnection:
        return ONLY_LINE

    def serves(self, host: HostSlots, hosts: Sequence[HostSlots]) -> tuple[HostConnection, ...]:
        return (ONLY_LINE,)

    def cutoff_s(self, line: HostConnection) -> None:
        return None
