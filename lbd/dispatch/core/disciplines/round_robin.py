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
        turn = self._jobs % sum(hosts[name].slots for name in names)
        self._jobs += 1
        laps = 0  # of those with fewer slots than the hosts that are left
        for slots in sorted({hosts[name].slots for name in names}):
            names = [name for name in names if hosts[name].slots >= slots]
            turns = (slots - laps) * len(names)
            if turn < turns:
                break
            turn, laps = turn - turns, slots
        return names[turn % len(names)]
