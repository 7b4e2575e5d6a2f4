"""`lbctl advise` on one day: the replay's input and its verdict, checked by hand."""

import math
from dataclasses import replace
from random import Random

import pytest

from lbd.sim.advice import (
    GAIN_MIN,
    IDLE_S,
    Finding,
    PastHost,
    PastJob,
    Trial,
    best,
    costs_of,
    day_of,
    findings,
    guess,
    replications,
    setup_for,
    sizes,
    trials,
    without_idle,
)
from lbd.sim.balance.runs import PARTS, Outcome, jobs_of, run_once
from lbd.sim.engine.intervals import student, student_95

T0 = 1.7e9
H1, H2 = PastHost("h1", 2.0, 1.0), PastHost("h2", 1.0, 1.5)
PARAMS = {
    "exchange_period_s": 1.0, "local_threshold": 0.7, "min_gain": 0.1, "probe_limit": 3.0,
    "job_threshold_s": 0.05, "smoothing_s": 0.0,
}  # fmt: skip


def job(at_s=0.0, cpu_s=1.0, **more):
    given = {"waiting_s": 0.5, "response_s": 3.0, "command": "cc", "origin": "h1", "host": "h1",
             "pinned": False}  # fmt: skip
    return PastJob(T0 + at_s, cpu_s=cpu_s, **{**given, **more})


def day(*jobs, algorithm="GLOBAL", hosts=(H1, H2), **params):
    return day_of(jobs, hosts, algorithm, {**PARAMS, **params})


class TestTheDay:
    def test_arrival_demand_and_origin(self):
        found = day(job(0.0, 2.0), job(1.0, 2.0, host="h2"))
        assert found.setup.trace == ((0.0, 2.0, 0, "h1"), (1.0, 3.0, 0, "h1"))  # h2 is faster
        assert (found.jobs, found.movable, found.guessed, found.span_s) == (2, 2, 0, 1.0)

    def test_a_command_that_had_to_stay_stays_on_its_host_from_its_start(self):
        found = day(job(0.0), job(1.0, host="h2", pinned=True))
        assert found.setup.trace[1] == (1.5, 1.5, 0, "h2")
        assert found.setup.pinned == {1}
        assert [one.mobile for one in jobs_of(found.setup, "1")] == [True, False]
        assert found.movable == 1

    def test_hosts_keep_their_capacity_whichever_comes_first(self):
        found = day(job(0.0, origin="h2"), job(1.0))
        assert [found.setup.power(number) for number in (0, 1)] == [(1.0, 1.5), (2.0, 1.0)]
        assert [one.origin for one in jobs_of(found.setup, "1")] == [0, 1]

    def test_short_jobs_are_not_worth_moving_and_departed_hosts_are_left_out(self):
        found = day(job(), job(1.0, 0.01), job(2.0, origin="h9"))
        assert (found.jobs, found.movable, found.strangers) == (2, 1, 1)

    def test_parameters_are_those_in_force(self):
        found = day(job(), probe_limit=5.0, smoothing_s=4.0, keepalive_s=1.0)
        assert (found.setup.lim.probe_limit, found.setup.lim.local_threshold) == (5, 0.7)
        assert found.setup.smoothing_s == 4.0
        assert found.setup.lim.keepalive_s == 3600.0  # nothing fails in the replay

    def test_without_jobs_there_is_no_replay(self):
        found = day()
        assert (found.jobs, found.movable, found.span_s) == (0, 0, 0.0)

    def test_an_unmeasured_job_counts_as_the_others_of_its_command(self):
        size_s = sizes([job(cpu_s=1.0), job(cpu_s=2.0), job(cpu_s=9.0, command="ld")])
        assert guess(job(cpu_s=None), size_s) == 1.5
        assert guess(job(cpu_s=None, response_s=1.5), size_s) == 1.0  # it ran no longer
        assert guess(job(cpu_s=None, command="awk"), size_s) == 2.5

    def test_the_cost_of_a_move_is_measured(self):
        moved = [job(host="h2", waiting_s=wait_s) for wait_s in (0.01, 0.02, 9.0)]
        assert costs_of([job(), *moved]).transfer_delay_s == 0.02
        assert costs_of([job()]).transfer_delay_s == 0.005


def test_long_pauses_are_cut_but_no_work_overlaps_other_work():
    power = {"h1": 1.0, "h2": 1.0}
    trace = [(100.0, 10.0, 0, "h1"), (105.0, 30.0, 0, "h1"), (1000.0, 1.0, 0, "h2"),
             (1010.0, 1.0, 0, "h1")]  # fmt: skip
    times = [at_s for at_s, *_ in without_idle(trace, power)]
    # h1 is busy until 140 s at the latest; of the 860 s until 1000 s, IDLE_S are left.
    assert times == [0.0, 5.0, 40.0 + IDLE_S, 50.0 + IDLE_S]


