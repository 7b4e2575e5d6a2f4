"""The bias of predictions, learnt and corrected."""

from math import exp, inf, log
from random import Random
from statistics import correlation, linear_regression, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.theory.calibration import (
    FEWEST,
    PROVEN,
    Bias,
    CameTrue,
    Correction,
    Trust,
    judged,
    trust,
)

WAITS_S = st.floats(0.0, 1e6)


def biased(count, slope=0.6, intercept=1.7, noise=1.0, seed=1):
    """Returns (predicted, actual) pairs as in Figure 5a."""
    rng = Random(seed)
    predicted = [exp(rng.uniform(1, 11)) for _ in range(count)]
    return [(p, exp(intercept + slope * log(p) + rng.gauss(0, noise))) for p in predicted]


def learnt(outcomes):
    bias = Bias()
    for outcome in outcomes:
        bias.learn(*outcome)
    return bias


def test_the_line_is_that_of_least_squares():
    outcomes = biased(500)
    x, y = ([log(max(one[i], 1.0)) for one in outcomes] for i in (0, 1))
    expected, bias = linear_regression(x, y), learnt(outcomes)
    assert bias.line().slope == pytest.approx(expected.slope, rel=1e-9)
    assert bias.line().intercept == pytest.approx(expected.intercept, rel=1e-9)
    assert bias.line().intercept_log10 == pytest.approx(expected.intercept / log(10), rel=1e-9)
    assert bias.correlation == pytest.approx(correlation(x, y), rel=1e-9)
    assert bias.line().slope == pytest.approx(0.6, abs=0.05)
    assert bias.line().spread == pytest.approx(1.0, rel=0.1)


def test_outcomes_on_a_line_leave_no_doubt():
    bias = learnt(biased(FEWEST, noise=0.0))
    assert bias.line().spread == pytest.approx(0.0, abs=1e-6)
    corrected_s = bias.correction().corrected_s(600.0)
    low_s, high_s = bias.correction().interval_90_s(600.0)  # of the smallest possible width
    assert (low_s, high_s) == pytest.approx((corrected_s / 1.0857, corrected_s * 1.0857), rel=1e-4)


def test_the_bias_of_the_paper_is_right_at_about_a_minute_and_shortens_longer_predictions():
    """Section 5.4: predictions below ten minutes are hardly biased, longer ones too high."""
    found = Correction(0.6, 1.7)
    assert found.corrected_s(exp(1.7 / 0.4)) == pytest.approx(exp(1.7 / 0.4))
    assert 0.4 < found.corrected_s(600.0) / 600.0 < 1
    assert found.corrected_s(36_000.0) / 36_000.0 < 0.1


def test_corrected_predictions_have_slope_1_and_intercept_0():
    found = judged(biased(3000))
    assert found.line.slope == pytest.approx(0.6, abs=0.03)
    assert found.line.intercept == pytest.approx(1.7, abs=0.2)
    assert found.corrected_line.slope == pytest.approx(1.0, abs=0.1)  # the paper's: 1.01
    assert found.corrected_line.intercept == pytest.approx(0.0, abs=0.5)  # and -0.01
    assert found.covered_90 == pytest.approx(0.9, abs=0.03)
    assert found.jobs == 3000
    assert found.raw == pytest.approx(found.corrected, abs=0.05)  # a line does not change it


@given(st.lists(st.tuples(WAITS_S, WAITS_S), max_size=60))
def test_no_outcomes_give_an_unusable_correction(outcomes):
    found = learnt(outcomes).correction()
    waits = [found.corrected_s(p) for p in (0.0, 1.0, 60.0, 1e4, 1e9)]
    assert waits == sorted(waits)
    assert waits[0] == 0.0
    assert waits[-1] < inf
    low, high = found.interval_90_s(60.0)
    assert low <= waits[2] <= high


@pytest.mark.parametrize("count", [0, 1, FEWEST - 1])
def test_few_outcomes_correct_nothing(count):
    found = learnt(biased(count)).correction()
    assert found.corrected_s(1234.5) == 1234.5
    assert found.interval_90_s(1234.5) == (0.0, inf)
    assert found.jobs == count


def test_nothing_is_judged_by_few_outcomes():
    found = judged(biased(FEWEST))
    assert (found.covered_90, found.corrected) == (None, None)
    assert judged(biased(FEWEST + 2)).covered_90 in (0.0, 0.5, 1.0)


