"""The full process, solved for identical hosts, compared with the thresholds."""

import math
from itertools import product
from random import Random

import pytest

from lbd.theory.migration_process import best_of_alike
from lbd.theory.wait_or_migrate import OnOff, metrics, moves, solve, thresholds

CHAIN = OnOff(0.1, 0.9)


@pytest.mark.parametrize(
    ("tasks", "spare", "chain"),
    [(2, 4, CHAIN), (3, 1, CHAIN), (3, 30, OnOff(0.3, 0.8)), (1, 2, OnOff(0.7, 0.4)),
     (4, 0, CHAIN)],
)  # fmt: skip
@pytest.mark.parametrize("beta", [0.9, 0.999])
def test_the_threshold_rule_is_the_best_even_with_too_few_hosts_on(tasks, spare, chain, beta):
    found = thresholds(tasks, chain, beta)
    for cost in (0.5 * found[0], *(1.01 * gamma for gamma in found), 0.99 * found[-1]):
        best = best_of_alike(tasks, spare, chain, cost, beta)
        for on, free in product(range(tasks), range(spare + 1)):
            expected = tasks - on if moves(cost, on, found, free) else 0
            assert best.moved[on][free] == expected


def discounted(rule, chain, cost, beta):
    """Returns a rule's cost for two tasks on two of four hosts, by elimination over all states."""
    states = list(product(range(3), range(3)))  # of the tasks' hosts ON, and of the others

    def step(on, to):
        spread = [1.0]
        for chance in [chain.p11] * on + [chain.p01] * (2 - on):
            spread = [
                (1 - chance) * a + chance * b
                for a, b in zip([*spread, 0.0], [0.0, *spread], strict=True)
            ]
        return spread[to]

    matrix, costs = [], []
    for on, free in states:
        moved = rule(on, free)
        after = on + moved, free - moved
        matrix.append(
            [
                (state == (on, free)) - beta * step(after[0], state[0]) * step(after[1], state[1])
                for state in states
            ]
        )
        costs.append([cost * moved + (after[0] < 2)])
    return dict(zip(states, (row[0] for row in solve(matrix, costs)), strict=True))


def test_with_as_few_others_as_tasks_the_best_rule_waits_where_the_threshold_moves():
    """Of all possible rules, tried one by one, none is as good as the one that was found."""
    beta = 0.9
    found = thresholds(2, CHAIN, beta)
    cost = 0.9 * found[0]
    by_threshold = discounted(
        lambda on, free: 2 - on if moves(cost, on, found, free) else 0, CHAIN, cost, beta
    )
    options = [range(min(2 - on, free) + 1) for on, free in product(range(3), range(3))]
    least = by_threshold[0, 2]
    for moved in product(*options):
        rule = dict(zip(product(range(3), range(3)), moved, strict=True))
        least = min(least, discounted(lambda on, free: rule[on, free], CHAIN, cost, beta)[0, 2])  # noqa: B023
    best = best_of_alike(2, 2, CHAIN, cost, beta)
    assert least == pytest.approx(best.cost[0][2], rel=1e-9)
    assert by_threshold[0, 2] > least + 0.1
    assert (best.moved[0][2], moves(cost, 0, found, 2)) == (0, True)


def test_with_enough_hosts_it_costs_what_theorem_four_says():
    beta, cost = 0.9, 2.0
    best = best_of_alike(2, 60, CHAIN, cost, beta)
    rules = [metrics(i, 2, CHAIN, beta) for i in range(3)]
    reward = max(rule.processing - cost * rule.migrations for rule in rules)
    assert best.cost[2][40] == pytest.approx(1 / (1 - beta) - reward, rel=1e-6)


def test_the_cost_of_following_the_rule_in_simulation():
    tasks, spare, beta, cost, rng = 2, 3, 0.9, 1.5, Random(8)
    best = best_of_alike(tasks, spare, CHAIN, cost, beta)
    runs, total = 6000, 0.0
    for _ in range(runs):
        on = sum(rng.random() < CHAIN.on_share for _ in range(tasks))
        free = sum(rng.random() < CHAIN.on_share for _ in range(spare))
        weight = 1.0
        while weight > 1e-3:
            moved = best.moved[on][free]
            on, free = on + moved, free - moved
            total += weight * (cost * moved + (on < tasks))
            on = sum(rng.random() < (CHAIN.p11 if h < on else CHAIN.p01) for h in range(tasks))
            free = sum(rng.random() < (CHAIN.p11 if h < free else CHAIN.p01) for h in range(spare))
            weight *= beta
    assert total / runs == pytest.approx(best.mean_cost(CHAIN), rel=0.03)


def test_a_problem_too_large_gives_none_and_invalid_arguments_one_line():
    assert best_of_alike(50, 400, CHAIN, 1.0, 0.9) is None
    # hosts that never change are not forgotten in 3000 rounds
    assert best_of_alike(2, 3, OnOff(0.0, 1.0), 1.0, 0.99999) is None
    for asked in (
        lambda: best_of_alike(2, -1, CHAIN, 1.0, 0.9),
        lambda: best_of_alike(2, 1, CHAIN, math.inf, 0.9),
        lambda: best_of_alike(2, 1, CHAIN, -1.0, 0.9),
        lambda: best_of_alike(2, 1, CHAIN, 1.0, 1.0),
    ):
        with pytest.raises(ValueError, match="must be"):
            asked()
