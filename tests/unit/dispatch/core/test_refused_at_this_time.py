"""A job whose user a host accepts only at other times, as with `admission.everybody_when`."""

from dataclasses import replace

from lbd.dispatch.core.records import Begin, Cause, Changed, Ending
from lbd.dispatch.core.retry import ASKED_AGAIN_S, Bars
from lbd.model import JobId
from tests.unit.dispatch.core.test_lifecycle import H1, H2, OK, Table

LATER = Ending(Cause.LOST, reason="everybody may from 18:00", wait_s=600.0)


def not_yet(table, begin):
    return table.life.refused(begin.host, begin.job, begin.attempt, "not-yet", LATER, *table.when)


def begins(actions):
    return [action for action in actions if isinstance(action, Begin)]


def test_a_job_that_no_host_accepts_now_waits_for_its_time_and_others_continue():
    table = Table(host_failures=1)
    (begin,) = table.submit("1")
    (again,) = begins(not_yet(table, begin))
    assert again.host != begin.host
    assert begins(not_yet(table, again)) == []
    assert table.life.jobs[JobId("1")].lease is None
    others = [one for name in "23" for one in table.submit(name)]
    assert {one.host for one in others} == {H1, H2}, "it closes no host for them"
    for one in others:
        table.life.begun(one.host, one.job, one.attempt)
        table.ended(one, OK)
    table.now_s = 599.0
    assert begins(table.life.tick(*table.when)) == []
    table.now_s = 600.0
    (begin,) = begins(table.life.tick(*table.when))
    assert (begin.job, begin.attempt) == ("1", 3)


def test_a_job_refused_for_good_on_one_host_waits_for_the_other():
    table = Table()
    (begin,) = table.submit("1")
    (again,) = begins(not_yet(table, begin))
    never = Ending(Cause.LOST, reason="not allowed here")
    table.life.refused(again.host, again.job, again.attempt, "admission", never, *table.when)
    table.now_s = 600.0
    (later,) = begins(table.life.tick(*table.when))
    assert later.host == begin.host


def test_a_job_that_runs_elsewhere_may_return_to_a_host_whose_time_has_come():
    table = Table()
    (begin,) = table.submit("1")
    (again,) = begins(not_yet(table, begin))
    table.life.begun(again.host, again.job, again.attempt)
    table.now_s = 600.0
    table.life.tick(*table.when)
    assert not table.life.jobs[JobId("1")].job.barred
    assert begin.host not in table.life.queues.registry[JobId("1")].job.barred


def test_the_refusal_is_not_recorded_as_permanent():
    """A restarted dispatcher asks the host once more."""
    table = Table()
    (begin,) = table.submit("1")
    recorded = [one for one in not_yet(table, begin) if isinstance(one, Changed)]
    assert [one.barred for one in recorded] == [frozenset()]
    assert table.life.jobs[JobId("1")].job.barred == {begin.host}


def test_the_host_is_asked_again_within_the_hour_as_its_owner_may_change_the_rule():
    table = Table()
    (begin,) = table.submit("1")
    far_off = replace(LATER, wait_s=7 * 86_400.0)
    refused = ("not-yet", far_off, *table.when)
    (again,) = begins(table.life.refused(begin.host, begin.job, begin.attempt, *refused))
    table.life.refused(again.host, again.job, again.attempt, *refused)
    table.now_s = ASKED_AGAIN_S
    assert len(begins(table.life.tick(*table.when))) == 1


def test_bars_that_end_together_are_lifted_by_portions():
    bars = Bars()
    for number in range(7):
        bars.add(JobId(str(number)), H1, 600.0)
    assert bars.over(599.0, 3) == []
    counts = [len(bars.over(600.0, 3)) for _ in range(4)]
    assert counts == [3, 3, 1, 0]
    assert JobId("1") not in bars
