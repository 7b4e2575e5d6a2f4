"""Predictor A without its approximation, compared with the paper's enumeration and simulation."""

from bisect import bisect_left
from itertools import pairwise, product
from math import exp, inf, log, prod
from random import Random
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.theory.free_slots import (
    chance_of,
    convolved,
    interval_90_s,
    mean_s,
    quantile_s,
    simpson,
    with_one_more,
)
from lbd.theory.lifetimes import UniformLog
from lbd.theory.queue_time import Releases

LIVES = UniformLog(exp(2), exp(12))  # the paper's
AGES_S = st.floats(0.0, 2e5)  # from younger than the shortest to older than the longest
HELD = st.lists(st.tuples(AGES_S, st.integers(1, 20)), min_size=1, max_size=7)


def enumerated(needed, held, t_s, lifetimes=LIVES):
    """Equations 5 to 8 with the corrected products of equation 6, over all outcomes."""

    def ended(age_s):
        if age_s >= lifetimes.longest_s:
            return 1 - age_s / (age_s + t_s)
        low, high = log(lifetimes.shortest_s), log(lifetimes.longest_s)

        def cdf(life_s):
            return min(1.0, max(0.0, (log(life_s) - low) / (high - low))) if life_s > 0 else 0.0

        return 1 - (1 - cdf(age_s + t_s)) / (1 - cdf(age_s))

    chances = [ended(age_s) for age_s, _ in held]
    return sum(
        prod(p if b else 1 - p for b, p in zip(bits, chances, strict=True))
        for bits in product((0, 1), repeat=len(held))
        if sum(b * slots for b, (_, slots) in zip(bits, held, strict=True)) >= needed
    )


@given(HELD, st.floats(0.0, 3e5), st.data())
def test_the_probability_is_the_sum_over_all_outcomes(held, t_s, data):
    releases = Releases.of(held, LIVES)
    needed = data.draw(st.integers(1, releases.total))
    expected = enumerated(needed, held, t_s)
    assert chance_of(needed, releases, t_s) == pytest.approx(expected, abs=1e-10)


