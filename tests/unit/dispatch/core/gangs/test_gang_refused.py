"""Hosts that refuse a gang, or hold its tasks and do not begin them: it starts without them."""

import pytest

from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.records import Begin, Cause, Changed, Ending, Signal
from lbd.model import REGROUP, JobId, JobState
from tests.unit.dispatch.gangs import H1, H2, H3, Table, of_kind, send

LATER = Ending(Cause.LOST, reason="not now", wait_s=1.0)
LEASE_S, HOLD_S, BEGIN_S = 10.0, 20.0, 60.0


def table_of(**slots):
    table = Table(
        hosts=(), lease_s=LEASE_S, gang_hold_s=HOLD_S, begin_timeout_s=BEGIN_S, host_failures=100,
        crash_limit=100,
    )  # fmt: skip
    for host, count in slots.items():
        table.host(host, count)
    return table


def refuse_all(table, begins, phase="not-yet", of=H3):
    """That host refuses its tasks, and the others call theirs off. Returns what follows."""
    actions = []
    for one in sorted(begins, key=lambda begin: begin.host != of):
        how = (phase, LATER) if one.host == of else ("late",)
        actions += table.refused(one, *how)
    return actions


@pytest.mark.parametrize("phase", ["not-yet", "no-room"])
def test_a_gang_that_a_host_refuses_for_now_starts_on_the_others(phase):
    """It was held for a while, and given to that host again: it started nowhere."""
    table = table_of(h1=1, h3=2)
    begins = send(table, table.gang(2))
    assert {one.host for one in begins} == {H1, H3}
    table.host(H2, 1)
    again = of_kind(Begin, refuse_all(table, begins, phase))
    assert {one.job: one.attempt for one in again} == {"1": 2, "2": 2}
    assert {one.host for one in again} == {H1, H2}


def test_each_time_it_is_kept_from_that_host_for_longer_whatever_that_says():
    table = table_of(h1=1, h3=1)
    begins = send(table, table.gang(2))
    for pause_s in (10.0, 20.0, 40.0, 80.0):
        assert refuse_all(table, begins)[-1:], "it is settled"
        assert not table.life.leased
        said = "needs 2 slots together; the hosts it may use have 1; h3: not now"
        assert table.why(1).startswith(said)
        for number in (1, 2):  # other rules of its owner
            table.life.owner_rules(H3, number, table.now_s)
        table.now_s += pause_s - 0.1
        assert table.life.tick(*table.when) == []
        table.now_s += 0.1
        begins = send(table, table.life.tick(*table.when))
        assert len(begins) == 2


def test_a_host_that_says_when_is_asked_then():
    table = table_of(h1=1, h3=1)
    begins = send(table, table.gang(2))
    for one in sorted(begins, key=lambda begin: begin.host != H3):
        later = Ending(Cause.LOST, reason="from 18:00", wait_s=600.0)
        table.refused(one, *(("not-yet", later) if one.host == H3 else ("late",)))
    table.now_s = 599.0
    assert table.life.tick(*table.when) == []
    table.now_s = 600.0
    assert len(of_kind(Begin, table.life.tick(*table.when))) == 2


def test_once_it_may_go_there_again_it_waits_as_one_and_starts_once():
    table = table_of(h1=1, h3=1)
    begins = send(table, table.gang(2))
    table.gang(2)
    later = of_kind(Begin, refuse_all(table, begins))
    assert {one.job for one in later} == {"3", "4"}
    send(table, later)
    table.now_s = 10.0
    assert table.life.tick(*table.when) == []
    for one in later:
        table.ready(one)
    for one in later:
        table.begun(one)
    actions = [action for one in later for action in table.ended(one)]
    first = send(table, actions)
    assert {one.job for one in first} == {"1", "2"}
    for one in first:
        table.ready(one)
    for one in first:
        table.begun(one)
    actions = [action for one in first for action in table.ended(one)]
    assert of_kind(Begin, actions) == []
    assert not table.life.queues.lines[1].jobs
    assert not table.life.queues.gangs.parked


