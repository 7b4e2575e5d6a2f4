"""How long jobs run that are unlike those that ended."""

import math
from math import exp, log
from statistics import median

import pytest

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.outlook.allowance import LINES
from lbd.dispatch.core.outlook.arrivals import Arrivals
from lbd.dispatch.core.outlook.forecast import Forecast
from lbd.dispatch.core.outlook.lives import Lives, exceeding_s
from lbd.dispatch.core.outlook.novelty import LITTLE_KNOWN, OUTLIVED
from lbd.dispatch.core.outlook.plays import STEPS
from lbd.model import JobId
from lbd.theory.lifetimes import UniformLog, fit_in_two
from lbd.theory.next_run import spread_out
from tests.unit.dispatch.core.test_queues import Table

SHORT = UniformLog(0.2, 0.5)
SHARES = [(n + 0.5) / 100 for n in range(100)]
NEW = Lives((), SHORT, unlike=0.5)


def test_a_job_older_than_all_that_ended_is_as_likely_as_not_to_last_as_long_again():
    for age_s in (0.5, 4.0, 3600.0):
        assert NEW.left_s(0.5, age_s) == pytest.approx(age_s)
        assert Lives((0.3, 0.4), SHORT).left_s(0.5, age_s) == pytest.approx(age_s)


def test_what_is_left_of_a_new_command_rises_with_its_age_before_all_that_ended_are_outlived():
    left_s = [NEW.left_s(0.5, age_s) for age_s in (0.3, 0.4, 0.45, 0.499, 0.5)]
    assert left_s == sorted(left_s)
    known = Lives((), SHORT)  # of the same command, or one of a great many
    assert known.left_s(0.5, 0.499) < 0.001 < 0.4 < left_s[-2]


def test_a_new_command_may_take_much_longer_than_all_that_ended():
    """Once in two times, if all were of one kind; and of these, half twice as long."""
    lives_s = [NEW.left_s(share) for share in SHARES]
    assert lives_s == sorted(lives_s)
    assert sum(life_s > 0.5 for life_s in lives_s) == 50
    assert sum(life_s > 1.0 for life_s in lives_s) == 25
    assert max(Lives((), SHORT).left_s(share) for share in SHARES) <= 0.5


def test_earlier_runs_of_the_command_count_more_than_what_others_took():
    lives = Lives((0.2,) * 9, SHORT, unlike=0.5)
    assert median(lives.left_s(share) for share in SHARES) == 0.2
    assert lives.outliving(0.0) == pytest.approx(0.5 * 0.15 / 9.15)
    assert lives.outliving(0.6) == 1.0


def test_the_last_of_many_runs_may_outlive_them_all():
    """Once in n + 1 times, of the n that are longer than its age; it was said to be sure to end
    with the longest."""
    lives = Lives(tuple(map(float, range(1, 21))), SHORT, unlike=0.05, beyond_s=2.0)
    for age_s, longer in ((0.0, 20), (15.5, 5), (19.5, 1)):
        ends_s = [age_s + lives.left_s(share, age_s) for share in SHARES]
        assert sum(end_s > 20.0 for end_s in ends_s) == pytest.approx(100 / (longer + 1), abs=1)
        much_later = [lives.left_s(share, 60.0) for share in SHARES]
    assert median(much_later) == pytest.approx(60.0, rel=0.05)  # it is like none of them


def test_one_that_outlives_all_runs_of_its_command_is_less_likely_one_of_these_the_older_it_is():
    lives = Lives(tuple(map(float, range(1, 21))), None, beyond_s=2.0)
    likely = exp(-1 / 2.0)  # at an age of 21 s, beside the longest, which may be its twin
    assert lives.left_s(0.99 / (1 + likely), 21.0) == pytest.approx(1.0)
    assert lives.left_s((1 + likely / 2) / (1 + likely), 21.0) == pytest.approx(2.0 * log(2))
    assert exceeding_s(0.75, 2.0) == pytest.approx(2.0 * log(4))
    assert exceeding_s(1.0, 2.0) == math.inf


def test_one_that_outlives_all_runs_of_its_command_is_not_for_that_unlike_all_that_ended():
    lives = Lives(tuple(map(float, range(1, 21))), SHORT, unlike=0.5, beyond_s=2.0)
    assert lives.outliving(0.0) == pytest.approx(0.5 * 0.15 / 21.15)


def test_the_oldest_job_of_a_command_may_outlive_its_few_earlier_runs():
    """After short tasks of other commands it was sure to end with the longest of its own runs, and
    a moment later as likely as not to last as long again: an interval of 27 s became 6 min."""
    like_s, weight = spread_out((4.0, 5.0, 8.0), 0.2)
    lives = Lives(like_s, SHORT, unlike=0.2, weight=weight)
    assert sum(lives.left_s(share, 7.8) > 0.3 for share in SHARES) in range(50, 80)
    assert lives.left_s(0.99, 7.8) > 8.0


def test_long_jobs_beyond_a_gap_have_their_share():
    lives = fit_in_two([1.0 + n / 100 for n in range(75)] + [100.0 + n for n in range(25)])
    assert lives.share_at(50.0) == pytest.approx(0.25)
    assert lives.share_at(500.0) == 0.0
    assert Lives((), lives, unlike=0.5).outliving(50.0) == pytest.approx(0.8)


