"""A host that takes jobs, says that it holds them, and does not begin them."""

import pytest

from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.hosts import FILES_TIMES
from lbd.dispatch.core.records import Begin, Cause, Changed, Ending, Fate, Live
from lbd.dispatch.core.retry import Bars
from lbd.dispatch.core.why_waiting import waiting_reason
from lbd.model import HostId, JobId, JobState
from tests.unit.dispatch.core.test_lifecycle import H1, H2, OK, Table
from tests.unit.dispatch.gangs import of_kind, send

LEASE_S, BEGIN_S = 10.0, 60.0
GIVEN_BACK = Ending(Cause.LOST, reason="no free slot")


def table_of(**slots):
    """`slots`: of each host."""
    table = Table(lease_s=LEASE_S, begin_timeout_s=BEGIN_S, host_failures=3, crash_limit=100)
    for host in (H1, H2):
        table.life.host_gone(host, *table.when)
    for host, count in slots.items():
        table.life.host_is(HostSlots(HostId(host), count), *table.when)
    return table


def sent(table, *names, **more):
    """Submits jobs, whose attempts are sent. Returns them."""
    begins = [one for name in names for one in table.submit(name, **more)]
    send(table, begins)
    return begins


def held_by(table, host):
    leases = [(job, live.lease) for job, live in table.life.leased.items()]
    return [(job, one.attempt) for job, one in leases if one.host == host]


def pass_time(table, seconds, *hosts):
    """Each of these hosts says every second that it holds what it was given. Returns what comes of
    that."""
    actions = []
    for _ in range(int(seconds)):
        table.now_s += 1.0
        for host in hosts:
            held = held_by(table, host)
            actions += table.life.heartbeat(host, held, table.now_s)[1]
        follow = table.life.tick(*table.when)
        send(table, follow)
        actions += follow
    return actions


def begun(table, begin):
    return table.life.begun(begin.host, begin.job, begin.attempt)


WAITED_S = int(LEASE_S * 1.05 + 1.0) + 1


def test_a_job_that_its_host_holds_and_never_begins_begins_elsewhere():
    """It was `starting on h1` for as long as its host liked."""
    table = table_of(h1=1, h2=1)
    (begin,) = sent(table, "1")
    assert pass_time(table, BEGIN_S - 1, begin.host) == []
    lost, again, *kills = pass_time(table, 1 + WAITED_S, begin.host)
    reason = f"{begin.host} did not begin it within 60 s"
    assert (lost.state, lost.fate, lost.reason) == (JobState.PENDING, Fate.LOST, reason)
    assert lost.ending.reason == f"{reason}; the job begins again"
    assert (again.attempt, again.host == begin.host) == (2, False)
    assert not of_kind(Begin, kills)


def test_not_before_its_lease_has_ended_there():
    table = table_of(h1=1, h2=1)
    (begin,) = sent(table, "1")
    renewed_s = 0.0
    for _ in range(1000):
        if of_kind(Begin, table.life.tick(*table.when)):
            break
        renewed, _ = table.life.heartbeat(begin.host, [(begin.job, 1)], table.now_s)
        renewed_s = table.now_s if renewed else renewed_s
        table.now_s += 0.5
    assert renewed_s < BEGIN_S
    assert table.now_s >= renewed_s + table.life.terms.waited_s


def test_one_that_may_have_run_in_part_and_may_not_restart_is_lost():
    table = table_of(h1=1, h2=1)
    (begin,) = sent(table, "1", may_restart=False)
    (lost,) = of_kind(Changed, pass_time(table, BEGIN_S + WAITED_S, begin.host))
    assert lost.state is JobState.LOST
    assert lost.reason.startswith(f"{begin.host} did not begin it within 60 s; it may have run")


def test_its_host_may_say_in_time_that_it_has_not_begun():
    """An honest host calls it off once its lease is over, so it begins elsewhere in any case."""
    table = table_of(h1=1, h2=1)
    (begin,) = sent(table, "1", may_restart=False)
    pass_time(table, BEGIN_S + LEASE_S, begin.host)
    expired = Ending(Cause.LOST, reason="its lease has expired")
    actions = table.life.refused(begin.host, begin.job, 1, "late", expired, *table.when)
    assert actions[0].reason == f"{begin.host}: did not begin it within 60 s"
    (again,) = of_kind(Begin, actions)
    assert again.host != begin.host


def test_one_that_begins_after_all_goes_on():
    table = table_of(h1=1)
    (begin,) = sent(table, "1")
    pass_time(table, BEGIN_S + LEASE_S - 2, H1)
    begun(table, begin)
    assert pass_time(table, 200, H1) == []


