"""No host has a job held, or goes on losing jobs, by losing whatever it is given; but what crashes
its hosts is held."""

import pytest

from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.records import Cause, Ending
from lbd.model import JobId
from tests.unit.dispatch.gangs import H1, H2, H3, LATE, LOST, OK, Begin, Table, of_kind, send

BAD = H3


def losing(table, actions, seconds, losers=(BAD,)):
    """Those hosts lose whatever they are given, for so long. Returns when which had started."""
    started = []
    for step in range(int(seconds)):
        todo = send(table, actions)
        for one in todo:  # also grows
            started.append((step, one.host))
            table.begun(one)
            if one.host in losers:
                todo += send(table, table.ended(one, LOST))
        table.now_s += 1.0
        actions = table.life.tick(*table.when)
    return started


def test_a_host_that_loses_a_job_gets_it_twice_and_then_others_run_it():
    """It lost it five times within a second: the job was held."""
    table = Table(slots=1, host_failures=100)
    busy = [table.submit(only=host) for host in (H1, H2)]
    assert losing(table, table.submit(), 1000) == [(0, BAD), (10, BAD)]
    live = table.life.jobs[JobId("3")]
    assert (live.crashes, live.held) == (2, "")
    assert table.why(3) == "next, as soon as a slot is free on h1, h2; h3: lost it; gone"
    (again,) = of_kind(Begin, table.ended(busy[0][0]))
    assert (again.job, again.host) == ("3", H1)


def test_it_gets_it_again_after_an_hour():
    table = Table(slots=1, host_failures=100)
    for host in (H1, H2):
        table.submit(only=host)
    assert losing(table, table.submit(), 3700) == [(0, BAD), (10, BAD), (3610, BAD)]


@pytest.mark.parametrize(("limit", "times"), [(1, [0]), (2, [0])])
def test_a_low_limit_is_not_reached_by_one_host_alone(limit, times):
    table = Table(slots=1, host_failures=100, crash_limit=limit)
    for host in (H1, H2):
        table.submit(only=host)
    started = losing(table, table.submit(), 1000)
    assert [step for step, _ in started] == times
    assert bool(table.life.jobs[JobId("3")].held) is (limit == 1)


@pytest.mark.parametrize("hosts", [(H1,), (H1, H2), (H1, H2, H3)])
def test_a_job_that_crashes_its_hosts_is_held_within_a_minute(hosts):
    table = Table(hosts=hosts, slots=1, host_failures=100)
    started = losing(table, table.submit(), 60, losers=hosts)
    assert len(started) == 5
    assert table.life.jobs[JobId("1")].held == "held: its attempts were lost 5 times (gone)"
    for host in hosts:
        assert sum(at == host for _, at in started) <= max(2, 5 - 2 * (len(hosts) - 1))


@pytest.mark.parametrize("more", [{"only": BAD}, {"slots": 2}])
def test_a_job_that_no_other_host_can_run_begins_again_at_once_until_it_is_held(more):
    table = Table(hosts=(H1, H2), slots=1, host_failures=100)
    table.host(BAD, 2)
    assert losing(table, table.submit(**more), 2) == [(0, BAD)] * 5


def test_hosts_that_take_no_jobs_are_not_waited_for():
    table = Table(slots=1, host_failures=100)
    for host in (H1, H2):
        table.life.host_gone(host, *table.when)
    assert losing(table, table.submit(), 2) == [(0, BAD)] * 5


def test_once_released_it_counts_from_the_beginning():
    table = Table(slots=1, host_failures=100, crash_limit=3)
    losing(table, table.submit(), 60, losers=(H1, H2, H3))
    table.life.hosts_removed([H2, H3], *table.when)
    live = table.life.jobs[JobId("1")]
    assert (live.crashes, bool(live.held)) == (3, True)
    table.life.release(JobId("1"), *table.when)
    assert (live.crashes, live.lost_on) == (0, ())


def test_a_gang_is_kept_from_a_host_that_lost_its_task():
    table = Table(slots=1, host_failures=100)
    table.host(H2, 1, load=3.0)
    begins = table.running(2)
    assert {one.host for one in begins} == {H1, BAD}
    bad, other = sorted(begins, key=lambda one: one.host != BAD)
    table.ended(bad, LOST)
    again = of_kind(Begin, table.ended(other, Ending(Cause.SIGNALLED, signal=15)))
    assert {one.host for one in again} == {H1, H2}


