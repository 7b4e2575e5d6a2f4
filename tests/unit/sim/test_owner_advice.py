"""The effect of other rules for owners on the commands that were suspended."""

import pytest

from lbd.sim.owner_advice import FEWEST, Interruption, best, results


def interrupted(stay_s, cost_s, moved_after_s=None):
    return Interruption(0.0, stay_s, cost_s, moved_after_s)


def by_rule(found):
    return {one.rule: (one.waited_s, one.lost_s, one.moves) for one in results(found)}


def test_each_rule_is_evaluated_on_the_actual_stays():
    found = [interrupted(100.0, 30.0)] * 9 + [interrupted(2000.0, 400.0, 500.0)]
    assert by_rule(found) == {
        "as it was": (1400.0, 400.0, 1),
        "wait until they leave": (2900.0, 0.0, 0),
        "move at once": (0.0, 670.0, 10),
        "move after 1 min": (600.0, 670.0, 10),
        "move after 5 min": (1200.0, 400.0, 1),
        "move after 15 min": (1800.0, 400.0, 1),
        "wait as long as moving costs": (670.0, 670.0, 10),
    }
    assert best(results(found)).rule == "move at once"


def test_trials_are_evaluated_by_what_each_host_would_do_now():
    """One host would wait for 150 s, another for ever, and a third has not seen enough."""
    waits = [Interruption(0.0, 100.0, 30.0, None, limit_s) for limit_s in (150.0, 1e11, None)]
    stays = [Interruption(0.0, 2000.0, 400.0, None, limit_s) for limit_s in (150.0, 1e11, None)]
    found = by_rule([*waits, *stays] * 2)
    assert found["wait as the trials say"] == (2 * (230 + 150 + 2000 + 400), 2 * 830.0, 6)
    assert found["wait as long as moving costs"] == (2 * (90 + 1200), 2 * (90 + 1200), 12)


def test_too_few_interruptions_give_no_advice():
    assert results([interrupted(100.0, 1.0)] * (FEWEST - 1)) == []
    assert best([]) is None


@pytest.mark.parametrize(("was_s", "better"), [(None, True), (0.0, False)])
def test_only_a_clearly_better_rule_is_named(was_s, better):
    found = results([interrupted(1000.0, 10.0, was_s)] * FEWEST)
    assert (best(found) is not None) is better
