"""A job whose user a host takes at other times only, as `admission.everybody_when` has it."""

from lbd.dispatch.core.records import Begin, Cause, Ending
from lbd.model import JobId
from tests.unit.dispatch.core.test_lifecycle import H1, H2, OK, Table

LATER = Ending(Cause.LOST, reason="everybody may from 18:00", wait_s=600.0)


def not_yet(table, begin):
    return table.life.refused(begin.host, begin.job, begin.attempt, "not-yet", LATER, *table.when)


def begins(actions):
    return [action for action in actions if isinstance(action, Begin)]


def test_a_job_of_whom_no_host_takes_at_this_time_waits_for_that_and_others_go_on():
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


def test_who_is_refused_for_good_on_one_host_waits_for_the_other_one():
    table = Table()
    (begin,) = table.submit("1")
    (again,) = begins(not_yet(table, begin))
    never = Ending(Cause.LOST, reason="not allowed here")
    table.life.refused(again.host, again.job, again.attempt, "admission", never, *table.when)
    table.now_s = 600.0
    (later,) = begins(table.life.tick(*table.when))
    assert later.host == begin.host


def test_what_runs_elsewhere_may_go_back_to_a_host_whose_time_has_come():
    table = Table()
    (begin,) = table.submit("1")
    (again,) = begins(not_yet(table, begin))
    table.life.begun(again.host, again.job, again.attempt)
    table.now_s = 600.0
    table.life.tick(*table.when)
    assert not table.life.jobs[JobId("1")].job.barred
    assert begin.host not in table.life.queues.registry[JobId("1")].job.barred
