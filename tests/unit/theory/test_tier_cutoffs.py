"""Cutoffs for tiers of several slots, compared with the paper's hosts and with each other."""

import math
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest

from lbd.config.dispatch import OBJECTIVES
from lbd.theory.bounded_pareto import BoundedPareto, with_mean
from lbd.theory.cutoffs import Infeasible, solve
from lbd.theory.measured_sizes import MeasuredSizes
from lbd.theory.tags import Traffic, analyse
from lbd.theory.tier_cutoffs import Expected, TierLoad, Tiers, best_on_grid, sharpened, solve_tiers

SIZES = BoundedPareto(0.03, 30.0, 0.8)


def tiers(servers, load=0.5, sizes=SIZES):
    return Tiers(sizes, load * sum(servers) / sizes.mean_s, tuple(servers))


@pytest.mark.parametrize("hosts", [2, 3, 4])
def test_one_server_per_tier_equals_the_host_of_the_paper(hosts):
    traffic = Traffic(SIZES, 0.5, hosts)
    found = solve(traffic, "waiting")
    mine = tiers([1.0] * hosts).expected_of(found.cutoffs_s)
    theirs = analyse(traffic, found.cutoffs_s)
    assert [one.load for one in mine.tiers] == pytest.approx([one.load for one in theirs.tiers])
    assert [one.wait_s for one in mine.tiers] == pytest.approx(
        [one.wait_s for one in theirs.tiers], rel=1e-6
    )
    killed_s = theirs.response_s - theirs.waiting_s - SIZES.mean_s
    assert mine.waiting_s == pytest.approx(theirs.waiting_s + killed_s, rel=1e-6)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("servers", [(1.0, 1.0), (2.0, 1.0, 1.0), (0.5, 0.5), (4.0, 4.0, 4.0, 4.0)])
def test_the_best_are_no_worse_than_their_neighbours(servers, objective):
    traffic = tiers(servers)
    best = solve_tiers(traffic, objective)
    assert all(tier.load < 1 for tier in best.tiers)
    for at in range(len(servers) - 1):
        for factor in (0.8, 1.25):
            moved = list(best.cutoffs_s)
            moved[at] *= factor
            worth = traffic.expected_of(moved).worth(objective)
            assert worth >= best.worth(objective) * (1 - 1e-6)


def test_cutoffs_that_overload_a_tier_are_worthless():
    found = tiers((1.0, 1.0), 0.9).expected_of((29.0,))
    assert found.tiers[0].load > 1
    assert {found.worth(objective) for objective in OBJECTIVES} == {math.inf}


def test_a_fair_cutoff_is_fair():
    assert solve_tiers(tiers((1.0, 1.0, 1.0)), "fairness").unfairness < 1.01


@pytest.mark.parametrize(
    ("alpha", "ratio", "servers", "load"),
    [
        (0.41, 1e5, (1.0, 2.0, 1.0), 0.27),
        (0.35, 1e7, (4.0, 2.0, 1.0), 0.35),
        (2.11, 1e2, (4.0, 4.0, 2.0, 1.0), 0.43),
    ],
)
def test_if_the_path_from_least_waiting_is_unfair_another_is_found(alpha, ratio, servers, load):
    traffic = tiers(servers, load, BoundedPareto(1.0, ratio, alpha))
    from_waiting = sharpened(traffic, best_on_grid(traffic, "waiting"), "fairness")
    assert solve_tiers(traffic, "fairness").unfairness < 1.001 < from_waiting.unfairness


def test_several_slots_wait_less_than_that_many_systems_of_one():
    one, four = (solve_tiers(tiers((n, n)), "waiting") for n in (1.0, 4.0))
    assert four.waiting_s < one.waiting_s


def test_a_larger_first_tier_takes_larger_jobs():
    even, first = (solve_tiers(tiers(servers), "slowdown") for servers in ((2.0, 2.0), (3.0, 1.0)))
    assert first.cutoffs_s > even.cutoffs_s


def test_an_overload_is_reported_with_the_load_that_would_do():
    sizes = with_mean(3000.0, 1e10, 1.9)
    found = solve_tiers(tiers((1.0,) * 4, 0.6, sizes), "slowdown")
    exact = solve(Traffic(sizes, 0.6, 4), "slowdown")
    assert isinstance(found, Infeasible)
    assert isinstance(exact, Infeasible)
    assert found.max_load == pytest.approx(exact.max_load, rel=0.1)


def test_measured_sizes_work_as_well():
    sample = [SIZES.quantile((n + 0.5) / 4000) for n in range(4000)]
    measured = solve_tiers(tiers((2.0, 2.0, 2.0), sizes=MeasuredSizes(sample)), "slowdown")
    exact = solve_tiers(tiers((2.0, 2.0, 2.0)), "slowdown")
    assert measured.slowdown == pytest.approx(exact.slowdown, rel=0.1)


