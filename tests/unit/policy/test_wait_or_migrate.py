"""What is learnt of an owner, and the consequences for a suspended command."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbd.policy.wait_or_migrate import (
    BETA,
    PRIOR,
    PRIOR_STEPS,
    Move,
    Others,
    OwnerHistory,
    Wait,
    best_rest_s,
    decide_gang,
    free_within_s,
    is_best_moved,
    learnt,
    outlook,
    patience,
    rest_s,
    solved,
)
from lbd.theory.wait_or_migrate import OnOff, moves, thresholds, work_thresholds

STEP_S = 60.0


def history_of(stays_s, away_s=3600.0):
    """Returns the history of an owner with these stays, who has just come back once more."""
    history, now_s = OwnerHistory(), 0.0
    for stay_s in stays_s:
        history.came(now_s)
        history.left(now_s + stay_s)
        now_s += stay_s + away_s
    history.came(now_s)
    return history, now_s


def steps(history, chain, count, rng, hour=0):
    here = False
    for _ in range(count):
        will = rng.random() >= (chain.p01 if here else chain.p11)
        history.step(hour, here, will)
        here = will


def test_before_anything_was_seen_an_owner_stays_half_an_hour_and_is_away_an_hour():
    chain = OwnerHistory().chain()
    assert (1 / chain.p01, 1 / (1 - chain.p11)) == pytest.approx((30.0, 60.0))


def test_probabilities_are_counted_by_hour_beside_a_prior():
    history, chain = OwnerHistory(), OnOff(0.25, 0.9)
    for hour in (None, 100):
        found = history.chain(hour)
        assert (found.p01, found.p11) == pytest.approx((PRIOR.p01, PRIOR.p11))
    steps(history, chain, 20_000, Random(1), hour=100)
    assert history.steps(100) == 20_000
    assert history.chain(100).p01 == pytest.approx(0.25, abs=0.02)
    assert history.chain(100).p11 == pytest.approx(0.9, abs=0.02)
    # an hour in which nothing was seen is like the host's others
    assert history.chain(3).p01 == pytest.approx(history.chain().p01)
    steps(history, OnOff(0.9, 0.1), 300, Random(2), hour=3)
    assert history.chain(3).p11 < 0.3 < history.chain(100).p11
    assert history.by_hour() == [history.chain(hour) for hour in range(168)]
    for hour in (-1, 168):
        with pytest.raises(ValueError, match="hour"):
            history.step(hour, True, True)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_what_is_learnt_is_a_chance(seen, never, p01, p11):
    for off, left in ((seen, seen), (seen + never, seen)):
        found = learnt((off, left, off, left), OnOff(p01, p11), PRIOR_STEPS)
        assert 0.0 <= found.p01 <= 1.0
        assert 0.0 <= found.p11 <= 1.0


def test_the_length_of_stays():
    history, now_s = history_of([100.0, 300.0])
    assert list(history.stays_s) == [100.0, 300.0]
    assert history.stayed_s(now_s + 50.0) == 50.0
    history.came(now_s + 60.0)
    assert history.stayed_s(now_s + 70.0) == 70.0  # the same stay
    history.left(now_s + 80.0)
    history.left(now_s + 90.0)
    assert (len(history.stays_s), history.stayed_s(now_s + 99.0)) == (3, 0.0)
    for _ in range(300):
        history.came(1e6)
        history.left(1e6 + 1)
    assert len(history.stays_s) == 200


def test_learnt_data_is_kept_and_damaged_data_is_not_believed():
    history, _ = history_of([60.0, 70.0] * 5)
    steps(history, OnOff(0.3, 0.7), 500, Random(7), hour=9)
    again = OwnerHistory()
    again.restore(history.rows(), list(history.stays_s))
    assert again.chain(9) == history.chain(9)
    assert again.stays() == history.stays()
    zero = [[0, 0, 0, 0]] * 167
    for rows, stays_s in (
        ([], []),
        ([*zero, [1, 2, 0, 0]], []),
        ([*zero, [0, 0, -1, -1]], []),
        ([*zero, [0, 0, 1, 2]], []),
        ([*zero, [0, 0, 1]], []),
        ([*zero, [0, 0, 0, 0]], [-1.0]),
        ([*zero, [0, 0, 0, 0]], [1.0, -1.0]),
        ([*zero, [0, 0, 0, 0]], [math.nan]),
    ):
        with pytest.raises(ValueError, match="damaged"):
            again.restore(rows, stays_s)
    assert again.chain(9) == history.chain(9)
    again.restore([*zero, [2, 2, 1, 1]], [600.0, 7.0] * 5)
    assert again.stays() not in (None, history.stays()), "it is of what was restored"
    again.restore([*zero, [2, 2, 1, 1]], [0.0])
    assert list(again.stays_s) == [0.0]


@pytest.mark.parametrize(
    ("rule", "cost", "steps"),
    [
        ("work", 0.0, 0.0), ("work", 3.0, 3.0), ("myopic", 0.9, 0.0), ("myopic", 1.0, math.inf),
        ("threshold", 0.0, 0.0), ("threshold", 0.5, 0.0),
    ],
)  # fmt: skip
def test_how_long_it_waits_for_a_cost(rule, cost, steps):
    assert patience(cost, OnOff(0.3, 0.7), rule) == steps


def test_where_owners_always_or_never_come_back_at_once_a_step_is_worth_all_or_nothing():
    assert patience(1.0, OnOff(0.5, 0.0), "threshold") == math.inf
    assert patience(1.0, OnOff(0.5, 1.0), "threshold") == 0.0


def test_if_nothing_is_known_it_waits_as_long_as_a_move_costs():
    history, now_s = history_of([60.0] * 4)
    assert outlook(history, now_s) == "it is not known how long the owner will stay"
    assert rest_s(history, 600.0, STEP_S, now_s) == 600.0
    assert rest_s(history, 600.0, STEP_S, now_s + 200.0) == 400.0
    assert rest_s(history, 600.0, STEP_S, now_s + 600.0) == 0.0


@pytest.mark.parametrize("rule", ["threshold", "work"])
def test_short_stays_are_waited_for_and_cheap_commands_move(rule):
    rng = Random(3)
    history, now_s = history_of([rng.expovariate(1 / 300) for _ in range(50)])
    assert rest_s(history, 2520.0, STEP_S, now_s, rule=rule) == math.inf
    assert outlook(history, now_s).endswith("the owner leaves within 8m36s")
    assert rest_s(history, 60.0, STEP_S, now_s, rule=rule) <= 0


def test_an_owner_who_stays_longer_than_any_seen_is_no_longer_waited_for():
    rng = Random(6)
    stays_s = [rng.uniform(100, 400) for _ in range(100)]
    history, now_s = history_of(stays_s)
    assert rest_s(history, 2520.0, STEP_S, now_s) == pytest.approx(max(stays_s))
    assert rest_s(history, 2520.0, STEP_S, now_s + 401.0) <= 0
    said = "owners who have stayed 6m41s have hardly ever left soon"
    assert outlook(history, now_s + 401.0) == said


def test_the_paper_moves_long_jobs_later_than_their_work_suggests():
    """Owners are present and away for five minutes each: by time the threshold is half as high."""
    history, now_s = history_of([280.0, 290.0, 300.0, 310.0, 320.0] * 6)
    rng = Random(4)
    for hour in range(168):
        steps(history, OnOff(0.2, 0.8), 100, rng, hour)
    assert rest_s(history, 200.0, STEP_S, now_s, rule="threshold") > 0
    assert rest_s(history, 200.0, STEP_S, now_s, rule="work") <= 0


def test_if_long_stays_tend_to_last_longer_there_is_a_time_to_give_up():
    rng = Random(5)
    stays_s = [60.0 * ((1 - rng.random()) ** (-1 / 0.7) - 1) for _ in range(150)]
    history, now_s = history_of(stays_s)
    first_s = rest_s(history, 1800.0, STEP_S, now_s)
    assert 300 < first_s < 7200
    later_s = rest_s(history, 1800.0, STEP_S, now_s + first_s / 2)
    assert later_s == pytest.approx(first_s / 2)
    assert rest_s(history, 1800.0, STEP_S, now_s + first_s + 1) <= 0


@pytest.mark.parametrize("chain", [OnOff(0.1, 0.9), OnOff(0.02, 0.97), OnOff(0.6, 0.5)])
def test_patience_is_the_threshold_of_the_paper_for_memoryless_stays(chain):
    """Waiting is right while -ln(1 - p01), the rate of leaving, is above one over the patience."""
    rate, even = -math.log1p(-chain.p01), 1 / (1 - BETA * chain.memory)
    assert patience(0.999 * even, chain, "threshold") * rate < 1
    assert patience(1.001 * even, chain, "threshold") * rate > 1
    assert patience(1e9, chain, "threshold") == math.inf


def test_a_gang():
    chain = OnOff(0.1, 0.9)
    found = thresholds(4, chain, BETA)
    for away in (1, 2, 3, 4):
        for cost in (0.5, 1.5, 2.2, 5.0):
            moved = isinstance(decide_gang(chain, 4, away, cost, 4), Move)
            assert moved == moves(cost, 4 - away, found, 4)
            by_work = isinstance(decide_gang(chain, 4, away, cost, 4, "work"), Move)
            assert by_work == (cost < work_thresholds(4, chain)[4 - away])
    assert isinstance(decide_gang(chain, 4, 2, 0.4, 4, "myopic"), Move)
    assert isinstance(decide_gang(chain, 4, 2, 0.5, 4, "myopic"), Wait)
    few = decide_gang(chain, 4, 2, 0.0, 1)
    assert isinstance(few, Wait)
    assert few.reason == "2 of 4 hosts have their owners back, 1 others are free: waiting"
    for away in (0, 5):
        with pytest.raises(ValueError, match="out of range"):
            decide_gang(chain, 4, away, 1.0, 4)
    with pytest.raises(ValueError, match="out of range"):
        decide_gang(chain, 4, 1, -0.1, 4)


@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_the_full_process_finds_the_threshold_if_hosts_are_alike(tasks):
    """With enough other hosts the threshold rule is optimal; costs are rounded by at most 5 %."""
    chain = OnOff(0.1, 0.9)
    found = thresholds(tasks, chain, BETA)
    for away in range(1, tasks + 1):
        for others in (tasks + 4, 20):
            for cost in (0.88 * found[tasks - away], 1.12 * found[tasks - away]):
                best = decide_gang(chain, tasks, away, cost, others, "optimal", others)
                rule = decide_gang(chain, tasks, away, cost, others)
                assert isinstance(best, Move) == isinstance(rule, Move), (away, others, cost)
                assert "waiting would cost more" in best.reason or "costs less" in best.reason


def test_with_few_other_hosts_the_full_process_moves_later_than_the_threshold():
    """Both would go to the last two hosts, whose owners may come back, too."""
    chain = OnOff(0.1, 0.9)
    cost = 0.88 * thresholds(2, chain, BETA)[0]
    assert isinstance(decide_gang(chain, 2, 2, cost, 2), Move)
    assert isinstance(decide_gang(chain, 2, 2, cost, 2, "optimal", 2), Wait)
    assert isinstance(decide_gang(chain, 2, 2, cost, 6, "optimal", 6), Move)


def test_a_problem_too_large_to_solve_is_left_to_the_threshold():
    chain = OnOff(0.1, 0.9)
    assert is_best_moved(chain, 5, 0, Others(9, 9), 1.0) is None
    large = decide_gang(chain, 5, 2, 1.0, 9, "optimal", 9)
    assert large == decide_gang(chain, 5, 2, 1.0, 9)
    slow = OnOff(1e-6, 1 - 1e-6)  # not solved within the rounds that it is given
    assert is_best_moved(slow, 1, 0, Others(2, 1), 100.0) is None


def owner_of_short_stays():
    """Returns the history of an owner who stays some five minutes and is away as long."""
    history, now_s = history_of([280.0, 290.0, 300.0, 310.0, 320.0] * 6)
    for hour in range(168):
        steps(history, OnOff(0.1, 0.9), 100, Random(4), hour)
    return history, now_s


def test_by_the_full_process_a_command_moves_at_once_or_asks_again_in_the_next_step():
    history, now_s = owner_of_short_stays()

    def rest(move_s, others):
        return best_rest_s(history, move_s, STEP_S, now_s, others)

    assert rest(60.0, Others(7, 7)) == 0.0
    assert rest(600.0, Others(7, 7)) == math.inf
    assert rest(60.0, Others(1, 0)) == math.inf, "there is nowhere to go"
    assert rest(60.0, Others(1, 1)) == 0.0


def test_by_the_full_process_it_also_waits_as_long_as_a_move_costs_if_nothing_is_known():
    history, now_s = history_of([60.0] * 4)
    assert best_rest_s(history, 600.0, STEP_S, now_s + 200.0, Others(7, 7)) == 400.0


def test_by_the_full_process_what_is_not_solved_is_left_to_the_threshold():
    """As where owners hardly ever come or leave."""
    history, now_s = history_of([280.0, 290.0, 300.0, 310.0, 320.0] * 6)
    slow = [[10**9, 1000, 10**9, 10**9 - 1000] for _ in range(168)]
    history.restore(slow, list(history.stays_s))
    assert is_best_moved(history.chain(), 1, 0, Others(7, 1), 10.0) is None
    for move_s, rest in ((100.0, 0.0), (600.0, math.inf)):
        for hour in (3, None):
            found = best_rest_s(history, move_s, STEP_S, now_s + 9.0, Others(7, 1), hour)
            assert found == rest_s(history, move_s, STEP_S, now_s + 9.0, hour=hour) == rest


def test_when_the_owner_has_left_in_four_of_five_cases():
    history, now_s = history_of([280.0, 290.0, 300.0, 310.0, 320.0] * 6)
    soon_s = free_within_s(history, now_s)
    assert soon_s is not None
    assert soon_s == history.stays().left_s(0.8, 0.0)
    assert free_within_s(history, now_s + 100.0) == history.stays().left_s(0.8, 100.0)
    assert free_within_s(history_of([60.0] * 4)[0], 0.0) is None


def test_costs_below_one_step_are_costs():
    """Where owners leave soon and others come back soon, half a step is about the limit."""
    chain = OnOff(0.9, 0.5)  # γ_1 = 1 / 1.4
    found = [is_best_moved(chain, 1, 0, Others(7, 7), cost) for cost in (0.0, 0.6, 0.8, 1.0)]
    assert found == [True, True, False, False]


def test_five_stays_are_enough_to_predict_the_next():
    assert history_of([60.0, 70.0] * 2)[0].stays() is None
    assert history_of([60.0, 70.0] * 2 + [65.0])[0].stays() is not None


def test_similar_costs_and_probabilities_are_solved_once():
    before = solved.cache_info().misses
    for cost in (10.0, 10.1, 9.9):
        is_best_moved(OnOff(0.1231, 0.9), 1, 0, Others(7, 7), cost)
    assert solved.cache_info().misses <= before + 1


def test_an_owner_who_came_and_left_at_once_hides_no_other():
    stays_s = [0.0] + [600.0] * 40
    assert history_of(stays_s)[0].stays() is not None
    assert history_of([0.0] * 41)[0].stays() is None