class TestTrials:
    def test_the_current_setting_comes_first_then_every_algorithm_then_other_parameters(self):
        found = trials(day(job()))
        assert found[0] == Trial("GLOBAL")
        assert {trial.algorithm for trial in found[:10]} == {
            "GLOBAL", "DISTED", "CENTRAL", "RANDOM", "THRHLD", "LOWEST", "RESERVE", "NOLB",
            "P2C", "PREDICT",
        }  # fmt: skip
        assert all(trial.parameters and trial.algorithm == "GLOBAL" for trial in found[10:])
        assert len(set(found)) == len(found)

    @pytest.mark.parametrize(
        ("algorithm", "own"),
        [("LOWEST", "probe_limit"), ("CENTRAL", "exchange_period_s"), ("RESERVE", "reservations")],
    )
    def test_parameters_that_have_an_effect(self, algorithm, own):
        names = {name for trial in trials(day(job(), algorithm=algorithm))
                 for name, _ in trial.parameters}  # fmt: skip
        assert own in names
        assert ("probe_limit" in names) == (algorithm == "LOWEST")

    def test_every_trial_can_be_set_up(self):
        for params in ({}, {"local_threshold": 0.0, "exchange_period_s": 0.05}):
            today = day(job(), **params)
            for trial in trials(today):
                lim = setup_for(today, trial).lim
                assert all(getattr(lim, name) == value for name, value in trial.parameters)

    def test_a_long_day_is_run_once_and_a_short_one_more_often(self):
        assert replications(day(job(), job(30.0))) == 3
        busy = [job(30.0 * n) for n in range(1000)]
        assert replications(day(*busy)) == 1


def outcome(parts, **more):
    given = {"moved": 10, "wrong": 1, "messages_per_host_s": 2.0, "overhead_share": 0.01}
    mean = sum(parts) / len(parts)
    return Outcome(algorithm="x", jobs=100, mean_response_s=mean, sd_response_s=0.0, events=0,
                   part_means_s=tuple(parts), seen={}, **{**given, **more})  # fmt: skip


class TestTheVerdict:
    def test_gain_and_interval_by_hand(self):
        now = outcome([10.0] * PARTS)
        other = outcome([8.0, 6.0] * (PARTS // 2))  # saves 2 and 4 in turn: 3 on average
        first, found = findings(day(job()), [(Trial("GLOBAL"), [now]), (Trial("LOWEST"), [other])])
        deviation = math.sqrt(10 / 9)
        half = student(9, 0.05) * deviation / math.sqrt(10)
        assert (first.gain, first.gain_ci) == (0.0, 0.0)
        assert found.gain == pytest.approx(0.3)
        assert found.gain_ci == pytest.approx(half / 10.0)
        assert (found.transferred, found.wrong_transfers) == (0.1, 0.01)
        assert best([first, found]) is found

    def test_with_more_trials_each_must_be_clearer(self):
        now, other = outcome([10.0] * PARTS), outcome([8.0, 6.0] * (PARTS // 2))
        runs = [(Trial("GLOBAL"), [now]), *[(Trial(f"T{n}"), [other]) for n in range(10)]]
        wide = findings(day(job()), runs)[1]
        narrow = findings(day(job()), runs[:2])[1]
        assert wide.gain_ci == pytest.approx(narrow.gain_ci * student(9, 0.005) / student(9, 0.05))

    def test_a_chance_result_is_not_advice(self):
        rng = Random(1)
        now = outcome([rng.uniform(5, 15) for _ in range(PARTS)])
        others = [outcome([rng.uniform(5, 15) for _ in range(PARTS)]) for _ in range(15)]
        runs = [(Trial("GLOBAL"), [now]), *[(Trial(f"T{n}"), [o]) for n, o in enumerate(others)]]
        found = findings(day(job()), runs)
        assert max(one.gain for one in found) > 0.1
        assert best(found) is None

    def test_a_tiny_gain_is_not_advice(self):
        sure = Finding(Trial("LOWEST"), 1.0, GAIN_MIN / 2, 0.0, 0.0, 0.0, 0.0, 0.0)
        assert best([sure, sure]) is None
        assert best([sure, replace(sure, gain=GAIN_MIN)]) is not None

    def test_message_rates_are_those_of_the_day_including_its_pauses(self):
        today = day(job(0.0), job(10_000.0))
        share = today.setup.duration_s / today.span_s
        assert share < 0.01
        now = outcome([1.0] * PARTS)
        (found,) = findings(today, [(Trial("GLOBAL"), [now])])
        assert found.messages_per_host_s == pytest.approx(2.0 * share)


@pytest.mark.parametrize(
    ("freedom", "beyond", "t"),
    [(9, 0.05, 2.262), (9, 0.01, 3.250), (9, 0.001, 4.781), (30, 0.001, 3.646), (6, 0.05, 2.447)],
)
def test_students_t_as_tabulated(freedom, beyond, t):
    assert student(freedom, beyond) == pytest.approx(t, rel=0.005)
    assert student(9, 0.05) == pytest.approx(student_95(9), abs=1e-3)


def test_a_host_that_does_everything_alone_is_told_to_share():
    """Four jobs of 1.9 s every 8 s, all on one of two hosts with one core: alone it is full."""
    hosts = (PastHost("h1", 1.0, 1.0), PastHost("h2", 1.0, 1.0))
    jobs = [job(8.0 * n + 0.1 * k, 1.9, host="h1") for n in range(60) for k in range(4)]
    today = day(*jobs, algorithm="NOLB", hosts=hosts)
    tried = [trial for trial in trials(today) if trial.algorithm in ("NOLB", "GLOBAL", "LOWEST")]
    runs = [(trial, [run_once(setup_for(today, trial), trial.algorithm, 0)]) for trial in tried[:3]]
    found = findings(today, runs)
    chosen = best(found)
    assert chosen is not None
    assert chosen.gain > 0.25
    assert 0.2 < chosen.transferred < 0.8
