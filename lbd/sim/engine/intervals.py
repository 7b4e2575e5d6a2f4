"""Confidence intervals of a mean: half the width that covers it 95 times in 100."""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist

# Student's t, two-sided 95 %, by degrees of freedom from 1 on; beyond, the expansion in 1/n.
STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
NORMAL = 1.959964
BATCHES = 20


def student_95(freedom: int) -> float:
    if freedom <= len(STUDENT):
        return STUDENT[freedom - 1]
    z = NORMAL
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def student(freedom: int, beyond: float) -> float:
    """Returns the two-sided value of t that is exceeded with probability `beyond`, for six degrees
    of freedom or more."""
    z = NormalDist().inv_cdf(1.0 - beyond / 2.0)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / float(freedom) ** power for power, term in enumerate(terms, 1))


def mean(values: Sequence[float]) -> float:
    """Returns NaN for no values."""
    return math.fsum(values) / len(values) if values else math.nan


def half_width(means: Sequence[float]) -> float | None:
    """Takes independent values, one a replication or batch. Returns None for fewer than two."""
    count = len(means)
    if count < 2:
        return None
    centre = mean(means)
    variance = math.fsum((x - centre) ** 2 for x in means) / (count - 1)
    return student_95(count - 1) * math.sqrt(variance / count)


def batch_means(values: Sequence[float]) -> list[float]:
    """Returns the means of `BATCHES` parts of a run, long enough to be nearly independent."""
    count = len(values)
    if count < 2 * BATCHES:
        return []
    edges = [count * i // BATCHES for i in range(BATCHES + 1)]
    return [mean(values[a:b]) for a, b in pairwise(edges)]
