"""How long the jobs held their slots that ended lately: seconds × slots. Pure.

That is the sequential lifetime, not that by the clock: Downey's predictions are hardly related to
what happens if the distribution is fitted to the latter. What they had besides slots is held for as
long as they run, and by other jobs than most: a thousand short ones say nothing of the one that has
the GPU. So each resource has lifetimes of its own, in seconds.
"""

from collections import deque
from dataclasses import dataclass, field

from lbd.model import Needs
from lbd.theory.queue_time import OLDER_FEWEST, UniformLog, fit_in_two

KEPT = 1000
FEWEST = 5  # ended jobs, to say anything
REFITTED = 10  # times until all that is kept was replaced
RESOURCES_MAX = 100  # users name them
MEMORY = "memory"


@dataclass(slots=True)
class SlotTimes:
    recent_s: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    count: int = 0
    _fit: tuple[int, UniformLog, float] | None = None  # of how many, and their mean
    _unforeseen: int = 0  # that lived longer than that fit says

    def ended(self, life_s: float) -> None:
        self.recent_s.append(life_s)
        self.count += 1
        self._unforeseen += self._fit is not None and self._fit[1].at_age(life_s) is None

    def lifetimes(self) -> tuple[UniformLog, float] | None:
        """Returns their distribution and mean, as of lately; None of too few."""
        recent_s = self.recent_s
        if len(recent_s) < FEWEST:
            return None
        is_old = self._fit is None or self.count - self._fit[0] > len(recent_s) // REFITTED
        if self._fit is None or is_old or self._unforeseen >= OLDER_FEWEST:
            self._fit = self.count, fit_in_two(recent_s), sum(recent_s) / len(recent_s)
            self._unforeseen = 0
        return self._fit[1], self._fit[2]


@dataclass(slots=True)
class ResourceTimes:
    """By the clock: what a job has is had by nobody else meanwhile, whatever else it has."""

    slots: SlotTimes = field(default_factory=SlotTimes)  # had by every job
    by_name: dict[str, SlotTimes] = field(default_factory=dict)

    def ended(self, needs: Needs, ran_s: float) -> None:
        self.slots.ended(ran_s)
        names = [name for name, _ in needs.resources] + [MEMORY] * bool(needs.memory_bytes)
        for name in names:
            if name in self.by_name or len(self.by_name) < RESOURCES_MAX:
                self.by_name.setdefault(name, SlotTimes()).ended(ran_s)

    def count(self, name: str) -> int:
        return len(self.by_name[name].recent_s) if name in self.by_name else 0

    def lifetimes(self, name: str) -> tuple[UniformLog, float] | None:
        """As those of `SlotTimes`, of the jobs that had this resource."""
        found = self.by_name.get(name)
        return found.lifetimes() if found is not None else None
