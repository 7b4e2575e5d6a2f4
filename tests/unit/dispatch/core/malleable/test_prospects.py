"""The table of `lbctl predict`: what a job that came now could expect for each number of slots."""

import math
from dataclasses import replace
from random import Random

import pytest

from lbd.config.dispatch import STRATEGIES
from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.malleable.decision import FreeSlots, KnownSpeedup
from lbd.dispatch.core.malleable.prospects import (
    ROWS,
    Prospect,
    Situation,
    answer,
    begins,
    likely_s,
    picks,
    shown,
    within,
)
from lbd.dispatch.core.outlook.allowance import LINES
from lbd.dispatch.core.outlook.arrivals import Arrivals
from lbd.dispatch.core.outlook.forecast import Forecast
from lbd.dispatch.core.outlook.plays import STEPS
from lbd.model import NO_NEEDS, Facts, HostId, JobId, Needs
from lbd.theory.calibration import Correction
from lbd.theory.free_slots import interval_90_s, quantile_s
from lbd.theory.lifetimes import UniformLog
from lbd.theory.queue_time import Releases
from lbd.theory.speedup import Speedup
from tests.unit.dispatch.core.malleable.test_heads import LONG_LIVES_S, SHORT_LIVES_S, Table
from tests.unit.dispatch.core.outlook.test_forecast import another, arrival

LIVES = UniformLog(1.0, 1000.0)
LINEAR = KnownSpeedup(Speedup(8.0, 0.0), 800.0, None, linear=False)
NONE = Correction()


def room(free, *held, name="h1"):
    return FreeSlots(HostId(name), free, Releases.of(held, LIVES))


def situation(*rooms, ahead=0, base_s=None, slot_s=0.0, correction=NONE):
    held = [one for r in rooms for one in r.releases.held]
    return Situation(
        tuple(rooms), ahead, base_s, slot_s, Releases.of(held, LIVES), ahead, correction
    )


def test_each_number_of_slots_has_its_row():
    now = situation(room(2, (5.0, 6)))
    found = answer(now, 1, 8, LINEAR)
    assert [one.slots for one in found.prospects] == list(range(1, 9))
    assert [one.begins_in_s for one in found.prospects[:2]] == [0.0, 0.0]
    later = found.prospects[7]
    assert later.raw_s == pytest.approx(now.rooms[0].releases.combined_s(6))
    assert later.begins_in_s == quantile_s(6, now.rooms[0].releases)
    assert later.interval_90_s == interval_90_s(6, now.rooms[0].releases)
    assert (later.runs_s, later.ends_in_s) == (100.0, later.begins_in_s + 100.0)


def test_from_few_jobs_there_is_no_interval():
    """Eight short jobs behind three of two minutes promised 9 seconds, in nine cases of ten."""
    for now in (situation(room(2, (5.0, 6))), situation(room(2, (5.0, 6)), ahead=1, base_s=5.0)):
        few = replace(now, has_intervals=False)
        (known,), (guess,) = (answer(one, 4, 4, LINEAR).prospects for one in (now, few))
        assert (guess.begins_in_s, guess.interval_90_s) == (known.raw_s, None)
        assert known.interval_90_s is not None


@pytest.mark.parametrize(
    ("raw_s", "ahead_jobs", "shown_s"),
    [(0.012, 3, 0.083), (40.0, 3, 29.0), (1.0, 3, 1.0), (1.0, 0, 7.0), (40.0, 0, 7.0)],
)
def test_the_shown_wait_is_within_its_interval_and_the_median_for_the_next_job(
    raw_s, ahead_jobs, shown_s
):
    assert likely_s(raw_s, (0.083, 7.0, 29.0), ahead_jobs) == shown_s


def test_the_last_slots_of_a_host_are_not_predicted_for_the_latest_possible_end():
    """Predictor B would do so: of four jobs, all older than any that ended, 19 times their age,
    which only rises while one waits."""
    now = situation(room(0, *[(2000.0, 1)] * 4))
    (found,) = answer(now, 4, 4, None).prospects
    low_s, high_s = found.interval_90_s
    assert low_s < found.begins_in_s < high_s / 3
    assert found.begins_in_s == pytest.approx(2000 * 5.3, rel=0.05)


def test_slots_that_no_host_has_are_not_offered():
    assert [one.slots for one in answer(situation(room(3), room(2)), 2, 8, LINEAR).prospects] == [
        2,
        3,
    ]
    assert answer(situation(room(3)), 4, 8, LINEAR).prospects == ()


def test_the_picks_are_what_the_strategies_would_take():
    soon = answer(situation(room(2, (950.0, 6))), 1, 8, LINEAR).picks
    assert (soon["AVG"], soon["PRED"]) == (2, 8)
    assert soon["HEUR"] == 8  # 0.2 · (400 - 100) is enough for it
    late = answer(situation(room(6, (1e6, 2))), 1, 8, LINEAR).picks
    assert late == {"FREE": 6, "AVG": 6, "PRED": 6, "BIAS": 6, "HEUR": 6}


