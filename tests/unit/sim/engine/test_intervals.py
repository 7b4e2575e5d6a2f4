import math
from random import Random

import pytest

from lbd.sim.engine.intervals import batch_means, half_width, student_95


@pytest.mark.parametrize(
    ("freedom", "t"), [(1, 12.706), (19, 2.093), (30, 2.042), (31, 2.0395), (120, 1.9799)]
)
def test_students_t(freedom, t):
    assert student_95(freedom) == pytest.approx(t, abs=2e-4)


def test_half_width_by_hand():
    assert half_width([1.0, 2.0, 3.0]) == pytest.approx(4.303 / math.sqrt(3))
    assert (half_width([]), half_width([1.0])) == (None, None)


def test_the_interval_covers_the_mean_95_times_in_100():
    rng = Random(1)
    covered = 0
    for _ in range(2000):
        values = [rng.gauss(5.0, 2.0) for _ in range(6)]
        centre, width = sum(values) / 6, half_width(values)
        assert width is not None
        covered += abs(centre - 5.0) <= width
    assert 1860 <= covered <= 1940


def test_batches():
    assert batch_means([float(i) for i in range(40)]) == [0.5 + 2 * i for i in range(20)]
    assert batch_means([1.0] * 39) == []
    means = batch_means([1.0] * 10 + [2.0] * 47)
    assert len(means) == 20
