"""Fits of owners' stays to simulated ones, and waiting limits compared with all other limits."""

import math
from random import Random
from statistics import fmean

import pytest

from lbd.theory.owner_periods import (
    Exponential,
    Lomax,
    Observed,
    fit,
    fit_exponential,
    fit_lomax,
    observed,
    safe_limit_s,
)

SHAPES = [
    Exponential(600.0),
    Lomax(1.5, 300.0),
    Lomax(3.0, 900.0),
    Lomax(1.0, 60.0),
    Lomax(0.6, 60.0),
]


def drawn(stays, rng, stayed_s=0.0):
    return stays.left_s(min(max(rng.random(), 1e-15), 1 - 1e-15), stayed_s)


@pytest.mark.parametrize("stays", SHAPES)
@pytest.mark.parametrize("stayed_s", [0.0, 400.0])
def test_the_remaining_stay(stays, stayed_s):
    for chance in (0.1, 0.5, 0.8, 0.99):
        left_s = stays.left_s(chance, stayed_s)
        longer = stays.longer_than(stayed_s + left_s) / stays.longer_than(stayed_s)
        assert longer == pytest.approx(1 - chance, rel=1e-9)


@pytest.mark.parametrize("stays", SHAPES)
@pytest.mark.parametrize(("move_s", "stayed_s"), [(100.0, 0.0), (800.0, 0.0), (2000.0, 500.0)])
def test_no_other_limit_costs_less(stays, move_s, stayed_s):
    best_s = stays.limit_s(move_s, stayed_s)
    least = stays.cost_s(best_s, move_s, stayed_s)
    assert least <= min(move_s, stays.mean_s + stayed_s * 9) + 1e-9
    for other_s in (0.0, 1.0, 50.0, 300.0, 1000.0, 5000.0, 1e5, 0.9 * best_s, 1.1 * best_s):
        assert least <= stays.cost_s(other_s, move_s, stayed_s) + 1e-9
    h_s, longer = 1e-3, stays.longer_than(stayed_s)
    even_s = h_s * longer / (longer - stays.longer_than(stayed_s + h_s))  # one over the hazard
    assert stays.limit_s(1.01 * even_s, stayed_s) > 0
    assert stays.limit_s(0.99 * even_s, stayed_s) == 0


@pytest.mark.parametrize("stays", SHAPES)
@pytest.mark.parametrize(("limit_s", "stayed_s"), [(500.0, 0.0), (2000.0, 250.0), (0.0, 10.0)])
def test_the_cost_of_a_limit_is_that_of_simulated_stays(stays, limit_s, stayed_s):
    rng, move_s = Random(4), 700.0
    left = [drawn(stays, rng, stayed_s) for _ in range(40_000)]
    seen = fmean(x if x <= limit_s else limit_s + move_s for x in left)
    assert stays.cost_s(limit_s, move_s, stayed_s) == pytest.approx(seen, rel=0.02)


def test_observed_stays_are_used_as_they_are():
    seen = observed([10.0, 10.0, 30.0, 500.0], [20.0, 20.0])
    assert seen.ends_s == (10.0, 30.0, 500.0)
    assert seen.shares == pytest.approx((4 / 6, 2 / 6, 0.0))
    assert [seen.longer_than(x) for x in (0, 9.9, 10, 29, 30, 600)] == pytest.approx(
        [1, 1, 4 / 6, 4 / 6, 2 / 6, 0]
    )
    assert seen.left_s(0.5, 0.0) == 30.0
    assert seen.left_s(0.5, 15.0) == 15.0
    assert seen.left_s(0.9, 700.0) == math.inf
    stays = observed([10.0], [20.0])  # the end of longer stays is unknown
    assert (stays.left_s(0.4, 0.0), stays.left_s(0.6, 0.0)) == (10.0, math.inf)
    assert seen.mean_s == pytest.approx(10 + 20 * 4 / 6 + 470 * 2 / 6)
    assert seen.limit_s(math.inf) == math.inf
    assert seen.limit_s(100.0, 501.0) == 0.0  # nobody was here that long
    assert seen.cost_s(40.0, 100.0, 501.0) == 140.0


@pytest.mark.parametrize("move_s", [5.0, 40.0, 300.0, 5000.0])
@pytest.mark.parametrize("stayed_s", [0.0, 15.0, 100.0])
def test_the_limit_from_observed_stays_is_the_cheapest_of_all(move_s, stayed_s):
    rng = Random(13)
    stays_s = [round(rng.choice((5, 60, 900)) * rng.expovariate(1.0), 3) for _ in range(80)]
    seen = observed(stays_s)
    left = [x - stayed_s for x in stays_s if x > stayed_s]
    limit_s = seen.limit_s(move_s, stayed_s)
    for other_s in (0.0, limit_s, *left):
        plain = fmean(x if x <= other_s + 1e-9 else other_s + move_s for x in left)
        assert seen.cost_s(other_s + 1e-9, move_s, stayed_s) == pytest.approx(plain, abs=1e-3)
        assert seen.cost_s(limit_s + 1e-9, move_s, stayed_s) <= plain + 1e-6


def test_kaplan_and_meier_account_for_owners_who_are_still_here():
    rng, until_s = Random(14), 400.0
    stays = [rng.expovariate(1 / 300) for _ in range(4000)]
    # each observed for a different time: short observations hide long stays
    looks = [rng.uniform(0, until_s) for _ in stays]
    ended = [x for x, look in zip(stays, looks, strict=True) if x <= look]
    lasting = [look for x, look in zip(stays, looks, strict=True) if x > look]
    for at_s in (50.0, 150.0, 300.0):
        found = observed(ended, lasting).longer_than(at_s)
        assert found == pytest.approx(math.exp(-at_s / 300), abs=0.04)
    assert isinstance(fit(ended, lasting), Observed)


