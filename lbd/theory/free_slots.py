"""How many slots will be free at a later time: Downey's predictor A without its approximation.

A. B. Downey (UCB/CSD-97-929, 1997), section 3.1, equations 6 to 8. Each running job has ended by
then or not, independently, with the chances of equation 5; the free slots are the sum over the jobs
that have ended. The paper sums over all outcomes, 2^p of them for p jobs, and calls that
infeasible. The same sum is a weighted Poisson binomial distribution, built job by job over the
number of free slots. That takes about p · n' additions for n' slots, and is used here for any p;
only the tests enumerate, to check it.

Equation 6 is printed with its two products exchanged (ended jobs have the chance cdf, the others 1
- cdf), and the > in the line below equation 8 should be ≥. Times are seconds from now.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp, log
from struct import pack, unpack
from typing import NamedTuple

from lbd.theory.queue_time import LONGEST_S, Releases, earliest_s

NEGLIGIBLE = 2.0**-60  # a chance too small to show in any sum
FEW = 24  # jobs whose distribution is built one by one
CLOSE = 1e-7  # relative width of an answer's bracket
ROUGH = 1e-7  # relative to the mean: the error of each part of the integral
DEEPEST = 10  # halvings of one part
INTERVAL_90 = (0.05, 0.95)

Ending = tuple[int, float]  # the slots of a job, and the chance that it has ended


class Slots(NamedTuple):
    """The probabilities of `base` slots, of `base` + 1, and so on."""

    base: int
    chances: list[float]


def chance_of(needed: int, releases: Releases, t_s: float) -> float:
    """Returns Pr{F ≥ n'}, equation 8: the chance that n' or more slots are free at `t_s` from now.

    Raises ValueError if `needed` exceeds the slots held.
    """
    checked(needed, releases)
    if needed <= 0:
        return 1.0
    on = releases.go_on(t_s)
    over = releases.total - needed  # slots that may still be held
    slots = [size for _, size in releases.held]
    if needed <= over:
        ended = [(size, 1.0 - p) for size, p in zip(slots, on, strict=True)]
        return 1.0 - chance_below(needed, ended)
    return chance_below(over + 1, list(zip(slots, on, strict=True)))


def chance_below(limit: int, events: Sequence[Ending]) -> float:
    """Returns the chance that the slots of the events that happen add up to less than `limit`.

    Accurate to 1e-13, absolute.
    """
    certain = sum(slots for slots, p in events if p >= 1.0)
    open_ = sorted((slots, p) for slots, p in events if p < 1.0)
    if certain >= limit:
        return 0.0
    return min(1.0, math.fsum(distribution(limit - certain, open_).chances))


def distribution(limit: int, events: Sequence[Ending]) -> Slots:
    """Returns the distribution of the slots of the events that happen, below `limit`. Splits long
    lists in half and convolves the halves."""
    if len(events) > FEW:
        middle = len(events) // 2
        first, rest = distribution(limit, events[:middle]), distribution(limit, events[middle:])
        return cut(limit, first.base + rest.base, convolved(first.chances, rest.chances))
    found = Slots(0, [1.0])
    for slots, p in events:
        found = cut(limit, found.base, with_one_more(found.chances, slots, p))
    return found


def cut(limit: int, base: int, chances: list[float]) -> Slots:
    """Drops what is beyond the limit or negligible."""
    del chances[max(0, limit - base) :]
    while chances and chances[-1] < NEGLIGIBLE:
        chances.pop()
    first = next((i for i, chance in enumerate(chances) if chance >= NEGLIGIBLE), 0)
    return Slots(base + first, chances[first:])


def with_one_more(chances: list[float], slots: int, p: float) -> list[float]:
    q, count = 1.0 - p, len(chances)
    ended = [p * x for x in chances]
    if slots >= count:
        return [q * x for x in chances] + [0.0] * (slots - count) + ended
    both = [q * x + y for x, y in zip(chances[slots:], ended, strict=False)]
    return [q * x for x in chances[:slots]] + both + ended[count - slots :]


def convolved(a: list[float], b: list[float]) -> list[float]:
    """Returns the distribution of a sum, computed as one product of two long integers.

    Each chance is a 60-bit number in a 128-bit field, wide enough for the sums that fall into it,
    since the chances of a distribution add up to 1. Machine code multiplies long integers, faster
    than multiplying all pairs.
    """
    if not a or not b:
        return []
    count = len(a) + len(b) - 1
    product = as_integer(a) * as_integer(b)
    words = unpack(f"<{2 * count}Q", product.to_bytes(16 * count, "little"))
    return [
        high * 2.0**-56 + low * 2.0**-120 for low, high in zip(words[::2], words[1::2], strict=True)
    ]


def as_integer(chances: list[float]) -> int:
    words = [word for chance in chances for word in (int(chance * 2.0**60), 0)]
    return int.from_bytes(pack(f"<{len(words)}Q", *words), "little")


def quantile_s(needed: int, releases: Releases, share: float = 0.5) -> float:
    """Returns when Pr{F ≥ n'} = share: the median of Q(n') at ½, section 3.1.

    At most LONGEST_S. Raises ValueError for more slots than are held, or a share outside 0 … 1.
    """
    if not 0 < share < 1:
        raise ValueError(f"a share of {share:g}: must lie between 0 and 1")
    checked(needed, releases)
    # The gradual flow of predictor B is the median where many jobs run, and close to it elsewhere.
    guess_s = releases.mean_s(min(needed, 0.9 * releases.total))
    return earliest_s(lambda t_s: chance_of(needed, releases, t_s) - share, guess_s, CLOSE)


def interval_90_s(needed: int, releases: Releases) -> tuple[float, float]:
    """Returns the times between which the slots are released in nine cases of ten. Raises as
    `quantile_s`."""
    low, high = INTERVAL_90
    return quantile_s(needed, releases, low), quantile_s(needed, releases, high)


def mean_s(needed: int, releases: Releases) -> float:
    """Returns E[Q(n')] = ∫ Pr{F < n'} dt, to a millionth.

    Infinite if it depends on a job older than all that have ended. Raises ValueError for more slots
    than are held.
    """
    checked(needed, releases)
    if needed <= 0:
        return 0.0
    settled = [
        (age_s, slots, lives)
        for age_s, slots in releases.held
        if (lives := releases.lifetimes.at_age(age_s)) is not None
    ]
    if needed > sum(slots for _, slots, _ in settled):
        return math.inf
    # Corners of the integrand: where a job's end becomes possible, and where it is certain.
    corners_s = {0.0} | {lives.longest_s - age_s for age_s, _, lives in settled}
    corners_s |= {max(0.0, lives.shortest_s - age_s) for age_s, _, lives in settled}
    # t = e^v - shift: even steps in ln of a lifetime.
    shift_s = max(releases.lifetimes.shortest_s, min(age_s for age_s, _, _ in settled))

    def weight(v: float) -> float:
        t_s = max(0.0, exp(v) - shift_s)
        return exp(v) * (1.0 - chance_of(needed, releases, t_s))

    edges = [log(corner_s + shift_s) for corner_s in sorted(corners_s) if corner_s <= LONGEST_S]
    total_s = 0.0
    for low, high in pairwise(edges):
        total_s += simpson(weight, low, high, ROUGH * max(total_s, exp(low) * (high - low)))
    return total_s


def simpson(function: Callable[[float], float], low: float, high: float, error: float) -> float:
    """Returns ∫ function by Simpson's rule, halving each part until that changes nothing."""
    middle = (low + high) / 2
    ends = function(low), function(middle), function(high)
    return halved(function, (low, high), ends, error, DEEPEST)


def halved(
    function: Callable[[float], float],
    between: tuple[float, float],
    values: tuple[float, float, float],
    error: float,
    depth: int,
) -> float:
    (low, high), (at_low, at_middle, at_high) = between, values
    middle, width = (low + high) / 2, high - low
    left, right = function((low + middle) / 2), function((middle + high) / 2)
    whole = width / 6 * (at_low + 4 * at_middle + at_high)
    parts = width / 12 * (at_low + 4 * left + 2 * at_middle + 4 * right + at_high)
    if depth <= 0 or abs(parts - whole) <= 15 * error:
        return parts + (parts - whole) / 15
    first = halved(function, (low, middle), (at_low, left, at_middle), error / 2, depth - 1)
    return first + halved(
        function, (middle, high), (at_middle, right, at_high), error / 2, depth - 1
    )


def checked(needed: int, releases: Releases) -> None:
    if needed > releases.total:
        raise ValueError(f"{needed} slots are needed and {releases.total} held")
