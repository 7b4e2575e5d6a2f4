"""What the next run of a command may take, where few have ended.

Of one run, the next is not known to take exactly as long. Its logarithm is taken to be normal, with
the mean of those known and their variance, to which a variance expected beforehand counts as one
more observation (a smoothed bootstrap: B. Efron, "Bootstrap methods: another look at the
jackknife", Annals of Statistics 7, 1979, with the variance of the predictive distribution). Small
deviations are more likely than with a normal distribution, and large ones too: some commands take
the same time always, others vary.
"""

from collections.abc import Sequence
from functools import cache
from math import exp, log, sqrt
from statistics import NormalDist

from lbd.theory.lifetimes import SHORTEST_S

VALUES = 15  # that few runs are spread over; more runs are their own distribution


def spread_out(times_s: Sequence[float], varies: float) -> tuple[tuple[float, ...], float]:
    """Returns equally likely times of the next run in seconds, shortest first, and the weight of
    each, in runs. `varies`: the standard deviation of the logarithm, as far as it is known
    beforehand."""
    count = len(times_s)
    each = round(VALUES / count) | 1 if count else 1
    if each == 1:
        return tuple(sorted(times_s)), 1.0
    logs = [log(max(SHORTEST_S, one_s)) for one_s in times_s]
    mean = sum(logs) / count
    variance = (varies**2 + sum((one - mean) ** 2 for one in logs)) / count
    # Those known have the variance (n - 1) / n on average, the next one (n + 1) / n.
    width = sqrt(2 * variance / count)
    found = sorted(exp(one + width * off) for one in logs for off in deviations(each))
    return tuple(found), 1 / each


def mean_excess_s(times_s: Sequence[float]) -> float:
    """Returns by how much a run that is longer than all known ones is so, on average. `times_s`:
    shortest first.

    Of n runs, the next is the longest once in n + 1 times. By how much is read off the longest
    ones, as their mean excess over the next shorter (B. M. Hill, "A simple general approach to
    inference about the tail of a distribution", Annals of Statistics 3, 1975, without the
    logarithm: an exponential tail)."""
    most = round(sqrt(len(times_s)))
    if len(times_s) <= most:
        return 0.0
    return sum(times_s[-most:]) / most - times_s[-most - 1]


@cache
def deviations(count: int) -> tuple[float, ...]:
    """Returns so many equally likely deviations, of mean 0 and variance 1 if more than one."""
    normal = [NormalDist().inv_cdf((n + 0.5) / count) for n in range(count)]
    peaked = [one * abs(one) for one in normal]
    width = sqrt(sum(one**2 for one in peaked) / count)
    return tuple(one / width for one in peaked)
