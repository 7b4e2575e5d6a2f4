"""How many slots will be free at a later moment: Downey's predictor A without its approximation.

A. B. Downey (UCB/CSD-97-929, 1997), section 3.1, equations 6 to 8. Each running job has ended by
then or not, independently, with the chances of equation 5; the free slots are the sum over those
that have. The paper sums over all outcomes, 2^p of them for p jobs, and takes it for infeasible.
The same sum is that of a weighted Poisson binomial: job by job, the distribution over the number of
free slots. That takes about p · n' additions for n' slots, and is what is done here for any p;
enumeration is only how the tests check it.

Equation 6 is printed with its two products exchanged (ended jobs have the chance cdf, the others
1 - cdf), and the > in the line below equation 8 is a ≥. Times are seconds from now.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp, log
from struct import pack, unpack
from typing import NamedTuple

from lbd.theory.queue_time import LONGEST_S, Releases, earliest_s

NEGLIGIBLE = 2.0**-60  # a chance that no sum shows
FEW = 24  # jobs whose distribution is made one by one
CLOSE = 1e-7  # relative width of the bracket of an answer
ROUGH = 1e-7  # of the mean: the error of each part of the integral
DEEPEST = 10  # halvings of one of its parts
INTERVAL_90 = (0.05, 0.95)

Ending = tuple[int, float]  # the slots of a job, and its chance to have ended


class Slots(NamedTuple):
    """The probabilities of `base` slots, of one more, and so on."""

    base: int
    chances: list[float]


def chance_of(needed: int, releases: Releases, t_s: float) -> float:
    """Pr{F ≥ n'}, equation 8: that so many slots or more are free at `t_s` from now.

    Raises ValueError for more than are held.
    """
    checked(needed, releases)
    if needed <= 0:
        return 1.0
    on = releases.go_on(t_s)
    over = releases.total - needed  # the slots that may still be held
    slots = [size for _, size in releases.held]
    if needed <= over:
        ended = [(size, 1.0 - p) for size, p in zip(slots, on, strict=True)]
        return 1.0 - chance_below(needed, ended)
    return chance_below(over + 1, list(zip(slots, on, strict=True)))


def chance_below(limit: int, events: Sequence[Ending]) -> float:
    """The chance that the slots of those that happen add up to less than `limit`.

    To 1e-13, absolutely.
    """
    certain = sum(slots for slots, p in events if p >= 1.0)
    open_ = sorted((slots, p) for slots, p in events if p < 1.0)
    if certain >= limit:
        return 0.0
    return min(1.0, math.fsum(distribution(limit - certain, open_).chances))


def distribution(limit: int, events: Sequence[Ending]) -> Slots:
    """Of the slots of those that happen, below `limit` only: half of them, the rest, their sum."""
    if len(events) > FEW:
        middle = len(events) // 2
        first, rest = distribution(limit, events[:middle]), distribution(limit, events[middle:])
        return cut(limit, first.base + rest.base, convolved(first.chances, rest.chances))
    found = Slots(0, [1.0])
    for slots, p in events:
        found = cut(limit, found.base, with_one_more(found.chances, slots, p))
    return found


def cut(limit: int, base: int, chances: list[float]) -> Slots:
    """Drops what is beyond the limit, or negligible."""
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
    """The distribution of a sum, as one product of two long integers.

    Each chance is a number of 60 bits in a field of 128, wide enough for what falls into it: the
    chances of a distribution add up to 1. Long integers are multiplied by machine code, and faster
    than by all pairs.
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
    """When Pr{F ≥ n'} = share: the median of Q(n') at ½, section 3.1.

    At most LONGEST_S. Raises ValueError for more slots than are held, or a share not within 0 … 1.
    """
    if not 0 < share < 1:
        raise ValueError(f"a share of {share:g}: must lie between 0 and 1")
    checked(needed, releases)
    # The gradual flow of predictor B is the median where many jobs run, and near it elsewhere.
    guess_s = releases.mean_s(min(needed, 0.9 * releases.total))
    return earliest_s(lambda t_s: chance_of(needed, releases, t_s) - share, guess_s, CLOSE)


def interval_90_s(needed: int, releases: Releases) -> tuple[float, float]:
    """From when to when the slots come back, but for one case in ten. Raises as `quantile_s`."""
    low, high = INTERVAL_90
    return quantile_s(needed, releases, low), quantile_s(needed, releases, high)


def mean_s(needed: int, releases: Releases) -> float:
    """E[Q(n')] = ∫ Pr{F < n'} dt, to a millionth.

    Infinite if it takes a job older than all that have ended. Raises ValueError for more slots than
    are held.
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
    # t = e^v - shift: even steps in ln of a lifetime
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
    """∫ function, by Simpson's rule on parts halved until halving changes nothing."""
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