def test_constant_predictions_are_shifted():
    bias = learnt([(100.0, 25.0)] * 30)
    assert bias.correction().corrected_s(100.0) == pytest.approx(25.0)
    assert bias.correlation is None
    bias = learnt([(100.0, 25.0), (100.001, 50.0)] * 30)  # nor nearly constant ones
    assert bias.line().slope == 1.0


def test_a_longer_prediction_never_becomes_the_shorter_one():
    bias = learnt([(exp(i), exp(10 - i)) for i in range(1, 10)] * 4)
    assert bias.line().slope == pytest.approx(-1.0)
    assert bias.correction().corrected_s(10.0) == bias.correction().corrected_s(8000.0) > 0
    assert bias.correction().spread == pytest.approx(stdev([10.0 - i for i in range(1, 10)] * 4))


def test_invalid_waits_are_left_out():
    bias = learnt([(-1.0, 5.0), (5.0, float("nan")), (inf, 5.0), (5.0, inf), (5.0, 5.0)])
    assert bias.jobs == 1
    assert learnt([(0.0, 0.0)]).jobs == 1


@pytest.mark.parametrize(
    ("lately", "misleads"),
    [
        (Trust(FEWEST, 3.0), True),
        (Trust(FEWEST - 1, 3.0), False),
        (Trust(FEWEST, 2.9), False),
        (Trust(FEWEST, 9.0, PROVEN, PROVEN), False),  # a wide interval that holds
        (Trust(FEWEST, 9.0, PROVEN, PROVEN // 2), True),
        (Trust(FEWEST, 9.0, PROVEN - 1, PROVEN - 1), True),  # so few prove nothing
        (Trust(FEWEST, 1.1, PROVEN, 0), False),
    ],
)
def test_forecasts_far_beyond_their_intervals_mislead(lately, misleads):
    assert lately.misleads() is misleads


def test_for_short_waits_the_ratio_does_not_matter():
    assert trust([CameTrue(0.0, 9.0), CameTrue(8.0, 0.1)] * 10).off_by == 1.0
    assert trust([CameTrue(0.0, 0.1)] * 30) == Trust(0, short=30)
    mixed = trust([CameTrue(0.0, 0.1)] * 30 + [CameTrue(1.0, 30.0)] * 20)  # not hidden by these
    assert (mixed.count, mixed.short, mixed.off_by) == (20, 30, pytest.approx(3.0))
    assert trust([CameTrue(1.0, 30.0)] * 20).off_by == pytest.approx(3.0)
    assert trust([CameTrue(600.0, 1.0)] * 20).off_by == pytest.approx(60.0)
    assert trust([]) == Trust(0)


def test_the_last_forecasts_count_as_they_were_shown():
    old, new = CameTrue(20.0, 200.0), CameTrue(20.0, 80.0, 40.0, (20.0, 79.5))
    found = trust([old] * 100 + [new] * 50)
    assert (found.count, found.intervals, found.held) == (50, 50, 50)
    assert found.off_by == pytest.approx(2.0)
    assert trust([new._replace(within_s=(20.0, 78.0))] * 9).held == 0
    assert trust([new._replace(within_s=(40.0, 1740.0))] * 9).width == 43.5
    assert trust([new._replace(within_s=(0.0, 9.0))] * 9).width == 1.0  # below ten seconds


def test_very_similar_waits_have_no_line():
    """Each forecast is good, and their correlation is noise."""
    rng = Random(1)
    alike = [(20.0 + rng.random(), 20.0 + rng.random()) for _ in range(40)]
    assert not judged(alike).is_spread
    assert judged(biased(40)).is_spread
    assert not trust([CameTrue(*one) for one in alike]).misleads()


@pytest.mark.parametrize(("end", "inside"), [(0, True), (1, True), (0, False), (1, False)])
def test_both_ends_of_an_interval_belong_to_it(end, inside):
    outcomes = [(100.0 * 1.1**n, 80.0 * 1.2**n) for n in range(FEWEST)]
    actual_s = learnt(outcomes).correction().interval_90_s(300.0)[end]
    if not inside:
        actual_s *= 1.001 if end else 0.999
    assert judged([*outcomes, (300.0, actual_s)]).covered_90 == float(inside)


def test_beyond_the_learnt_range_the_correction_is_that_of_its_end():
    """Waits of a second were predicted, and came true or took half a minute: a steep line."""
    steep = learnt([(1.0 + n / 100, (1.0 + n / 100) ** 9) for n in range(40)]).correction()
    assert steep.slope == pytest.approx(9.0)
    assert steep.corrected_s(1.39) == pytest.approx(1.39**9)
    assert steep.corrected_s(10.0) == pytest.approx(1.39**9)
    assert steep.corrected_s(3600.0) == pytest.approx(3600.0)
    flat = learnt(biased(500, noise=0.1)).correction()  # long ones are made shorter
    end_s = exp(flat.longest_log)
    factor = flat.corrected_s(end_s) / end_s
    assert flat.corrected_s(100 * end_s) / (100 * end_s) == pytest.approx(factor)


def test_a_wait_below_the_learnt_range_is_lengthened_by_the_factor_of_its_end():
    longer = learnt([(60.0 + n, 3 * (60.0 + n)) for n in range(40)]).correction()
    assert longer.corrected_s(60.0) == pytest.approx(180.0)
    assert longer.corrected_s(6.0) == pytest.approx(18.0)
    shorter = learnt([(60.0 + n, (60.0 + n) / 3) for n in range(40)]).correction()
    assert shorter.corrected_s(21.0) == pytest.approx(20.0), "no more than at the end"
    assert shorter.corrected_s(6.0) == pytest.approx(6.0)


def test_a_correction_that_has_recently_made_predictions_worse_does_not_help():
    """After many short jobs come the first long ones, whose waits come true as predicted."""
    short = [(1.0 + n % 3, 30.0 + n % 5) for n in range(60)]
    assert judged(short).helps
    assert not judged([*short, *[(200.0 + n, 200.0 + n) for n in range(60)]]).helps
    assert judged(biased(300)).helps


def test_a_correction_whose_intervals_have_recently_been_too_narrow_does_not_help():
    """The tasks of an array wait alike; then others wait half or twice as long."""
    alike = [(2.0 + n / 10, 4.0 + n / 5) for n in range(200)]
    assert judged(alike).helps
    apart = [(5.0 + n / 10, (10.0 + n / 5) * 2.0 ** (-1) ** n) for n in range(20)]
    found = judged([*alike, *apart])
    assert found.corrected > 0.9  # close, on the whole
    assert not found.helps


def test_a_prediction_of_no_wait_has_no_interval():
    rng = Random(1)
    sizes_s = [rng.uniform(1.0, 100.0) for _ in range(200)]
    alike = [CameTrue(s, 2 * s * rng.uniform(0.9, 1.1)).outcome for s in sizes_s]
    assert judged(alike).intervals > 0
    assert judged([*alike, (0.0, 0.0)]).intervals == judged(alike).intervals


def test_a_correction_says_nothing_about_what_it_was_not_learnt_from():
    line = learnt([(2.0 + n / 10, 4.0 + n / 5) for n in range(40)]).correction()
    assert [line.tells_of(wait_s) for wait_s in (0.0, 0.5, 1.5, 2.0, 5.9, 6.0)] == [
        True, False, False, True, True, False,
    ]  # fmt: skip
    assert not Correction().tells_of(5.0)


def test_no_interval_has_zero_width():
    line = learnt([(2.0 + n / 10, 4.0 + n / 5) for n in range(40)]).correction()
    low_s, high_s = line.interval_90_s(5.0)
    assert low_s < 9.5 < 10.5 < high_s


def test_before_anything_was_learnt_a_prediction_stays_as_it_is():
    assert Bias().line() == Bias().correction() == Correction()
    assert Correction().corrected_s(5.0) == 5.0


def test_a_corrected_interval_is_never_narrower_than_the_one_drawn():
    """Twenty-five waits of known commands that came true do not tell of unknown commands."""
    outcomes = [(predicted_s := 10.0 * 1.1**n, 0.9 * predicted_s) for n in range(25)]
    exact = learnt(outcomes).correction()
    wait_s, (low_s, high_s) = exact.corrected(40.0, (10.0, 100.0))
    assert wait_s == pytest.approx(36.0)
    assert (low_s, high_s) == (10.0, 100.0)
    wait_s, (low_s, high_s) = exact.corrected(40.0, (35.0, 38.0))
    assert (low_s, high_s) == pytest.approx(exact.interval_90_s(40.0))
    assert exact.corrected(40.0, None)[1] == exact.interval_90_s(40.0)
    assert exact.corrected(0.0, (0.0, 5.0)) == (0.0, (0.0, 0.0))
