import math
from itertools import pairwise
from random import Random

import pytest

from lbd.theory.bounded_pareto import BoundedPareto, with_mean
from lbd.theory.cutoffs import Infeasible, best_on_grid, bounds, host_costs, solve
from lbd.theory.minimise import (
    STEP,
    bent,
    columns,
    damped_step,
    equalise,
    golden_section,
    minimise,
    slopes,
)
from lbd.theory.tags import Overloaded, Traffic, analyse, balanced

ALPHAS = (0.2, 0.6, 1.0, 1.5, 1.9)


def paper(alpha, load, hosts, p=1e10):
    return Traffic(with_mean(3000.0, p, alpha), load, hosts)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(("load", "hosts"), [(0.3, 2), (0.5, 2), (0.3, 4), (0.2, 8)])
@pytest.mark.parametrize("objective", ["slowdown", "waiting"])
def test_nothing_near_the_optimum_is_better(alpha, load, hosts, objective):
    traffic = paper(alpha, load, hosts)
    found = solve(traffic, objective)
    assert not isinstance(found, Infeasible)
    best = found.slowdown if objective == "slowdown" else found.waiting_s
    rng = Random(f"{alpha}{load}{hosts}")
    for _ in range(40):
        spread = 10.0 ** rng.uniform(-4, 0)
        moved = [s * math.exp(rng.gauss(0, spread)) for s in found.cutoffs_s]
        try:
            other = analyse(traffic, moved)
        except ValueError:  # they do not rise, or overload a host
            continue
        assert (other.slowdown if objective == "slowdown" else other.waiting_s) >= best * (1 - 1e-9)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("objective", ["slowdown", "waiting"])
def test_with_two_hosts_no_cutoff_on_a_fine_grid_is_better(alpha, objective):
    traffic = paper(alpha, 0.5, 2)
    found = solve(traffic, objective)
    assert not isinstance(found, Infeasible)
    width = traffic.sizes.width
    least = math.inf
    for i in range(1, 1000):
        try:
            other = analyse(traffic, [traffic.sizes.size(width * i / 1000)])
        except Overloaded:
            continue
        least = min(least, other.slowdown if objective == "slowdown" else other.waiting_s)
    assert (found.slowdown if objective == "slowdown" else found.waiting_s) <= least


@pytest.mark.parametrize("alpha", [0.2, 0.6, 1.0, 1.5, 1.9])
@pytest.mark.parametrize(("load", "hosts"), [(0.1, 2), (0.5, 2), (0.7, 2), (0.3, 4), (0.2, 6)])
def test_fair_cutoffs_slow_all_down_alike(alpha, load, hosts):
    found = solve(paper(alpha, load, hosts), "fairness")
    assert not isinstance(found, Infeasible)
    assert found.unfairness == pytest.approx(1.0, abs=1e-6)
    best = solve(paper(alpha, load, hosts), "slowdown")
    assert not isinstance(best, Infeasible)
    assert found.slowdown >= best.slowdown * (1 - 1e-9)


@pytest.mark.parametrize(
    ("alpha", "load", "p", "fairest"),
    [
        (1.582444294890596, 0.0485725955073397, 12397.706023293813, 1.25),
        (2.9184926789174632, 0.06645952708500849, 6105234.489556853, 1.65),
    ],
)
def test_if_the_path_from_least_waiting_leads_nowhere_another_is_tried(alpha, load, p, fairest):
    """Many hosts and little variance: nothing is quite fair, but some cutoffs are fairer."""
    found = solve(paper(alpha, load, 6, p), "fairness")
    assert not isinstance(found, Infeasible)
    assert 1.001 < found.unfairness < fairest


@pytest.mark.parametrize(
    ("alpha", "load", "hosts", "low", "high"),
    [
        (0.6, 0.7, 2, 5e8, 2e9),  # section 6.1: "10^9"
        (0.6, 0.35, 4, 0.3, 3.0),  # section 6.1: "around 1"
        (1.0, 0.3, 4, 0.0, 6.2),  # section 6: "never over 6 and often under 1"
        (0.2, 0.3, 4, 0.0, 6.2),
        (1.9, 0.3, 4, 0.0, 6.2),
    ],
)
def test_slowdowns_of_the_paper(alpha, load, hosts, low, high):
    found = solve(paper(alpha, load, hosts), "slowdown")
    assert not isinstance(found, Infeasible)
    assert low <= found.slowdown <= high


