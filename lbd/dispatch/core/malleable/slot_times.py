"""How long the jobs held their slots that ended lately: seconds × slots. Pure.

That is the sequential lifetime, not that by the clock: Downey's predictions are hardly related to
what happens if the distribution is fitted to the latter.
"""

from collections import deque
from dataclasses import dataclass, field

from lbd.theory.queue_time import UniformLog, fit

KEPT = 1000
FEWEST = 5  # ended jobs, to say anything
REFITTED = 10  # times until all that is kept was replaced


@dataclass(slots=True)
class SlotTimes:
    recent_s: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    count: int = 0
    _fit: tuple[int, UniformLog, float] | None = None  # of how many, and their mean

    def ended(self, life_s: float) -> None:
        self.recent_s.append(life_s)
        self.count += 1

    def lifetimes(self) -> tuple[UniformLog, float] | None:
        """Returns their distribution and mean, as of lately; None of too few."""
        recent_s = self.recent_s
        if len(recent_s) < FEWEST:
            return None
        if self._fit is None or self.count - self._fit[0] > len(recent_s) // REFITTED:
            self._fit = self.count, fit(recent_s), sum(recent_s) / len(recent_s)
        return self._fit[1], self._fit[2]
