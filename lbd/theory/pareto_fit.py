"""B(k, p, α) from measured job sizes, and how well it fits.

p is the largest size. There are two ways to find the rest. The first is used unless its
Kolmogorov-Smirnov distance is more than chance and more than that of the second:

- likelihood: k is the smallest size, α the most likely one given k and p. This is the best way if
  sizes really are bounded Pareto.
- mean: k is chosen to match the sample's mean, α is the one that then fits best. In real traces a
  single job of a second would pull k down and the fit's work far from the measured work; this way
  the load is right, which is what cutoffs depend on most. (The paper also holds the mean fixed and
  adjusts k, section 3.)

Sampling alone explains a distance of up to 1.63/√n, all but once in a hundred times. Real sizes
never come near that; 0.05 is a good fit, beyond 0.2 the formulas say little about the sample.
"""

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from lbd.theory.bounded_pareto import BoundedPareto, with_mean
from lbd.theory.minimise import golden_section

ALPHAS = (0.0, 5.0)
COARSE = 60  # steps over the range, before the golden section
THINNED = 2000  # sizes that the search uses
FINE = 1e-5  # width at which the golden section ends

Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Fit:
    sizes: BoundedPareto
    by: str  # "likelihood" or "mean"
    jobs: int
    mean_s: float  # of the sample
    ks_distance: float  # the largest difference of the two distribution functions

    @property
    def chance(self) -> float:
        """The distance that a sample of a true bounded Pareto exceeds once in a hundred times."""
        return 1.63 / math.sqrt(self.jobs)


def fit(sizes_s: Sequence[float], weights: Sequence[int] = ()) -> Fit:
    """Fits job sizes in CPU seconds; `weights`: how many jobs each stands for, if not for one.
    Raises ValueError if they allow no fit."""
    pairs = sorted(zip(sizes_s, weights or [1] * len(sizes_s), strict=True))
    ordered, weights = [size_s for size_s, _ in pairs], [weight for _, weight in pairs]
    if len(ordered) < 2 or not 0 < ordered[0] < ordered[-1] < math.inf:
        raise ValueError("a fit needs at least two jobs of different, positive size")
    mean_s = mean(ordered, weights)

    def judged(sizes: BoundedPareto, by: str) -> Fit:
        return Fit(sizes, by, len(ordered), mean_s, ks(ordered, sizes, weights))

    likely = judged(most_likely(ordered, weights), "likelihood")
    if likely.ks_distance <= likely.chance:
        return likely
    by_mean = same_mean(thin(ordered), thin(weights), mean_s, ordered[-1])
    if by_mean is None:
        return likely
    return min(likely, judged(by_mean, "mean"), key=lambda one: one.ks_distance)


def mean(values: Iterable[float], weights: Sequence[int]) -> float:
    return math.fsum(map(operator.mul, values, weights)) / sum(weights)


def thin(ordered: Sequence[Number]) -> Sequence[Number]:
    """Returns about `THINNED` of them, evenly by rank: enough for the search."""
    return ordered[:: max(1, len(ordered) // THINNED)]


def most_likely(ordered: Sequence[float], weights: Sequence[int]) -> BoundedPareto:
    """Takes k and p from the extremes, and the α whose mean of ln(x/k) equals the sample's.

    ln(X/k) is an exponential of rate α cut off at L = ln(p/k), of mean L·g(αL).
    """
    k, p = ordered[0], ordered[-1]
    width = math.log(p / k)
    mean_log = mean((math.log(x / k) for x in ordered), weights)
    low, high = ALPHAS
    if mean_log >= width * mean_of_cut_exponential(low * width):
        return BoundedPareto(k, p, low)
    for _ in range(60):
        middle = (low + high) / 2
        if width * mean_of_cut_exponential(middle * width) > mean_log:
            low = middle
        else:
            high = middle
    return BoundedPareto(k, p, high)


def mean_of_cut_exponential(z: float) -> float:
    """Returns g(z) = 1/z - 1/(e^z - 1), the mean of e^(-zu) on 0 … 1; ½ at z = 0."""
    if abs(z) < 1e-3:
        return 0.5 - z / 12.0
    return 1.0 / z - (1.0 / math.expm1(z) if z < 700 else 0.0)


def same_mean(
    ordered: Sequence[float], weights: Sequence[int], mean_s: float, p: float
) -> BoundedPareto | None:
    """Returns the best-fitting α with the k that matches the mean; None if no such k exists."""

    def distance(alpha: float) -> float:
        try:
            return ks(ordered, with_mean(mean_s, p, alpha), weights)
        except ValueError:  # α too small for this mean
            return math.inf

    low, high = ALPHAS
    step = (high - low) / COARSE
    best = min((low + step * i for i in range(COARSE + 1)), key=distance)
    alpha = sum(golden_section(distance, max(low, best - step), min(high, best + step), FINE)) / 2
    return with_mean(mean_s, p, alpha) if math.isfinite(distance(alpha)) else None


def ks(ordered: Sequence[float], sizes: BoundedPareto, weights: Sequence[int] = ()) -> float:
    """Returns the Kolmogorov-Smirnov distance of a rising sample from the distribution."""
    count, upto = len(ordered), [0, *accumulate(weights or [1] * len(ordered))]
    worst = 0.0
    seen = 0
    while seen < count:
        size = ordered[seen]
        after = seen + 1
        while after < count and ordered[after] == size:
            after += 1
        expected = sizes.cdf(size)
        worst = max(worst, expected - upto[seen] / upto[-1], upto[after] / upto[-1] - expected)
        seen = after
    return worst
