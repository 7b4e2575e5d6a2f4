"""Every discipline by its name in `dispatch.mode`."""

from collections.abc import Callable, Sequence
from typing import Literal, get_args

from lbd.dispatch.discipline import Discipline
from lbd.dispatch.disciplines.fcfs import Fcfs
from lbd.dispatch.disciplines.least_work import LeastWork
from lbd.dispatch.disciplines.random_ import AtRandom
from lbd.dispatch.disciplines.round_robin import RoundRobin
from lbd.dispatch.disciplines.shortest_queue import ShortestQueue
from lbd.dispatch.disciplines.sita_e import SitaE
from lbd.dispatch.disciplines.tags import Tags

Mode = Literal["fcfs", "tags", "random", "round-robin", "shortest-queue", "least-work", "sita-e"]
MODES: tuple[Mode, ...] = get_args(Mode)
TIERED: tuple[Mode, ...] = ("tags", "sita-e")  # need cutoffs, and a host of their own per tier
UNTIERED: dict[Mode, Callable[[], Discipline]] = {
    "fcfs": Fcfs,
    "random": AtRandom,
    "round-robin": RoundRobin,
    "shortest-queue": ShortestQueue,
    "least-work": LeastWork,
}


def make(mode: Mode, cutoffs_s: Sequence[float], work_conserving: bool = False) -> Discipline:
    """A fresh one; cutoffs are for the tiered ones. Raises ValueError if those are wrong."""
    if mode == "tags":
        return Tags(cutoffs_s, work_conserving)
    if mode == "sita-e":
        return SitaE(cutoffs_s)
    return UNTIERED[mode]()
