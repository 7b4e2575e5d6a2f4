"""Downey's predictions, compared with the paper, hand calculations, and simulated lifetimes."""

from math import exp, inf, isclose, log, sqrt
from random import Random
from statistics import mean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.theory.lifetimes import OLDER_FEWEST, UniformLog, fit, fit_in_two
from lbd.theory.queue_time import Releases, later, wait_s

LIVES = UniformLog(4.0, 400.0)


def drawn(rng, age_s=0.0):
    """Draws a lifetime longer than that."""
    low = log(max(age_s, LIVES.shortest_s))
    return exp(rng.uniform(low, log(LIVES.longest_s)))


def test_the_fit_finds_the_distribution():
    rng = Random(1)
    found = fit([drawn(rng) for _ in range(4000)])
    assert found.shortest_s == pytest.approx(LIVES.shortest_s, rel=0.1)
    assert found.longest_s == pytest.approx(LIVES.longest_s, rel=0.1)


def test_equal_lifetimes_are_a_narrow_distribution():
    found = fit([10.0] * 7)
    assert (found.shortest_s, found.longest_s) == (pytest.approx(10, rel=1e-3),) * 2
    assert wait_s(1, [(4.0, 1)], found) == pytest.approx(6.0, rel=0.01)
    with pytest.raises(ValueError, match="two"):
        fit([1.0])


@pytest.mark.parametrize(
    ("age_s", "left_s"),
    [
        (0.0, sqrt(4 * 400)),  # the median of all
        (2.0, sqrt(4 * 400) - 2),  # such a young age says nothing
        (100.0, sqrt(100 * 400) - 100),  # the median of those that are longer
        (400.0, 400.0),  # older than all: as long again
        (1000.0, 1000.0),
    ],
)
def test_a_single_job(age_s, left_s):
    assert wait_s(1, [(age_s, 1)], LIVES) == pytest.approx(left_s)


@pytest.mark.parametrize("ages_s", [(0.0, 0.0), (5.0, 50.0, 300.0), (10.0,) * 8])
def test_a_is_the_median_of_the_first_to_end(ages_s):
    rng = Random(2)
    seen = [min(drawn(rng, age) - age for age in ages_s) for _ in range(20_000)]
    assert wait_s(1, [(age, 1) for age in ages_s], LIVES) == pytest.approx(median(seen), rel=0.05)


def test_b_is_near_the_mean_where_several_must_end():
    rng = Random(3)
    ages_s = (0.0, 3.0, 8.0, 20.0, 40.0, 90.0, 150.0, 300.0)
    seen = [sorted(drawn(rng, age) - age for age in ages_s)[3] for _ in range(20_000)]
    assert wait_s(4, [(age, 1) for age in ages_s], LIVES) == pytest.approx(mean(seen), rel=0.25)


def test_more_slots_never_come_sooner_and_none_are_there_at_once():
    held = [(10.0, 2), (30.0, 3), (60.0, 1)]
    waits = [wait_s(needed, held, LIVES) for needed in range(4, 7)]
    assert waits == sorted(waits)
    assert wait_s(0, held, LIVES) == 0.0
    assert waits[-1] < LIVES.longest_s


def test_one_large_job_among_several_is_not_waited_for_alone():
    lifetimes = UniformLog(10.0, 1000.0)
    held = [(50.0, 4), (500.0, 1), (500.0, 1), (500.0, 1)]
    assert (
        wait_s(3, held, lifetimes)
        == Releases.of(held, lifetimes).mean_s(3)
        < Releases.of([(50.0, 1)], lifetimes).median_s(1)
    )


def test_the_last_slots_of_all_are_not_waited_for():
    lifetimes = UniformLog(10.0, 1000.0)
    held = [(50.0, 1)] * 20
    releases = Releases.of(held, lifetimes)
    assert wait_s(20, held, lifetimes) == releases.mean_s(0.95 * 20) < releases.mean_s(20)


PAPER = UniformLog(exp(2), exp(12))


def test_the_lifetimes_of_the_paper():
    """Section 2.2.1: median 18 minutes, mean 271."""
    assert PAPER.quantile_s(0.5) / 60 == pytest.approx(18, abs=0.5)
    assert PAPER.mean_s / 60 == pytest.approx(271, abs=0.5)
    assert (PAPER.quantile_s(0), PAPER.quantile_s(1)) == pytest.approx((exp(2), exp(12)))