def test_waiting_for_ever():
    assert Exponential(60.0).cost_s(math.inf, 1.0) == 60.0
    assert Lomax(3.0, 100.0).cost_s(math.inf, 1.0) == 50.0
    assert Lomax(1.0, 100.0).cost_s(math.inf, 1.0) == math.inf
    assert Exponential(60.0).limit_s(61.0) == math.inf
    assert Lomax(1e-4, 1.0).left_s(0.8, 0.0) == math.inf
    assert Exponential(60.0).limit_s(59.0) == 0.0


def test_the_exponential_fit_counts_owners_who_are_still_here():
    rng, until_s = Random(6), 500.0
    stays = [rng.expovariate(1 / 600) for _ in range(20_000)]
    ended = [x for x in stays if x <= until_s]
    lasting = [until_s for x in stays if x > until_s]
    assert fit_exponential(ended, lasting).mean_s == pytest.approx(600, rel=0.03)
    assert fmean(ended) < 250  # what leaving them out would say


@pytest.mark.parametrize("alpha", [0.8, 1.5, 3.0])
def test_the_tail_is_found(alpha):
    rng, stays = Random(7), Lomax(alpha, 120.0)
    seen = [drawn(stays, rng) for _ in range(5000)]
    found = fit_lomax([x for x in seen if x <= 3000], [3000.0 for x in seen if x > 3000])
    assert found.alpha == pytest.approx(alpha, rel=0.15)
    assert found.scale_s == pytest.approx(120, rel=0.2)
    assert isinstance(fit(seen[:59]), Lomax) or alpha == 3.0


def test_a_tail_is_believed_only_if_there_is_one():
    rng = Random(9)
    heavy = sum(
        isinstance(fit([rng.expovariate(1 / 60) for _ in range(59)]), Lomax) for _ in range(200)
    )
    assert heavy <= 6
    assert isinstance(fit([1.0, 2.0, 900.0] * 6), Exponential)  # 18 stays are too few
    assert isinstance(fit([5.0] * 50), Exponential)
    assert fit_lomax([5.0] * 50).mean_s == pytest.approx(5.0, rel=0.01)


@pytest.mark.parametrize("move_s", [1.0, 300.0])
def test_without_any_knowledge(move_s):
    """Over every possible stay: its cost relative to the cost with perfect knowledge."""
    for stay_s in (0.01 * move_s, 0.3 * move_s, 0.999 * move_s, 1.001 * move_s, 50 * move_s):
        known = min(stay_s, move_s)
        limit_s = safe_limit_s(move_s)
        assert (stay_s if stay_s <= limit_s else limit_s + move_s) <= 2 * known + 1e-9


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda: Exponential(0.0), "above 0"),
        (lambda: Lomax(0.0, 1.0), "above 0"),
        (lambda: Lomax(1.0, math.inf), "above 0"),
        (lambda: fit([], [3.0]), "has ended"),
        (lambda: fit([-1.0]), "less than 0"),
        (lambda: fit([math.inf]), "for ever"),
        (lambda: fit([0.0, 0.0]), "longer than 0"),
        (lambda: observed([-1.0]), "less than 0"),
        (lambda: observed([3.0], [math.inf]), "for ever"),
        (lambda: safe_limit_s(-1.0), "0 or more"),
        (lambda: safe_limit_s(math.nan), "0 or more"),
        (lambda: Exponential(1.0).left_s(1.0, 0.0), "chance"),
        (lambda: Lomax(1.0, 1.0).left_s(0.0, 0.0), "chance"),
    ],
)
def test_invalid_arguments(asked, said):
    with pytest.raises(ValueError, match=said):
        asked()


@pytest.mark.parametrize(
    ("limit_s", "stayed_s", "cost_s"),
    [
        (0.0, 0.0, 100.0),
        (9.0, 0.0, 9.0 + 100.0),
        (10.0, 0.0, 10.0 + 50.0),  # one has left by then
        (15.0, 0.0, 12.5 + 50.0),
        (20.0, 0.0, 15.0),
        (40.0, 0.0, 15.0),
        (math.inf, 0.0, 15.0),
        (5.0, 10.0, 5.0 + 100.0),
        (10.0, 10.0, 10.0),
    ],
)
def test_the_cost_of_a_limit_by_hand(limit_s, stayed_s, cost_s):
    """One owner was here for 10 s, one for 20 s; a move costs 100 s."""
    seen = observed([10.0, 20.0])
    assert seen.cost_s(limit_s, 100.0, stayed_s) == pytest.approx(cost_s)


def test_an_owner_who_came_and_left_at_once_counts():
    assert fit_exponential([0.0, 5.0]).mean_s == 2.5
    assert fit_exponential([0.0], [0.0, 5.0]).mean_s == 5.0


@pytest.mark.parametrize(("alpha", "mean_s"), [(1.5, 20.0), (3.0, 5.0), (1.0, math.inf)])
def test_a_heavy_tail_has_the_mean_of_its_survival_function(alpha, mean_s):
    assert Lomax(alpha, 10.0).mean_s == mean_s


def test_a_free_move_is_made_at_once():
    assert safe_limit_s(0.0) == 0.0
