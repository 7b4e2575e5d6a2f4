"""Every discipline by its name in `dispatch.mode`."""

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

TIERED: tuple[Mode, ...] = ("tags", "sita-e")  # need cutoffs, and a host of their own per tier
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
    """A fresh one; cutoffs are for the tiered ones. Raises ValueError if those are wrong."""
    if mode in TIERED:
        return tiered(mode, checked(cutoffs_s, mode), work_conserving)
    return UNTIERED[mode]()


def tiered(mode: Mode, cutoffs_s: Sequence[float] = (), work_conserving: bool = False) -> Tiered:
    """One whose cutoffs may change; so far without any it is one tier."""
    return Tags(cutoffs_s, work_conserving) if mode == "tags" else SitaE(cutoffs_s)
