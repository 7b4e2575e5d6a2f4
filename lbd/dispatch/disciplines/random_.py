"""random: each slot is as likely as any other (Harchol-Balter, section 1: Random)."""

from random import Random

from lbd.dispatch.discipline import Hosts, Line, QueuedJob, able
from lbd.dispatch.disciplines.own_lines import OwnLines


class AtRandom(OwnLines):
    def join(self, job: QueuedJob, hosts: Hosts, now_s: float, dice: Random) -> Line | None:
        names = able(job, hosts)
        if not names:
            return None
        return dice.choices(names, [hosts[name].slots for name in names])[0]
