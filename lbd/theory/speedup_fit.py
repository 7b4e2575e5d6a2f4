"""A and σ of a command from its runs on different numbers of slots, and how well they are known.

The run time on n slots is L/S(n; A, σ) (Downey 1997, sections 2.1 and 2.2; section 2.2.3 estimates
A and σ from observed run times). Its logarithm is ln L - ln S + noise, and least squares of it are
least squares of relative errors. L is whatever fits best for A and σ. Runs on the same number of
slots count as their mean, so the work grows with the different numbers of slots, not with the runs.

Runs on fewer slots than A hardly separate A from σ: there S depends only on σ/A (on σ/(A(σ + 1))
for σ above 1). So intervals are taken from the profile, not from the slope at the best fit: all A
for which some σ fits hardly worse than the best (by the F test at 90 %), and all σ for which some A
does. Among equally good fits the smallest A is taken, so that no job is sent to more slots than
runs have shown to be useful.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lbd.theory.minimise import golden_section
from lbd.theory.speedup import Speedup, speedup_at

MOST_PARALLELISM = 1024.0  # the end of the search: an interval up to it is open
MOST_SIGMA = 16.0
NOISE = 0.1  # relative s.d. of run times that is expected before any are seen
NOISE_MAX = 0.5  # above this, the runs are not all of the same work
NOISE_RUNS = 2  # runs that the expected noise counts for
ALIKE = 0.02  # share of the noise's variance by which equally good fits may differ
EXACT = 1e-9  # allowance for rounding in that comparison
POINTS = 24  # of each scan
# on the 0 to 1 scale: where the golden section ends, for the fit and for intervals
FINE, ROUGH = 1e-5, 1e-3
HALVINGS = 12  # when locating an interval's end
# Student's t, two-sided 90 %, by degrees of freedom from 1 on; beyond, the expansion in 1/n.
STUDENT_90 = (6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812)
NORMAL_90 = 1.644854

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class SpeedupFit:
    speedup: Speedup
    work_s: float  # L, on one slot
    runs: int
    noise: float  # relative s.d. of a run time about the fit
    parallelism_90: Interval  # an interval up to MOST_PARALLELISM has no known upper bound
    sigma_90: Interval

    @property
    def says_something(self) -> bool:
        """False if the runs are so unlike each other that they are not of the same work, or leave A
        open."""
        low, high = self.parallelism_90
        return self.noise <= NOISE_MAX and not (low <= 1 and high >= MOST_PARALLELISM)

    def run_s(self, slots: float) -> float:
        return self.speedup.run_s(self.work_s, slots)


@dataclass(frozen=True, slots=True)
class Runs:
    """The observed runs, reduced to what the fit depends on."""

    slots: tuple[int, ...]
    weights: tuple[int, ...]  # runs on each number of slots
    logs: tuple[float, ...]  # their mean ln T
    within: float  # squares within the groups, which no fit can reduce
    count: int

    def squares(self, parallelism: float, sigma: float) -> float:
        """Returns the sum of squared residuals at the best L."""
        work = self.work_logs(parallelism, sigma)
        middle = self.middle(work)
        between = sum([w * (x - middle) ** 2 for w, x in zip(self.weights, work, strict=True)])
        return self.within + between

    def work_logs(self, parallelism: float, sigma: float) -> list[float]:
        """Returns the estimate of ln L at each number of slots."""
        pairs = zip(self.slots, self.logs, strict=True)
        return [y + math.log(speedup_at(n, parallelism, sigma)) for n, y in pairs]

    def middle(self, work: Sequence[float]) -> float:
        return sum([w * x for w, x in zip(self.weights, work, strict=True)]) / self.count


def fit(runs: Sequence[tuple[int, float]]) -> SpeedupFit:
    """Fits (slots, run time in seconds) pairs of one command.

    Raises ValueError if fewer than two numbers of slots were used, for a number below 1, or for a
    run time that is not above 0.
    """
    seen = grouped(runs)
    parallelism, sigma, least = best_of(seen)
    freedom = max(seen.count - 3, 0) + NOISE_RUNS
    variance = (least + NOISE_RUNS * NOISE**2) / freedom
    alike = least + ALIKE * least / freedom + EXACT
    parallelism, sigma = smallest_alike(seen, parallelism, sigma, alike)
    limit = least + student_90(freedom) ** 2 * variance
    work = seen.middle(seen.work_logs(parallelism, sigma))
    return SpeedupFit(
        Speedup(parallelism, sigma),
        math.exp(work),
        seen.count,
        math.sqrt(variance),
        around(
            lambda x: by_parallelism(seen, x, ROUGH)[1],
            scale_of(parallelism),
            limit,
            to_parallelism,
        ),
        around(lambda x: by_sigma(seen, x), share_of(sigma), limit, to_sigma),
    )


def grouped(runs: Sequence[tuple[int, float]]) -> Runs:
    logs: dict[int, list[float]] = {}
    for slots, run_s in runs:
        if slots < 1 or not 0 < run_s < math.inf:
            raise ValueError(f"a run of {run_s:g} s on {slots} slots: both must be above 0")
        logs.setdefault(slots, []).append(math.log(run_s))
    if len(logs) < 2:
        raise ValueError("a speedup is fitted to runs on two different numbers of slots at least")
    means = {slots: math.fsum(some) / len(some) for slots, some in sorted(logs.items())}
    within = math.fsum((y - means[slots]) ** 2 for slots, some in logs.items() for y in some)
    weights = tuple(len(logs[slots]) for slots in means)
    return Runs(tuple(means), weights, tuple(means.values()), within, sum(weights))


# Both are searched on a scale of 0 to 1: A by its logarithm, σ by σ/(1 + σ).
def to_parallelism(x: float) -> float:
    return math.exp(x * math.log(MOST_PARALLELISM))


def scale_of(parallelism: float) -> float:
    return math.log(parallelism) / math.log(MOST_PARALLELISM)


def to_sigma(x: float) -> float:
    share = x * MOST_SIGMA / (1 + MOST_SIGMA)
    return share / (1 - share)


def share_of(sigma: float) -> float:
    return sigma / (1 + sigma) * (1 + MOST_SIGMA) / MOST_SIGMA


def by_parallelism(seen: Runs, x: float, width: float = FINE) -> tuple[float, float]:
    """Returns the σ that fits best with this A, and the remaining squares."""
    parallelism = to_parallelism(x)
    at = valley(lambda y: seen.squares(parallelism, to_sigma(y)), width)
    return to_sigma(at), seen.squares(parallelism, to_sigma(at))


def by_sigma(seen: Runs, y: float) -> float:
    """Returns the residual at this σ with the A that fits best with it."""
    sigma = to_sigma(y)
    x = valley(lambda x: seen.squares(to_parallelism(x), sigma), ROUGH)
    return seen.squares(to_parallelism(x), sigma)


def best_of(seen: Runs) -> tuple[float, float, float]:
    x = valley(lambda x: by_parallelism(seen, x)[1])
    sigma, squares = by_parallelism(seen, x)
    return to_parallelism(x), sigma, squares


def smallest_alike(
    seen: Runs, parallelism: float, sigma: float, limit: float
) -> tuple[float, float]:
    """Returns the smallest A, with its σ, that fits within the limit."""
    low = edge(lambda x: by_parallelism(seen, x)[1], scale_of(parallelism), 0.0, limit)
    if low >= scale_of(parallelism):
        return parallelism, sigma
    return to_parallelism(low), by_parallelism(seen, low)[0]


def valley(function: Callable[[float], float], width: float = FINE) -> float:
    """Returns where a function on 0 … 1 is least: a scan, then the golden section around its best
    point."""
    step = 1.0 / POINTS
    best = min((step * i for i in range(POINTS + 1)), key=function)
    low, high = max(0.0, best - step), min(1.0, best + step)
    low, high = golden_section(function, low, high, width)
    return min((low, (low + high) / 2, high, best), key=function)


def around(
    profile: Callable[[float], float], best: float, limit: float, unit: Callable[[float], float]
) -> Interval:
    """Returns the first and the last place where the profile is within the limit."""
    return unit(edge(profile, best, 0.0, limit)), unit(edge(profile, best, 1.0, limit))


def edge(profile: Callable[[float], float], best: float, end: float, limit: float) -> float:
    """Returns the farthest place from `best` towards `end` that is within the limit."""
    outside, inside = end, best
    for i in range(POINTS):
        x = end + (best - end) * i / POINTS
        if profile(x) <= limit:
            inside = x
            break
        outside = x
    if inside == end:
        return end
    for _ in range(HALVINGS):
        middle = (outside + inside) / 2
        outside, inside = (outside, middle) if profile(middle) <= limit else (middle, inside)
    return inside


def student_90(freedom: int) -> float:
    if freedom <= len(STUDENT_90):
        return STUDENT_90[freedom - 1]
    z = NORMAL_90
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
