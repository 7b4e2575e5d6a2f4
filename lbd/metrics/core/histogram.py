"""A histogram: how many values fell below which bounds. Pure."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

Counts = dict[str, object]  # as sent between daemons: {"counts": […], "sum": …}


@dataclass(slots=True)
class Histogram:
    """Noting a value costs a search in a short list and an addition, whether anybody asks or
    not."""

    bounds: Sequence[float]
    counts: list[int] = field(init=False)  # the last one: above all bounds
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def note(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def answer(self) -> Counts:
        return {"counts": list(self.counts), "sum": self.total}
