"""He et al., section IV, in virtual time: the order of the rules, and their cost by theory."""

from random import Random

import pytest

from lbd.policy.wait_or_migrate import BETA
from lbd.sim.balance.migrate import (
    Learning,
    LearningLimit,
    LearningStays,
    after,
    by_table,
    drawn,
    never,
    rows_of,
    rule_named,
    run_endless,
    run_rows,
)
from lbd.sim.figures.figure import Scale, plain_map
from lbd.sim.figures.he import FIGURES
from lbd.theory.migration_process import best_of_alike
from lbd.theory.wait_or_migrate import OnOff, thresholds

SEED = 2011
STEPS = 20_000
CHAIN = OnOff(0.1, 0.9)


def costs(rows, tasks, cost, rules):
    print(f"seed {SEED}, {len(rows)} steps")
    return {
        name: run_rows(rows, tasks, rule, Random(SEED)).cost_per_step(cost)
        for name, rule in rules.items()
    }


def test_with_enough_other_hosts_the_threshold_rule_is_the_best_of_its_kind():
    """n = 3 as in figure 2, at costs between its thresholds: no other T_i does better."""
    found = thresholds(3, CHAIN, BETA)
    for cost in (0.9 * found[0], 1.2 * found[1], 0.9 * found[2], 1.3 * found[2]):
        by_name = {
            name: run_endless(3, CHAIN, STEPS, rule_named(name, cost, 3, CHAIN, BETA), Random(SEED))
            for name in ("threshold", "myopic", "always", "never")
        }
        least = by_name.pop("threshold").cost_per_step(cost)
        assert least <= 1.02 * min(other.cost_per_step(cost) for other in by_name.values())
    # figure 4 (a): the myopic rule waits where it should move
    assert by_name["myopic"] == by_name["never"]


def test_always_and_never_cost_what_the_chain_predicts():
    moved = run_endless(3, CHAIN, STEPS, after(0, 3), Random(SEED))
    assert (moved.waited, moved.moved / STEPS) == (0, pytest.approx(3 * 0.1, rel=0.05))
    waited = run_endless(3, CHAIN, STEPS, never, Random(SEED))
    assert waited.moved == 0
    assert waited.waited / STEPS == pytest.approx(1 - 0.5**3, rel=0.05)
    assert waited.cost_per_work(1.0) == pytest.approx(waited.waited / (STEPS - waited.waited))


def test_six_hosts_as_in_figure_four():
    """n = 2 of N = 6: threshold and full process cost the same, myopic and never clearly more."""
    rows = list(drawn(6, CHAIN, STEPS, Random(SEED)))
    for cost in (1.0, 2.0, 3.0):
        rules = {
            name: rule_named(name, cost, 2, CHAIN, BETA)
            for name in ("threshold", "myopic", "never")
        }
        rules["optimal"] = by_table(best_of_alike(2, 4, CHAIN, cost, BETA))
        found = costs(rows, 2, cost, rules)
        assert found["threshold"] == pytest.approx(found["optimal"], rel=1e-9)
        assert found["myopic"] > 1.1 * found["threshold"]
        assert found["never"] >= found["myopic"] * 0.999


def test_proposition_one():
    """The more a move costs, the fewer moves and the more waiting."""
    rows = list(drawn(6, CHAIN, STEPS, Random(SEED)))
    ran = [
        run_rows(rows, 2, rule_named("threshold", cost, 2, CHAIN, BETA), Random(SEED))
        for cost in (0.0, 1.0, 3.0, 5.0)
    ]
    assert [one.moved for one in ran] == sorted((one.moved for one in ran), reverse=True)
    assert [one.waited for one in ran] == sorted(one.waited for one in ran)


