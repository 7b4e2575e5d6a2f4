"""What the next run of a command may take."""

from math import exp, log
from random import Random
from statistics import fmean, median, pvariance

import pytest

from lbd.theory.next_run import VALUES, deviations, mean_excess_s, spread_out


@pytest.mark.parametrize("count", [3, 5, 15])
def test_deviations_are_symmetric_and_of_variance_1(count):
    found = deviations(count)
    assert found == pytest.approx([-one for one in reversed(found)])
    assert fmean(one**2 for one in found) == pytest.approx(1.0)


def test_most_deviations_are_small():
    assert sum(abs(one) < 0.3 for one in deviations(15)) >= 7


def test_a_run_known_once_may_take_somewhat_less_or_more():
    times_s, weight = spread_out([16.0], 0.25)
    assert len(times_s) * weight == pytest.approx(1.0)
    assert median(times_s) == pytest.approx(16.0)
    assert times_s[0] == pytest.approx(16.0**2 / times_s[-1])
    assert 0.2 < log(times_s[-1] / 16.0) < 1.0
    assert sum(14.5 < one_s < 17.5 for one_s in times_s) >= 7


def test_the_more_alike_the_runs_the_less():
    once, _ = spread_out([16.0], 0.25)
    thrice, weight = spread_out([16.0, 16.1, 15.9], 0.25)
    assert len(thrice) * weight == pytest.approx(3.0)
    assert thrice[-1] < once[-1]
    assert spread_out([8.0, 16.0, 32.0], 0.25)[0][-1] > 40.0


def test_the_variance_is_that_of_the_next_run():
    known = [one * 0.2 for one in (-1.0, 0.0, 1.0)]
    times_s, _ = spread_out([exp(one) for one in known], 0.2)
    logs = [log(one_s) for one_s in times_s]
    assert fmean(logs) == pytest.approx(0.0, abs=1e-9)
    assert pvariance(logs) == pytest.approx(0.2**2 * (2 / 3 + 2 / 3))


def test_many_runs_are_their_own_distribution():
    many = [float(n) for n in range(VALUES, 0, -1)]
    assert spread_out(many, 0.25) == (tuple(sorted(many)), 1.0)
    assert spread_out([], 0.25) == ((), 1.0)


def test_a_run_of_no_time_at_all_is_spread_too():
    times_s, _ = spread_out([0.0], 0.25)
    assert 0 < times_s[0] < times_s[-1] < 0.1


@pytest.mark.parametrize("count", [11, 30, 100])
def test_the_longest_of_many_runs_is_longer_by_what_their_tail_says(count):
    """Of exponential times it is longer by their mean, whatever the longest known is."""
    rng = Random(count)
    of = [mean_excess_s(sorted(rng.expovariate(0.1) for _ in range(count))) for _ in range(400)]
    print(f"seed {count}: {fmean(of)}")
    assert fmean(of) == pytest.approx(10.0, rel=0.1)


def test_of_runs_that_all_took_as_long_nothing_is_longer():
    assert mean_excess_s((8.0,) * 20) == 0.0
    assert mean_excess_s((8.0,)) == mean_excess_s(()) == 0.0
