"""A job whose user a host accepts only at other times, as with `admission.everybody_when`."""

from dataclasses import replace

from lbd.dispatch.core.hosts import HostSlots
from lbd.dispatch.core.records import Begin, Cause, Changed, Ending
from lbd.dispatch.core.retry import ASKED_AGAIN_S, Bars, Moments
from lbd.dispatch.core.why_waiting import waiting_reason
from lbd.model import HostId, JobId
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


def refused_for_now_and_for_good():
    """A job that one host takes at another time, and the other one never. Returns both starts,
    too."""
    table = Table()
    (begin,) = table.submit("1")
    (again,) = begins(not_yet(table, begin))
    never = Ending(Cause.LOST, reason="not allowed here")
    table.life.refused(again.host, again.job, again.attempt, "admission", never, *table.when)
    return table, begin, again


def test_a_job_refused_for_good_on_one_host_waits_for_the_other():
    table, begin, _ = refused_for_now_and_for_good()
    table.now_s = 600.0
    (later,) = begins(table.life.tick(*table.when))
    assert later.host == begin.host


def test_it_says_until_when_it_waits_whatever_another_host_refuses_later():
    """Only what the last host said was shown, and all hosts were said to be excluded."""
    table, job = Table(), JobId("1")
    h3 = HostId("h3")
    table.life.host_is(HostSlots(h3, 1), *table.when)
    (begin,) = table.submit("1", barred=frozenset({h3}))
    (again,) = begins(not_yet(table, begin))
    never = Ending(Cause.LOST, reason="not allowed here")
    refused = table.life.refused(
        again.host, again.job, again.attempt, "admission", never, *table.when
    )
    assert [one.reason for one in refused if isinstance(one, Changed)] == [
        f"{again.host}: not allowed here"
    ]
    assert waiting_reason(table.life, table.life.jobs[job]) == (
        f"no host takes it now; {begin.host}: everybody may from 18:00; "
        f"{again.host}: not allowed here; h3: excluded (-x)"
    )
    table.now_s = 600.0
    table.life.tick(*table.when)
    assert table.life.jobs[job].reason == ""


def test_a_host_that_refuses_again_and_again_does_not_hide_what_another_said():
    table, _, again = refused_for_now_and_for_good()
    for hour in range(1, 6):
        table.now_s = hour * 600.0
        (later,) = begins(table.life.tick(*table.when))
        not_yet(table, later)
        said = waiting_reason(table.life, table.life.jobs[JobId("1")])
        assert f"{again.host}: not allowed here" in said
        assert said.count("everybody may from 18:00") == 1


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


def test_a_host_whose_rules_have_changed_is_asked_again_soon():
    table = Table()
    life = table.life
    life.owner_rules(H1, 7, 0.0)
    life.owner_rules(H2, 7, 0.0)
    (begin,) = table.submit("1")
    (again,) = begins(not_yet(table, begin))
    not_yet(table, again)
    life.owner_rules(again.host, 7, 100.0)  # the same rules
    table.now_s = 200.0
    assert begins(life.tick(*table.when)) == []
    life.owner_rules(again.host, 8, 200.0)
    assert begins(life.tick(*table.when)) == []
    table.now_s = 200.0 + life.terms.aside_s
    (later,) = begins(life.tick(*table.when))
    assert later.host == again.host


def test_a_change_of_rules_delays_nothing_and_the_first_number_is_no_change():
    table = Table()
    (begin,) = table.submit("1")
    (again,) = begins(not_yet(table, begin))
    not_yet(table, again)
    for at_s, number in ((100.0, 7), (595.0, 8)):
        table.life.owner_rules(begin.host, number, at_s)
    table.now_s = 599.0
    assert begins(table.life.tick(*table.when)) == []
    table.now_s = 600.0
    assert [one.host for one in begins(table.life.tick(*table.when))] == [begin.host]


def test_a_released_job_still_says_why_it_waits_for_its_time():
    table, job = Table(), JobId("1")
    (begin,) = table.submit("1")
    (again,) = begins(not_yet(table, begin))
    not_yet(table, again)
    reason = table.life.jobs[job].reason
    assert "everybody may from 18:00" in reason
    table.life.hold(job, "held by ann", *table.when)
    table.life.release(job, *table.when)
    assert table.life.jobs[job].reason == reason
    table.now_s = 600.0
    table.life.tick(*table.when)
    assert table.life.jobs[job].reason == ""


def test_bars_that_end_together_are_lifted_by_portions():
    bars = Bars()
    for number in range(7):
        bars.add(JobId(str(number)), H1, 600.0)
    assert bars.over(599.0, 3) == []
    counts = [len(bars.over(600.0, 3)) for _ in range(4)]
    assert counts == [3, 3, 1, 0]
    assert JobId("1") not in bars


def test_new_rules_of_a_host_look_at_its_own_bars_and_at_each_once(monkeypatch):
    """All bars were looked at: with 100,000 jobs each of a thousand hosts took 6 ms, as often as it
    said that its rules had changed."""
    bars, looks, no_later = Bars(), [], Moments.no_later
    monkeypatch.setattr(Moments, "no_later", lambda *given: looks.append(1) or no_later(*given))
    for number in range(100):
        bars.add(JobId(str(number)), HostId(f"h{number % 10}"), 600.0)
    bars.add(JobId("1"), H2, 600.0)
    for now_s in (0.0, 1.0, 2.0):
        bars.no_later(H1, now_s + 10.0)
    assert len(looks) == 10
    assert [job for job, _ in bars.over(10.0, 100)] == [JobId(str(n)) for n in range(1, 100, 10)]
    bars.add(JobId("1"), H1, 600.0)  # refused once more
    bars.no_later(H1, 20.0)
    assert bars.over(20.0, 100) == [(JobId("1"), frozenset({H1}))]
    bars.drop(JobId("1"))
    assert len(bars.over(600.0, 1000)) == 90


def test_dropped_bars_leave_nothing_behind():
    bars = Bars()
    bars.add(JobId("1"), H1, 600.0)
    bars.add(JobId("2"), H1, 600.0)
    bars.drop(JobId("1"))
    bars.over(600.0, 10)
    assert not any(vars(bars)[name] for name in ("_hosts", "_jobs"))