def hold(table, seconds, *hosts):
    """These hosts say every second what they hold. Returns what comes of that."""
    actions = []
    for _ in range(int(seconds)):
        table.now_s += 1.0
        for host in hosts:
            leases = [(job, live.lease) for job, live in table.life.leased.items()]
            held = [(job, one.attempt) for job, one in leases if one.host == host]
            actions += table.life.heartbeat(host, held, table.now_s)[1]
        follow = table.life.tick(*table.when)
        send(table, follow)
        actions += follow
    return actions


def test_a_host_that_does_not_call_off_its_task_does_not_keep_the_gang():
    """Its task was `starting on h3` for ever, and the others waited for it."""
    table = table_of(h1=1, h2=1, h3=1)
    table.host(H2, 1, load=3.0)
    begins = send(table, table.gang(2))
    assert {one.host for one in begins} == {H1, H3}
    mine = next(one for one in begins if one.host == H1)
    table.ready(mine)
    stops = of_kind(Signal, hold(table, HOLD_S, H1, H3))
    assert {one.stop_reason for one in stops} == {REGROUP}
    table.refused(mine, "late")
    actions = hold(table, 4 * LEASE_S, H1, H2, H3)
    over = next(one for one in of_kind(Changed, actions) if one.job != mine.job)
    said = "h3 did not say that it had called it off; its whole gang starts again"
    assert over.ending.reason == said
    assert {one.host for one in of_kind(Begin, actions)} == {H1, H2}


@pytest.mark.parametrize(
    ("users", "files", "is_fault"),
    [(("ann", "bob"), False, True), (("ann", "ann"), False, False), (("ann", "bob"), True, False)],
)
def test_a_host_that_is_never_ready_is_set_aside_once_two_users_have_seen_it(
    users, files, is_fault
):
    """Each gang anew held its slots on all hosts for a minute, and started without that host. Files
    take as long as their user likes: two users together kept a host from everybody."""
    table = Table(hosts=(H1, H3), slots=1, gang_hold_s=HOLD_S, lease_s=1000.0, host_failures=1)
    for user in users:
        begins = send(table, table.gang(2, user=user))
        for one in begins:
            if files:
                table.life.brings_files(one.job, one.attempt)
            if one.host == H1:
                table.ready(one)
        table.now_s += HOLD_S
        table.life.tick(*table.when)
        for one in begins:
            table.refused(one, "late")
        table.host(H1, 1)
        table.host(H3, 1)
    assert table.life.hosts.aside() == ([H3] if is_fault else [])


def test_a_task_that_was_released_and_never_begins_is_lost_and_all_start_again():
    table = table_of(h1=1, h2=1, h3=1)
    table.host(H2, 1, load=3.0)
    begins = send(table, table.gang(2))
    for one in begins:
        table.ready(one)
    mine = next(one for one in begins if one.host == H1)
    table.begun(mine)
    actions = hold(table, HOLD_S + BEGIN_S + 2 * LEASE_S, H1, H3)
    lost = next(one for one in of_kind(Changed, actions) if one.job != mine.job)
    assert lost.ending.reason == "h3 did not begin it within 80 s; the job begins again"
    killed = Ending(Cause.SIGNALLED, signal=15)
    again = of_kind(Begin, table.ended(mine, killed))
    assert {one.host for one in again} == {H1, H2}


def test_such_a_gang_that_may_not_restart_ends():
    table = table_of(h1=1, h3=1)
    begins = send(table, table.gang(2, may_restart=False))
    for one in begins:
        table.ready(one)
    mine = next(one for one in begins if one.host == H1)
    table.begun(mine)
    hold(table, HOLD_S + BEGIN_S + 2 * LEASE_S, H1, H3)
    (over,) = of_kind(Changed, table.ended(mine, Ending(Cause.SIGNALLED, signal=15)))
    assert over.state is JobState.CANCELLED
    assert not table.life.jobs
    assert hold(table, 2000) == [], "no bar is left of it"


def test_a_gang_that_is_held_by_its_user_is_kept_from_that_host_all_the_same():
    table = table_of(h1=1, h3=1)
    begins = send(table, table.gang(2))
    refuse_all(table, begins)
    table.life.hold(JobId("1"), "held by ann", *table.when)
    assert of_kind(Begin, table.life.release(JobId("1"), *table.when)) == []
    table.life.host_is(HostSlots(H2, 1), *table.when)
    assert {live.lease.host for live in table.life.leased.values()} == {H1, H2}
