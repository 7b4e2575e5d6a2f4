"""round-robin: hosts in turn, a host with n slots n times a round (Harchol-Balter, section 1)."""

from collections.abc import Sequence
from random import Random

from lbd.dispatch.core.discipline import Hosts
from lbd.dispatch.core.disciplines.queue_per_host import OwnLines
from lbd.model import HostId


class RoundRobin(OwnLines):
    def __init__(self) -> None:
        self._jobs = 0

    def choose(self, names: Sequence[HostId], hosts: Hosts, now_s: float, rng: Random) -> HostId:
        most = max(hosts[name].slots for name in names)
        turns = [name for lap in range(most) for name in names if hosts[name].slots > lap]
        turn = turns[self._jobs % len(turns)]
        self._jobs += 1
        return turn
