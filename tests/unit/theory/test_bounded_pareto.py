import math
from random import Random

import pytest

from lbd.theory.bounded_pareto import STEEPEST, BoundedPareto, log_ratio, with_mean

STEPS = 4000
ALPHAS = [0.0, 1e-12, 1e-4, 0.2, 0.5, 1 - 1e-9, 1.0, 1 + 1e-9, 1.5, 2 - 1e-9, 2.0, 2 + 1e-9, 3.0]
RANGES = [(1.0, 1.5), (1.0, 1e4), (2.5, 2.5e10), (1e-6, 1e4)]


def simpson(function, low, high):
    width = (high - low) / STEPS
    inner = sum((4 if i % 2 else 2) * function(low + i * width) for i in range(1, STEPS))
    return (function(low) + inner + function(high)) * width / 3


def integral(j, alpha, k, p, low, high):
    """Returns E[X^j; low < X ≤ high] from the density alone, summed over the size's logarithm."""

    def weight(power):
        return lambda y: math.exp((power - alpha) * y)

    mass = simpson(weight(0), 0.0, math.log(p / k))
    return k**j * simpson(weight(j), math.log(low / k), math.log(high / k)) / mass


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(("k", "p"), RANGES)
def test_moments_are_the_integrals(alpha, k, p):
    sizes = BoundedPareto(k, p, alpha)
    for j in (-2, -1, 0, 1, 2):
        assert sizes.moment(j) == pytest.approx(integral(j, alpha, k, p, k, p), rel=1e-6)
    low, high = k * (p / k) ** 0.3, k * (p / k) ** 0.6
    for j in (-1, 0, 1, 2):
        expected = integral(j, alpha, k, p, low, high)
        assert sizes.part(j, low, high) == pytest.approx(expected, rel=1e-6)


def textbook_moment(j, alpha, k, p):
    """The appendix's formula, where it is defined."""
    share = 1 - (k / p) ** alpha
    if alpha == j == 1:
        return k / (1 - k / p) * math.log(p / k)
    if alpha == j == 2:
        return 2 * k**2 / share * math.log(p / k)
    return alpha * k**alpha * (k ** (j - alpha) - p ** (j - alpha)) / ((alpha - j) * share)


@pytest.mark.parametrize("alpha", [0.3, 0.9, 1.0, 1.4, 1.9, 2.0])
@pytest.mark.parametrize("j", [-1, 1, 2])
def test_moments_are_those_of_the_appendix(alpha, j):
    if (alpha, j) == (2.0, 1) or alpha != j or j in (1, 2):
        expected = textbook_moment(j, alpha, 3.0, 5e6)
        assert BoundedPareto(3.0, 5e6, alpha).moment(j) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("alpha", [0, 1, 2])
@pytest.mark.parametrize("off", [1e-15, 1e-13, 1e-11, 1e-9, 1e-7])
def test_near_singular_values_the_moments_hardly_change(alpha, off):
    at = BoundedPareto(1.0, 1e10, alpha)
    for side in (alpha + off, alpha - off):
        if side >= 0:
            beside = BoundedPareto(1.0, 1e10, side)
            for j in (-1, 1, 2):
                # d ln E[X^j] / dα is at most ln(p/k) = 23
                assert beside.moment(j) == pytest.approx(at.moment(j), rel=25 * off + 1e-14)


def test_the_uniform_logarithm_at_alpha_0():
    sizes = BoundedPareto(1.0, math.e**2, 0.0)
    assert sizes.mean_s == pytest.approx((math.e**2 - 1) / 2)
    assert sizes.quantile(0.5) == pytest.approx(math.e)
    assert sizes.scv > 0


@pytest.mark.parametrize(
    ("p", "alpha", "k"),
    [(1e10, 1.0, 167), (1e7, 1.0, 287), (1e10, 2.0, 1500)],  # sections 3 and 7
)
def test_smallest_jobs_of_the_paper(p, alpha, k):
    sizes = with_mean(3000.0, p, alpha)
    assert sizes.k == pytest.approx(k, abs=1.0)
    assert sizes.mean_s == pytest.approx(3000.0, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.6, 1.0, 1.5, 2.0, 4.0, 40.0])