@pytest.mark.parametrize("objective", ["slowdown", "waiting", "fairness"])
def test_some_loads_have_no_cutoffs_at_all(objective):
    found = solve(paper(1.9, 0.5, 4), objective)
    assert isinstance(found, Infeasible)
    assert 0.25 < found.max_load < 0.5
    just_below = solve(paper(1.9, found.max_load * (1 - 1e-6), 4), objective)
    assert not isinstance(just_below, Infeasible)
    assert isinstance(solve(paper(1.9, found.max_load * 1.001, 4), objective), Infeasible)


@pytest.mark.parametrize("alpha", [0.0, 1e-12, 1.0, 1 + 1e-12, 2.0, 2 - 1e-12])
@pytest.mark.parametrize("ratio", [1.001, 1e3, 1e10])
@pytest.mark.parametrize("hosts", [2, 3])
def test_valid_at_the_limits(alpha, ratio, hosts):
    sizes = BoundedPareto(1.0, ratio, alpha)
    _, max_load = balanced(sizes, hosts)
    for share in (0.3, 0.999):
        for objective in ("slowdown", "waiting", "fairness"):
            found = solve(Traffic(sizes, share * max_load, hosts), objective)
            assert not isinstance(found, Infeasible)
            assert math.isfinite(found.slowdown)
            assert math.isfinite(found.response_s)
            bounds = (1.0, *found.cutoffs_s, ratio)
            assert all(a < b for a, b in pairwise(bounds))


def test_one_host_has_nothing_to_cut():
    with pytest.raises(ValueError, match="at least 2 hosts"):
        solve(paper(1.0, 0.5, 1), "slowdown")


def test_more_hosts_than_any_tier_needs():
    found = solve(paper(1.0, 0.3, 16), "slowdown")
    assert not isinstance(found, Infeasible)
    assert len(found.cutoffs_s) == 15


@pytest.mark.parametrize("hosts", [2, 3])
def test_the_bounds_of_the_cuts_leave_some_host_nothing(hosts):
    """The smallest leave each host after its cut a load of 1, the largest each before it."""
    traffic = paper(1.9, 0.6, hosts)
    lows, highs = bounds(traffic)
    assert lows[-1] > 0.0
    width = traffic.sizes.width
    for a, b in pairwise([*lows, width]):
        assert traffic.spare(a, b) == pytest.approx(0.0, abs=1e-9) if a else a <= b
    for a, b in pairwise([0.0, *highs]):
        assert b == width or traffic.spare(a, b) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("here", "expected"),
    [([1.0, 2.0], [2.0, 4.0]), ([3.0, 0.0], [6.0, 0.0]), ([0.5, 3.0], [1.0, 6.0])],
)
def test_at_the_edge_a_slope_is_taken_from_one_side(here, expected):
    def squares(at):
        return sum(x * x for x in at) if min(at) >= 0 and max(at) <= 3 else math.inf

    found = slopes(squares, here, squares(here))
    assert found == pytest.approx(expected, abs=1e-4)


def rosenbrock(at):
    """A curved valley; its lowest point is (1, 1)."""
    x, y = at
    return (1 - x) ** 2 + 100 * (y - x * x) ** 2


@pytest.mark.parametrize(
    ("function", "start", "lowest"),
    [
        (lambda at: (at[0] - 3) ** 2, [0.0], [3.0]),
        (lambda at: (at[0] - 30) ** 2, [0.0], [30.0]),  # many moves away
        (lambda at: at[0] ** 2 + 10 * (at[1] - 1) ** 2 + at[0] * at[1], [4.0, -2.0], None),
        (rosenbrock, [-1.2, 1.0], [1.0, 1.0]),
        (lambda at: rosenbrock(at) if at[1] > -0.1 else math.inf, [-1.2, 1.0], [1.0, 1.0]),
        (lambda at: at[0] - math.log(at[0]) if at[0] > 0 else math.inf, [5.0], [1.0]),
        (lambda at: 7.0, [2.0], [2.0]),  # nothing is lower
        (lambda at: 7.0, [], []),
    ],
)
def test_the_lowest_point_is_found(function, start, lowest):
    expected = [-20 / 39, 40 / 39] if lowest is None else lowest
    assert minimise(function, start) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("differences", "start", "root"),
    [
        (lambda at: [at[0] - 2], [0.0], [2.0]),
        (lambda at: [math.atan(at[0])], [3.0], [0.0]),  # Newton's first step leads away
        (lambda at: [math.log(at[0])] if at[0] > 0 else None, [6.0], [1.0]),
        (lambda at: [at[0] + at[1] - 3, at[0] * at[1] - 2], [4.0, 0.5], [2.0, 1.0]),
        (lambda at: [at[1] - at[0] ** 2, at[0] + at[1] - 6], [1.0, 1.0], [2.0, 4.0]),
        (lambda at: [1e3 * (at[0] - 1), 1e-3 * (at[1] - 2)], [0.0, 0.0], [1.0, 2.0]),
    ],
)
def test_the_root_of_several_equations_is_found(differences, start, root):
    assert equalise(differences, start) == pytest.approx(root, abs=1e-6)