@pytest.mark.parametrize(("wait_s", "takes"), [(59.9, 8), (60.1, 2)])
def test_heur_takes_slots_that_come_within_a_fifth_of_what_they_save(wait_s, takes):
    """400 s on the two free slots, 100 s on eight."""
    waits = {n: 0.0 if n <= 2 else wait_s for n in range(1, 9)}
    rows = [Prospect(n, at_s, at_s, None, 800.0 / n) for n, at_s in waits.items()]
    assert picks(rows, 1, 8, LINEAR)["HEUR"] == takes


def test_bias_corrects_by_how_such_predictions_turned_out():
    """Each prediction comes true a hundred times later, so free slots are better."""
    slow = Correction(1.0, math.log(100.0), 0.5, 30)
    found = answer(situation(room(2, (900.0, 6)), correction=slow), 1, 8, LINEAR)
    assert (found.picks["PRED"], found.picks["BIAS"]) == (7, 2)
    raw_s = found.prospects[7].raw_s
    assert found.prospects[7].begins_in_s == pytest.approx(100 * raw_s)
    low_s, high_s = found.prospects[7].interval_90_s
    assert low_s <= slow.interval_90_s(raw_s)[0] < slow.interval_90_s(raw_s)[1] <= high_s


def test_if_others_wait_more_slots_take_longer():
    now = situation(room(0, (5.0, 8)), ahead=3, base_s=40.0, slot_s=5.0)
    assert [one.begins_in_s for one in answer(now, 1, 3, LINEAR).prospects] == [40.0, 45.0, 50.0]
    low_s, high_s = answer(now, 1, 1, None).prospects[0].interval_90_s
    assert low_s < high_s


def test_a_job_with_fixed_slots_has_one_row():
    found = answer(situation(room(2, (5.0, 6))), 4, 4, None)
    (one,) = found.prospects
    assert (one.slots, one.runs_s, one.ends_in_s) == (4, None, None)
    assert set(found.picks.values()) == {4}


def test_if_nothing_is_known_nothing_is_shown():
    unknown = Situation((room(1, (5.0, 3)),), 0, None, 0.0, None, 0, NONE)
    found = answer(unknown, 1, 4, LINEAR)
    assert [one.begins_in_s for one in found.prospects] == [0.0, None, None, None]
    assert [one.interval_90_s for one in found.prospects] == [(0.0, 0.0), None, None, None]
    assert found.picks["PRED"] == 1


def test_a_long_range_is_shown_in_part():
    rows = shown(1, 65536)
    assert (rows[0], rows[-1], len(rows)) == (1, 65536, ROWS)
    assert list(shown(2, 5)) == [2, 3, 4, 5]


# What the queue knows


def test_the_situation_is_that_of_the_line_the_job_would_join():
    table = Table("pred", lives_s=SHORT_LIVES_S)
    forecast = Forecast(table.queues)
    table.host("h1", 4)
    table.host("h2", 2)
    table.arrive("first", slots=3)
    now, how = forecast.situation(QueuedJob(JobId(""), 1, slots_most=4), NONE, 10.0)
    made = f"by the run times of {len(SHORT_LIVES_S)} ended jobs "
    assert how.startswith(f"slots are free; more than 2: {made}")
    # All slots that it can use, or that a host has, are free: nothing is predicted.
    for most in (1, 2):
        _, how = forecast.situation(QueuedJob(JobId(""), 1, slots_most=most), NONE, 10.0)
        assert how == "slots are free"
    assert sorted((one.host, one.free, one.total) for one in now.rooms) == [
        ("h1", 1, 4), ("h2", 2, 2)
    ]  # fmt: skip
    nowhere, how = forecast.situation(QueuedJob(JobId(""), 9), NONE, 10.0)
    assert (nowhere.rooms, how) == ((), "no host that accepts jobs now has 9 slots")


def test_a_submission_is_predicted_like_a_question():
    table = Table("free", lives_s=LONG_LIVES_S)
    forecast = Forecast(table.queues)
    table.host("h1", 2)
    assert arrival(forecast, 1, 0.0)[0] == 0.0
    for name in "abcd":
        table.arrive(name)
    first_s = arrival(forecast, 1, 1.0).wait_s
    assert first_s == pytest.approx(another(Forecast(table.queues), 1, 1.0).wait_s)


def test_before_jobs_have_ended_only_free_slots_can_be_predicted():
    table = Table("free")
    forecast = Forecast(table.queues)
    assert arrival(forecast, 1, 0.0) is None
    table.host("h1", 1)
    assert arrival(forecast, 1, 1.0) == (0.0, None, False)
    table.arrive("a")
    assert arrival(forecast, 1, 2.0) is None


def test_many_submissions_look_at_the_hosts_once_in_a_while():
    table = Table("free", lives_s=LONG_LIVES_S)
    forecast = Forecast(table.queues)
    table.host("h1", 1)
    table.arrive("a")
    arrivals = Arrivals(forecast)
    arrival(arrivals, 1, 1.0)
    (looked_at,) = arrivals._known.values()
    forecast.plays.allowance.took(10 * STEPS, LINES, 1.0)  # otherwise each is predicted anew
    for n in range(5):
        table.arrive(f"b{n}")
        arrival(arrivals, 1, 1.0 + n / 100)
    assert list(arrivals._known.values()) == [looked_at]


