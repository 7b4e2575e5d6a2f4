"""When a pending job will start: its place in the line, and Downey's prediction."""

import math
from random import Random
from statistics import fmean, median

import pytest

from lbd.dispatch.core.discipline import ONLY_LINE, QueuedJob
from lbd.dispatch.core.outlook.allowance import LINES
from lbd.dispatch.core.outlook.arrivals import ARRIVALS_S, Arrivals
from lbd.dispatch.core.outlook.forecast import FRESH_S, Forecast
from lbd.dispatch.core.outlook.forecast_words import too_few_ended
from lbd.dispatch.core.outlook.places import Place
from lbd.dispatch.core.outlook.plays import STEPS
from lbd.model import NO_NEEDS, HostId, JobId
from lbd.theory.calibration import Correction
from tests.unit.dispatch.core.test_queues import Table


def known(table, lives_s=(10.0,) * 5):
    """Jobs that ended before time 0 of the test."""
    for life_s in lives_s:
        table.queues.resource_times.slots.ended(life_s)
    return Forecast(table.queues)


def another(forecast, slots, now_s, needs=NO_NEEDS, **more):
    """Returns the forecast for one more job that comes now."""
    return forecast.of_new(QueuedJob(JobId(""), slots, needs=needs, **more), now_s)


def arrival(forecast, slots, now_s, needs=NO_NEEDS):
    """Asks as every submission does; `forecast` may be the arrivals of one."""
    arrivals = forecast if isinstance(forecast, Arrivals) else Arrivals(forecast)
    return arrivals.of(QueuedJob(JobId(""), slots, needs=needs), now_s)


def predicted(table, forecast, job):
    return forecast.of(table.queues.registry[JobId(job)], table.now_s)


def test_the_head_waits_for_the_next_end_and_the_others_also_for_those_ahead():
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
    assert third.wait_s == pytest.approx(16.0, rel=0.05)  # behind c, b's slot, then a's again
    assert third.how == "3 jobs ahead, 2 slots; by the run times of 5 ended jobs (10s on average)"


def test_there_is_an_interval_once_enough_have_ended():
    lives_s = [2.0 * 1.2**n for n in range(20)]
    for count in (19, 20):
        table = Table()
        forecast = known(table, lives_s[:count])
        table.host("h1", 2)
        table.arrive("a")
        for name in "bcde":
            table.arrive(name, slots=2)
        found = predicted(table, forecast, "d")
        assert (found.within_s is None) is (count < 20)
    low_s, high_s = found.within_s
    assert 2.0 < low_s < found.wait_s < high_s < 3 * 2.0 * 1.2**20
    assert predicted(table, forecast, "a").within_s is None


def test_if_no_forecast_is_possible_that_is_said():
    table = Table(user_slots=1)
    forecast = Forecast(table.queues)
    table.host("h1", 2)
    table.arrive("a", user="ann")
    table.arrive("wide", user="bob", slots=2)
    assert predicted(table, forecast, "wide")[:2] == (
        None,
        "",
    )  # a limit: the reason says it
    table.arrive("b", user="bob")
    table.arrive("c", user="cid")
    table.arrive("d", user="dan")
    assert predicted(table, forecast, "d").how == too_few_ended(0)
    assert another(forecast, 3, 0.0).how == "no host that accepts jobs now has 3 slots"


def test_hosts_that_offer_no_slot_now_give_no_forecast():
    table = Table()
    forecast = known(table)
    table.host("h1", 2)
    for job in "abc":
        table.arrive(job)
    assert predicted(table, forecast, "c").wait_s is not None
    table.host("h1", 2, open_slots=0)
    said = predicted(table, forecast, "c")
    assert (said.wait_s, said.how) == (None, "no slot is available to the queue")


def test_a_host_that_now_has_fewer_slots_than_jobs_takes_no_free_slots_from_others():
    table = Table()
    table.host("h0", 3)
    for job in "abc":
        table.arrive(job)
    for host, slots in (("h0", 1), ("h1", 1), ("h2", 1)):
        table.host(host, slots)
    outlook = Forecast(table.queues).outlook(ONLY_LINE, 0.0)
    assert (outlook.total, outlook.free, outlook.most_free) == (3, 2, 1)


