"""The chance that a batch of tasks ends by a given time, and the time for a given chance.

The model is that of Sleiman, Lipsky, Sheahan (`theory/target_time.py`): exponential tasks of mean
`mean_s`, a fixed number at once. For a deadline the paper only says that the mean must lie some
standard deviations before it (section I). The end is a sum of independent exponentials, so its
distribution is known: an Erlang one for the steady stretch, and equation (1) for the drain.
"""

import math
from functools import lru_cache
from itertools import pairwise

from lbd.theory.target_time import check, mean_left_s

NODES = 12  # of Gauss-Legendre quadrature, in each panel
REACH = 40.0  # means of a task after which e^-x is negligible beside 1
ITERATIONS = 500
TINY = 1e-300


def chance_by(within_s: float, left: int, slots: int, mean_s: float) -> float:
    """Returns the chance that the last of `left` tasks ends within `within_s` on constant slots.

    The steady stretch is the sum of left - P exponentials of rate P/x̄ (an Erlang distribution),
    the drain is the longest of P tasks, (1 - e^(-t/x̄))^P by equation (1), and the two are
    independent. Raises ValueError as `mean_left_s`.
    """
    check(left, slots, mean_s)
    t = within_s / mean_s  # from here on in means of a task
    if t < 0:
        return 0.0
    at_once = min(slots, left)
    steady = left - at_once
    if steady == 0:
        return drained(t, at_once)
    # A drain never takes longer than `certain`: every drain that begins that early ends in time.
    certain = math.log(at_once) + REACH
    mean, spread = steady / at_once, math.sqrt(steady) / at_once
    begin = max(0.0, t - certain, mean - 12 * spread)
    end = min(t, mean + 12 * spread + REACH / at_once)
    if begin >= end:
        return 0.0 if t <= begin else 1.0
    early = erlang_by(begin, steady, at_once)
    count = max(1, math.ceil((end - begin) / min(0.5, spread / 2)))
    edges = [begin + (end - begin) * i / count for i in range(count + 1)]
    parts = [
        weight * erlang_density(s, steady, at_once) * drained(t - s, at_once)
        for low, high in pairwise(edges)
        for s, weight in panel(low, high)
    ]
    in_time = early * drained(t - begin, at_once)
    return min(1.0, in_time + math.fsum(parts))


def drained(t: float, tasks: int) -> float:
    """Returns the chance that all of `tasks` running tasks have ended after t means."""
    return math.pow(-math.expm1(-t), tasks) if t > 0 else 0.0 if tasks else 1.0


def erlang_density(t: float, stages: int, rate: float) -> float:
    if t <= 0:
        return rate if stages == 1 and t == 0 else 0.0
    log = stages * math.log(rate) + (stages - 1) * math.log(t) - rate * t - math.lgamma(stages)
    return math.exp(log)


def erlang_by(t: float, stages: int, rate: float) -> float:
    """Returns the chance that all the exponential stages are done by t: P(stages, rate·t).

    Uses its series below the mean, and Lentz's continued fraction of the complement above it.
    """
    x = rate * t
    if x <= 0:
        return 0.0
    front = math.exp(stages * math.log(x) - x - math.lgamma(stages))
    if x < stages + 1:
        term = total = 1.0 / stages
        for n in range(1, ITERATIONS + 40 * math.isqrt(stages)):
            term *= x / (stages + n)
            total += term
            if term < total * 1e-17:
                break
        return front * total
    b = x + 1 - stages
    c, d = 1 / TINY, 1 / b
    fraction = d
    for n in range(1, ITERATIONS + 40 * math.isqrt(stages)):
        weight = -n * (n - stages)
        b += 2
        d = 1 / (weight * d + b or TINY)
        c = b + weight / c or TINY
        fraction *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return 1 - front * fraction


@lru_cache(maxsize=1)
def gauss_legendre() -> tuple[tuple[float, float], ...]:
    """Returns (node, weight) pairs on -1 … 1, by Newton's method on the Legendre polynomial."""
    found = []
    for i in range(NODES):
        x = math.cos(math.pi * (i + 0.75) / (NODES + 0.5))
        for _ in range(20):
            before, value = 1.0, x
            for n in range(2, NODES + 1):
                before, value = value, ((2 * n - 1) * x * value - (n - 1) * before) / n
            slope = NODES * (x * value - before) / (x * x - 1)
            x -= value / slope
        found.append((x, 2 / ((1 - x * x) * slope**2)))
    return tuple(found)


def panel(low: float, high: float) -> list[tuple[float, float]]:
    middle, half = (low + high) / 2, (high - low) / 2
    return [(middle + half * x, half * weight) for x, weight in gauss_legendre()]


def quantile_s(chance: float, left: int, slots: int, mean_s: float) -> float:
    """Returns the seconds within which the batch ends with this chance on constant slots.

    Raises ValueError unless 0 < chance < 1, and as `mean_left_s`.
    """
    check_chance(chance)
    check(left, slots, mean_s)
    if left == 0:
        return 0.0
    low_s, high_s = 0.0, 2 * mean_left_s(left, slots, mean_s)
    while chance_by(high_s, left, slots, mean_s) < chance:
        low_s, high_s = high_s, 2 * high_s
    while high_s - low_s > 1e-12 * high_s:
        middle_s = (low_s + high_s) / 2
        if not low_s < middle_s < high_s:
            break
        if chance_by(middle_s, left, slots, mean_s) < chance:
            low_s = middle_s
        else:
            high_s = middle_s
    return high_s


def check_chance(chance: float) -> None:
    if not 0 < chance < 1:
        raise ValueError(f"a chance of {chance:g}: must be between 0 and 1")
