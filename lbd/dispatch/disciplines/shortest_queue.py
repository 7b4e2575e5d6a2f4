"""shortest-queue: the host with the fewest jobs a slot, waiting and running; by lot among equals
(Harchol-Balter, section 1)."""

from random import Random

from lbd.dispatch.discipline import Hosts, Line, QueuedJob, able
from lbd.dispatch.disciplines.own_lines import OwnLines


class ShortestQueue(OwnLines):
    def join(self, job: QueuedJob, hosts: Hosts, now_s: float, dice: Random) -> Line | None:
        names = able(job, hosts)
        if not names:
            return None
        lengths = [hosts[name].jobs / hosts[name].slots for name in names]
        least = min(lengths)
        return dice.choice([n for n, length in zip(names, lengths, strict=True) if length == least])
