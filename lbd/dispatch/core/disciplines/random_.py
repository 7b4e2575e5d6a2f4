"""random: each slot is as likely as any other (Harchol-Balter, section 1: Random)."""

from collections.abc import Sequence
from random import Random

from lbd.dispatch.core.discipline import Hosts
from lbd.dispatch.core.disciplines.queue_per_host import OwnLines
from lbd.model import HostId


class AtRandom(OwnLines):
    def choose(self, names: Sequence[HostId], hosts: Hosts, now_s: float, rng: Random) -> HostId:
        return rng.choices(names, [hosts[name].slots for name in names])[0]
