"""Every discipline, by its name in `dispatch.mode`."""

from collections.abc import Callable, Sequence

from lbd.config.dispatch import Mode
from lbd.dispatch.core.discipline import Discipline
from lbd.dispatch.core.disciplines.fcfs import Fcfs
from lbd.dispatch.core.disciplines.least_work import LeastWork
from lbd.dispatch.core.disciplines.random_ import AtRandom
from lbd.dispatch.core.disciplines.round_robin import RoundRobin
from lbd.dispatch.core.disciplines.shortest_queue import ShortestQueue
from lbd.dispatch.core.disciplines.sita_e import SitaE
from lbd.dispatch.core.disciplines.tags import Tags
from lbd.dispatch.core.disciplines.tiers import checked

TIERED: tuple[Mode, ...] = ("tags", "sita-e")  # they need cutoffs, and a host for each tier
BY_ESTIMATE: tuple[Mode, ...] = ("least-work", "sita-e")
Tiered = Tags | SitaE
UNTIERED: dict[Mode, Callable[[], Discipline]] = {
    "fcfs": Fcfs,
    "random": AtRandom,
    "round-robin": RoundRobin,
    "shortest-queue": ShortestQueue,
    "least-work": LeastWork,
}


def make(mode: Mode, cutoffs_s: Sequence[float], work_conserving: bool = False) -> Discipline:
    """Creates a discipline; cutoffs are for the tiered ones. Raises ValueError if those are
    invalid."""
    if mode in TIERED:
        return tiered(mode, checked(cutoffs_s, mode), work_conserving)
    return UNTIERED[mode]()


def tiered(mode: Mode, cutoffs_s: Sequence[float] = (), work_conserving: bool = False) -> Tiered:
    """Creates a discipline whose cutoffs may change; without any it has one tier."""
    return Tags(cutoffs_s, work_conserving) if mode == "tags" else SitaE(cutoffs_s)
