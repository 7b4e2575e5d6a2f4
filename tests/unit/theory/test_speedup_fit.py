from math import exp, inf, lgamma, pi
from random import Random

import pytest

from lbd.theory.speedup import Speedup
from lbd.theory.speedup_fit import (
    MOST_PARALLELISM,
    NOISE,
    NOISE_MAX,
    NOISE_RUNS,
    SpeedupFit,
    by_sigma,
    fit,
    grouped,
    share_of,
    student_90,
)

SLOTS = (1, 2, 4, 8, 16, 32)


def runs(job, noise=0.0, times=1, seed=1, slots=SLOTS):
    rng = Random(seed)
    return [
        (n, job.run_s(100.0, n) * exp(rng.gauss(0, noise))) for n in slots for _ in range(times)
    ]


@pytest.mark.parametrize(
    ("a", "sigma"), [(10.0, 0.5), (20.0, 0.0), (4.0, 1.0), (8.0, 1.8), (3.0, 5.0), (1.0, 0.0)]
)
def test_the_true_speedup_of_the_runs_is_found(a, sigma):
    found = fit(runs(Speedup(a, sigma)))
    assert found.speedup.parallelism == pytest.approx(a, rel=1e-3)
    assert found.work_s == pytest.approx(100.0, rel=1e-3)
    for n in SLOTS:
        assert found.run_s(n) == pytest.approx(Speedup(a, sigma).run_s(100.0, n), rel=1e-3)
    if a > 1:
        assert found.speedup.sigma == pytest.approx(sigma, abs=0.02)


@pytest.mark.parametrize(("a", "sigma"), [(10.0, 0.5), (6.0, 1.5)])
def test_the_intervals_contain_the_truth_nine_times_in_ten(a, sigma):
    held = [fit(runs(Speedup(a, sigma), 0.1, 2, seed)) for seed in range(16)]
    for interval, truth in (("parallelism_90", a), ("sigma_90", sigma)):
        inside = sum(low <= truth <= high for low, high in (getattr(f, interval) for f in held))
        assert inside >= 11  # of 16: one in a hundred fails if 14.4 are expected
    assert any(high < 2 * a for _, high in (f.parallelism_90 for f in held))


def test_more_runs_give_narrower_intervals():
    few, many = (fit(runs(Speedup(10.0, 0.5), 0.05, times)) for times in (1, 20))
    for interval in ("parallelism_90", "sigma_90"):
        (low, high), (lower, higher) = getattr(many, interval), getattr(few, interval)
        assert high - low < 0.7 * (higher - lower)
    assert many.noise == pytest.approx(0.05, rel=0.2)
    assert many.runs == 120


def test_below_the_parallelism_it_is_undetermined_and_the_smallest_is_taken():
    found = fit(runs(Speedup(100.0, 0.0)))
    assert found.speedup.parallelism == pytest.approx(32, rel=1e-3)
    assert found.parallelism_90[1] == pytest.approx(MOST_PARALLELISM)


def test_noise_does_not_suggest_more_slots_than_were_of_use():
    """Among equal fits the smallest A is taken: for linear runs up to 32, hardly above 32."""
    found = [fit(runs(Speedup(100.0, 0.0), 0.05, 2, seed)) for seed in range(10)]
    assert max(one.speedup.parallelism for one in found) < 45


def test_runs_that_get_no_shorter_are_sequential():
    found = fit([(n, 50.0) for n in SLOTS])
    assert found.speedup.parallelism == pytest.approx(1.0, abs=1e-3)
    assert found.work_s == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ([], "two different"),
        ([(4, 10.0), (4, 11.0)], "two different"),
        ([(0, 10.0), (4, 11.0)], "on 0 slots"),
        ([(1, 0.0), (4, 11.0)], "run of 0 s"),
        ([(1, float("nan")), (4, 11.0)], "run of nan s"),
    ],
)
def test_too_little_for_a_fit(seen, said):
    with pytest.raises(ValueError, match=said):
        fit(seen)


@pytest.mark.parametrize("freedom", [*range(1, 16), 20, 30, 60, 120, 10_000])
def test_nine_in_ten_lie_within_students_t(freedom):
    """Its density is integrated by Simpson's rule."""
    scale = exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / (freedom * pi) ** 0.5

    def density(t):
        return scale * (1 + t * t / freedom) ** (-(freedom + 1) / 2)

    step = student_90(freedom) / 400
    inner = sum(density(step * n) * (4 if n % 2 else 2) for n in range(1, 400))
    within = 2 * step / 3 * (density(0.0) + inner + density(400 * step))
    assert within == pytest.approx(0.9, abs=2e-4)


def test_an_interval_ends_where_the_fit_is_worse_by_students_t():
    made = runs(Speedup(10.0, 0.5), 0.05, 4)
    found, seen = fit(made), grouped(made)
    freedom = len(made) - 3 + NOISE_RUNS
    least = found.noise**2 * freedom - NOISE_RUNS * NOISE**2
    limit = least + student_90(freedom) ** 2 * found.noise**2
    for end in found.sigma_90:
        assert by_sigma(seen, share_of(end)) == pytest.approx(limit, rel=0.02)


@pytest.mark.parametrize(
    ("noise", "low", "high", "says"),
    [
        (0.1, 2.0, 9.0, True),
        (NOISE_MAX, 2.0, 9.0, True),
        (NOISE_MAX + 0.01, 2.0, 9.0, False),
        (0.1, 1.0, 9.0, True),
        (0.1, 1.5, MOST_PARALLELISM, True),
        (0.1, 1.0, MOST_PARALLELISM, False),  # from none to all
        (0.1, 1.0, inf, False),
    ],
)
def test_an_undetermined_fit_says_nothing(noise, low, high, says):
    found = SpeedupFit(Speedup(4.0, 0.0), 100.0, 9, noise, (low, high), (0.0, 1.0))
    assert found.says_something is says


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_speedup_does_not_depend_on_the_unit_of_time(unit):
    seen = runs(Speedup(10.0, 0.5), 0.05, 2)
    found, scaled = fit(seen), fit([(n, run_s * unit) for n, run_s in seen])
    assert scaled.speedup.parallelism == pytest.approx(found.speedup.parallelism, rel=1e-6)
    assert scaled.speedup.sigma == pytest.approx(found.speedup.sigma, abs=1e-6)
    assert scaled.work_s == pytest.approx(found.work_s * unit, rel=1e-6)
    assert scaled.noise == pytest.approx(found.noise, rel=1e-6)


@pytest.mark.parametrize(
    "seen", [[(0, 1.0), (2, 1.0)], [(1, 0.0), (2, 1.0)], [(1, inf), (2, 1.0)], [(1, 1.0), (1, 2.0)]]
)
def test_data_to_which_no_speedup_is_fitted(seen):
    with pytest.raises(ValueError, match=r"above 0|two different numbers"):
        fit(seen)


def test_runs_on_two_numbers_of_slots_are_enough():
    job = Speedup(8.0, 0.5)
    found = fit(runs(job, slots=(1, 4)))
    for n in (1, 4):
        assert found.run_s(n) == pytest.approx(job.run_s(100.0, n), rel=1e-3)