def test_a_job_that_came_now():
    table = Table()
    forecast = known(table)
    table.host("h1", 4)
    assert another(forecast, 1, 0.0)[:2] == (0.0, "slots are free")
    for name in "abcde":
        table.arrive(name)
    assert another(forecast, 1, 0.0).wait_s == pytest.approx(10, rel=0.05)
    assert another(forecast, 4, 0.0).wait_s == pytest.approx(20, rel=0.05)


def test_slots_on_several_hosts_do_not_help_a_job_that_needs_them_on_one():
    table = Table()
    forecast = known(table, (10.0,) * 20)
    for host in ("h1", "h2", "h3"):
        table.host(host, 2)
    table.host("h4", 1)  # never has two
    table.arrive("a")
    table.now_s = 4.0
    for name in "bcd":
        table.arrive(name)
    assert [server.free for server in table.queues.servers[ONLY_LINE]] == [1, 1, 1, 0]
    assert table.arrive("wide", slots=2) == []
    table.now_s = 8.0
    for found in (predicted(table, forecast, "wide"), another(forecast, 2, 8.0)):
        assert "; by the run times of 20 ended jobs " in found.how
    assert predicted(table, forecast, "wide").wait_s == pytest.approx(2.0, rel=0.05)


def test_asking_does_not_advance_round_robin():
    table = Table("round-robin")
    forecast = known(table)
    for name in ("h1", "h2"):
        table.host(name)
    another(forecast, 1, 0.0)
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
def test_predictions_come_true(seed):
    """A busy queue in virtual time: about half of all waits are longer than predicted."""
    rng, table = Random(seed), Table(seed=seed)
    forecast = Forecast(table.queues)
    table.host("h1", 4)
    ends, told, ratios = {}, {}, []

    def began(starts):
        for start in starts:
            job = start.partition("@")[0]
            ends[job] = table.now_s + rng.lognormvariate(2, 1)
            arrived_s, wait_s = told.pop(job, (0.0, None))
            if wait_s:
                ratios.append((table.now_s - arrived_s) / wait_s)

    arrival_s = 0.0
    for n in range(800):
        arrival_s += rng.expovariate(0.3)
        while ends and min(ends.values()) < arrival_s:
            job = min(ends, key=ends.get)
            table.now_s = ends.pop(job)
            began(table.ended(job))
        table.now_s = arrival_s
        starts = table.arrive(f"j{n}")
        if not starts:
            entry = table.queues.registry[JobId(f"j{n}")]
            told[f"j{n}"] = arrival_s, forecast.of(entry, arrival_s).wait_s
        began(starts)
    assert len(ratios) > 200
    assert 0.7 < median(ratios) < 1.4


def test_a_new_arrival_is_expected_to_wait_as_a_job_that_came():
    table = Table()
    table.host("h1", 4)
    table.arrive("a")
    found = arrival(Forecast(table.queues), 1, 0.0)  # nothing is known yet
    assert found == (0.0, None, False)
    for name in "bcd":
        table.arrive(name)
    assert arrival(Forecast(table.queues), 1, 0.0) is None
    for slots in (1, 2):
        forecast = known(table)
        found = arrival(forecast, slots, 0.0)
        assert found.wait_s == pytest.approx(another(forecast, slots, 0.0).wait_s)
        assert found.within_s is None  # too few to know how long one job in twenty takes
    table.arrive("e", slots=3)
    forecast = known(table)
    found_s = arrival(forecast, 1, 1.0)[0]
    assert found_s == pytest.approx(another(forecast, 1, 1.0).wait_s)


