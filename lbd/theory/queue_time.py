"""How long until so many slots are free, from the ages of the jobs that hold them.

After A. B. Downey, "Using Queue Time Predictions for Processor Allocation" (UCB/CSD-97-929, 1997),
section 3. Lifetimes of batch jobs are close to uniform in their logarithm, between bounds fitted to
jobs that have ended (equation 4); how long one that runs will go on follows from its age alone
(equation 5). Two predictors:

- A, the median: the first of the *benefactors*, those who hold enough slots each, ends (9);
- B, the mean: slots flow back a little at a time, each job's with its chance to have ended (10).

A where there are two benefactors or more, B otherwise (section 3.3); A for a single job as well,
where B would name the latest end possible.

The paper's t is a lifetime in equation 5 and the time from now in 9 and 10; here it is from now,
and a job of age a is asked for a + t. Of a job older than all that have ended the paper says
nothing: it is taken to last as long again with an even chance, as is observed of long processes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log

SHORTEST_S = 1e-3  # what takes less is not measured
NARROWEST = 1e-3  # bounds at least so far apart, relative to their size
SURE = 0.95  # B: of all the slots held, no more than this; the last ones come back late
STEPS = 60  # of bisection
LONGEST_S = 1e9

Held = tuple[float, int]  # the age of a job in seconds, and its slots


@dataclass(frozen=True, slots=True)
class UniformLog:
    """Lifetimes from `shortest_s` to `longest_s`, uniform in the logarithm."""

    shortest_s: float
    longest_s: float

    def longer_than(self, life_s: float) -> float:
        """The share of jobs that live longer."""
        if life_s <= self.shortest_s:
            return 1.0
        if life_s >= self.longest_s:
            return 0.0
        return log(self.longest_s / life_s) / log(self.longest_s / self.shortest_s)

    def goes_on(self, left_s: float, age_s: float) -> float:
        """The chance that a job of this age runs for `left_s` more at least."""
        if age_s >= self.longest_s:
            return age_s / (age_s + left_s)
        return self.longer_than(age_s + left_s) / self.longer_than(age_s)


def fit(lives_s: Sequence[float]) -> UniformLog:
    """The straight line through their distribution over ln t (Figure 3), by least squares.

    Raises ValueError if there are fewer than two.
    """
    if len(lives_s) < 2:
        raise ValueError("a distribution is fitted to two lifetimes at least")
    logs = sorted(log(max(life_s, SHORTEST_S)) for life_s in lives_s)
    shares = [(n + 0.5) / len(logs) for n in range(len(logs))]
    middle, middle_share = sum(logs) / len(logs), 0.5
    spread = sum((x - middle) ** 2 for x in logs)
    rise = sum((x - middle) * (y - middle_share) for x, y in zip(logs, shares, strict=True))
    # ln t = middle + (share - 1/2) / slope, from share 0 to 1
    width = max(spread / rise if rise > 0 else 0.0, NARROWEST)
    return UniformLog(exp(middle - width / 2), exp(middle + width / 2))


def wait_s(needed: int, held: Sequence[Held], lives: UniformLog) -> float:
    """Until `needed` of the slots that are held now will be free."""
    if needed <= 0:
        return 0.0
    benefactors = [age_s for age_s, slots in held if slots >= needed]
    if len(benefactors) > 1 or len(held) == 1:
        ages_s = benefactors or [age_s for age_s, _ in held]
        return first_end_s(ages_s, lives)
    total = sum(slots for _, slots in held)
    return flow_s(min(needed, SURE * total), held, lives)


def first_end_s(ages_s: Sequence[float], lives: UniformLog) -> float:
    """Predictor A: when it is as likely as not that none of them has ended."""

    def is_over(t_s: float) -> bool:
        none_ended = 1.0
        for age_s in ages_s:
            none_ended *= lives.goes_on(t_s, age_s)
        return none_ended <= 0.5

    return earliest_s(is_over)


def flow_s(needed: float, held: Sequence[Held], lives: UniformLog) -> float:
    """Predictor B."""

    def is_over(t_s: float) -> bool:
        free = sum(slots * (1 - lives.goes_on(t_s, age_s)) for age_s, slots in held)
        return free >= needed

    return earliest_s(is_over)


def earliest_s(is_over: Callable[[float], bool]) -> float:
    low_s, high_s = 0.0, 1.0
    while not is_over(high_s) and high_s < LONGEST_S:
        low_s, high_s = high_s, 2 * high_s
    for _ in range(STEPS):
        middle_s = (low_s + high_s) / 2
        low_s, high_s = (low_s, middle_s) if is_over(middle_s) else (middle_s, high_s)
    return high_s
