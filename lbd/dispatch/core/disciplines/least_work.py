"""least-work: the host with the least work left by its jobs' estimates; at random among equals
(Harchol-Balter, section 1: Least-Work-Remaining).

A job without an estimate counts as the mean of the others'; a job that exceeds its estimate counts
as about to end.
"""

from collections.abc import Sequence
from random import Random

from lbd.dispatch.core.discipline import Hosts
from lbd.dispatch.core.disciplines.queue_per_host import OwnLines
from lbd.model import HostId


class LeastWork(OwnLines):
    def choose(self, names: Sequence[HostId], hosts: Hosts, now_s: float, rng: Random) -> HostId:
        left = [hosts[name].work_left_s(now_s) for name in names]
        least = min(left)
        return rng.choice([name for name, s in zip(names, left, strict=True) if s == least])
