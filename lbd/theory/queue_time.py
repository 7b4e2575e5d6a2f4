"""How long until n slots are free, predicted from the ages of the jobs that hold them.

After A. B. Downey, "Using Queue Time Predictions for Processor Allocation" (UCB/CSD-97-929, 1997),
section 3, from the lifetimes of `theory/lifetimes.py`. Two predictors:

- A, the median: the first of the *benefactors*, the jobs that each hold enough slots, ends (9);
- B, the mean: slots flow back gradually, each job's with its chance of having ended (10).

A is used where there are two benefactors or more, B otherwise (section 3.3). `theory/free_slots.py`
computes exactly what A and B approximate (equations 6 to 8).

The paper's t is a lifetime in equation 5 and the time from now in 9 and 10; here it is always from
now, and for a job of age a the lifetime is a + t.

All times are in seconds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import exp, log
from operator import itemgetter

from lbd.theory.lifetimes import UniformLog

SURE = 0.95  # live: at most this share of all slots held; the last ones are released late
BENEFACTORS = 2  # section 3.3: predictor A from so many on
SOONEST_S = 1e-9  # anything sooner is now
LONGEST_S = 1e9  # anything later is never
CLOSE = 1e-9  # relative width of the bracket of an answer
# factor from the guess to the first bracket; squared until the bracket holds the answer
WIDEN = 1.05

Held = tuple[float, int]  # a job's age in seconds, and its slots
# The lifetimes that apply to a job: the slope of 1 - cdf over ln t from its age on, and the bounds.
Tail = tuple[float, float, float]
SLOTS_HELD = itemgetter(1)


@dataclass(frozen=True, slots=True)
class Releases:
    """When the slots held now are released: predictions from the jobs running at one moment.

    `held` is (age in seconds, slots) of each job. Use one object for several numbers of slots: it
    caches what they have in common.
    """

    held: tuple[Held, ...]  # largest first, so that benefactors are the first few
    lifetimes: UniformLog
    total: int
    _tails: list[Tail | None] = field(repr=False, compare=False)  # of each job, once needed
    _medians_s: dict[int, float] = field(repr=False, compare=False)  # by number of benefactors

    @classmethod
    def of(cls, held: Sequence[Held], lifetimes: UniformLog) -> "Releases":
        """Raises ValueError for an age below 0 or less than one slot."""
        for age_s, slots in held:
            if not (0 <= age_s < math.inf and slots >= 1):
                raise ValueError(f"a job of {age_s:g} s on {slots} slots: 0 s and 1 slot at least")
        largest_first = tuple(sorted(held, key=SLOTS_HELD, reverse=True))
        return cls(largest_first, lifetimes, sum(map(SLOTS_HELD, held)), [], {})

    def tails(self) -> list[Tail | None]:
        """Returns the tail of each job; None for one older than all that have ended."""
        if len(self._tails) < len(self.held):
            self._tails[:] = [
                tail_of(self.lifetimes.at_age(age_s), age_s) for age_s, _ in self.held
            ]
        return self._tails

    def go_on(self, t_s: float, first: int | None = None) -> list[float]:
        """Returns each job's chance of still running at `t_s` from now (equation 5), or that of the
        first few."""
        chances = []
        for (age_s, _), tail in zip(self.held[:first], self.tails(), strict=False):
            life_s = age_s + t_s
            if tail is None:
                chances.append(age_s / life_s)
                continue
            slope, short_s, long_s = tail
            if life_s <= short_s:
                chances.append(1.0)
            elif life_s >= long_s:
                chances.append(0.0)
            else:
                chances.append(slope * log(long_s / life_s))
        return chances

    def latest_s(self) -> float:
        """Returns the time from now by which all have certainly ended; infinite if one is older
        than all that ended."""
        ends_s = (
            math.inf if tail is None else tail[2] - age_s
            for (age_s, _), tail in zip(self.held, self.tails(), strict=True)
        )  # fmt: skip
        return max(ends_s, default=0.0)

    def benefactors(self, needed: int) -> int:
        """Returns how many jobs each hold at least the slots needed (section 3.1)."""
        return sum(1 for _, slots in self.held if slots >= needed)

    def median_s(self, needed: int) -> float | None:
        """Predictor A, equation 9: the time at which, with an even chance, no benefactor has ended.

        None if there is no benefactor.
        """
        if needed <= 0:
            return 0.0
        count = self.benefactors(needed)
        if not count:
            return None
        if count not in self._medians_s:

            def sooner(t_s: float) -> float:
                return 0.5 - math.prod(self.go_on(t_s, count))

            guess_s = (
                min(self.lifetimes.left_s(0.5, age_s) for age_s, _ in self.held[:count]) / count
            )
            self._medians_s[count] = earliest_s(sooner, guess_s)
        return self._medians_s[count]

    def mean_s(self, needed: float, guess_s: float = 60.0, close: float = CLOSE) -> float:
        """Predictor B, equation 10: the time until `needed` slots have flowed back.

        A close `guess_s` saves time, and so does a wider `close` where a rough answer will do.
        Raises ValueError for more slots than are held.
        """
        if needed <= 0:
            return 0.0
        if needed > self.total:
            raise ValueError(f"{needed:g} slots are needed and {self.total} held")
        latest_s = self.latest_s()
        if needed == self.total:
            return min(latest_s, LONGEST_S)

        def flowed(t_s: float) -> float:
            still = sum(
                [p * slots for p, (_, slots) in zip(self.go_on(t_s), self.held, strict=True)]
            )
            return self.total - still - needed

        return min(earliest_s(flowed, min(guess_s, latest_s), close), latest_s)

    def comes_by(self, needed: int, t_s: float) -> bool:
        """Whether `combined_s` is at most `t_s`, without computing it."""
        if needed <= 0:
            return t_s >= 0
        count = self.benefactors(needed)
        if count >= BENEFACTORS:
            return math.prod(self.go_on(t_s, count)) <= 0.5
        still = sum([p * slots for p, (_, slots) in zip(self.go_on(t_s), self.held, strict=True)])
        return self.total - still >= needed

    def combined_s(self, needed: int, guess_s: float = 60.0, close: float = CLOSE) -> float:
        """Section 3.3: A with two benefactors or more, else B. Raises ValueError as B does."""
        if self.benefactors(needed) >= BENEFACTORS:
            return self.median_s(needed) or 0.0
        return self.mean_s(needed, guess_s, close)


def tail_of(lives: UniformLog | None, age_s: float) -> Tail | None:
    if lives is None:
        return None
    slope = 1.0 / log(lives.longest_s / max(age_s, lives.shortest_s))
    return slope, lives.shortest_s, lives.longest_s


def wait_s(needed: int, held: Sequence[Held], lifetimes: UniformLog) -> float:
    """Returns the time until `needed` of the slots held now are free, as the dispatcher shows it.

    Uses the combined rule, but A for a single job as well, where B would name the latest possible
    end, and at most the share `SURE` of all held slots. A job that began in the future, by a clock
    that was set back, counts as just begun.
    """
    if needed <= 0:
        return 0.0
    releases = Releases.of([(max(age_s, 0.0), slots) for age_s, slots in held], lifetimes)
    if len(held) == 1:
        return releases.median_s(min(needed, releases.total)) or 0.0
    if releases.benefactors(needed) >= BENEFACTORS:
        return releases.combined_s(needed)
    return releases.mean_s(min(needed, SURE * releases.total))


def earliest_s(rising: Callable[[float], float], guess_s: float, close: float = CLOSE) -> float:
    """Returns where a function that rises with time reaches 0, from now on; at most LONGEST_S.

    The bracket is widened from the guess, and the root found by Chandrupatla's method in ln t
    (inverse quadratic steps where they are safe, else halving).
    """
    low_s = high_s = min(max(guess_s, SOONEST_S), LONGEST_S)
    at_low = at_high = rising(low_s)
    step = WIDEN
    while at_high < 0:
        if high_s >= LONGEST_S:
            return LONGEST_S
        low_s, at_low = high_s, at_high
        high_s = min(high_s * step, LONGEST_S)
        at_high, step = rising(high_s), step * step
    step = WIDEN
    while at_low >= 0:
        if low_s <= SOONEST_S:
            return 0.0
        high_s, at_high = low_s, at_low
        low_s = max(low_s / step, SOONEST_S)
        at_low, step = rising(low_s), step * step
    return exp(
        bracketed(lambda x: rising(exp(x)), (log(low_s), at_low), (log(high_s), at_high), close)
    )


def bracketed(
    rising: Callable[[float], float],
    low: tuple[float, float],
    high: tuple[float, float],
    close: float,
) -> float:
    """Returns the root between two (place, value) pairs of different signs (T. R. Chandrupatla,
    1997)."""
    (x2, f2), (x1, f1) = low, high
    x3, f3 = x2, f2
    share = f1 / (f1 - f2)
    while True:
        x = x1 + share * (x2 - x1)
        f = rising(x)
        if (f < 0) == (f1 < 0):
            x3, f3 = x1, f1
        else:
            x3, f3, x2, f2 = x2, f2, x1, f1
        x1, f1 = x, f
        best = x1 if abs(f1) < abs(f2) else x2
        least = close / abs(x2 - x1) if x2 != x1 else 1.0
        if least > 0.5 or f1 == 0:
            return best
        place, height = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2)
        share = 0.5
        if height**2 < place and (1 - height) ** 2 < 1 - place:
            share = f1 / (f2 - f1) * f3 / (f2 - f3)
            share += (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
        share = min(max(share, least), 1 - least)


def later(
    within_s: tuple[float, float] | None, wait_s: float, by_s: float
) -> tuple[float, float] | None:
    """Returns the interval of a wait that is longer by `by_s` because of more jobs ahead. It widens
    as the root of the wait, as that of independent jobs one after the other does."""
    if within_s is None or by_s <= 0:
        return within_s
    wider = math.sqrt(1 + by_s / wait_s) if wait_s > 0 else 1.0
    low_s, high_s = (wait_s + by_s + wider * (one_s - wait_s) for one_s in within_s)
    return low_s, high_s
