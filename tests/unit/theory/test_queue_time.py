"""Downey's predictions, against what follows by hand and against drawn lifetimes."""

from math import exp, log, sqrt
from random import Random
from statistics import mean, median

import pytest

from lbd.theory.queue_time import UniformLog, first_end_s, fit, flow_s, wait_s

LIVES = UniformLog(4.0, 400.0)


def drawn(dice, age_s=0.0):
    """A lifetime longer than that."""
    low = log(max(age_s, LIVES.shortest_s))
    return exp(dice.uniform(low, log(LIVES.longest_s)))


def test_the_fit_finds_the_distribution():
    dice = Random(1)
    found = fit([drawn(dice) for _ in range(4000)])
    assert found.shortest_s == pytest.approx(LIVES.shortest_s, rel=0.1)
    assert found.longest_s == pytest.approx(LIVES.longest_s, rel=0.1)


def test_equal_lifetimes_are_a_narrow_distribution():
    found = fit([10.0] * 7)
    assert (found.shortest_s, found.longest_s) == (pytest.approx(10, rel=1e-3),) * 2
    assert wait_s(1, [(4.0, 1)], found) == pytest.approx(6.0, rel=0.01)
    with pytest.raises(ValueError, match="two"):
        fit([1.0])


@pytest.mark.parametrize(
    ("age_s", "left_s"),
    [
        (0.0, sqrt(4 * 400)),  # the median of all
        (2.0, sqrt(4 * 400) - 2),  # as young as that says nothing
        (100.0, sqrt(100 * 400) - 100),  # the median of those that are longer
        (400.0, 400.0),  # older than all: as long again
        (1000.0, 1000.0),
    ],
)
def test_one_job(age_s, left_s):
    assert wait_s(1, [(age_s, 1)], LIVES) == pytest.approx(left_s)


@pytest.mark.parametrize("ages_s", [(0.0, 0.0), (5.0, 50.0, 300.0), (10.0,) * 8])
def test_a_is_the_median_of_the_first_to_end(ages_s):
    dice = Random(2)
    seen = [min(drawn(dice, age) - age for age in ages_s) for _ in range(20_000)]
    assert wait_s(1, [(age, 1) for age in ages_s], LIVES) == pytest.approx(median(seen), rel=0.05)


def test_b_is_near_the_mean_where_several_must_end():
    dice = Random(3)
    ages_s = (0.0, 3.0, 8.0, 20.0, 40.0, 90.0, 150.0, 300.0)
    seen = [sorted(drawn(dice, age) - age for age in ages_s)[3] for _ in range(20_000)]
    assert wait_s(4, [(age, 1) for age in ages_s], LIVES) == pytest.approx(mean(seen), rel=0.25)


def test_more_is_never_sooner_and_nothing_is_at_once():
    held = [(10.0, 2), (30.0, 3), (60.0, 1)]
    waits = [wait_s(needed, held, LIVES) for needed in range(4, 7)]
    assert waits == sorted(waits)
    assert wait_s(0, held, LIVES) == 0.0
    assert waits[-1] < LIVES.longest_s


def test_one_large_job_among_several_is_not_waited_for_alone():
    lives = UniformLog(10.0, 1000.0)
    held = [(50.0, 4), (500.0, 1), (500.0, 1), (500.0, 1)]
    assert wait_s(3, held, lives) == flow_s(3, held, lives) < first_end_s([50.0], lives)


def test_the_last_slots_of_all_are_not_waited_for():
    lives = UniformLog(10.0, 1000.0)
    held = [(50.0, 1)] * 20
    assert wait_s(20, held, lives) == flow_s(0.95 * 20, held, lives) < flow_s(20, held, lives)