@pytest.mark.parametrize(
    ("most", "rows", "last"), [(1, 1, 1), (64, 64, 64), (65, 64, 65), (1000, 64, 1000)]
)
def test_of_many_slot_counts_only_some_are_shown(most, rows, last):
    found = list(shown(1, most))
    assert (len(found), found[0], found[-1]) == (rows, 1, last)


def test_every_strategy_takes_a_fixed_number_of_slots():
    unknown = Situation((room(1, (5.0, 3)),), 0, None, 0.0, None, 0, NONE)  # when it would start
    for now in (situation(room(2)), unknown):
        found = answer(now, 2, 2, LINEAR)
        assert found.picks == dict.fromkeys((one.upper() for one in STRATEGIES), 2)


@pytest.mark.parametrize("order", [1, -1])
def test_it_starts_on_the_host_that_has_the_slots_first(order):
    soon, late = room(1, (1.0, 3)), room(1, (500.0, 3), name="h2")
    wait_s, host = begins(situation(*(soon, late)[::order]), 1, 3)
    assert (wait_s, host) == (soon.releases.combined_s(2), soon)
    assert wait_s < late.releases.combined_s(2)


def test_a_host_without_what_a_job_needs_has_no_slot_for_it():
    table = Table("pred", lives_s=SHORT_LIVES_S)
    table.host("h1", 4, facts=Facts(("linux",), (("gpu", 1, 0),)))
    gpu = Needs((("gpu", 1),))
    table.arrive("first", needs=gpu)
    job = QueuedJob(JobId(""), 1, slots_most=3, needs=gpu)
    now, _ = Forecast(table.queues).situation(job, NONE, 10.0)
    assert [(one.free, one.total) for one in now.rooms] == [(0, 1)]
    now, _ = Forecast(table.queues).situation(job._replace(needs=NO_NEEDS), NONE, 10.0)
    assert [(one.free, one.total) for one in now.rooms] == [(3, 4)]


def test_more_slots_than_are_held_come_back_over_several_turns():
    held = Releases.of([(5.0, 3), (50.0, 1)], LIVES)
    for needed, of, turns in ((0, 1, 1.0), (2, 2, 1.0), (4, 4, 1.0), (6, 4, 1.5), (8, 4, 2.0)):
        low_s, high_s = interval_90_s(of, held)
        exact = low_s * turns, quantile_s(of, held) * turns, high_s * turns
        assert within(needed, held) == pytest.approx(exact)
    assert within(1, None) is None
    assert within(1, Releases.of([], LIVES)) is None


def test_without_a_host_there_is_no_slot():
    assert (situation().free, situation().most) == (0, 0)
    now = situation(room(2, (5.0, 6)), room(3))
    assert (now.free, now.most) == (3, 8)


def test_rows_are_corrected_together_or_not_at_all():
    """A correction that lengthens waits up to 45 s would put eight slots before four."""
    slower = Correction(1.0, math.log(3.0), 0.1, 30, 0.0, math.log(45.5))
    now = situation(room(0, (5.0, 8)), ahead=3, base_s=30.0, slot_s=5.0, correction=slower)
    few = [one.begins_in_s for one in answer(now, 1, 4, LINEAR).prospects]
    assert few == pytest.approx([90.0, 105.0, 120.0, 135.0])
    found = [one.begins_in_s for one in answer(now, 1, 8, LINEAR).prospects]
    assert found == sorted(found)
    assert found[0] < 40.0


@pytest.mark.parametrize("strategy", ["avg", "pred", "bias", "heur"])
@pytest.mark.parametrize("seed", range(10))
def test_a_job_that_could_start_now_takes_what_was_said(strategy, seed):
    """`PRED` was where the times in the table end first. The dispatcher goes by the run times of
    all jobs, not of the commands that run, and took another number four times in four."""
    rng = Random(seed)
    table = Table(strategy, lives_s=[rng.uniform(1.0, 60.0) for _ in range(30)])
    table.host("h1", 2)
    table.host("h2", 4)
    own = {"user": "ann", "command": 1, "command_line": 1}
    for _ in range(3):
        table.queues.run_times.ended(QueuedJob(JobId("0"), **own), 10.0)
    for name in "abcd"[: rng.randint(1, 4)]:
        table.arrive(name, **own)
    table.now_s = rng.uniform(1.0, 4.0)
    shape = {"slots_most": 4, "speedup": (4.0, 0.0), "work_s": rng.uniform(5.0, 60.0)}
    now, _ = Forecast(table.queues).situation(QueuedJob(JobId(""), **shape), NONE, table.now_s)
    known = table.queues.heads.known(QueuedJob(JobId(""), **shape))
    said = answer(now, 1, 4, known).picks[strategy.upper()]
    starts = table.arrive("wide", **shape)
    took = int(starts[0].rpartition(":")[2]) if starts else table.hold("wide").slots
    assert said == took