def test_without_a_root_the_nearest_point_is_found():
    assert equalise(lambda at: [at[0] ** 2 + 1], [2.0]) == pytest.approx([0.0], abs=1e-3)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_a_damped_step_solves_its_equations(seed, damping):
    rng = Random(seed)
    size = rng.randint(1, 4)
    columns = [[rng.gauss(0, 1) for _ in range(size)] for _ in range(size)]
    found = [rng.gauss(0, 1) for _ in range(size)]
    step = damped_step(columns, found, damping)
    for i in range(size):
        row = [sum(a * b for a, b in zip(columns[i], other, strict=True)) for other in columns]
        row[i] *= 1 + damping
        left = sum(a * b for a, b in zip(row, step, strict=True))
        right = -sum(a * b for a, b in zip(columns[i], found, strict=True))
        assert left == pytest.approx(right, abs=1e-6)


@pytest.mark.parametrize("lowest", [-0.5, 0.0, 0.3, 0.618, 1.0, 1.5])
@pytest.mark.parametrize("width", [0.1, 1e-6])
def test_one_valley_is_searched_to_a_width(lowest, width):
    low, high = golden_section(lambda x: abs(x - lowest), 0.0, 1.0, width)
    assert 0 <= high - low <= width
    assert low - 1e-12 <= min(max(lowest, 0.0), 1.0) <= high + 1e-12


def test_the_matrix_maps_the_observed_gradient_change_to_the_step():
    """The secant condition, which all quasi-Newton methods satisfy; and it stays symmetric."""
    rng = Random(1)
    shape = [[2.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 3.0]]
    for _ in range(20):
        step = [rng.uniform(-1, 1) for _ in range(3)]
        turn = [2 * x + rng.uniform(-0.3, 0.3) for x in step]
        shape = bent(shape, step, turn)
        seen = [sum(a * b for a, b in zip(row, turn, strict=True)) for row in shape]
        assert seen == pytest.approx(step)
        assert all(shape[i][j] == pytest.approx(shape[j][i]) for i in range(3) for j in range(i))


@pytest.mark.parametrize("within", range(5))
def test_at_the_edge_of_the_domain_slopes_are_taken_where_they_exist(within):
    """Ahead, behind, then a thousandth of that; if there is nothing at all, none."""
    steps = [STEP, -STEP, STEP / 1e3, -STEP / 1e3]

    def differences(at):
        is_there = any(abs(at[0] - step) < abs(step) / 2 for step in steps[within:])
        return [3 * at[0], -at[0]] if is_there else None

    (found,) = columns(differences, [0.0], [0.0, 0.0])
    assert found == (pytest.approx([3.0, -1.0]) if within < 4 else [0.0, 0.0])


def test_the_costs_on_the_grid_are_the_waits_of_hosts_between_those_sizes():
    traffic = Traffic(BoundedPareto(1.0, 1e4, 1.1), 0.6, 2)
    sizes, top = traffic.sizes, traffic.sizes.width
    points = [top * i / 9 for i in range(10)]
    rate = traffic.total / sizes.mean_s
    for power in (-1.0, 0.0):
        costs = host_costs(traffic, points, power)
        for b, high in enumerate(points):
            assert len(costs[b]) == b
            for a, low in enumerate(points[:b]):
                beyond = sizes.part_y(0.0, high, top)
                cut_s = sizes.size(high)
                load = rate * (sizes.part_y(1.0, low, high) + cut_s * beyond)
                square = sizes.part_y(2.0, low, high) + cut_s**2 * beyond
                expected = square * sizes.part_y(power, low, top) / (1 - load)
                if load < 1:
                    assert costs[b][a] == pytest.approx(expected, rel=1e-9)
                else:
                    assert costs[b][a] == math.inf


@pytest.mark.parametrize("hosts", [2, 3])
def test_on_the_grid_each_objective_has_its_own_best(hosts):
    traffic = paper(1.1, 0.5, hosts)
    level, _ = balanced(traffic.sizes, hosts)
    by = {}
    for objective in ("slowdown", "waiting"):
        cuts = best_on_grid(traffic, level, objective)
        assert (cuts[0], cuts[-1]) == (0.0, traffic.sizes.width)
        by[objective] = analyse(traffic, [traffic.sizes.k * math.exp(cut) for cut in cuts[1:-1]])
    assert by["slowdown"].slowdown < by["waiting"].slowdown
    assert by["waiting"].waiting_s < by["slowdown"].waiting_s
