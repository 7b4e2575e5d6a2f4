"""Downey's speedup model: the printed pieces, where they meet, and their inverses."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.theory.speedup import Speedup

PARALLELISMS = st.floats(1.0, 500.0)
SIGMAS = st.one_of(st.just(0.0), st.just(1.0), st.floats(1e-6, 5.0))
JOBS = st.builds(Speedup, PARALLELISMS, SIGMAS)


def by_profile(a, sigma, n):
    """From Figure 1's profiles: (duration, parallelism) of each part, done at most n wide."""
    a, sigma, n = Fraction(a), Fraction(sigma), Fraction(n)
    if sigma <= 1:
        parts = [(1 - sigma, a), (sigma / 2, Fraction(1)), (sigma / 2, 2 * a - 1)]
    else:
        parts = [(sigma, Fraction(1)), (Fraction(1), a + a * sigma - sigma)]
    work = sum(length * wide for length, wide in parts)
    return work / sum(length * max(wide / n, 1) for length, wide in parts)


@pytest.mark.parametrize("sigma", [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 4.0])
@pytest.mark.parametrize("a", [1.0, 2.0, 7.5, 64.0])
def test_the_equations_agree_with_the_profiles(a, sigma):
    for n in (1, 1.5, 2, 3, 7, 8, 14, 63, 64, 65, 100, 127, 128, 300):
        assert Speedup(a, sigma).at(n) == pytest.approx(float(by_profile(a, sigma, n)), rel=1e-12)


@pytest.mark.parametrize("sigma", [0.0, 0.3, 0.999999, 1.0, 1.000001, 2.0, 50.0])
def test_the_pieces_meet(sigma):
    a = 64.0
    for joint in (a, 2 * a - 1, a + a * sigma - sigma):
        below, at, above = (Speedup(a, sigma).at(joint * (1 + off)) for off in (-1e-9, 0, 1e-9))
        assert below == pytest.approx(at, rel=1e-7)
        assert above == pytest.approx(at, rel=1e-7)
    for n in (1, 10, 64, 100, 127, 500):  # the two branches agree at σ = 1
        low, high = Speedup(a, 1 - 1e-9).at(n), Speedup(a, 1 + 1e-9).at(n)
        assert low == pytest.approx(high, rel=1e-7)


def test_the_speedup_is_between_its_bounds():
    """Figure 2, A = 64: linear up to A at σ = 0, equation 3 for σ → ∞."""
    for n in (1, 2, 30, 64, 65, 200):
        assert Speedup(64.0, 0.0).at(n) == min(n, 64)
        assert Speedup(64.0, 1e12).at(n) == pytest.approx(64 * n / (64 + n - 1), rel=1e-9)
    assert Speedup(64.0, 1.0).at(64) == pytest.approx(64 * 64 * 2 / (127 + 64))


@given(JOBS, st.floats(1.0, 2000.0), st.floats(1.0, 2000.0))
def test_more_slots_are_never_slower_nor_more_efficient(job, one, other):
    few, many = sorted((one, other))
    assert job.at(few) <= job.at(many) * (1 + 1e-12) <= job.parallelism * (1 + 2e-12)
    assert job.at(many) / many <= job.at(few) / few * (1 + 1e-12)
    assert job.at(1.0) == pytest.approx(1.0, rel=1e-12)
    smallest = job.parallelism * few / (job.parallelism + few - 1)
    assert job.at(few) >= smallest * (1 - 1e-12)


@pytest.mark.parametrize(("a", "sigma", "full"), [(8, 0, 8), (8, 0.5, 15), (8, 1, 15), (8, 2, 22)])
def test_where_the_speedup_ends(a, sigma, full):
    assert Speedup(a, sigma).at(full) == a > Speedup(a, sigma).at(full - 0.5)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Speedup(0.99, 0.0), "parallelism 0.99: must be 1"),
        (lambda: Speedup(math.inf, 0.0), "parallelism"),
        (lambda: Speedup(math.nan, 0.0), "parallelism"),
        (lambda: Speedup(2.0, -0.1), "variance in parallelism -0.1"),
        (lambda: Speedup(2.0, math.nan), "variance"),
        (lambda: Speedup(2.0, math.inf), "variance"),
        (lambda: Speedup(2.0, 1.0).at(0.5), "0.5 slots"),
    ],
)
def test_invalid_speedups(call, said):
    with pytest.raises(ValueError, match=said):
        call()
