"""The distribution of a batch's end, compared with its Markov chain and with simulated tasks."""

import math
from itertools import pairwise
from random import Random

import pytest

from lbd.theory.batch_end import chance_by, drained, erlang_by, erlang_density, quantile_s
from lbd.theory.target_time import Batch, TaskMean, first_slots, mean_left_s


def by_uniformisation(t, tasks, slots):
    """Returns P(ended by t) of the pure death process with rates min(P, left), by
    uniformisation."""
    jumps = slots * t
    last = int(jumps + 12 * math.sqrt(jumps) + 60)
    at, total = [0.0] * tasks + [1.0], 0.0
    for k in range(last + 1):
        total += math.exp(k * math.log(jumps) - jumps - math.lgamma(k + 1)) * at[0]
        leaves = [min(slots, left) / slots * chance for left, chance in enumerate(at)]
        at = [at[n] - leaves[n] + (leaves[n + 1] if n < tasks else 0.0) for n in range(tasks + 1)]
    return total


@pytest.mark.parametrize(
    ("tasks", "slots", "t"),
    [
        (64, 4, 17), (64, 4, 25), (64, 4, 8), (10, 10, 3), (5, 1, 4), (30, 29, 2), (120, 7, 18),
        (2, 1, 0.1), (40, 9, 0.01), (60, 40, 30), (90, 80, 5.5),
    ],
)  # fmt: skip
def test_the_probability_is_that_of_the_death_process(tasks, slots, t):
    expected = by_uniformisation(t, tasks, slots)
    assert chance_by(7.0 * t, tasks, slots, 7.0) == pytest.approx(expected, rel=1e-10, abs=1e-14)


@pytest.mark.parametrize(("tasks", "slots"), [(2, 1), (64, 4), (300, 2), (90, 80), (7, 9)])
def test_the_probability_rises_with_time_and_never_exceeds_one(tasks, slots):
    chances = [chance_by(0.5 * n, tasks, slots, 1.0) for n in range(600)]
    assert all(a <= b + 1e-12 for a, b in pairwise(chances))
    assert (chances[0], max(chances)) == (0.0, 1.0)


@pytest.mark.parametrize("tasks", [1, 7])
def test_the_smallest_probability_has_a_quantile_too(tasks):
    assert quantile_s(5e-324, tasks, 1, 60.0) < 1e-30


def test_the_probability_at_its_ends():
    assert chance_by(-1.0, 5, 2, 1.0) == 0.0
    assert chance_by(0.0, 5, 2, 1.0) == 0.0
    assert chance_by(0.0, 0, 2, 1.0) == 1.0
    assert chance_by(1e4, 5, 2, 1.0) == 1.0
    assert chance_by(2.0, 3, 9, 1.0) == pytest.approx((1 - math.exp(-2)) ** 3)
    # a long batch is a normal variable, by the central limit theorem
    assert chance_by(1e6, 10**7, 10, 1.0) == pytest.approx(0.4976, abs=1e-3)


@pytest.mark.parametrize(("tasks", "slots"), [(64, 4), (5, 9), (1, 1), (300, 2)])
def test_quantiles_invert_the_probability(tasks, slots):
    for chance in (0.01, 0.5, 0.95, 0.999):
        found_s = quantile_s(chance, tasks, slots, 60.0)
        assert chance_by(found_s, tasks, slots, 60.0) == pytest.approx(chance, rel=1e-9)
    assert quantile_s(0.5, 0, slots, 60.0) == 0.0


def test_targeting_a_quantile_is_on_time_at_least_that_often():
    rng, in_time, runs = Random(21), 0, 800
    fewest = next(slots for slots in range(1, 31) if chance_by(12.0, 40, slots, 1.0) >= 0.9)
    aim = mean_left_s(40, fewest, 1.0)
    for _ in range(runs):
        batch = Batch(40, aim, first_slots(40, aim, 1.0, 30), 30, TaskMean(1.0, 1e12))
        now, ends = 0.0, []
        while batch.left:
            while batch.waiting and batch.running < batch.slots:
                batch.began(now)
                ends.append(now + rng.expovariate(1.0))
            now = min(ends)
            ends.remove(now)
            batch.ended(now)
        in_time += now <= 12.0
    assert in_time / runs >= 0.88


@pytest.mark.parametrize(
    "asked",
    [
        lambda: quantile_s(1.0, 3, 1, 1.0),
        lambda: quantile_s(math.nan, 3, 1, 1.0),
        lambda: chance_by(3.0, -1, 1, 1.0),
        lambda: chance_by(3.0, 1, 0, 1.0),
    ],
)
def test_invalid_arguments(asked):
    with pytest.raises(ValueError, match=r"chance|left|slots"):
        asked()


@pytest.mark.parametrize("stages", [1, 2, 7, 30])
@pytest.mark.parametrize("rate", [0.5, 3.0])
def test_the_stages_end_as_a_poisson_process_counts_them(stages, rate):
    for t in (0.0, 0.1, 1.0, 5.0, 40.0, 200.0):
        x = rate * t
        fewer = math.fsum(
            math.exp(n * math.log(x) - x - math.lgamma(n + 1)) for n in range(stages) if x
        )
        expected = 1.0 - fewer if x else 0.0
        assert erlang_by(t, stages, rate) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("stages", [1, 2, 7])
def test_the_density_is_the_slope_of_the_probability(stages):
    for t in (0.1, 1.0, 5.0):
        slope = (erlang_by(t + 1e-5, stages, 2.0) - erlang_by(t - 1e-5, stages, 2.0)) / 2e-5
        assert erlang_density(t, stages, 2.0) == pytest.approx(slope, rel=1e-6)
    assert erlang_density(0.0, stages, 2.0) == (2.0 if stages == 1 else 0.0)
    assert erlang_density(-1.0, stages, 2.0) == 0.0


@pytest.mark.parametrize("stages", [1, 2, 3, 10, 57, 400, 30_000])
def test_stages_end_as_often_as_that_many_arrivals_occur(stages):
    """P(stages, x) is the probability that a Poisson variable of mean x is that large or larger."""
    for spreads in (-6, -3, -1, -0.1, 0, 0.1, 1, 3, 6):
        x = stages + 1 + spreads * math.sqrt(stages)
        if x > 0:
            logs = (n * math.log(x) - x - math.lgamma(n + 1) for n in range(stages))
            fewer = math.fsum(math.exp(one) for one in logs)
            assert erlang_by(x / 2, stages, 2.0) == pytest.approx(1 - fewer, abs=1e-10)


def test_in_no_time_only_an_empty_batch_has_ended():
    assert [drained(t, tasks) for t in (-1.0, 0.0) for tasks in (0, 1, 3)] == [1, 0, 0] * 2
    assert drained(2.0, 3) == pytest.approx((1 - math.exp(-2.0)) ** 3)
