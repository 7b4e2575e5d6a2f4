"""fcfs: one central queue; a free slot takes the head. Strictly first come, first served.

It places jobs as well as least-work does, without knowing sizes: whoever is free first is who had
the least work left (Harchol-Balter, section 1, Figure 2).
"""

from collections.abc import Sequence
from random import Random

from lbd.dispatch.discipline import ONLY_LINE, Hosts, HostSlots, Line, QueuedJob


class Fcfs:
    def join(self, job: QueuedJob, hosts: Hosts, now_s: float, dice: Random) -> Line:
        return ONLY_LINE

    def serves(self, host: HostSlots, hosts: Sequence[HostSlots]) -> tuple[Line, ...]:
        return (ONLY_LINE,)

    def cutoff_s(self, line: Line) -> None:
        return None
