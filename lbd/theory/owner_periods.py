"""How long an owner stays, fitted to observed stays, and how long to wait for them to leave.

One task has been suspended since its host's owner came back. The owner leaves after a time X;
moving costs c seconds of lost work that has to be repeated. Waiting for t seconds and then moving
costs X if the owner leaves before, else t + c:

    J(t) = ∫ S(x) dx over 0 ≤ x ≤ t  +  c·S(t),        J'(t) = S(t)·(1 - c·h(t))

where S(x) is the share of stays longer than x, and h = -S'/S. So waiting pays while h(t) > 1/c, and
c = 1/h is the break-even. He et al. (section III) have geometric stays, where h never changes: wait
forever or move at once. Heavy-tailed stays, as measured on workstations, are different: h falls,
and the longer the owner has been here, the longer they will stay. Then there is a time to give up.
`Lomax` is the simplest distribution of this kind: S(x) = (1 + x/σ)^-α, h(x) = α/(σ + x).

If nothing is known about the stays, waiting as long as a move costs is never more than twice as
expensive as knowing X beforehand, and a random limit e/(e-1) = 1.58 times on average: the
rent-or-buy problem (Karlin, Manasse, McGeoch, Owicki, "Competitive randomized algorithms for
nonuniform problems", Algorithmica 11, 1994). No rule without knowledge does better. All times are
seconds.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from lbd.theory.batch_end import check_chance
from lbd.theory.minimise import golden_section

FEWEST = 20  # ended stays needed to fit a tail
ENOUGH = 60  # ended stays from which the observed distribution is used, whatever its shape
GAIN = 3.0  # in log-likelihood, required to accept the second parameter
STEEPEST = 1e6  # beyond this α a Lomax is an exponential
SPAN = 25.0  # range of ln σ around the mean that is searched


class Stays(Protocol):
    """A distribution of the length of an owner's stay."""

    @property
    def mean_s(self) -> float: ...

    def longer_than(self, stay_s: float) -> float: ...

    def left_s(self, chance: float, stayed_s: float) -> float: ...

    def cost_s(self, limit_s: float, move_s: float, stayed_s: float) -> float: ...

    def limit_s(self, move_s: float, stayed_s: float) -> float: ...


@dataclass(frozen=True, slots=True)
class Exponential:
    """Memoryless stays: in steps of time, the paper's chain with p01 = step/mean."""

    mean_s: float

    def __post_init__(self) -> None:
        """Raises ValueError for a mean that is not above 0."""
        if not 0 < self.mean_s < math.inf:
            raise ValueError(f"a mean stay of {self.mean_s:g} s: must be above 0")

    def longer_than(self, stay_s: float) -> float:
        """Returns S, the share of stays longer than `stay_s`."""
        return math.exp(-max(0.0, stay_s) / self.mean_s)

    def left_s(self, chance: float, stayed_s: float) -> float:
        """Returns the time from now within which the owner leaves with this chance. Raises
        ValueError for a chance outside 0 … 1."""
        check_chance(chance)
        return -self.mean_s * math.log1p(-chance)

    def cost_s(self, limit_s: float, move_s: float, stayed_s: float = 0.0) -> float:
        """Returns J, the mean cost of waiting up to `limit_s` from now, then moving."""
        gone = -math.expm1(-limit_s / self.mean_s)
        return self.mean_s * gone + (0.0 if gone == 1 else move_s * (1 - gone))

    def limit_s(self, move_s: float, stayed_s: float = 0.0) -> float:
        """Returns how long to wait from now: forever (infinite) if a move costs more than a stay,
        else 0."""
        return math.inf if move_s > self.mean_s else 0.0