def test_fifteen_jobs_enumerated():
    rng = Random(5)
    held = [(exp(rng.uniform(0, 11.9)), rng.randint(1, 30)) for _ in range(15)]
    releases = Releases.of(held, LIVES)
    for needed in (1, 17, 60, releases.total // 2, releases.total - 3, releases.total):
        at_s = quantile_s(needed, releases)
        assert enumerated(needed, held, at_s) == pytest.approx(0.5, abs=1e-6)


def outcomes_s(needed, held, draws, seed=1):
    rng, found = Random(seed), []
    for _ in range(draws):
        free = 0
        for end_s, slots in sorted((LIVES.left_s(rng.random(), age_s), n) for age_s, n in held):
            free += slots
            if free >= needed:
                found.append(end_s)
                break
    return sorted(found)


@pytest.mark.parametrize("jobs", [4, 60])
def test_quantiles_mean_and_interval_of_simulated_lifetimes(jobs):
    rng = Random(jobs)
    held = [(exp(rng.uniform(0, 11)), rng.randint(1, 20)) for _ in range(jobs)]
    releases = Releases.of(held, LIVES)
    needed = releases.total // 3
    seen = outcomes_s(needed, held, 4000)
    low, high = interval_90_s(needed, releases)
    for at_s, share in ((low, 0.05), (quantile_s(needed, releases), 0.5), (high, 0.95)):
        assert bisect_left(seen, at_s) / len(seen) == pytest.approx(share, abs=0.03)
    close = 4 * stdev(seen) / len(seen) ** 0.5
    assert mean_s(needed, releases) == pytest.approx(fmean(seen), abs=close)


@pytest.mark.parametrize("age_s", [0.0, 5.0, 100.0, 9e4])
def test_one_job_has_its_own_distribution(age_s):
    releases = Releases.of([(age_s, 4)], LIVES)
    for share in (0.05, 0.5, 0.95):
        assert quantile_s(3, releases, share) == pytest.approx(LIVES.left_s(share, age_s), rel=1e-6)
    assert mean_s(3, releases) == pytest.approx(LIVES.mean_left_s(age_s), rel=1e-6)


def test_the_mean_of_a_minimum_by_another_integral():
    """For two benefactors: ∫ of the product of equation 5, by the midpoint rule in ln t."""
    held, top = [(20.0, 8), (3000.0, 8)], LIVES.longest_s - 3000.0
    steps, low, high = 200_000, log(1e-6), log(top)
    width = (high - low) / steps
    total = 1e-6
    for i in range(steps):
        t_s = exp(low + (i + 0.5) * width)
        total += t_s * width * LIVES.goes_on(t_s, 20.0) * LIVES.goes_on(t_s, 3000.0)
    assert mean_s(8, Releases.of(held, LIVES)) == pytest.approx(total, rel=1e-6)


def test_with_benefactors_the_exact_median_is_at_most_that_of_predictor_a():
    held = [(100.0, 16), (2000.0, 16), (30.0, 4), (500.0, 2)]
    releases = Releases.of(held, LIVES)
    approximate = releases.median_s(16)
    assert approximate is not None
    assert quantile_s(16, releases) == pytest.approx(approximate, rel=1e-6)  # the others hold 6
    approximate = releases.median_s(5)
    assert approximate is not None
    assert quantile_s(5, releases) < approximate


@given(HELD)
def test_more_slots_never_come_sooner(held):
    releases = Releases.of(held, LIVES)
    waits = [quantile_s(needed, releases) for needed in range(1, releases.total + 1, 5)]
    assert all(a <= b * (1 + 1e-5) + 1e-8 for a, b in pairwise(waits))


def test_jobs_older_than_all_may_never_end():
    releases = Releases.of([(2e5, 4), (10.0, 4)], LIVES)
    assert mean_s(8, releases) == inf
    assert mean_s(4, releases) < quantile_s(8, releases) < inf


def test_a_thousand_jobs_are_those_of_the_normal_distribution():
    """For equal jobs the number that has ended is binomial, and its median within one of the
    mean."""
    releases = Releases.of([(100.0, 1)] * 1000, LIVES)
    at_s = quantile_s(400, releases)
    ended = 1000 * (1 - LIVES.goes_on(at_s, 100.0))
    assert ended == pytest.approx(400, abs=1)
    spread = (ended * 0.6) ** 0.5
    assert chance_of(400 + round(spread), releases, at_s) == pytest.approx(0.159, abs=0.02)


def test_long_integers_convolve():
    rng = Random(3)
    a, b = ([rng.random() for _ in range(n)] for n in (40, 7))
    a, b = [x / sum(a) for x in a], [x / sum(b) for x in b]
    expected = [sum(a[i] * b[k - i] for i in range(40) if 0 <= k - i < 7) for k in range(46)]
    assert convolved(a, b) == pytest.approx(expected, abs=1e-15)
    assert convolved([], b) == []


def test_zero_slots_and_more_than_exist():
    releases = Releases.of([(10.0, 2)], LIVES)
    assert (quantile_s(0, releases), mean_s(0, releases), chance_of(0, releases, 1.0)) == (0, 0, 1)
    for call in (quantile_s, mean_s, lambda n, r: chance_of(n, r, 1.0)):
        with pytest.raises(ValueError, match="3 slots are needed and 2 held"):
            call(3, releases)
    for share in (0.0, 1.0):
        with pytest.raises(ValueError, match="share"):
            quantile_s(1, releases, share)


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_times_do_not_depend_on_the_unit(unit):
    held = [(5.0, 3), (50.0, 2), (1.0, 1), (90.0, 2)]
    lives = UniformLog(2.0, 200.0)
    releases = Releases.of(held, lives)
    scaled = Releases.of(
        [(age_s * unit, slots) for age_s, slots in held], UniformLog(2.0 * unit, 200.0 * unit)
    )
    for needed in (1, 3, 6, 8):
        assert mean_s(needed, scaled) == pytest.approx(mean_s(needed, releases) * unit, rel=1e-5)
        expected = pytest.approx(quantile_s(needed, releases, 0.3) * unit, rel=1e-5)
        assert quantile_s(needed, scaled, 0.3) == expected
    assert mean_s(0, releases) == 0.0


@pytest.mark.parametrize("slots", range(1, 7))
def test_one_more_job_adds_its_slots_or_does_not(slots):
    chances = [0.5, 0.25, 0.125, 0.125]
    expected = [0.0] * (len(chances) + slots)
    for n, chance in enumerate(chances):
        expected[n] += 0.75 * chance
        expected[n + slots] += 0.25 * chance
    assert with_one_more(chances, slots, 0.25) == pytest.approx(expected)


@pytest.mark.parametrize("age_s", [0.0, 1.0, 1.99, 2.0, 5.0, 199.0])
def test_the_mean_is_accurate_to_a_millionth_even_where_the_probability_has_corners(age_s):
    """Of the first of two to end: over its age, to the power of two, in parts between corners."""
    lives = UniformLog(2.0, 200.0)
    one = mean_s(1, Releases.of([(age_s, 1)], lives))
    assert one == pytest.approx(lives.mean_left_s(age_s), rel=1e-6)
    both = mean_s(2, Releases.of([(age_s, 1), (age_s, 1)], lives))
    first = mean_s(1, Releases.of([(age_s, 1), (age_s, 1)], lives))
    assert first + both == pytest.approx(2 * one, rel=2e-6)  # the earlier and the later of them


def test_the_integral_of_a_step_function_is_finite():
    looks = []

    def step(x):
        looks.append(x)
        return float(x > 0.3)

    assert simpson(step, 0.0, 1.0, 1e-12) == pytest.approx(0.7, abs=1e-3)
    assert len(looks) < 10_000


@pytest.mark.parametrize("needed", [-1, 0])
def test_a_job_that_needs_nothing_waits_for_nothing(needed):
    releases = Releases.of([(5.0, 3), (2e5, 2)], LIVES)
    assert quantile_s(needed, releases) == mean_s(needed, releases) == 0.0
    assert interval_90_s(needed, releases) == (0.0, 0.0)
