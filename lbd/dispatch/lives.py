"""How long the jobs held their slots that ended lately: seconds × slots. Pure.

That is the sequential lifetime, not that by the clock: Downey's predictions are hardly related to
what happens if the distribution is fitted to the latter.
"""

from collections import deque
from dataclasses import dataclass, field

KEPT = 1000


@dataclass(slots=True)
class Lives:
    recent_s: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    count: int = 0

    def ended(self, life_s: float) -> None:
        self.recent_s.append(life_s)
        self.count += 1
