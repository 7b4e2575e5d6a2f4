"""Jobs whose files are unavailable: held for a while, tried again, and what users do meanwhile."""

from lbd.dispatch.core.records import Begin, Cause, Ending, Fate, Settle
from lbd.dispatch.core.retry import Pauses
from lbd.model import JobId, JobState
from tests.unit.dispatch.core.test_lifecycle import Table


def test_a_job_whose_files_are_away_is_held_and_retried_at_growing_intervals():
    table = Table(aside_s=10.0, aside_max_s=30.0)
    (begin,) = table.submit("1")
    away = Ending(Cause.LOST, reason="its files: h9 cannot be asked")
    for number, pause_s in enumerate((10.0, 20.0, 30.0, 30.0), 1):
        held, settle = table.life.refused(begin.host, "1", number, "files", away, *table.when)
        assert (held.state, held.fate, held.crashes) == (JobState.PENDING, Fate.REFUSED, 0)
        assert held.reason.startswith("held for a while: h")
        assert settle == Settle(JobId("1"), number, begin.host)
        table.now_s += pause_s - 1
        assert table.life.tick(*table.when) == []
        table.now_s += 1
        back, begin = table.life.tick(*table.when)
        assert (back.state, begin.attempt) == (JobState.PENDING, number + 1)
    assert not table.life.hosts.aside()  # these hosts are not at fault


def test_a_temporarily_held_job_may_be_held_for_good_or_leave():
    table = Table(aside_s=10.0)
    away = Ending(Cause.LOST, reason="its files: h9 cannot be asked")
    for name in ("1", "2"):
        (begin,) = table.submit(name)
        table.life.refused(begin.host, begin.job, 1, "files", away, *table.when)
    (gone,) = table.life.kill(JobId("1"), 0, *table.when)
    assert gone.state is JobState.CANCELLED
    assert isinstance(table.life.release(JobId("2"), *table.when)[-1], Begin)
    table.now_s = 10.0
    assert table.life.tick(*table.when) == []


def test_a_job_that_a_user_holds_during_a_pause_stays_held_after_it():
    table = Table(aside_s=10.0)
    (begin,) = table.submit("1")
    away = Ending(Cause.LOST, reason="its files: h9 cannot be asked")
    table.life.refused(begin.host, begin.job, 1, "files", away, *table.when)
    (held,) = table.life.hold(begin.job, "held by ann", *table.when)
    assert (held.state, held.reason) == (JobState.PENDING, "held by ann")
    table.now_s = 10.0
    assert table.life.tick(*table.when) == []
    assert isinstance(table.life.release(begin.job, *table.when)[-1], Begin)


def test_pauses_of_jobs_that_have_ended_are_forgotten():
    table = Table(aside_s=10.0)
    jobs, pauses = {}, Pauses()
    for name in ("1", "2", "3"):
        table.submit(name)
        jobs[JobId(name)] = live = table.life.jobs[JobId(name)]
        live.held = pauses.begin(live, table.life.terms, 0.0)
    del jobs[JobId("1")]
    assert pauses.over(jobs, 10.0) == ["2", "3"]
    del jobs[JobId("2")]
    assert pauses.over(jobs, 11.0) == []
    assert list(pauses._counts) == ["3"]


def test_a_pause_until_a_given_time_does_not_lengthen_later_ones():
    table = Table(aside_s=10.0)
    table.submit("1")
    live, pauses = table.life.jobs[JobId("1")], Pauses()
    live.held = pauses.until(live, 5.0)
    jobs = {JobId("1"): live}
    assert (pauses.over(jobs, 4.9), pauses.over(jobs, 5.0)) == ([], ["1"])
    live.held = pauses.begin(live, table.life.terms, 20.0)
    assert (pauses.over(jobs, 29.9), pauses.over(jobs, 30.0)) == ([], ["1"])
