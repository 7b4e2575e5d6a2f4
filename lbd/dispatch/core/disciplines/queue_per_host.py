"""Dispatch on arrival: each host has its own line, and a job's host is chosen as it arrives.

The four disciplines of this kind differ only in `choose`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random

from lbd.dispatch.core.discipline import HostConnection, Hosts, HostSlots, QueuedJob, able
from lbd.model import HostId


class OwnLines(ABC):
    def serves(self, host: HostSlots, hosts: Sequence[HostSlots]) -> tuple[HostConnection, ...]:
        return (host.name,)

    def cutoff_s(self, line: HostConnection) -> None:
        return None

    def join(
        self, job: QueuedJob, hosts: Hosts, now_s: float, rng: Random
    ) -> HostConnection | None:
        names = able(job, hosts)
        return self.choose(names, hosts, now_s, rng) if names else None

    @abstractmethod
    def choose(self, names: Sequence[HostId], hosts: Hosts, now_s: float, rng: Random) -> HostId:
        """Returns the job's host. `names`: the hosts that could run it, at least one."""