def test_the_forecast_for_a_new_job_includes_its_interval():
    table = Table()
    table.host("h1", 2)
    for name in "abcd":
        table.arrive(name)
    forecast = known(table, [10.0 * 1.2**n for n in range(20)])
    arrivals = Arrivals(forecast)
    first = arrival(arrivals, 1, 0.0)
    low_s, high_s = first.within_s
    assert 0.0 < low_s < 0.7 * first.wait_s < first.wait_s < 1.3 * first.wait_s < high_s
    table.arrive("e")
    later = arrival(arrivals, 1, 0.1)  # the line is played again
    assert later.wait_s == pytest.approx(another(forecast, 1, 0.1).wait_s)
    assert later.wait_s > first.wait_s + 10.0
    forecast.plays.allowance.took(10 * STEPS, LINES, 0.1)
    table.arrive("f")
    last = arrival(arrivals, 1, 0.1)  # from the same look, plus the jobs that have come since
    assert last.wait_s > later.wait_s + 10.0
    wider = math.sqrt(last.wait_s / later.wait_s)
    for before_s, now_s in zip(later.within_s, last.within_s, strict=True):
        assert now_s - last.wait_s == pytest.approx(wider * (before_s - later.wait_s))


def test_while_no_line_may_be_played_the_last_one_serves():
    table = Table()
    table.host("h1")
    for job in "abc":
        table.arrive(job)
    forecast = known(table)
    played = forecast.played(ONLY_LINE, 0.0)
    forecast.plays.allowance.took(1000 * STEPS, LINES, 0.0)
    table.ended("b")
    assert forecast.played(ONLY_LINE, 2 * FRESH_S) is played
    assert forecast.played(ONLY_LINE, 1e6) is not played


def test_jobs_that_came_since_the_line_was_played_are_ahead_of_a_new_one():
    table = Table()  # after a new look at the hosts they were forgotten
    table.host("h1", 2)
    forecast = known(table, [10.0 * 1.2**n for n in range(20)])
    for n in range(60):
        table.arrive(f"{n}")
    arrivals = Arrivals(forecast)
    before = arrival(arrivals, 1, 0.0)
    for n in range(60, 90):
        table.arrive(f"{n}")
    was = arrival(arrivals, 1, 0.1)
    for user in ("", LINES):
        forecast.plays.allowance.took(1000 * STEPS, user, 0.1)
    table.now_s = ARRIVALS_S + 0.2  # the hosts are looked at again, the line is not played again
    found = arrival(arrivals, 1, table.now_s)
    assert found.wait_s == pytest.approx(was.wait_s - table.now_s)
    assert found.within_s[1] - found.within_s[0] > before.within_s[1] - before.within_s[0]


def test_what_is_ahead_of_a_new_job():
    table = Table()
    table.host("h1", 4)
    for name in "abc":
        table.arrive(name)
    job = QueuedJob(JobId("x"), 2, slots_most=4)
    unknown, _ = Forecast(table.queues).situation(job, Correction(), 0.0)
    assert (unknown.base_s, unknown.slot_s, unknown.line) == (None, 0.0, None)
    forecast = known(table)
    found, how = forecast.situation(job, Correction(), 0.0)
    assert (found.ahead_jobs, found.slot_s, len(found.line.waits)) == (0, 2.5, 1)
    assert "5 ended jobs" in how
    table.arrive("wide", slots=3)
    found, _ = known(table).situation(job, Correction(), 1.0)
    assert (found.ahead_jobs, len(found.line.waits)) == (1, 2)
    table.gone("h1")
    nowhere, how = forecast.situation(job, Correction(), 3.0)
    assert (nowhere.rooms, how) == ((), "no host that accepts jobs now has 2 slots")


def test_a_forecast_is_recomputed_once_it_is_forgotten():
    table = Table()
    forecast = known(table)
    table.host("h1")
    for name in "abcd":
        table.arrive(name)
    assert predicted(table, forecast, "d").how.startswith("2 jobs ahead, 1 slot; ")
    outlook = forecast.outlook(ONLY_LINE, 0.0)
    assert forecast.outlook(ONLY_LINE, FRESH_S) is outlook
    assert forecast.outlook(ONLY_LINE, FRESH_S + 0.1) is not outlook
    table.ended("b")
    forecast.forget()
    assert predicted(table, forecast, "d").how.startswith("1 job ahead, 1 slot; ")