def test_so_it_is_if_it_lost_it_before_all_were_ready():
    """That counted for nothing, so it went on without end."""
    table = Table(hosts=(H1, BAD), slots=1, host_failures=100)
    begins = table.gang(2)
    for pause_s in (10.0, 20.0, 40.0):
        bad, other = sorted(begins, key=lambda one: one.host != BAD)
        table.ended(bad, LOST)
        assert of_kind(Begin, table.refused(other, "late")) == []
        table.now_s += pause_s - 0.1
        assert of_kind(Begin, table.life.tick(*table.when)) == []
        table.now_s += 0.1
        begins = of_kind(Begin, table.life.tick(*table.when))


# The host itself


class Launderer:
    """H3, with many slots: it loses all attempts but those of its helper, which end well just after
    each."""

    def __init__(self, helper):
        self.table = Table(hosts=(H1, H2), slots=1)
        for host in (H1, H2):
            self.submit("root", only=host)
        self.lost, self.kept = 0, []
        self.helper = helper
        self.table.host(BAD, 64)

    def submit(self, user, origin="h1", **more):
        self.table.made += 1
        job = QueuedJob(JobId(str(self.table.made)), user=user, origin=origin, **more)
        return self.table.life.submitted([job], *self.table.when)

    def runs(self, actions):
        todo = send(self.table, actions)
        for one in todo:  # also grows
            if one.host != BAD:
                continue
            self.table.begun(one)
            if self.table.life.jobs[one.job].job.user == self.helper[0]:
                self.kept.append(one)
                continue
            self.lost += 1
            todo += send(self.table, self.table.ended(one, LOST))
            if self.kept:
                todo += send(self.table, self.table.ended(self.kept.pop(), OK))


@pytest.mark.parametrize("helper", [("eve", "h3"), ("eve", "h1")])
def test_a_host_does_not_make_up_for_what_it_loses_by_jobs_of_its_own_or_of_one_user(helper):
    """All jobs of others were held after some seconds, and it was never set aside."""
    bad = Launderer(helper)
    for _ in range(60):
        bad.runs(bad.submit(*helper))
    for number in range(40):
        bad.runs(bad.submit("ann" if number % 2 else "bob"))
    was_aside = False
    for _ in range(60):
        bad.table.now_s += 1.0
        bad.runs(bad.table.life.tick(*bad.table.when))
        was_aside |= bad.table.life.hosts.aside() == [BAD]
    assert was_aside
    assert bad.lost < 7
    assert not any(live.held for live in bad.table.life.jobs.values())


def test_nor_for_what_it_refuses_by_beginning_those():
    table = Table(hosts=())
    sent = 0
    for number in range(200):
        table.now_s += 0.1
        table.life.heartbeat(BAD, [], table.now_s)
        actions = table.host(BAD, 2)
        if number == 0:
            jobs = [QueuedJob(JobId("1"), user="ann", origin="h1")]
            actions += table.life.submitted(jobs, *table.when)
        own = QueuedJob(JobId(str(number + 2)), user="eve", origin="h3")
        actions += table.life.submitted([own], *table.when)
        todo = of_kind(Begin, actions)
        for one in todo:  # also grows
            if one.job == "1":
                sent += 1
                todo += of_kind(Begin, table.refused(one, "slot", LATE))
            else:
                table.begun(one)
                todo += of_kind(Begin, table.ended(one))
    assert sent < 50, "at most two for each heartbeat"
    assert table.life.hosts.aside() == [BAD]


def test_one_user_whose_jobs_are_lost_does_not_take_a_host_from_those_whom_it_serves_well():
    table = Table(hosts=(H1,), slots=4)
    for number in range(30):
        who = ("mallory", "ann", "bob")[number % 3]
        job = QueuedJob(JobId(str(number)), may_restart=False, user=who, origin="h2")
        (begin,) = of_kind(Begin, table.life.submitted([job], *table.when))
        table.begun(begin)
        table.ended(begin, LOST if who == "mallory" else OK)
        table.life.host_is(HostSlots(H1, 4), *table.when)
        assert table.life.hosts.aside() == []