@pytest.mark.parametrize("bounds", [(0, 1), (2, 2), (3, 2), (-1, 2), (1, inf), (1, float("nan"))])
def test_invalid_lifetimes(bounds):
    with pytest.raises(ValueError, match="0 < shortest < longest"):
        UniformLog(*bounds)


@given(st.floats(0.0, 2e5), st.floats(0.0, 1.0, exclude_max=True))
def test_the_remaining_lifetime_inverts_the_probability_to_continue(age_s, share):
    left_s = PAPER.left_s(share, age_s)
    assert left_s >= 0
    assert 1 - PAPER.goes_on(left_s, age_s) == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize("age_s", [0.0, 7.0, 1000.0, 1e5])
def test_the_mean_remaining_lifetime_is_the_integral(age_s):
    steps, top = 100_000, PAPER.longest_s - age_s
    sums = sum(PAPER.goes_on((i + 0.5) / steps * top, age_s) for i in range(steps)) * top / steps
    assert PAPER.mean_left_s(age_s) == pytest.approx(sums, rel=1e-3)
    assert PAPER.mean_left_s(2e5) == inf


def test_a_by_hand():
    """For two benefactors of the same age a: (ln(T/(a+t)) / ln(T/a))² = 1/2."""
    age_s, root = 100.0, sqrt(0.5)
    by_hand_s = PAPER.longest_s ** (1 - root) * age_s**root - age_s
    releases = Releases.of([(age_s, 8), (age_s, 9), (5.0, 3)], PAPER)
    assert releases.benefactors(8) == 2
    assert releases.median_s(8) == releases.combined_s(8) == pytest.approx(by_hand_s, rel=1e-9)
    assert releases.median_s(10) is None


def test_b_by_hand():
    """For two jobs of the same age and 4 slots each: half have flowed back at the median of one."""
    releases = Releases.of([(100.0, 4), (100.0, 4)], PAPER)
    assert releases.mean_s(4) == pytest.approx(PAPER.left_s(0.5, 100.0), rel=1e-9)
    assert releases.combined_s(5) == pytest.approx(PAPER.left_s(5 / 8, 100.0), rel=1e-9)
    assert releases.mean_s(8) == PAPER.longest_s - 100.0  # the last at the latest


def test_the_rule_uses_a_from_two_benefactors_on():
    releases = Releases.of([(100.0, 8), (100.0, 4), (10.0, 2)], PAPER)
    assert releases.combined_s(4) == releases.median_s(4) != releases.mean_s(4)
    assert releases.combined_s(5) == releases.mean_s(5) != releases.median_s(5)


@given(
    st.lists(st.tuples(st.floats(0.0, 2e5), st.integers(1, 6)), min_size=1, max_size=8),
    st.integers(1, 20),
    st.floats(0.1, 1e6),
)
def test_whether_slots_come_by_a_time_agrees_with_the_prediction(held, needed, t_s):
    releases = Releases.of(held, PAPER)
    if needed <= releases.total:
        wait_s = releases.combined_s(needed)
        if not isclose(wait_s, t_s, rel_tol=1e-6):
            assert releases.comes_by(needed, t_s) == (wait_s < t_s)


def test_time_counts_from_now_and_is_not_a_lifetime():
    """The paper's slip: after 500 s more a job of 1000 s is asked for 1500 s."""
    assert PAPER.goes_on(500.0, 1000.0) == pytest.approx((12 - log(1500)) / (12 - log(1000)))


@pytest.mark.parametrize(
    ("held", "said"), [([(-1.0, 2)], "of -1 s"), ([(1.0, 0)], "on 0 slots"), ([(inf, 2)], "of inf")]
)
def test_invalid_running_jobs(held, said):
    with pytest.raises(ValueError, match=said):
        Releases.of(held, PAPER)


def test_more_slots_than_are_held():
    with pytest.raises(ValueError, match="3 slots are needed and 2 held"):
        Releases.of([(1.0, 2)], PAPER).combined_s(3)