def another_user_queues_24_after_1000_short_tasks(age_s, ended=1000):
    table = Table()
    for n in range(ended):
        table.queues.resource_times.slots.ended(0.25 + n / 5000, ("ann", "sleep"))
    for n in range(3):
        table.host(f"h{n}", 3)
    for n in range(24):
        table.arrive(f"{n}", user="bob", command=5, command_line=7)
    table.now_s = age_s
    return table, Forecast(table.queues)


@pytest.mark.parametrize("age_s", [0.1, 0.3, 1.5, 12.0])
def test_a_forecast_grows_with_the_age_of_running_jobs_and_is_called_a_guess(age_s):
    table, forecast = another_user_queues_24_after_1000_short_tasks(age_s)
    job = QueuedJob(JobId(""), 1, user="eve")
    for found in (forecast.of(table.queues.registry[JobId("23")], age_s),
                  forecast.of_new(job, age_s)):  # fmt: skip
        assert found.wait_s >= age_s
        assert found.is_rough
        why = OUTLIVED if age_s > 0.5 else LITTLE_KNOWN
        assert found.how.endswith(f"; take it as a rough guess: {why}")
    arriving = Arrivals(forecast).of(job, age_s)
    assert arriving.is_rough
    assert arriving.within_s[0] < arriving.wait_s
    assert arriving.within_s[1] > 1.0  # unlike any job that ended


def test_behind_a_command_that_never_ran_it_is_a_rough_guess_whatever_others_took():
    """One of 1 s among jobs of 10 s: `18s, 6.6s to 1m00s in nine cases out of ten`; it was 1.2 s.
    Of one that takes longer than all, 7 s was said, and it was 75 s."""
    table, _ = another_user_queues_24_after_1000_short_tasks(0.1, ended=0)
    for n in range(200):
        table.queues.resource_times.slots.ended(10.0 + n / 20, ("ann", f"command {n // 10}"))
    found = Forecast(table.queues).of(table.queues.registry[JobId("23")], 0.1)
    assert found.is_rough
    assert found.how.endswith(LITTLE_KNOWN)
    assert found.wait_s > 10.0


def test_the_kinds_of_jobs_that_ended_are_counted_among_the_recent_ones():
    slots = Table().queues.resource_times.slots
    assert slots.unlike_all("new") == 0.5
    slots.ended(1.0, "old")
    for _ in range(999):
        slots.ended(1.0, "array")
    assert slots.unlike_all("new") == pytest.approx(1 / 6)
    assert slots.unlike_all("old") == slots.unlike_all("new")
    assert slots.unlike_all(None) == 0.0
    slots.ended(1.0, "array")  # the thousand recent ones are all of one kind
    assert slots.unlike_all("old") == 0.25


def test_what_is_ahead_is_counted_in_a_prediction_made_at_submission():
    """A wide job came in between, and with it the mean of all jobs says little."""
    table = Table()
    for n in range(40):
        table.queues.resource_times.slots.ended(0.3 + n / 1000)
    for n in range(3):
        table.host(f"h{n}", 3)
    job = QueuedJob(JobId("0"), user="bob", command=5, command_line=7)
    for _ in range(40):
        table.queues.run_times.ended(job, 40.0)
    for n in range(9):
        table.now_s = n * 4.0
        table.arrive(f"{n}", user="bob", command=5, command_line=7)
    forecast, new = Forecast(table.queues), QueuedJob(JobId(""), 1, user="bob")
    arrivals = Arrivals(forecast)
    first = arrivals.of(new, 33.0)
    table.now_s = 33.1
    table.arrive("wide", user="bob", slots=3)
    later = arrivals.of(new, 33.2)
    assert later.wait_s == pytest.approx(forecast.of_new(new, 33.2).wait_s)
    assert first.wait_s < 8.0 < 14.0 < later.within_s[0]


def test_the_jobs_ahead_are_counted_as_in_the_reason_although_the_line_was_played_before():
    table, forecast = another_user_queues_24_after_1000_short_tasks(0.5)
    last = table.queues.registry[JobId("23")]
    assert forecast.of(last, 0.5).how.startswith("14 jobs ahead, 9 slots; ")
    forecast.plays.allowance.took(10 * STEPS, LINES, 0.5)  # no further play is allowed now
    for name in ("0", "1"):
        table.ended(name)
    forecast.places.forget()
    place = forecast.places.of(last, 0.6)
    assert place.jobs == 12
    assert forecast.of(last, 0.6).how.startswith("12 jobs ahead, 9 slots; ")


def test_a_job_older_than_all_others_is_like_the_longer_runs_of_its_command():
    lives = Lives((0.3, 5.0), SHORT)
    assert lives.left_s(0.999, 3.0) == pytest.approx(2.0)
    assert lives.outliving(3.0) == 0.0
    assert lives.outliving(9.0) == 1.0


def test_a_command_line_is_new_until_it_has_run():
    assert Lives((), SHORT, alike="fit").is_new
    assert Lives((1.0,), SHORT, alike="fit", line="fit 9").is_new
    assert not Lives((1.0,), SHORT, alike="fit").is_new