@dataclass(frozen=True, slots=True)
class Lomax:
    """Heavy-tailed stays: S(x) = (1 + x/σ)^-α, without a mean for α ≤ 1."""

    alpha: float
    scale_s: float  # σ

    def __post_init__(self) -> None:
        """Raises ValueError for a parameter that is not above 0."""
        if not (0 < self.alpha < math.inf and 0 < self.scale_s < math.inf):
            raise ValueError(f"alpha {self.alpha:g}, scale {self.scale_s:g} s: must be above 0")

    @property
    def mean_s(self) -> float:
        return self.scale_s / (self.alpha - 1) if self.alpha > 1 else math.inf

    def longer_than(self, stay_s: float) -> float:
        """Returns S, the share of stays longer than `stay_s`."""
        return math.exp(-self.alpha * math.log1p(max(0.0, stay_s) / self.scale_s))

    def left_s(self, chance: float, stayed_s: float) -> float:
        """Returns the time from now within which the owner leaves with this chance. Raises
        ValueError for a chance outside 0 … 1."""
        check_chance(chance)
        power = -math.log1p(-chance) / self.alpha
        return (self.scale_s + stayed_s) * math.expm1(power) if power < 700 else math.inf

    def cost_s(self, limit_s: float, move_s: float, stayed_s: float = 0.0) -> float:
        """Returns J, the mean cost of waiting up to `limit_s` from now, then moving."""
        # The rest of a stay is again a Lomax, its scale increased by the time that has passed.
        left = Lomax(self.alpha, self.scale_s + stayed_s)
        if limit_s == math.inf:
            return left.mean_s
        log, slope = math.log1p(limit_s / left.scale_s), 1 - self.alpha
        waited_s = left.scale_s * (math.expm1(slope * log) / slope if slope else log)
        return waited_s + move_s * left.longer_than(limit_s)

    def limit_s(self, move_s: float, stayed_s: float = 0.0) -> float:
        """Returns how long to wait from now: until h falls to 1/c, at an age of αc - σ."""
        return max(0.0, self.alpha * move_s - self.scale_s - stayed_s)


@dataclass(frozen=True, slots=True)
class Observed:
    """Stays as observed, of no known shape, by the Kaplan-Meier estimate.

    `ends_s` rise; after each of them S is the value in `shares`. Nothing is known about stays
    longer than any that ended, so no wait begins there.
    """

    ends_s: tuple[float, ...]
    shares: tuple[float, ...]

    @property
    def mean_s(self) -> float:
        """The mean up to the longest stay that has ended."""
        return self.cost_s(self.ends_s[-1], 0.0)

    def longer_than(self, stay_s: float) -> float:
        """Returns S, the share of stays longer than `stay_s`."""
        at = bisect_right(self.ends_s, stay_s)
        return self.shares[at - 1] if at else 1.0

    def left_s(self, chance: float, stayed_s: float) -> float:
        """Returns the time from now within which the owner leaves with this chance; infinite if no
        observed stay ended by then.

        Raises ValueError for a chance outside 0 … 1.
        """
        check_chance(chance)
        rest = (1 - chance) * self.longer_than(stayed_s) * (1 + 1e-12)
        at = next((at for at, share in enumerate(self.shares) if share <= rest), None)
        if at is None or self.longer_than(stayed_s) == 0:
            return math.inf
        return max(0.0, self.ends_s[at] - stayed_s)

    def cost_s(self, limit_s: float, move_s: float, stayed_s: float = 0.0) -> float:
        """Returns J, the mean cost of waiting up to `limit_s` from now, then moving."""
        now = self.longer_than(stayed_s)
        if now == 0:
            return limit_s + move_s
        area, at_s, share = 0.0, stayed_s, now
        for at in range(bisect_right(self.ends_s, stayed_s), len(self.ends_s)):
            if self.ends_s[at] > stayed_s + limit_s:
                break
            area += share * (self.ends_s[at] - at_s)
            at_s, share = self.ends_s[at], self.shares[at]
        rest_s = stayed_s + limit_s - at_s
        return (area + (share * rest_s if share else 0.0) + move_s * share) / now

    def limit_s(self, move_s: float, stayed_s: float = 0.0) -> float:
        """Returns how long to wait from now: until one of the observed ends, or not at all."""
        if move_s == math.inf:
            return math.inf
        best_s, least, area = 0.0, move_s, 0.0
        at_s, share = stayed_s, self.longer_than(stayed_s)
        now = share
        for at in range(bisect_right(self.ends_s, stayed_s), len(self.ends_s)):
            area += share * (self.ends_s[at] - at_s)
            at_s, share = self.ends_s[at], self.shares[at]
            cost = (area + move_s * share) / now
            if cost < least:
                best_s, least = at_s - stayed_s, cost
        return best_s


