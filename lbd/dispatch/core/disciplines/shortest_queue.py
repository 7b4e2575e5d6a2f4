"""shortest-queue: the host with the fewest jobs per slot, waiting and running; at random among
equals (Harchol-Balter, section 1)."""

from collections.abc import Sequence
from random import Random

from lbd.dispatch.core.discipline import Hosts
from lbd.dispatch.core.disciplines.queue_per_host import OwnLines
from lbd.model import HostId


class ShortestQueue(OwnLines):
    def choose(self, names: Sequence[HostId], hosts: Hosts, now_s: float, rng: Random) -> HostId:
        lengths = [host.jobs / host.slots for host in map(hosts.__getitem__, names)]
        least = min(lengths)
        return rng.choice([n for n, length in zip(names, lengths, strict=True) if length == least])
