"""How long jobs live, fitted to those that have ended.

After A. B. Downey, "Using Queue Time Predictions for Processor Allocation" (UCB/CSD-97-929, 1997),
section 2: lifetimes of batch jobs are close to uniform in their logarithm, between bounds fitted to
jobs that have ended (equation 4); how long a running job will go on follows from its age alone
(equation 5).

Where most jobs are short, some long, and none in between, one line fits neither: a second line is
fitted to the long ones (`fit_in_two`), and a job younger than the longest short one may be of
either kind. The paper does not cover a job older than all that have ended: here it has an even
chance of lasting as long again, as is observed of long processes (`outlives`).

All times are in seconds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from operator import mul

SHORTEST_S, LONGEST_S = 1e-3, 1e12  # what is learnt: shorter ones are not measured
SHORTEST_LOG = log(SHORTEST_S)
NARROWEST = 1e-3  # least distance of the bounds, relative to their size
SHORT_OF = 1 - 1e-12  # of the longest: what is left of it can still be divided by
OLDER_FEWEST = 5  # the fewest long jobs for a second line; fewer short ones than that come last
OLDER_FACTOR = 2.0  # the least factor between short and long ones
OLDER_SURE = 5.0  # a gap that one line would leave by chance once in e^5 times


@dataclass(frozen=True, slots=True)
class UniformLog:
    """Lifetimes from `shortest_s` to `longest_s`, uniform in the logarithm (equation 4).

    The paper's slope β1 is 1/ln(longest/shortest), its intercept β0 is -β1 ln(shortest). Raises
    ValueError unless 0 < shortest < longest.
    """

    shortest_s: float
    longest_s: float
    older: "UniformLog | None" = None  # for the long jobs; applies to jobs from `older_from_s` on
    older_from_s: float = math.inf
    older_share: float = 0.0  # of all jobs
    shorter: "UniformLog | None" = None  # for the short jobs; given with `older`

    def __post_init__(self) -> None:
        low, high = self.shortest_s, self.longest_s
        if not 0 < low < high < math.inf:
            raise ValueError(f"lifetimes from {low:g} to {high:g}: must be 0 < shortest < longest")

    @property
    def width(self) -> float:
        """ln(longest/shortest), the inverse of the slope of equation 4."""
        return log(self.longest_s / self.shortest_s)

    @property
    def mean_s(self) -> float:
        """The mean lifetime; section 2.2.1: 271 minutes for e² … e¹² seconds."""
        return (self.longest_s - self.shortest_s) / self.width

    def quantile_s(self, share: float) -> float:
        """Returns the lifetime that this share of jobs, 0 to 1, does not exceed; ½ gives the
        median."""
        return self.shortest_s * exp(share * self.width)

    def longer_than(self, life_s: float) -> float:
        """Returns the share of jobs that live longer: 1 - cdf, equation 4."""
        if life_s <= self.shortest_s:
            return 1.0
        if life_s >= self.longest_s:
            return 0.0
        return log(self.longest_s / life_s) / self.width

    def at_age(self, age_s: float) -> "UniformLog | None":
        """Returns the lifetimes that apply to a job of this age; None if it is older than all that
        ended."""
        if self.older is not None and age_s >= self.older_from_s:
            return self.older.at_age(age_s)
        return self if age_s < self.longest_s * SHORT_OF else None

    def share_at(self, age_s: float) -> float:
        """Returns the share of all jobs that live longer, by the lines that apply at this age."""
        if self.older is None or self.shorter is None:
            return self.longer_than(age_s)
        older = self.older_share * self.older.share_at(age_s)
        if age_s >= self.older_from_s:
            return older
        return older + (1 - self.older_share) * self.shorter.longer_than(age_s)

    def part_of_older(self, age_s: float) -> float:
        """Returns the chance that a job of this age is a long one, if there are two lines."""
        if self.older is None:
            return 0.0
        share = self.share_at(age_s)
        return min(1.0, self.older_share * self.older.share_at(age_s) / share) if share > 0 else 1.0

    @property
    def last_s(self) -> float:
        """The longest lifetime, that of the long jobs included."""
        return self.older.last_s if self.older is not None else self.longest_s

    def goes_on(self, left_s: float, age_s: float) -> float:
        """Returns the chance that a job of this age runs for at least `left_s` more: equation 5."""
        if self.at_age(age_s) is None:
            return age_s / (age_s + left_s)
        return self.share_at(age_s + left_s) / self.share_at(age_s)

    def left_s(self, share: float, age_s: float) -> float:
        """Returns the remaining run time that a job of this age does not exceed in this share of
        cases (from 5).

        Infinite at share 1 for a job older than all that have ended.
        """
        if self.older is not None and self.shorter is not None and age_s < self.older_from_s:
            older = self.part_of_older(age_s)
            if share < 1 - older:
                return self.shorter.left_s(share / (1 - older), age_s)
            return self.older.left_s((share - (1 - older)) / older, age_s)
        lives = self.at_age(age_s)
        if lives is None:
            return age_s * share / (1 - share) if share < 1 else math.inf
        from_s = max(age_s, lives.shortest_s)
        return from_s * math.expm1(share * log(lives.longest_s / from_s)) + (from_s - age_s)

    def mean_left_s(self, age_s: float) -> float:
        """Returns the mean remaining run time of a job of this age (from 5).

        Infinite for a job older than all that have ended.
        """
        if self.older is not None and self.shorter is not None and age_s < self.older_from_s:
            older = self.part_of_older(age_s)
            short_s = self.shorter.mean_left_s(age_s) if older < 1 else 0.0
            return older * self.older.mean_left_s(age_s) + (1 - older) * short_s
        lives = self.at_age(age_s)
        if lives is None:
            return math.inf
        from_s = max(age_s, lives.shortest_s)
        return (lives.longest_s - from_s) / log(lives.longest_s / from_s) - age_s


def learnt_s(life_s: float) -> float:
    """Returns the lifetime as it is learnt: above 0 and finite, whatever was reported or is on
    record. Two clocks may show the same moment for the begin and the end of a job, and much of what
    is foretold divides by a lifetime, or takes its logarithm."""
    return min(max(SHORTEST_S, life_s), LONGEST_S)  # in this order also for NaN


def fit(lives_s: Sequence[float]) -> UniformLog:
    """Fits the straight line through their distribution over ln t (equation 4), by least squares.

    This is the gray line of Figure 3; times in seconds. Raises ValueError if there are fewer than
    two.
    """
    if len(lives_s) < 2:
        raise ValueError("a distribution is fitted to two lifetimes at least")
    logs = sorted([log(life_s) if life_s > SHORTEST_S else SHORTEST_LOG for life_s in lives_s])
    count, middle = len(logs), sum(logs) / len(logs)
    off_middle = [x - middle for x in logs]
    spread = sum(map(mul, off_middle, off_middle))
    rise = sum(map(mul, off_middle, range(count))) / count  # of the share below each
    # ln t = middle + (share - 1/2) / slope, from share 0 to 1.
    width = max(spread / rise if rise > 0 else 0.0, NARROWEST)
    return UniformLog(exp(middle - width / 2), exp(middle + width / 2))


def fit_in_two(lives_s: Sequence[float]) -> UniformLog:
    """Fits as `fit`, with a separate line for the long lifetimes if a wide gap separates them from
    the rest, be the rest only one: a single `true` among jobs of seconds would have one line end
    at minutes.

    Raises ValueError if there are fewer than two lifetimes.
    """
    found, count = fit(lives_s), len(lives_s)
    rising = sorted([max(life_s, SHORTEST_S) for life_s in lives_s])
    by_chance = log(rising[-1] / rising[0]) * (log(count) + OLDER_SURE) / count
    factor = max(OLDER_FACTOR, exp(by_chance))
    last = count - OLDER_FEWEST + 1
    for places in (range(OLDER_FEWEST, last), range(1, min(OLDER_FEWEST, last))):
        at = max(places, key=lambda n: rising[n] / rising[n - 1], default=0)
        if at and rising[at] > rising[at - 1] * factor:
            older, share = fit_in_two(rising[at:]), 1 - at / count
            short, from_s = fit(rising[:at] if at > 1 else rising[:1] * 2), rising[at - 1]
            short = replace(short, longest_s=max(from_s, short.shortest_s * (1 + NARROWEST)))
            return replace(
                found, older=older, older_from_s=from_s, older_share=share, shorter=short
            )
    return found


def outlives(life_s: float, last_s: float) -> float:
    """Returns the share that live longer, of jobs that outlive all that ended (the longest of these
    took `last_s`) and from then on have an even chance of lasting as long again."""
    return min(1.0, last_s / life_s) if life_s > 0 else 1.0
