"""When a pending job will begin: its place in the line, and Downey's prediction."""

from random import Random
from statistics import median

import pytest

from lbd.dispatch.forecast import Forecast
from lbd.model import JobId
from tests.unit.dispatch.test_queues import Table


def known(table, lives_s=(10.0,) * 5):
    """Jobs that have ended, before time 0 of the test."""
    for life_s in lives_s:
        table.queues.lives.ended(life_s)
    return Forecast(table.queues)


def predicted(table, forecast, job):
    return forecast.of(table.queues.books[JobId(job)], table.now_s)


def test_the_head_waits_for_the_next_end_and_others_for_those_before_them_as_well():
    table = Table()
    forecast = known(table)
    table.host("h1", 2)
    table.arrive("a")
    table.now_s = 4.0
    for name in "bcdef":
        table.arrive(name)
    table.now_s = 8.0
    assert predicted(table, forecast, "c").wait_s == pytest.approx(2.0, rel=0.05)
    third = predicted(table, forecast, "f")
    assert third.wait_s == pytest.approx(2.0 + 3 * 10 / 2, rel=0.05)
    assert third.how == (
        "from 5 jobs that ended, 10 s of a slot each on average; 3 go before it on 2 slots"
    )


def test_what_cannot_be_told_is_said():
    table = Table(user_slots=1)
    forecast = Forecast(table.queues)
    table.host("h1", 2)
    table.arrive("a", user="ann")
    table.arrive("wide", user="bob", slots=2)
    assert predicted(table, forecast, "wide") == (None, "")  # a limit, of which the reason speaks
    table.arrive("b", user="bob")
    table.arrive("c", user="cid")
    table.arrive("d", user="dan")
    assert predicted(table, forecast, "d").how == "no estimate before 5 jobs have ended"
    assert forecast.of_another(3, 0.0).how == "no host that takes jobs now has as many slots"


def test_a_job_that_came_now():
    table = Table()
    forecast = known(table)
    table.host("h1", 4)
    assert forecast.of_another(1, 0.0) == (0.0, "slots are free")
    for name in "abcde":
        table.arrive(name)
    assert forecast.of_another(1, 0.0).wait_s == pytest.approx(10 + 10 / 4, rel=0.05)


def test_asking_counts_no_turn_of_round_robin():
    table = Table("round-robin")
    forecast = known(table)
    for name in ("h1", "h2"):
        table.host(name)
    forecast.of_another(1, 0.0)
    assert (table.arrive("a"), table.arrive("b")) == (["a@h1"], ["b@h2"])


def test_a_cutoff_bounds_what_the_jobs_of_a_tier_take():
    table = Table("tags", cutoffs=(2.0,))
    forecast = known(table, (100.0,) * 5)
    table.host("h1", tiers=(1,))
    table.host("h2", tiers=(2,))
    for name in "abc":
        table.arrive(name)
    assert predicted(table, forecast, "c").wait_s == pytest.approx(2.0 + 2.0, rel=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_predictions_are_borne_out(seed):
    """A busy queue in virtual time: half of all waits are above what was predicted, about."""
    dice, table = Random(seed), Table(seed=seed)
    forecast = Forecast(table.queues)
    table.host("h1", 4)
    ends, told, ratios = {}, {}, []

    def began(starts):
        for start in starts:
            job = start.partition("@")[0]
            ends[job] = table.now_s + dice.lognormvariate(2, 1)
            arrived_s, wait_s = told.pop(job, (0.0, None))
            if wait_s:
                ratios.append((table.now_s - arrived_s) / wait_s)

    arrival_s = 0.0
    for n in range(800):
        arrival_s += dice.expovariate(0.3)
        while ends and min(ends.values()) < arrival_s:
            job = min(ends, key=ends.get)
            table.now_s = ends.pop(job)
            began(table.ended(job))
        table.now_s = arrival_s
        starts = table.arrive(f"j{n}")
        if not starts:
            entry = table.queues.books[JobId(f"j{n}")]
            told[f"j{n}"] = arrival_s, forecast.of(entry, arrival_s).wait_s
        began(starts)
    assert len(ratios) > 200
    assert 0.7 < median(ratios) < 1.4
