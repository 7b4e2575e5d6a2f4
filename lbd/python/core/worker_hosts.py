"""Chooses the host where the next worker of an executor starts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random

ANYWHERE = ""  # no daemon lists the hosts: `lbrun` chooses one


@dataclass(frozen=True, slots=True)
class WorkerHost:
    """A host as the LIM describes it."""

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
    """Returns the host with the most room for one more worker, or None if all slots are taken.

    Idle workers add no load, so `own` (the executor's workers by host) is counted beside the
    measured load. Otherwise all of them would start on the host that is least loaded now.
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
