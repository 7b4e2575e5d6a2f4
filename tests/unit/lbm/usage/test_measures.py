"""The figures of `lbctl stats`, against values computed by hand."""

import math

import pytest

from lbd.errors import PeerError
from lbd.lbm.usage.log import slowdown
from lbd.lbm.usage.measures import (
    Measure,
    Moments,
    measure_of_row,
    merged,
    step_of,
)


def moments(*values):
    return Moments(len(values), sum(values), sum(value * value for value in values))


@pytest.mark.parametrize(
    ("values", "mean", "sd"),
    [
        ((2, 4, 4, 4, 5, 5, 7, 9), 5.0, math.sqrt(32 / 7)),  # squares of the deviations: 32
        ((1.5, 1.5), 1.5, 0.0),
        ((10, 20), 15.0, math.sqrt(50)),
    ],
)
def test_mean_and_deviation(values, mean, sd):
    assert moments(*values).mean == pytest.approx(mean)
    assert moments(*values).sd == pytest.approx(sd)


def test_one_value_has_no_deviation_and_no_values_have_no_mean():
    assert moments(3.0).mean == 3.0
    assert math.isnan(moments(3.0).sd)
    assert math.isnan(moments().mean)


def test_the_figures_of_hosts_combine_to_those_of_all_their_jobs():
    """Not a mean of means: h1 had 2, 4, 4; h2 had the others."""
    both = moments(2, 4, 4)
    both.add(moments(4, 5, 5, 7, 9))
    assert (both.mean, both.sd) == (5.0, pytest.approx(math.sqrt(32 / 7)))


@pytest.mark.parametrize(
    ("response_s", "cpu_s", "expected"),
    [(30.0, 10.0, 2.0), (10.0, 10.0, 0.0), (5.0, 10.0, 0.0), (0.02, 0.01, 1.0)],
    ids=["waited-twice-its-size", "never-waited", "two-threads", "as-short-as-can-be"],
)
def test_slowdown_is_waiting_time_by_size(response_s, cpu_s, expected):
    assert slowdown(response_s, cpu_s) == pytest.approx(expected)


def test_a_job_with_hardly_any_cpu_time_has_no_slowdown():
    assert math.isnan(slowdown(3600.0, 0.009))


def test_shares_are_of_all_jobs():
    measure = Measure(jobs=8, moved=6, wrong=1)
    assert (measure.transferred, measure.wrong_transfers) == (0.75, 0.125)
    assert math.isnan(Measure().transferred)


def test_merged_by_key_with_the_most_jobs_first():
    found = merged([{"cc": Measure(jobs=2), "ld": Measure(jobs=3)}, {"cc": Measure(jobs=2)}])
    assert [(key, measure.jobs) for key, measure in found.items()] == [("cc", 4), ("ld", 3)]


def test_a_row_as_it_arrives():
    sums = [3, 6.0, 14.0, 3, 0.3, 0.05, 0, 0.0, 0.0]
    key, measure = measure_of_row(["cc", 3, 1, 2, 0, 4.5, *sums, [], [], [], 7.5])
    assert (key, measure.jobs, measure.failed, measure.moved, measure.cpu_s) == ("cc", 3, 1, 2, 4.5)
    assert (measure.response.mean, measure.response.sd) == (2.0, pytest.approx(1.0))
    assert measure.slot_s == 7.5
    measure.add(measure)


@pytest.mark.parametrize("row", [None, [], ["cc"], [1] * 15, {"key": "cc"}, ["cc", *"x" * 14]])
def test_an_invalid_row_is_an_error_of_the_peer(row):
    with pytest.raises(PeerError):
        measure_of_row(row)


def spread(*values):
    found = moments(*values)
    for value in values:
        found.steps[step_of(value)] = found.steps.get(step_of(value), 0) + 1
    return found


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        (range(1, 101), 0.5, 50), (range(1, 101), 0.95, 95), ([7.0], 0.95, 7.0),
        ([0.001] * 96 + [3600.0] * 4, 0.95, 0.001), ([0.001] * 94 + [3600.0] * 6, 0.95, 3600.0),
    ],
)  # fmt: skip
def test_percentiles_are_accurate_within_five_percent(values, share, expected):
    assert spread(*values).percentile(share) == pytest.approx(expected, rel=0.052)


def test_if_half_of_the_jobs_took_no_time_the_median_is_zero():
    assert spread(0.0, 0.0, 5.0).percentile(0.5) == 0.0


def test_percentiles_combine_over_hosts():
    both = spread(*range(1, 51))
    both.add(spread(*range(51, 101)))
    assert both.percentile(0.95) == pytest.approx(95, rel=0.052)


def test_without_the_steps_of_all_hosts_there_are_no_percentiles():
    """A host may send fewer."""
    both = spread(1.0, 2.0)
    both.add(moments(3.0))
    assert math.isnan(both.percentile(0.5))
    assert math.isnan(moments().percentile(0.5))


ROW = ["cc", 2, 0, 0, 0, 4.5, 2, 6.0, 14.0, 2, 0.3, 0.05, 0, 0.0, 0.0]


def test_a_row_with_steps():
    _, measure = measure_of_row([*ROW, [[0, 2]], [[-10, 1], [10, 1]], [], 0.0])
    assert measure.response.percentile(0.5) == 1.0
    assert measure.waiting.steps == {-10: 1, 10: 1}


@pytest.mark.parametrize(
    "steps", [7, [[1]], [["1", 2]], [[1, 0]], [[401, 1]], [[n, 1] for n in range(-200, 201)]]
)
def test_invalid_steps_are_an_error_of_the_peer(steps):
    with pytest.raises(PeerError):
        measure_of_row([*ROW, steps, [], [], 0.0])
