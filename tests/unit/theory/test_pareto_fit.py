from math import exp
from random import Random

import pytest

from lbd.theory.bounded_pareto import BoundedPareto
from lbd.theory.pareto_fit import fit, ks, mean_of_cut_exponential


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0, 1.4, 2.0, 2.5])
@pytest.mark.parametrize("ratio", [100.0, 1e6])
def test_the_source_distribution_is_found(alpha, ratio):
    sizes, rng = BoundedPareto(3.0, 3.0 * ratio, alpha), Random(f"{alpha}{ratio}")
    found = fit([sizes.sample(rng) for _ in range(5000)])
    assert found.sizes.alpha == pytest.approx(alpha, abs=0.05)
    assert found.sizes.k == pytest.approx(3.0, rel=0.01)
    assert found.ks_distance < 1.6 / 5000**0.5
    assert (found.by, found.jobs) == ("likelihood", 5000)


@pytest.mark.parametrize("alpha", [0.1, 0.8, 4.95])
def test_one_odd_small_job_does_not_change_the_load(alpha):
    sizes, rng = BoundedPareto(100.0, 1e6, alpha), Random(5)
    drawn = [sizes.sample(rng) for _ in range(5000)]
    found = fit([*drawn, 0.001])
    assert found.by == "mean"
    assert found.sizes.mean_s == pytest.approx(sum(drawn) / 5001, rel=1e-6)
    assert found.sizes.alpha == pytest.approx(alpha, abs=0.1)


def test_the_distance_is_that_of_kolmogorov():
    sizes = BoundedPareto(1.0, 4.0, 0.0)  # F(2) = 1/2
    assert ks([2.0], sizes) == pytest.approx(0.5)
    assert ks([1.0, 4.0], sizes) == pytest.approx(0.5)
    assert ks([2.0, 2.0, 2.0, 4.0], sizes) == pytest.approx(0.5)  # ties count as one step
    assert ks([2.0, 4.0], sizes, [3, 1]) == pytest.approx(0.5)
    assert ks([1.0, 4.0], sizes, [3, 1]) == pytest.approx(0.75)


@pytest.mark.parametrize("drawn", [[], [1.0], [2.0, 2.0], [0.0, 1.0], [-1.0, 1.0]])
def test_too_little_for_a_fit(drawn):
    with pytest.raises(ValueError, match="at least two"):
        fit(drawn)


def test_a_sample_of_only_the_smallest_size_has_the_largest_distance():
    sizes = BoundedPareto(1.0, 1e6, 1.0)
    assert ks([1.0] * 5, sizes) == pytest.approx(1.0)


def test_two_jobs_are_enough_and_one_is_not():
    assert (fit([1.0, 2.0]).sizes.k, fit([1.0, 2.0]).sizes.p) == (1.0, 2.0)
    with pytest.raises(ValueError, match="two jobs"):
        fit([1.0])


@pytest.mark.parametrize("z", [-50.0, -2.0, -1e-3, -9e-4, 0.0, 9e-4, 1e-3, 0.5, 2.0, 50.0])
def test_the_mean_of_a_truncated_exponential_is_the_integral(z):
    """Of u e^(-zu) over that of e^(-zu), on 0 … 1, by the midpoint rule."""
    steps = 40_000
    weights = [exp(-z * (n + 0.5) / steps - max(0.0, -z)) for n in range(steps)]
    mean = sum(w * (n + 0.5) / steps for n, w in enumerate(weights)) / sum(weights)
    assert mean_of_cut_exponential(z) == pytest.approx(mean, rel=1e-6)


def test_the_mean_of_a_steep_truncated_exponential_is_that_of_a_whole_one():
    assert mean_of_cut_exponential(1e5) == pytest.approx(1e-5)


def test_a_fit_is_doubted_beyond_a_distance_that_one_sample_in_a_hundred_has():
    """1.63 / √n: of Kolmogorov's distribution."""
    assert fit([1.0, 2.0] * 50).chance == pytest.approx(0.163)
    assert fit([1.0, 2.0] * 5000).chance == pytest.approx(0.0163)
