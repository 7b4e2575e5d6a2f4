"""On which host the next worker of an executor starts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random

ANYWHERE = ""  # no daemon says which hosts there are: `lbrun` finds a place


@dataclass(frozen=True, slots=True)
class WorkerHost:
    """A host as the load information manager knows it."""

    name: str
    load: float = 0.0  # runnable tasks per usable core and speed
    cores: float = 1.0
    speed: float = 1.0
    slots: int = 1

    @property
    def power(self) -> float:
        return max(self.cores, 1e-3) * max(self.speed, 1e-3)


def next_host(
    hosts: Iterable[WorkerHost], own: Mapping[str, int], set_aside: set[str], rng: Random
) -> str | None:
    """The host where one more worker finds the most room, or None where all slots are taken.

    Idle workers are no load, so `own` (the executor's workers by host) counts beside what is
    measured; otherwise all of them would start on the host that is least loaded now.
    """
    best: list[str] = []
    best_load = float("inf")
    for host in hosts:
        count = own.get(host.name, 0)
        if host.name in set_aside or count >= host.slots:
            continue
        load = host.load + (count + 1) / host.power
        if load < best_load:
            best, best_load = [], load
        if load <= best_load:
            best.append(host.name)
    return rng.choice(best) if best else None