def test_one_that_brings_files_along_has_more_time():
    table = table_of(h1=1, h2=1)
    (begin,) = sent(table, "1")
    table.life.brings_files(begin.job, begin.attempt)
    assert pass_time(table, FILES_TIMES * BEGIN_S - 1, begin.host) == []
    (lost,) = of_kind(Changed, pass_time(table, WAITED_S, begin.host))
    assert lost.reason == f"{begin.host} did not begin it within 360 s"


def test_a_later_dispatcher_does_not_wait_for_ever_either():
    """It does not know whether the attempt brings files."""
    table = table_of(h1=1, h2=1)
    table.life.restored(Live(QueuedJob(JobId("1")), 1), (1, H1, 1, False, 1, None), *table.when)
    assert pass_time(table, FILES_TIMES * BEGIN_S - 1, H1) == []
    (again,) = of_kind(Begin, pass_time(table, WAITED_S, H1))
    assert again.host == H2


def test_the_job_does_not_return_to_that_host_for_a_while_and_says_why():
    table = table_of(h1=1)
    (begin,) = sent(table, "1")
    pass_time(table, BEGIN_S + WAITED_S, H1)
    job = table.life.jobs[begin.job]
    said = waiting_reason(table.life, job)
    assert said.startswith("no host takes it now; h1: did not begin it within 60 s")
    table.life.owner_rules(H1, 1, table.now_s)
    table.life.owner_rules(H1, 2, table.now_s)  # other rules of its owner change nothing
    assert not of_kind(Begin, pass_time(table, BEGIN_S, H1))
    assert len(of_kind(Begin, pass_time(table, 2 * LEASE_S, H1))) == 1


def jobs_of(*users):
    """A host that has taken a job of each of these users, and has begun none in time."""
    table = table_of(h1=len(users))
    jobs = [QueuedJob(JobId(str(n)), user=user) for n, user in enumerate(users, 1)]
    send(table, table.life.submitted(jobs, *table.when))
    pass_time(table, BEGIN_S + WAITED_S, H1)
    return table


def test_who_begins_no_jobs_of_several_users_is_set_aside():
    """A host that said that it had many slots was given nearly all that waited: 28 of 30."""
    table = jobs_of("ann", "bob", "ann", "bob", "ann")
    assert table.life.hosts.aside() == [H1]


def test_what_one_user_has_arranged_is_not_held_against_the_host():
    """Whose directory does not answer could have kept any host from everybody's jobs."""
    table = jobs_of(*["ann"] * 9)
    assert table.life.hosts.aside() == []
    assert len(send(table, table.life.submitted([QueuedJob(JobId("20"))], *table.when))) == 1


def test_who_has_begun_one_since_begins_anew():
    table = jobs_of("ann")
    (begin,) = sent(table, "20", user="ann")
    begun(table, begin)
    send(table, table.life.ended(H1, begin.job, begin.attempt, OK, *table.when))
    assert table.life.hosts.of(H1).record.in_vain.of == {}


@pytest.mark.parametrize("phase", ["slot", "late", "not-yet", "stage"])
def test_what_a_host_gives_back_late_is_not_held_against_it(phase):
    """A user's files can take long, and then lack room: the host was kept from all jobs."""
    table = table_of(h1=2)
    (begin,) = sent(table, "1")
    pass_time(table, BEGIN_S - 1, H1)
    table.life.refused(H1, begin.job, 1, phase, GIVEN_BACK, *table.when)
    table.life.host_is(HostSlots(H1, 2), *table.when)
    assert sent(table, "2"), "another job"
    assert table.life.hosts.of(H1).record.in_vain.of == {}


def test_a_dispatcher_that_stood_still_gives_a_host_its_time():
    table = table_of(h1=1)
    sent(table, "1")
    table.now_s += BEGIN_S
    assert table.life.stood_still(BEGIN_S)
    assert pass_time(table, BEGIN_S - 1, H1) == []


def test_one_that_its_user_ends_meanwhile_is_cancelled():
    table = table_of(h1=1)
    (begin,) = sent(table, "1")
    pass_time(table, BEGIN_S - 5, H1)
    table.life.kill(begin.job, 0, *table.when, of="ann")
    (over,) = of_kind(Changed, pass_time(table, 5 + WAITED_S, H1))
    assert (over.state, over.fate) == (JobState.CANCELLED, Fate.CANCELLED)
    assert not table.life.jobs
    assert pass_time(table, 2 * BEGIN_S) == [], "nothing is left of it"


def test_a_bar_may_have_an_end_before_which_nothing_lifts_it():
    bars = Bars()
    bars.add(JobId("1"), H1, 600.0, 100.0)
    bars.no_later(H1, 10.0)
    assert bars.over(99.0, 10) == []
    assert bars.over(100.0, 10) == [(JobId("1"), frozenset({H1}))]
