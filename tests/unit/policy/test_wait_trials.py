"""Waiting limits that are tried on the hosts' own past."""

import math
from random import Random

import pytest

from lbd.policy.wait_trials import FEWEST_WAITS, WaitTrials


def trials_on(rows):
    trials, rng = WaitTrials(), Random(1)
    for row in rows:
        trials.step(row, rng)
    return trials


def blinking(off_steps, on_steps, hosts, count):
    """Every host in turn is OFF for this many steps."""
    cycle = off_steps + on_steps
    return [
        [(step + host * (cycle // hosts)) % cycle >= off_steps for host in range(hosts)]
        for step in range(count)
    ]


def test_an_interruption_is_an_owner_who_arrives():
    trials = trials_on([[True, True], [False, True], [False, False], [True, False], [True, True]])
    assert trials.interruptions == 2
    assert trials_on([[False, False], [True, True]]).interruptions == 0


def test_each_task_waits_for_its_limit_and_then_moves_to_a_free_host():
    trials = trials_on([[False, True]] * 300).trials
    for trial in trials:
        waited = min(trial.limit, 300)
        assert (trial.waited, trial.worked) == (waited, 600 - waited)
        assert (trial.moved, trial.places) == ((1, [1, 1]) if trial.limit < 300 else (0, [0, 1]))


def test_before_enough_was_seen_the_limit_is_the_cost_of_a_move():
    trials = WaitTrials()
    assert trials.limit(7.5) == 7.5
    assert trials.limit(0.0) == 0.0
    trials = trials_on(blinking(1, 9, 3, 30))
    assert trials.interruptions < FEWEST_WAITS
    assert trials.limit(7.5) == 7.5
    with pytest.raises(ValueError, match="0 or more"):
        trials.limit(-1.0)


def test_owners_who_always_leave_after_two_steps_are_waited_for_if_moving_costs_more():
    trials = trials_on(blinking(2, 10, 3, 700))
    assert trials.limit(0.5) == 0.0
    assert trials.limit(1.0) == 0.0
    assert trials.limit(2.5) >= 2.0
    assert trials.limit(1e9) >= 2.0


def test_a_host_whose_owner_hardly_leaves_is_left_however_expensive_that_is():
    """One host is never free again, which the probability of a single stay does not show."""
    rows = [[step < 30, step % 10 != 0, step % 10 != 5] for step in range(800)]
    trials = trials_on(rows)
    found = trials.limit(30.0)
    assert 1 <= found < math.inf
    never = trials.trials[-1]
    best = next(trial for trial in trials.trials if trial.limit == found)
    assert best.cost_of_work(30.0) < 0.5 * never.cost_of_work(30.0)


def test_hosts_may_join_and_leave():
    trials = trials_on(
        [*blinking(2, 10, 3, 100), *blinking(2, 10, 5, 100), [], *blinking(2, 4, 2, 9)]
    )
    assert all(len(trial.places) == 2 for trial in trials.trials)
    assert trials.limit(1e9) > 0
    many = trials_on(blinking(1, 3, 200, 4))
    assert all(len(trial.places) == 64 for trial in many.trials)


def test_if_no_host_is_free_it_waits():
    trials = trials_on([[True, True]] + [[False, False]] * 50)
    assert all(trial.moved == 0 and trial.waited == 100 for trial in trials.trials)


def test_trial_results_are_kept_and_damaged_data_is_not_believed():
    trials, again = trials_on(blinking(2, 10, 3, 700)), WaitTrials()
    again.restore(trials.rows(), trials.interruptions)
    assert again.limit(2.5) == trials.limit(2.5)
    assert (again.rows(), again.interruptions) == (trials.rows(), trials.interruptions)
    none = WaitTrials().rows()
    for rows, interruptions in (
        (none, -1),
        (none[1:], 0),
        ([*none[1:], [0, 0]], 0),
        ([*none[1:], [0, 0, -1]], 0),
    ):
        with pytest.raises(ValueError, match="damaged"):
            again.restore(rows, interruptions)
    assert again.rows() == trials.rows()
    again.restore(none, 0)
    assert again.interruptions == 0