def test_with_mean_has_that_mean(alpha):
    assert with_mean(3000.0, 1e10, alpha).mean_s == pytest.approx(3000.0, rel=1e-11)


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0, 1.9, 2.5])
def test_quantiles_invert_the_distribution(alpha):
    sizes = BoundedPareto(2.0, 2e10, alpha)
    for u in (0.0, 1e-9, 0.1, 0.5, 0.9, 0.999):
        assert sizes.cdf(sizes.quantile(u)) == pytest.approx(u, rel=1e-9, abs=1e-12)
    assert (sizes.quantile(0.0), sizes.quantile(1.0)) == (2.0, 2e10)
    assert [sizes.cdf(1.0), sizes.tail(1.0), sizes.cdf(3e10), sizes.tail(3e10)] == [0, 1, 1, 0]


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0, 1.9, 2.5])
def test_work_is_found_where_it_lies(alpha):
    sizes = BoundedPareto(2.0, 2e8, alpha)
    for share in (0.0, 1e-12, 0.25, 0.5, 0.9):
        below = sizes.part_y(1.0, 0.0, sizes.y_of_work(share))
        assert below == pytest.approx(share * sizes.mean_s, rel=1e-9)


def test_samples_follow_it():
    sizes, rng = BoundedPareto(1.0, 1e3, 1.5), Random(7)
    drawn = [sizes.sample(rng) for _ in range(20_000)]
    assert all(1.0 <= x <= 1e3 for x in drawn)
    assert sum(drawn) / len(drawn) == pytest.approx(sizes.mean_s, rel=0.05)
    above = sum(x > 10 for x in drawn) / len(drawn)
    assert above == pytest.approx(sizes.tail(10), abs=0.005)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ((0.0, 1.0, 1.0), "smallest"),
        ((2.0, 2.0, 1.0), "smallest"),
        ((3.0, 2.0, 1.0), "smallest"),
        ((1.0, math.inf, 1.0), "smallest"),
        ((1.0, math.nan, 1.0), "smallest"),
        ((1.0, 2.0, -0.1), "alpha"),
        ((1.0, 2.0, STEEPEST + 0.1), "alpha"),
        ((1.0, 2.0, math.nan), "alpha"),
        ((1e-200, 1.0, 1.0), "at most"),
    ],
)
def test_invalid_distributions(parameters, said):
    with pytest.raises(ValueError, match=said):
        BoundedPareto(*parameters)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [((5.0, 5.0, 1.0), "mean"), ((0.0, 5.0, 1.0), "mean"), ((3000.0, 1e10, 0.001), "too small"),
     ((5.0, 50.0, -1.0), "alpha")],
)  # fmt: skip
def test_impossible_means(parameters, said):
    with pytest.raises(ValueError, match=said):
        with_mean(*parameters)


def test_the_logarithm_of_a_ratio_is_exact_for_close_values():
    below, above = 3.0, math.nextafter(3.0, 4.0)
    assert log_ratio(above, below) == pytest.approx((above - below) / 3.0, rel=1e-9, abs=0.0)
    assert log_ratio(8.0, 2.0) == pytest.approx(math.log(4.0))


def test_the_limits_of_valid_arguments_work():
    assert BoundedPareto(1.0, 2.0, STEEPEST).alpha == STEEPEST
    assert with_mean(0.5, 5.0, STEEPEST).mean_s == pytest.approx(0.5)
    assert with_mean(0.5, 5.0, 0.0).mean_s == pytest.approx(0.5)


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
def test_moments_and_variance_are_those_of_the_density(alpha):
    """By the midpoint rule over y = ln(size/k), whose density is proportional to e^(-αy)."""
    sizes = BoundedPareto(2.0, 500.0, alpha)
    steps = 20_000
    ys = [sizes.width * (i + 0.5) / steps for i in range(steps)]
    weights = [math.exp(-alpha * y) for y in ys]
    first, second = (
        sum(w * (2.0 * math.exp(y)) ** j for w, y in zip(weights, ys, strict=True)) / sum(weights)
        for j in (1, 2)
    )
    assert sizes.mean_s == pytest.approx(first, rel=1e-6)
    assert sizes.scv == pytest.approx(second / first**2 - 1, rel=1e-5)


def test_the_largest_size_is_exact_and_finite():
    with pytest.raises(ValueError, match="smallest < largest"):
        BoundedPareto(1.0, math.inf, 1.0)
    for p in range(2, 400):
        sizes = BoundedPareto(0.3, float(p), 1.1)
        assert sizes.size(sizes.width) == p


def test_a_mean_close_to_the_largest_size_has_a_smallest_close_to_it():
    for share in (0.5, 0.9, 0.99):
        sizes = with_mean(share * 100.0, 100.0, 1.2)
        assert sizes.mean_s == pytest.approx(share * 100.0, rel=1e-9)
