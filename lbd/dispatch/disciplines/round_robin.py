"""round-robin: hosts in turn, one with n slots n times a round (Harchol-Balter, section 1)."""

from random import Random

from lbd.dispatch.discipline import Hosts, Line, QueuedJob, able
from lbd.dispatch.disciplines.own_lines import OwnLines


class RoundRobin(OwnLines):
    def __init__(self) -> None:
        self._jobs = 0

    def join(self, job: QueuedJob, hosts: Hosts, now_s: float, dice: Random) -> Line | None:
        names = able(job, hosts)
        if not names:
            return None
        most = max(hosts[name].slots for name in names)
        turns = [name for lap in range(most) for name in names if hosts[name].slots > lap]
        self._jobs += 1
        return turns[(self._jobs - 1) % len(turns)]