def test_the_larger_case_of_figure_five():
    """n = 10: the two rules cost much the same."""
    rows = list(drawn(40, OnOff(0.3, 0.9), 4000, Random(SEED)))
    rules = {n: rule_named(n, 0.7, 10, OnOff(0.3, 0.9), BETA) for n in ("threshold", "myopic")}
    found = costs(rows, 10, 0.7, rules)
    assert found["threshold"] <= found["myopic"] * 1.01
    assert found["threshold"] > 0.5 * found["myopic"]


def test_learning_the_probabilities_costs_little():
    rows = list(drawn(6, CHAIN, STEPS, Random(SEED)))
    for cost in (1.0, 2.5):
        found = costs(
            rows,
            2,
            cost,
            {
                "known": rule_named("threshold", cost, 2, CHAIN, BETA),
                "learnt": Learning(rows, 2, cost),
            },
        )
        assert found["learnt"] <= 1.05 * found["known"]


def heavy_rows(hosts, steps, rng):
    """Owners whose stays have an infinite mean: most leave at once, some stay for hours."""
    columns = []
    for _ in range(hosts):
        column = []
        while len(column) < steps:
            column += [True] * (1 + int(rng.expovariate(1 / 15)))
            column += [False] * (1 + int(2 * ((1 - rng.random()) ** (-1 / 0.8) - 1)))
        columns.append(column[:steps])
    return [list(row) for row in zip(*columns, strict=True)]


def test_with_heavy_tails_the_chain_misleads_and_fitted_stays_help():
    rows, cost = heavy_rows(8, 5000, Random(SEED)), 6.0
    found = costs(
        rows,
        1,
        cost,
        {
            "chain": Learning(rows, 1, cost),
            "stays": LearningStays(rows, cost, "threshold"),
            "work": LearningStays(rows, cost, "work"),
            "always": after(0, 1),
            "never": never,
        },
    )
    assert found["stays"] < 0.92 * min(found["chain"], found["never"], found["always"])
    assert found["work"] < 0.92 * min(found["chain"], found["never"], found["always"])


def unlike_rows(hosts, steps, rng):
    """Every third owner is mostly present, the others seldom, for one step or for many."""
    chains = [OnOff(0.05, 0.6) if h % 3 == 0 else OnOff(0.6, 0.97) for h in range(hosts)]
    columns = [[row[0] for row in drawn(1, chain, steps, rng)] for chain in chains]
    return [list(row) for row in zip(*columns, strict=True)]


def test_limits_found_by_trial_do_as_well_as_the_best_timer_where_hosts_differ():
    rows = unlike_rows(9, 4000, Random(SEED))
    for cost in (1.5, 6.0, 20.0):
        rules = {f"timer-{n}": after(n, 1) for n in (1, 3, 12)}
        rules |= {"never": never, "always": after(0, 1), "chain": Learning(rows, 1, cost)}
        rules["trials"] = LearningLimit(rows, 1, cost, Random(SEED))
        found = costs(rows, 1, cost, rules)
        tried = found.pop("trials")
        assert tried <= 1.3 * min(found.values())
        assert tried <= found["never"] * 0.8


def test_series_become_rows():
    rows = rows_of([[0.0, 20.0, 15.0], [16.0, 3.0, 9.0, 4.0]], busy=15.0)
    assert rows == [[True, False], [False, True], [True, True]]
    assert run_rows(rows, 1, after(0, 1), Random(1)).moved == 1
    assert run_rows(rows, 1, after(1, 1), Random(1)).moved == 0
    assert run_rows(rows, 2, after(0, 2), Random(1)).waited == 2
    for tasks in (0, 3):
        with pytest.raises(ValueError, match="hosts"):
            run_rows(rows, tasks, never, Random(1))


def test_figure_two_matches_the_paper():
    drawing = FIGURES["he-2"].make(Scale(), plain_map)
    assert all(claim.holds for claim in drawing.claims), drawing.claims
    best, myopic = drawing.lines
    assert {0.0, 1.0, 2.0, 3.0} == set(best.y) == set(myopic.y)
