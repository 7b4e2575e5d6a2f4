"""When a pending job will begin: its place in the line, and Downey's prediction."""

from random import Random
from statistics import fmean, median

import pytest

from lbd.dispatch.core.discipline import ONLY_LINE, HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.fcfs import Fcfs
from lbd.dispatch.core.outlook.forecast import FRESH_S, Forecast
from lbd.dispatch.core.queues import Queues
from lbd.model import HostId, JobId
from lbd.theory.calibration import Correction
from tests.unit.dispatch.core.test_queues import Table


def known(table, lives_s=(10.0,) * 5):
    """Jobs that have ended, before time 0 of the test."""
    for life_s in lives_s:
        table.queues.slot_times.ended(life_s)
    return Forecast(table.queues)


def predicted(table, forecast, job):
    return forecast.of(table.queues.registry[JobId(job)], table.now_s)


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
    assert third.how == ("from 5 ended jobs, 10 slot-seconds on average; 3 ahead of it on 2 slots")


def test_what_is_ahead_of_a_job_is_as_for_one_that_comes_behind_it():
    table = Table()
    forecast = known(table, (10.0,) * 20)
    table.host("h1", 2)
    table.arrive("a")
    for name in "bcde":
        table.arrive(name, slots=2)
        # d waits for two slots, one of which is free, and for those of b and c
    ahead, held, _ = forecast.ahead_of(table.queues.registry[JobId("d")], table.now_s)
    assert (ahead, held.total) == (1 + 4, 1)
    table.arrive("small")
    ahead, _, _ = forecast.ahead_of(table.queues.registry[JobId("small")], table.now_s)
    assert ahead == 1 + 8  # the head needs two
    assert forecast.ahead_of(table.queues.registry[JobId("a")], table.now_s) is None
    table = Table()
    table.host("h1", 1)
    table.arrive("a")
    table.arrive("b")
    unknown = Forecast(table.queues).ahead_of(table.queues.registry[JobId("b")], 0.0)
    assert unknown is None


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
    assert predicted(table, forecast, "d").how == "no estimate until 5 jobs have ended"
    assert forecast.of_another(3, 0.0).how == "no host that accepts jobs now has 3 slots"


def test_a_job_that_came_now():
    table = Table()
    forecast = known(table)
    table.host("h1", 4)
    assert forecast.of_another(1, 0.0) == (0.0, "slots are free")
    for name in "abcde":
        table.arrive(name)
    assert forecast.of_another(1, 0.0).wait_s == pytest.approx(10 + 10 / 4, rel=0.05)


def test_slots_on_several_hosts_are_none_for_a_job_that_needs_them_on_one():
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
    for found in (predicted(table, forecast, "wide"), forecast.of_another(2, 8.0)):
        assert found.how.startswith("from 20 ended jobs, ")
    assert predicted(table, forecast, "wide").wait_s == pytest.approx(2.0, rel=0.05)
    missing, held, _ = forecast.ahead_of(table.queues.registry[JobId("wide")], 8.0)
    assert (missing, held.total) == (1, 1)


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


def test_an_arrival_is_expected_as_a_job_that_came():
    table = Table()
    table.host("h1", 4)
    table.arrive("a")
    assert Forecast(table.queues).of_arrival(1, 0.0) == (0.0, 0.0)  # nothing is known yet
    for name in "bcd":
        table.arrive(name)
    assert Forecast(table.queues).of_arrival(1, 0.0) is None
    for slots in (1, 2):
        forecast = known(table)
        wait_s, more_s = forecast.of_arrival(slots, 0.0)
        assert wait_s == pytest.approx(forecast.of_another(slots, 0.0).wait_s)
        assert more_s == pytest.approx(slots * 10 / 4)
    table.arrive("e", slots=3)
    forecast = known(table)
    found_s = forecast.of_arrival(1, 1.0)[0]
    assert found_s == pytest.approx(forecast.of_another(1, 1.0).wait_s)


def test_what_stands_before_one_that_comes_now():
    table = Table()
    table.host("h1", 4)
    for name in "abc":
        table.arrive(name)
    job = QueuedJob(JobId("x"), 2, slots_most=4)
    unknown, _ = Forecast(table.queues).situation(job, Correction(), 0.0)
    assert (unknown.ahead_slots, unknown.slot_s, unknown.all_held) == (1, 0.0, None)
    forecast = known(table)
    found, how = forecast.situation(job, Correction(), 0.0)
    assert (found.ahead_jobs, found.ahead_slots, found.slot_s) == (0, 1, 2.5)
    assert found.all_held is not None
    assert "from 5 ended jobs" in how
    table.arrive("wide", slots=3)
    found, _ = known(table).situation(job, Correction(), 1.0)
    assert (found.ahead_jobs, found.ahead_slots) == (1, 2 + 3)
    small, _ = known(table).situation(QueuedJob(JobId("y")), Correction(), 2.0)
    assert small.ahead_slots == 2 + 3
    table.gone("h1")
    nowhere, how = forecast.situation(job, Correction(), 3.0)
    assert (nowhere.rooms, how) == ((), "no host that accepts jobs now has 2 slots")