def observed(ended_s: Sequence[float], lasting_s: Sequence[float] = ()) -> Observed:
    """Returns the Kaplan-Meier estimate: at each end, the share that left of those who had stayed
    that long.

    Raises ValueError as `fit_exponential`.
    """
    check_stays(ended_s, lasting_s)
    ends, everyone = sorted(ended_s), sorted((*ended_s, *lasting_s))
    share, found = 1.0, []
    for end_s, left in groupby(ends):
        here = len(everyone) - bisect_left(everyone, end_s)
        share *= 1 - len(list(left)) / here
        found.append((end_s, share))
    return Observed(tuple(end_s for end_s, _ in found), tuple(share for _, share in found))


def fit_exponential(ended_s: Sequence[float], lasting_s: Sequence[float] = ()) -> Exponential:
    """Fits by maximum likelihood: the total time that owners were here, over the number of ended
    stays.

    `lasting_s` are the ages of stays that have not ended. Raises ValueError without an ended stay,
    for negative lengths, or if all are 0.
    """
    check_stays(ended_s, lasting_s)
    return Exponential((math.fsum(ended_s) + math.fsum(lasting_s)) / len(ended_s))


def check_stays(ended_s: Sequence[float], lasting_s: Sequence[float]) -> None:
    if not ended_s:
        raise ValueError("no stay of an owner has ended yet")
    if not all(0 <= stay_s < math.inf for stay_s in (*ended_s, *lasting_s)):
        raise ValueError("an owner's stay cannot last less than 0 s or for ever")
    if not any(ended_s) and not any(lasting_s):
        raise ValueError("no stay of an owner lasted longer than 0 s")


def fit_lomax(ended_s: Sequence[float], lasting_s: Sequence[float] = ()) -> Lomax:
    """Fits by maximum likelihood: for each σ the best α is known, and σ is searched.

    Raises ValueError as `fit_exponential`.
    """
    centre = math.log(fit_exponential(ended_s, lasting_s).mean_s)
    low, high = centre - SPAN, centre + SPAN

    def height(log_scale: float) -> float:
        return lomax_likelihood(lomax_of_scale(math.exp(log_scale), ended_s, lasting_s), ended_s)

    low, high = golden_section(lambda at: -height(at), low, high, 1e-9)
    return lomax_of_scale(math.exp((low + high) / 2), ended_s, lasting_s)


def lomax_of_scale(scale_s: float, ended_s: Sequence[float], lasting_s: Sequence[float]) -> Lomax:
    logs = math.fsum(math.log1p(stay_s / scale_s) for stay_s in (*ended_s, *lasting_s))
    return Lomax(min(STEEPEST, len(ended_s) / logs), scale_s)


def lomax_likelihood(fitted: Lomax, ended_s: Sequence[float]) -> float:
    """Returns the log-likelihood at the best α, where the sum of α·ln(1 + x/σ) is the number of
    ends."""
    logs = math.fsum(math.log1p(stay_s / fitted.scale_s) for stay_s in ended_s)
    return len(ended_s) * (math.log(fitted.alpha / fitted.scale_s) - 1) - logs


def fit(
    ended_s: Sequence[float], lasting_s: Sequence[float] = ()
) -> Exponential | Lomax | Observed:
    """Returns the observed distribution if there are enough stays, else one of the two shapes: the
    exponential, unless a heavy tail is clearly likelier.

    Clearly means by 3 in log-likelihood, as happens in one of 140 fits to exponential stays, and
    only with 20 ended stays or more. Raises ValueError as `fit_exponential`.
    """
    if len(ended_s) >= ENOUGH:
        return observed(ended_s, lasting_s)
    plain = fit_exponential(ended_s, lasting_s)
    if len(ended_s) < FEWEST:
        return plain
    heavy = fit_lomax(ended_s, lasting_s)
    likelihood = -len(ended_s) * (math.log(plain.mean_s) + 1)
    return heavy if lomax_likelihood(heavy, ended_s) > likelihood + GAIN else plain


def safe_limit_s(move_s: float) -> float:
    """Returns how long to wait if nothing is known: as long as a move costs.

    Never costs more than twice as much as knowing the stay. Raises ValueError for a negative cost.
    """
    if not move_s >= 0:
        raise ValueError(f"a move of {move_s:g} s: must be 0 or more")
    return move_s
