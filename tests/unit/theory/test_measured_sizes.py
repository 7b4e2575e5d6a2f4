import math
from random import Random

import pytest

from lbd.theory.bounded_pareto import BoundedPareto
from lbd.theory.cutoffs import Infeasible, solve
from lbd.theory.measured_sizes import BINS, MeasuredSizes
from lbd.theory.tags import Traffic


def drawn(alpha=1.1, ratio=1e6, count=50_000, k=2.0):
    sizes, rng = BoundedPareto(k, k * ratio, alpha), Random(f"{alpha}{ratio}")
    return [sizes.sample(rng) for _ in range(count)]


@pytest.mark.parametrize("alpha", [0.2, 1.1, 1.9])
def test_moments_are_those_of_the_sample(alpha):
    sample = drawn(alpha)
    sizes = MeasuredSizes(sample)
    for j in (-1, 0, 1, 2):
        exact = math.fsum(x**j for x in sample) / len(sample)
        assert sizes.moment(j) == pytest.approx(exact, rel=3e-3)
        half = sizes.width / 2
        parts = [sizes.part_y(j, 0.0, half), sizes.part_y(j, half, sizes.width)]
        assert sum(parts) == pytest.approx(sizes.moment(j), rel=1e-12)
        below = math.fsum(x**j for x in sample if x <= sizes.size(half)) / len(sample)
        assert parts[0] == pytest.approx(below, rel=4e-3)
    assert sizes.part_y(1, 0.3, 0.3) == 0.0
    tiny = sizes.part_y(1, 0.3, 0.3 + 1e-9)
    assert 0 <= tiny < 1e-6


def test_work_is_found_where_it_lies():
    sizes = MeasuredSizes(drawn())
    for share in (0.0, 1e-6, 0.25, 0.5, 0.9, 1.0):
        y = sizes.y_of_work(share)
        assert sizes.part_y(1.0, 0.0, y) == pytest.approx(share * sizes.mean_s, rel=1e-9)


@pytest.mark.parametrize("objective", ["slowdown", "waiting", "fairness"])
def test_the_cutoffs_are_those_of_the_distribution_it_was_drawn_from(objective):
    true = BoundedPareto(2.0, 2e4, 1.1)
    rng = Random(1)
    sizes = MeasuredSizes([true.sample(rng) for _ in range(200_000)])
    found = solve(Traffic(sizes, 0.5, 3), objective)
    exact = solve(Traffic(true, 0.5, 3), objective)
    assert not isinstance(found, Infeasible)
    assert not isinstance(exact, Infeasible)
    assert found.cutoffs_s == pytest.approx(exact.cutoffs_s, rel=0.1)
    assert found.slowdown == pytest.approx(exact.slowdown, rel=0.1)


def test_two_sizes_are_enough_and_gaps_do_no_harm():
    found = solve(Traffic(MeasuredSizes([1.0] * 99 + [1000.0]), 0.4, 2), "slowdown")
    assert not isinstance(found, Infeasible)
    assert 1.0 < found.cutoffs_s[0] < 1000.0


@pytest.mark.parametrize("sizes", [[], [1.0], [2.0, 2.0], [0.0, 1.0], [1.0, math.inf]])
def test_too_few_sizes(sizes):
    with pytest.raises(ValueError, match="two jobs"):
        MeasuredSizes(sizes)


def test_the_share_of_small_sizes_in_a_moment_dominated_by_large_ones_is_exact():
    sizes = MeasuredSizes([*map(float, range(1, 101)), 1e12])
    edges = [strip * sizes.width / BINS for strip in (300, 600)]
    inside = math.fsum(sizes._strips(2.0)[300:600])
    assert sizes.part_y(2.0, *edges) == pytest.approx(inside, rel=1e-6)