def test_what_was_reckoned_is_reckoned_again_once_it_is_forgotten():
    table = Table()
    forecast = known(table)
    table.host("h1")
    for name in "abcd":
        table.arrive(name)
    assert predicted(table, forecast, "d").how.endswith("2 ahead of it on 1 slots")
    outlook = forecast._outlook(ONLY_LINE, 0.0)
    assert forecast._outlook(ONLY_LINE, FRESH_S) is outlook
    assert forecast._outlook(ONLY_LINE, FRESH_S + 0.1) is not outlook
    table.ended("b")
    forecast.forget()
    assert predicted(table, forecast, "d").how.endswith("1 ahead of it on 1 slots")


@pytest.mark.parametrize("seed", range(5))
def test_a_place_is_that_in_the_order_of_beginning_whoever_left_or_came_back(seed):
    rng = Random(seed)
    queues = Queues(Fcfs())
    queues.host_is(HostSlots(HostId("h1"), 4), 0.0, rng)
    running = []
    for number in range(1, 300):
        job = QueuedJob(JobId(str(number)), slots=rng.choice((1, 1, 2)))
        running += queues.arrived(job, 0.0, rng)
        if running and rng.random() < 0.1:
            running += queues.lost(running.pop(0).job.id, 0.0, rng)
        elif rng.random() < 0.2:
            queues.ended(JobId(str(rng.randrange(1, number + 1))), 0.0, rng)
        running = [one for one in running if one.job.id in queues.registry]
    forecast, waiting = Forecast(queues), queues.lines[ONLY_LINE]
    order = waiting.order()
    assert len(order) > 100
    assert waiting.in_order_of_arrival() is not None
    slots = 0
    for jobs, waiter in enumerate(order):
        assert forecast.places.of(queues.registry[waiter.id], 0.0) == (jobs, slots)
        slots += waiter.slots


def test_where_arrays_take_turns_a_place_is_that_in_their_turns():
    queues, rng = Queues(Fcfs()), Random(1)
    for number in range(1, 7):
        array = 1 if number < 4 else 4
        queues.arrived(QueuedJob(JobId(str(number)), array=array, array_index=number), 0.0, rng)
    queues.host_is(HostSlots(HostId("h1"), 2, open_slots=0), 0.0, rng)
    assert queues.lines[ONLY_LINE].in_order_of_arrival() is None
    forecast = Forecast(queues)
    places = [forecast.places.of(queues.registry[JobId(str(n))], 0.0).jobs for n in range(1, 7)]
    assert places == [0, 2, 4, 1, 3, 5]


@pytest.mark.parametrize(
    ("slots", "missing", "of"),
    [(1, 0, [4.0, 2.0]), (2, 0, [4.0, 2.0]), (3, 1, [4.0]), (4, 2, [2.0]), (5, 1, [4.0, 2.0])],
)
def test_what_must_be_free_before_a_job_of_so_many_slots_begins(slots, missing, of):
    """Two slots are free on each of two hosts; a job has had one of h1 for 4 s, and another two of
    h2 for 2 s. Either gives back the third that somebody needs: the one that began first does so.
    """
    table = Table()
    forecast = known(table)
    for at_s, host in ((0.0, "h1"), (2.0, "h2")):
        table.now_s = at_s
        table.host(host, 4 if host == "h2" else 3)
        table.arrive(f"on {host}", slots=2 if host == "h2" else 1, only=HostId(host))
    table.now_s = 4.0
    outlook = forecast._outlook(ONLY_LINE, 4.0)
    assert [free for free, _ in outlook.hosts] == [2, 2]
    count, held = outlook.missing(slots)
    assert (count, [ran_s for ran_s, _ in held]) == (missing, of)
    assert (outlook.wait_s(slots) == 0.0) is (missing == 0)
    assert outlook.head_s(slots) == outlook.wait_s(slots)


@pytest.mark.parametrize("seed", range(8))
def test_all_questions_about_one_that_comes_now_have_one_answer(seed):
    rng, table = Random(seed), Table()
    forecast = known(table, [10.0 * 1.2**n for n in range(20)])
    for name in ("h1", "h2"):
        table.host(name, rng.randint(2, 4))
    for n in range(rng.randint(0, 9)):
        table.now_s += rng.random()
        table.arrive(f"{n + 1}", slots=rng.randint(1, 2))
    now_s, slots = table.now_s + 1.0, rng.randint(1, 2)
    asked = forecast.of_another(slots, now_s).wait_s
    first_s, step_s = forecast.of_arrival(slots, now_s)
    job = QueuedJob(JobId("new"), slots)
    now, _ = forecast.situation(job, Correction(), now_s)
    assert asked == pytest.approx(first_s)
    assert now.base_s == pytest.approx(asked)
    outlook = forecast._outlook(ONLY_LINE, now_s)
    assert outlook.total == sum(server.slots for server in table.queues.hosts.values())
    mean_s = fmean(10.0 * 1.2**n for n in range(20))
    assert step_s == pytest.approx(slots * mean_s / outlook.total)
    assert now.slot_s == pytest.approx(mean_s / outlook.total)
    table.arrive("new", slots=slots)
    registered = table.queues.registry[job.id]
    if registered.line is None:
        assert first_s == 0.0
        return
    forecast.forget()
    if now.ahead_jobs:  # else it begins as soon as it has its slots
        assert forecast.of(registered, now_s).wait_s == pytest.approx(asked)
        ahead, held, _ = forecast.ahead_of(registered, now_s)
        assert (ahead, held.total) == (now.ahead_slots, now.all_held.total)
