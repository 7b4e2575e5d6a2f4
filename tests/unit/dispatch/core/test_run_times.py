from array import array
from math import inf, isfinite, log, nan

import pytest

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.malleable.slot_times import SlotTimes
from lbd.dispatch.core.run_times import RUNS_KEPT, Nearest, RunTimes
from lbd.model import HostId, JobId
from lbd.theory.next_run import spread_out
from tests.unit.dispatch.core.test_queues import Table


def job(line=0, **more):
    return QueuedJob(JobId("1"), user="ann", command=3, command_line=line, **more)


def test_the_same_command_line_counts_before_its_kind():
    times = RunTimes()
    times.ended(job(1), 1.0)
    times.ended(job(2), 9.0)
    assert list(times.of(job(1))) == [1.0]
    assert list(times.of(job(3))) == [1.0, 9.0]
    assert list(times.of(job(1), fewest=2)) == [1.0, 9.0]
    assert list(times.of(job(1), fewest=3)) == []


def test_a_command_line_is_the_same_under_any_label():
    times = RunTimes()
    times.ended(job(1, name="monday"), 1.0)
    assert list(times.of(job(1, name="tuesday"))) == [1.0]
    assert list(times.of(job(2, name="tuesday"))) == []


def test_for_a_forecast_runs_under_another_label_are_better_than_none():
    times = RunTimes()
    times.ended(job(1, name="monday"), 1.0)
    assert list(times.nearest(job(2, name="tuesday")).times_s) == [1.0]
    times.ended(job(2, name="tuesday"), 9.0)
    assert list(times.nearest(job(3, name="tuesday")).times_s) == [9.0]
    assert not times.nearest(job(2, name="tuesday", slots=2)).times_s
    assert times.nearest(QueuedJob(JobId("1"), user="ann")) == Nearest(None, (), 0)


def test_of_other_command_lines_each_counts_once():
    """A hundred runs with one argument say no more about another than one run would."""
    times = RunTimes()
    for run_s in (1.0, 2.0, 9.0):
        times.ended(job(1), run_s)
    times.ended(job(2), 30.0)
    found = times.nearest(job(3))
    assert (list(found.times_s), found.runs, found.line) == ([2.0, 30.0], 4, 3)
    own = times.nearest(job(1))
    assert (list(own.times_s), own.runs, own.line) == ([1.0, 2.0, 9.0], 3, 0)
    assert [times.has_line(job(line)) for line in (1, 2, 3)] == [True, True, False]
    times.ended(job(2), 40.0)
    assert list(times.nearest(job(3)).times_s) == [2.0, 35.0]
    times.ended(job(3), 5.0)
    assert times.nearest(job(3)) == Nearest(times.nearest(job(3)).key, array("d", [5.0]), 1)


@pytest.mark.parametrize("other", [{"user": "bob"}, {"slots": 2}])
def test_other_users_and_other_numbers_of_slots_say_nothing(other):
    times = RunTimes()
    times.ended(job(1), 1.0)
    assert list(times.of(job(1)._replace(**other))) == []


def test_the_last_runs_are_kept_and_the_command_unused_for_longest_is_forgotten():
    times = RunTimes(most=3)
    for run_s in range(RUNS_KEPT + 1):
        times.ended(job(name="a"), float(run_s))
    assert list(times.of(job(name="a"))) == [float(n) for n in range(1, RUNS_KEPT + 1)]
    for name in "bcad":
        times.ended(job(name=name), 5.0)
    assert [bool(times.of(job(name=name))) for name in "abcd"] == [True, False, True, True]


def test_the_thousands_of_one_user_push_out_no_other_users():
    times = RunTimes(most=10)
    for user in ("bob", "eve"):
        times.ended(job(name="daily")._replace(user=user), 5.0)
    for n in range(100):
        times.ended(job(name=f"{n}"), 1.0)
    for user in ("bob", "eve"):
        assert list(times.of(job(name="daily")._replace(user=user))) == [5.0]
    assert list(times.of(job(name="99"))) == [1.0]


def test_of_users_with_equally_many_the_least_recent_are_forgotten_first():
    times = RunTimes(most=2)
    for user in ("ann", "bob", "ann", "eve"):
        times.ended(job(name="daily")._replace(user=user), 5.0)
    found = [
        bool(times.of(job(name="daily")._replace(user=user))) for user in ("ann", "bob", "eve")
    ]
    assert found == [True, False, True]


def test_a_job_that_ran_before_a_new_dispatcher_keeps_its_age():
    table = Table()
    table.host("h1")
    table.queues.found_running(QueuedJob(JobId("old"), command=3), HostId("h1"), 5.0)
    table.queues.ran_before(JobId("old"), 100.0)
    table.now_s = 15.0
    assert table.queues.registry.entries[JobId("old")].ran_s(15.0) == 110.0
    table.ended("old")
    assert list(table.queues.run_times.of(QueuedJob(JobId("2"), command=3))) == [110.0]
    assert list(table.queues.slot_times.recent_s) == [110.0]
    table.queues.ran_before(JobId("old"), 1.0)  # it has ended


@pytest.mark.parametrize("run_s", [0.0, -1.0, nan, inf, 5e-324])
def test_no_run_time_is_learnt_by_which_a_forecast_cannot_divide(run_s):
    """A job whose begin and end were recorded at one moment made every forecast fail, and with it
    all users' submissions and lists of jobs."""
    times, slots = RunTimes(), SlotTimes()
    for line in range(20):
        times.ended(job(line), run_s)
        slots.ended(run_s, line)
    known = (*times.of(job(99)), *slots.recent_s)
    assert len(known) == 40
    assert all(0 < one < inf and isfinite(log(one)) for one in known)
    times_s, _ = spread_out(times.of(job(99)), 0.2)
    assert all(map(isfinite, times_s))