@pytest.mark.parametrize("where", [{"only": HostId("h1")}, {"barred": frozenset({HostId("h2")})}])
def test_a_job_that_may_not_use_all_hosts_waits_for_those_it_may_use(where):
    table = Table()
    forecast = known(table)
    table.host("h1")
    table.arrive("a")
    table.host("h2")
    assert another(forecast, 1, 0.0)[:2] == (0.0, "slots are free")
    assert another(forecast, 1, 0.0, **where).wait_s == pytest.approx(10.0, rel=0.05)
    table.arrive("b", **where)
    assert predicted(table, forecast, "b").wait_s == pytest.approx(10.0, rel=0.05)
    table.gone("h1")
    assert another(forecast, 1, 0.0, **where).how in (
        "h1 accepts no jobs now, or does not have 1 slot",
        "no host other than those excluded that accepts jobs now has 1 slot",
    )


def test_a_single_new_job_has_one_task_of_each_array_ahead():
    table = Table()
    forecast = known(table)
    table.host("h1")
    for n in range(1, 9):
        table.arrive(f"{n}", array=1, array_index=n)
    found = another(forecast, 1, 0.0)
    assert found.wait_s == pytest.approx(20.0, rel=0.05)
    assert found.how.startswith("1 job ahead, 1 slot; ")
    assert forecast.places.of_new(ONLY_LINE, QueuedJob(JobId("x")), 0.0) == Place(jobs=1, slots=1)


def test_a_command_that_ran_before_takes_as_long_again():
    table = Table()
    forecast = known(table)
    table.host("h1")
    slow, other = {"command": "fit", "command_line": 1}, {"command": "sort", "command_line": 2}
    for _ in range(20):
        table.queues.run_times.ended(QueuedJob(JobId("0"), **slow), 500.0)
    table.arrive("a", **slow)
    table.arrive("b", **other)
    table.now_s = 100.0
    found = predicted(table, forecast, "b")
    assert found.wait_s == pytest.approx(400.0)
    assert found.how == "no job ahead, 1 slot; by ended runs of the same commands"
    forecast.forget()
    table.now_s = 600.0  # longer than any before: as long again, in half of all cases
    assert predicted(table, forecast, "b").wait_s == pytest.approx(600.0)


def test_a_wide_job_holds_its_slots_for_as_long_as_it_runs():
    table = Table()
    table.host("h1", 4)
    for n in range(5):
        table.arrive(f"{n}", slots=4)
        table.now_s += 10.0
        table.ended(f"{n}")
    table.arrive("a", slots=4)
    found = another(Forecast(table.queues), 1, table.now_s)
    assert found.wait_s == pytest.approx(10.0, rel=0.05)


@pytest.mark.parametrize("seed", range(8))
def test_all_questions_about_a_new_job_get_the_same_answer(seed):
    rng, table = Random(seed), Table()
    forecast = known(table, [10.0 * 1.2**n for n in range(20)])
    for name in ("h1", "h2"):
        table.host(name, rng.randint(2, 4))
    for n in range(rng.randint(0, 9)):
        table.now_s += rng.random()
        table.arrive(f"{n + 1}", slots=rng.randint(1, 2))
    now_s, slots = table.now_s + 1.0, rng.randint(1, 2)
    asked = another(forecast, slots, now_s).wait_s
    first_s = arrival(forecast, slots, now_s).wait_s
    job = QueuedJob(JobId("new"), slots)
    now, _ = forecast.situation(job, Correction(), now_s)
    assert asked == pytest.approx(first_s)
    assert now.base_s == pytest.approx(asked)
    outlook = forecast.outlook(ONLY_LINE, now_s)
    assert outlook.total == sum(server.slots for server in table.queues.hosts.values())
    mean_s = fmean(10.0 * 1.2**n for n in range(20))
    assert now.slot_s == pytest.approx(mean_s / outlook.total)
    table.arrive("new", slots=slots)
    registered = table.queues.registry[job.id]
    if registered.line is None:
        assert first_s == 0.0
        return
    forecast.forget()
    if now.ahead_jobs:  # otherwise it starts as soon as it has its slots
        assert forecast.of(registered, now_s).wait_s == pytest.approx(asked)