def test_a_job_of_the_second_tier_has_waited_and_run_in_the_first():
    given = tiers([2.0, 2.0])
    found = given.expected([0.0, SIZES.width / 2, SIZES.width])
    first, second = found.tiers
    spent_s = first.wait_s + SIZES.size(SIZES.width / 2) + second.wait_s
    half = SIZES.width / 2, SIZES.width
    inverse = SIZES.part_y(-1.0, *half) / SIZES.part_y(0.0, *half)
    assert second.slowdown == pytest.approx(spent_s * inverse)


@pytest.mark.parametrize("servers", [2, 4, 8])
def test_waiting_for_several_servers_is_near_that_of_erlang(servers):
    load = 0.8
    found_load, wait_s = tiers([servers], load).queue(0, 0.0, SIZES.width)
    offered = load * servers
    all_busy = offered**servers / math.factorial(servers) / (1 - load)
    erlang_c = all_busy / (all_busy + sum(offered**n / math.factorial(n) for n in range(servers)))
    variable = SIZES.part_y(2.0, 0.0, SIZES.width) / (2.0 * SIZES.mean_s)
    assert found_load == pytest.approx(load)
    assert wait_s == pytest.approx(variable * erlang_c / (servers * (1 - load)), rel=0.07)


@pytest.mark.parametrize("objective", ["waiting", "slowdown"])
@pytest.mark.parametrize("servers", [(1.0, 1.0), (2.0, 1.0, 1.0)])
def test_no_cuts_on_the_grid_are_better_than_those_found(monkeypatch, servers, objective):
    monkeypatch.setattr("lbd.theory.tier_cutoffs.GRID", 16)
    traffic = tiers(servers)
    width = traffic.sizes.width
    points = [width * i / 16 for i in range(17)]

    def cost(cuts):
        found = traffic.expected(cuts)
        if not all(tier.load < 1 for tier in found.tiers):
            return math.inf
        return found.slowdown if objective == "slowdown" else found.waiting_s

    every = ([0.0, *inner, width] for inner in combinations(points[1:-1], len(servers) - 1))
    assert cost(best_on_grid(traffic, objective)) == pytest.approx(min(map(cost, every)))


def test_the_load_that_would_do_works_and_hardly_any_more_does(monkeypatch):
    """Even if the first tier could take all jobs, and the last one none."""
    monkeypatch.setattr("lbd.theory.tier_cutoffs.GRID", 24)
    rng, seen = Random(3), 0
    for _ in range(60):
        servers = [rng.choice((0.01, 0.5, 1.0, 4.0)) for _ in range(rng.randint(2, 4))]
        sizes = BoundedPareto(1.0, 1e5, rng.uniform(0, 2))
        found = solve_tiers(tiers(servers, rng.uniform(0.3, 1.0), sizes), "waiting")
        if isinstance(found, Infeasible) and found.max_load > 0.01:
            seen += 1
            less, more = (tiers(servers, found.max_load + by, sizes) for by in (-0.001, 0.001))
            assert isinstance(solve_tiers(less, "waiting"), Expected), less
            assert isinstance(solve_tiers(more, "waiting"), Infeasible), more
    assert seen > 10


def test_a_tier_without_jobs_does_nothing_and_one_without_servers_is_overloaded():
    traffic = replace(tiers((1.0, 1.0)), servers=(1.0, 0.0))
    width = SIZES.width
    assert traffic.queue(0, width, width) == (0.0, 0.0)
    assert traffic.queue(1, width, width) == (0.0, 0.0)
    assert traffic.queue(1, width / 2, width) == (math.inf, math.inf)


@pytest.mark.parametrize(
    ("slowdowns", "unfairness"),
    [((2.0, 4.0), 2.0), ((4.0, 2.0), 2.0), ((0.0, 2.0), math.inf), ((2.0, math.inf), math.inf)],
)
def test_the_worst_treated_compared_with_the_best(slowdowns, unfairness):
    loads = tuple(TierLoad(0.5, 0.5, 1.0, one) for one in slowdowns)
    assert Expected((1.0,), loads, 1.0, 2.0).unfairness == unfairness


def test_a_tier_without_jobs_has_no_load_and_one_without_servers_cannot_serve():
    traffic = Tiers(BoundedPareto(1.0, 1e3, 1.1), 0.1, (1.0, 0.0))
    top = traffic.sizes.width
    assert traffic.queue(0, top, top) == (0.0, 0.0)
    assert traffic.queue(1, 0.0, top) == (math.inf, math.inf)
    assert traffic.queue(1, top, top) == (0.0, 0.0)
