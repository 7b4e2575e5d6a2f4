"""Our own rules against the seven, at a small scale: what is compared, and the conclusions."""

import math

import pytest

from lbd.policy.registry import WEIGH_AGE
from lbd.sim.balance.runs import percentile, run_once
from lbd.sim.balance.setup import Setup
from lbd.sim.balance.workload import WORKLOADS
from lbd.sim.figures.figure import Scale, plain_map
from lbd.sim.figures.own import (
    EQUAL,
    SEVEN,
    STALE_AGES,
    TUNED_ON,
    UNEQUAL,
    Ratio,
    against_the_best,
    cell_setup,
    ratio,
    stale_claims,
    verdicts,
)  # fmt: skip

SMALL = Scale(duration_s=4.0, replications=2)


def test_the_seven_are_those_of_zhou():
    assert len(SEVEN) == 7
    assert not set(SEVEN) & {"NOLB", *WEIGH_AGE}


@pytest.mark.parametrize(("rule", "same"), [("LOWEST", True), ("RANDOM", True), ("GLOBAL", False)])
def test_a_rule_that_asks_when_a_load_is_needed_knows_no_age(rule, same):
    young, old = (cell_setup(EQUAL, (0.8, age_s), rule, SMALL) for age_s in (0.1, 30.0))
    assert (young == old) is same


def test_a_drawing_shows_each_rule_by_mean_and_p99_at_each_age():
    drawing = against_the_best(UNEQUAL, SMALL, plain_map, loads=(0.5,), ages_s=(1.0, 30.0))
    names = [line.name for line in drawing.lines]
    assert names == [
        f"{rule} {measure}, P = {age} s"
        for rule in WEIGH_AGE for measure in ("mean", "p99") for age in (1, 30)
    ]  # fmt: skip
    assert all(math.isfinite(y) for line in drawing.lines for y in (*line.y, *line.interval))


def test_a_worse_cell_is_named():
    ratios = {
        (0.5, 1.0): Ratio(0.9, 0.2),
        (0.9, 30.0): Ratio(1.05, 0.04),
        (0.9, 1.0): Ratio(0.8, 0.1),
    }
    better, no_worse = verdicts("P2C", "mean", ratios)
    assert better.holds
    assert better.ours == "2 of 3 cells, 1 surely"
    assert not no_worse.holds
    assert no_worse.ours == "1.050 ± 0.040 at load 0.9, P = 30 s"


def test_a_significantly_worse_cell_is_reported_as_such():
    found = verdicts("P2C", "mean", {(0.9, 30.0): Ratio(1.05, 0.02)})[1]
    assert found.ours == "1.050 ± 0.020 at load 0.9, P = 30 s (surely)"


def test_a_ratio_takes_into_account_that_both_had_the_same_jobs():
    always_half = ratio([1.0, 2.0, 5.0], [2.0, 4.0, 10.0])
    assert (always_half.value, always_half.half) == pytest.approx((0.5, 0.0))
    assert ratio([1.0, 2.0, 5.0], [2.0, 10.0, 4.0]).half > 0.5


@pytest.mark.parametrize(("seed", "fair"), [(TUNED_ON[0], False), (7, True)])
def test_judging_by_the_jobs_used_for_tuning_is_reported(seed, fair):
    scale = Scale(duration_s=2.0, replications=2, seed=seed)
    drawing = against_the_best(UNEQUAL, scale, plain_map, loads=(0.5,), ages_s=(1.0,))
    assert drawing.claims[-1].holds is fair


def test_the_claims_about_old_loads_are_judged_by_the_numbers():
    flat = (1.9,) * len(STALE_AGES)
    y = {"GLOBAL": (1.2, 1.5, 2.0, 3.0, 6.0), "CENTRAL": flat, "P2C": flat, "PREDICT": flat}
    assert [claim.holds for claim in stale_claims(y, 1.95, 5.0)] == [True] * 4
    worse = {**y, "P2C": (9.0,) * len(STALE_AGES)}
    assert [claim.holds for claim in stale_claims(worse, 1.95, 5.0)] == [True, True, False, False]


def test_a_percentile_is_an_observed_value():
    assert percentile([float(n) for n in range(1, 201)], 0.99) == 198.0
    assert percentile([3.0], 0.99) == 3.0


def test_wrong_estimates_change_only_predict():
    def moved(rule, error):
        setup = Setup(WORKLOADS["berkeley"], hosts=6, utilisation=0.8, duration_s=60.0,
                      learnt_error=error)  # fmt: skip
        run = run_once(setup, rule, 0)
        return run.moved, run.mean_response_s

    assert moved("LOWEST", 2.0) == moved("LOWEST", 0.0)
    assert moved("PREDICT", 2.0) != moved("PREDICT", 0.0)