@given(
    st.lists(st.tuples(st.floats(0.0, 1.6e5), st.integers(1, 20)), min_size=1, max_size=30),
    st.floats(0.1, 1e5),
)
def test_b_has_that_many_back_whatever_it_starts_from(held, guess_s):
    releases = Releases.of(held, PAPER)
    for needed in {1, releases.total // 2, releases.total - 1} - {0}:
        at_s = releases.mean_s(needed, guess_s)
        back = sum(n * (1 - PAPER.goes_on(at_s, age_s)) for age_s, n in held)
        assert back == pytest.approx(needed, rel=1e-7)


def test_the_display_survives_a_clock_that_was_set_back():
    for held in ([(-500.0, 4)], [(-500.0, 4), (20.0, 4)]):
        young = [(max(age_s, 0.0), slots) for age_s, slots in held]
        assert wait_s(4, held, PAPER) == wait_s(4, young, PAPER) > 0


@pytest.mark.parametrize(
    ("age_s", "t_s", "chance"),
    [
        (0.0, 1.0, 1.0),  # as long as all have taken
        (0.0, 4.0, 1.0),
        (2.0, 38.0, 0.5),
        (40.0, 0.0, 1.0),
        (40.0, 360.0, 0.0),
        (40.0, 999.0, 0.0),
        (400.0, 400.0, 0.5),  # older than all
    ],
)
def test_the_probability_to_continue_by_hand(age_s, t_s, chance):
    (found,) = Releases.of([(age_s, 1)], LIVES).go_on(t_s)
    assert found == pytest.approx(chance)
    assert LIVES.goes_on(t_s, age_s) == pytest.approx(chance)


def test_zero_slots_are_there_at_once():
    releases = Releases.of([(1.0, 2)], PAPER)
    assert [releases.comes_by(0, t_s) for t_s in (-1.0, 0.0, 1.0)] == [False, True, True]
    assert PAPER.left_s(1.0, 2e5) == inf
    assert PAPER.left_s(0.5, 2e5) == 2e5


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_predictions_do_not_depend_on_the_unit_of_time(unit):
    held = [(5.0, 3), (50.0, 2), (1.0, 1), (300.0, 2)]
    releases = Releases.of(held, LIVES)
    lives = UniformLog(LIVES.shortest_s * unit, LIVES.longest_s * unit)
    scaled = Releases.of([(age_s * unit, slots) for age_s, slots in held], lives)
    for needed in range(1, 9):
        expected = pytest.approx(releases.combined_s(needed) * unit, rel=1e-6)
        assert scaled.combined_s(needed) == expected
    lives_s = [4.0 * 1.3**n for n in range(17)]
    found, other = fit(lives_s), fit([life_s * unit for life_s in lives_s])
    assert other.shortest_s == pytest.approx(found.shortest_s * unit)
    assert other.longest_s == pytest.approx(found.longest_s * unit)


@pytest.mark.parametrize("age_s", [0.0, 0.5, 1.0, 30.0, 99.0, 100.0, 300.0])
def test_the_remaining_lifetime_in_a_share_of_cases_is_exceeded_in_the_others(age_s):
    lifetimes = UniformLog(1.0, 100.0)
    for share in (0.1, 0.5, 0.9):
        left_s = lifetimes.left_s(share, age_s)
        assert isclose(lifetimes.goes_on(left_s, age_s), 1 - share, rel_tol=1e-9)


@pytest.mark.parametrize(("shortest_s", "longest_s"), [(1.0, 100.0), (50.0, 60.0), (1.0, 1e6)])
def test_the_mean_lifetime_is_that_of_all_its_quantiles(shortest_s, longest_s):
    lifetimes = UniformLog(shortest_s, longest_s)
    seen_s = mean(lifetimes.quantile_s((n + 0.5) / 10_000) for n in range(10_000))
    assert isclose(lifetimes.mean_s, seen_s, rel_tol=1e-4)


def test_a_few_long_jobs_among_many_short_ones_have_their_own_line():
    """One line through all of them ends at 31 s, and knows of no job that takes 40 s."""
    short_s = [0.01 + n / 1000 for n in range(8)] + [0.5 + n / 1000 for n in range(200)]
    lives = fit_in_two([*short_s, *[40.0 + n / 10 for n in range(16)]])
    left_s = [lives.left_s(0.5, age_s) for age_s in (1.0, 10.0, 20.0, 30.0, 39.0)]
    assert left_s == pytest.approx([39.7, 30.7, 20.7, 10.7, 1.7], abs=0.2)
    waits_s = [wait_s(4, [(age_s, 1)] * 16, lives) for age_s in (5.0, 20.0, 38.0)]
    assert waits_s == pytest.approx([35.2, 20.2, 2.2], abs=0.3)
    assert lives.goes_on(10.0, 100.0) == pytest.approx(100 / 110), "older than all"


def test_one_very_short_job_does_not_make_the_others_long():
    """After one `true`, a job of 5 s among those of 3 to 15 s was taken to run 125 s more."""
    lives_s = [3.0, *(5.0 + n * 7 % 11 for n in range(1, 17))]
    with_one, without = fit_in_two([0.01, *lives_s]), fit_in_two(lives_s)
    for age_s in (0.1, 2.0, 5.0, 14.0):
        assert with_one.mean_left_s(age_s) == pytest.approx(without.mean_left_s(age_s))
        assert with_one.share_at(age_s) == pytest.approx(17 / 18 * without.share_at(age_s))
    assert with_one.mean_left_s(0.0) == pytest.approx(17 / 18 * without.mean_left_s(0.0), rel=0.01)
    drawn_s = [with_one.left_s((n + 0.5) / 1000, 0.0) for n in range(1000)]
    assert mean(drawn_s) == pytest.approx(with_one.mean_left_s(0.0), rel=0.01)
    assert drawn_s == sorted(drawn_s)
    assert sum(left_s < 0.02 for left_s in drawn_s) == pytest.approx(1000 / 18, abs=1)


@pytest.mark.parametrize("age_s", [0.0, 0.3, 0.52, 5.0, 41.0])
def test_with_two_lines_draws_and_chances_agree(age_s):
    lives = fit_in_two([0.5 + n / 1000 for n in range(60)] + [40.0 + n / 10 for n in range(20)])
    for n in range(1, 20):
        left_s = lives.left_s(n / 20, age_s)
        assert lives.goes_on(left_s, age_s) == pytest.approx(1 - n / 20, abs=1e-6)


def test_their_line_applies_from_the_longest_of_the_short_ones():
    short_s, long_s = [0.5 + n / 1000 for n in range(60)], [40.0 + n / 10 for n in range(20)]
    lives = fit_in_two([*short_s, *long_s])
    assert (lives.older_from_s, lives.older_share) == (max(short_s), pytest.approx(20 / 80))
    assert lives.at_age(max(short_s)) == lives.older == fit(long_s)
    assert lives.at_age(max(short_s) - 1e-9).older == lives.older, "it may yet be a short one"
    assert lives.at_age(1000.0) is None


def test_what_needs_no_slots_comes_at_once():
    releases = Releases.of([(1.0, 2), (2.0, 3)], LIVES)
    assert releases.combined_s(0) == 0.0
    assert releases.comes_by(0, 0.0)


@pytest.mark.parametrize(
    "lives_s",
    [
        [1.0, 1.1, 1.2, 1.3] * 50 + [1000.0] * (OLDER_FEWEST - 1),
        [exp(n / 10) for n in range(100)],
        [10.0, 10.0, 10.01] * 20,
        [0.0, 0.0, 1e-4] * 20,
    ],
)
def test_too_few_or_without_a_gap_they_have_none(lives_s):
    assert fit_in_two(lives_s).older is None


@pytest.mark.parametrize("seed", range(20))
def test_lifetimes_as_in_the_paper_are_one_line(seed):
    rng = Random(seed)
    assert fit_in_two([drawn(rng) for _ in range(30)]).older is None


def test_jobs_that_come_ahead_move_an_interval_and_widen_it_as_their_root():
    """Three times as many of the same ahead: four times the wait, twice the width."""
    assert later((70.0, 140.0), 100.0, 300.0) == pytest.approx((340.0, 480.0))
    assert later((70.0, 140.0), 100.0, 0.0) == (70.0, 140.0)
    assert later((0.0, 0.0), 0.0, 50.0) == (50.0, 50.0)
    assert later(None, 100.0, 300.0) is None
