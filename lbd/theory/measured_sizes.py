"""Job sizes as measured, for samples that no bounded Pareto fits.

The formulas of TAGS hold for any distribution of sizes (they are Pollaczek and Khinchine's). Real
traces are not bounded Pareto; for one, many of their jobs end at their time limit. Cutoffs solved
for the nearest bounded Pareto may then overload a host. So here the sample itself is the
distribution, smoothed just enough to be continuous: the range of logarithms is cut into `BINS`
strips, and the logarithm is uniform within each, which is B(k, p, 0) on each strip.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, repeat

from lbd.theory.bounded_pareto import inverse_rise, log_ratio, rise

BINS = 4000
POWERS = (-1.0, 0.0, 1.0, 2.0)


class MeasuredSizes:
    """Takes at least two different positive sizes in CPU seconds; raises ValueError otherwise.
    `weights`: how many jobs each stands for, if not for one."""

    def __init__(self, sizes_s: Sequence[float], weights: Sequence[float] = ()) -> None:
        self.k, self.p = min(sizes_s, default=0.0), max(sizes_s, default=0.0)
        if not 0 < self.k < self.p < math.inf:
            raise ValueError("cutoffs need at least two jobs of different, positive size")
        self.width = log_ratio(self.p, self.k)
        self._step = self.width / BINS
        counts = [0.0] * BINS
        for size_s, weight in zip(sizes_s, weights or repeat(1.0), strict=bool(weights)):
            counts[min(BINS - 1, int(math.log(size_s / self.k) / self._step))] += weight
        # By power: the sums of the strips' moments below each strip, and from it on. Both are kept,
        # since a tail must not be the difference of two nearly equal numbers.
        share = 1.0 / (math.fsum(counts) * self._step)
        self._density = [count * share for count in counts]
        self._below = {j: [0.0, *accumulate(self._strips(j))] for j in POWERS}
        self._above = {
            j: [*accumulate(reversed(self._strips(j)), initial=0.0)][::-1] for j in POWERS
        }

    def _strips(self, j: float) -> list[float]:
        area = math.pow(self.k, j) * rise(j, self._step)
        step = self._step
        return [density * area * math.exp(j * i * step) for i, density in enumerate(self._density)]

    @property
    def mean_s(self) -> float:
        return self.moment(1.0)

    def moment(self, j: float) -> float:
        return self._below[j][-1]

    def part_y(self, j: float, a: float, b: float) -> float:
        """Returns E[X^j; a < ln(X/k) ≤ b], for j = -1, 0, 1, 2."""
        first, last = self._strip(a), self._strip(b)
        if first == last:
            return self._within(j, first, a, b)
        ends = self._within(j, first, a, (first + 1) * self._step)
        ends += self._within(j, last, last * self._step, b)
        below, above = self._below[j], self._above[j]
        if below[last] < above[first + 1]:
            return ends + (below[last] - below[first + 1])
        return ends + (above[first + 1] - above[last])

    def _strip(self, y: float) -> int:
        return min(BINS - 1, max(0, int(y / self._step)))

    def _within(self, j: float, strip: int, a: float, b: float) -> float:
        area = math.exp(j * a) * rise(j, max(0.0, b - a))
        return math.pow(self.k, j) * self._density[strip] * area

    def size(self, y: float) -> float:
        return self.p if y >= self.width else min(self.p, self.k * math.exp(y))

    def y_of_work(self, share: float) -> float:
        """Returns the y below which this share of the work lies."""
        below = self._below[1.0]
        wanted = share * below[-1]
        strip = min(BINS - 1, bisect_right(below, wanted) - 1)
        from_y = strip * self._step
        if self._density[strip] == 0.0:
            return min(self.width, from_y)
        unit = self.k * self._density[strip] * math.exp(from_y)
        return min(self.width, from_y + inverse_rise(1.0, (wanted - below[strip]) / unit))
