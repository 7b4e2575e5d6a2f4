"""least-work: the host with the least work left by its jobs' estimates; by lot among equals
(Harchol-Balter, section 1: Least-Work-Remaining).

A job without an estimate counts as the mean of the others', one that runs beyond its estimate as
about to end.
"""

from random import Random

from lbd.dispatch.discipline import Hosts, Line, QueuedJob, able
from lbd.dispatch.disciplines.own_lines import OwnLines


class LeastWork(OwnLines):
    def join(self, job: QueuedJob, hosts: Hosts, now_s: float, dice: Random) -> Line | None:
        names = able(job, hosts)
        if not names:
            return None
        left = [hosts[name].work_left_s(now_s) for name in names]
        least = min(left)
        return dice.choice([name for name, s in zip(names, left, strict=True) if s == least])
