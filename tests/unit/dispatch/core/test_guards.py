"""Small guards of the dispatcher's promises, each of which was once untested."""

import math
from dataclasses import replace

import pytest

from lbd.dispatch.core.backfill.reservation import Backfill
from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.hosts import HostTable, Terms
from lbd.dispatch.core.lifecycle import KILLED_AT_ONCE
from lbd.dispatch.core.records import Begin, Cause, Changed, Ending, Fate, Live, Settle, Signal
from lbd.errors import LbdError
from lbd.lbm.core.leases import Leases
from lbd.model import CANCEL, REQUEUE, Closed, HostId, JobId, JobState
from tests.unit.dispatch.core.test_lifecycle import H1, H2, OK, Table
from tests.unit.dispatch.core.test_queues import Table as Queue

KILL = 9
LOST = Ending(Cause.LOST, reason="gone")
FAILED = Ending(Cause.EXITED, 1, reason="failed")


# Leases: a host has let go before the dispatcher counts its attempt as gone


@pytest.mark.parametrize("lease_s", [1.0, 30.0, 86400.0])
@pytest.mark.parametrize("pace", [1.0, 0.96])
def test_a_host_with_a_slow_clock_has_killed_before_the_dispatcher_starts_another(lease_s, pace):
    """Its clock may be slow by four percent, and a kill takes it most of a second."""
    kill_s, terms, leases = 0.9, Terms(lease_s=lease_s), Leases()
    key = JobId("1"), 1
    assert leases.take(key, leases.heartbeat(0.0), lease_s, 0.0)
    assert leases.until_s[key] <= lease_s
    dead_s = lease_s / pace + kill_s  # on the dispatcher's clock, if the heartbeat came at once
    assert terms.waited_s > dead_s


def test_a_renewed_lease_lasts_the_margin_longer_here_than_there():
    table = Table(lease_s=10.0)
    begin = table.begin("1")
    table.now_s = 5.0
    renewed, _ = table.life.heartbeat(begin.host, [(begin.job, 1)], table.now_s)
    assert renewed == [(begin.job, 1)]
    table.now_s = 5.0 + table.life.terms.waited_s - 0.01
    assert table.life.tick(*table.when) == []
    table.now_s += 0.02
    assert any(isinstance(action, Begin) for action in table.life.tick(*table.when))


def test_an_attempt_of_the_previous_dispatcher_may_live_for_a_whole_lease_and_the_margin():
    """Its host may have renewed the lease just before that dispatcher ended."""
    table = Table(lease_s=10.0)
    table.life.restored(Live(QueuedJob(JobId("1")), 1), (1, H1, 1, True, 1, None), *table.when)
    table.now_s = table.life.terms.waited_s - 0.01
    assert table.life.tick(*table.when) == []
    table.now_s += 0.02
    assert any(isinstance(action, Begin) for action in table.life.tick(*table.when))


RESTORED = Live(QueuedJob(JobId("1")), 1), (1, H1, 1, True, 1, None)
HELD = JobId("1"), 1


def until_s(table):
    return table.life.leased[JobId("1")].lease.until_s


def restored(**terms):
    table = Table(lease_s=10.0, **terms)
    live, leased = RESTORED
    table.life.restored(replace(live), leased, *table.when)
    return table


def test_a_dispatcher_with_a_shorter_lease_waits_for_the_one_that_was_granted():
    """lease_s was lowered: two attempts of a job ran for minutes."""
    table = restored(inherited_s=900.0)
    assert until_s(table) == 900.0 + 1.0 + 45.0
    assert table.life.has_longer_leases(table.now_s)
    assert until_s(restored(inherited_s=5.0)) == table.life.terms.waited_s


def test_what_a_host_says_is_left_counts():
    """It reads nothing more of earlier connections, so besides that it can only have ours."""
    table = restored(inherited_s=900.0)
    table.life.heartbeat(H1, [HELD], 2.0, {HELD: 400.0})
    assert until_s(table) == 2.0 + 400.0 + 1.0 + 20.0
    table.life.heartbeat(H1, [HELD], 4.0, {HELD: 3.0})
    assert until_s(table) == 4.0 + table.life.terms.waited_s
    assert not table.life.has_longer_leases(4.0)


def test_no_host_holds_a_job_for_longer_by_what_it_says():
    table = restored(inherited_s=0.0)
    before_s = until_s(table)
    table.life.heartbeat(H1, [HELD], 2.0, {HELD: 86400.0})
    assert until_s(table) == max(before_s, 2.0 + table.life.terms.waited_s)


def test_a_host_that_does_not_say_it_is_believed_to_have_what_was_granted():
    """The attempt has ended there."""
    table = restored(inherited_s=900.0)
    before_s = until_s(table)
    for left_s in ({}, {HELD: 0.0}):
        assert table.life.heartbeat(H1, [HELD], 2.0, left_s)[0] == [HELD]
        assert until_s(table) == before_s
    table.life.heartbeat(H1, [HELD], 940.0)
    assert until_s(table) == 940.0 + table.life.terms.waited_s


def test_what_a_host_reports_of_an_attempt_does_not_apply_to_the_next():
    table = Table(lease_s=10.0)
    table.life.host_gone(H2, *table.when)
    begin = table.begin("1")
    table.now_s = table.life.terms.waited_s
    again = next(one for one in table.life.tick(*table.when) if isinstance(one, Begin))
    assert (again.host, again.attempt) == (H1, 2)
    assert table.ended(begin, OK) == [Settle(begin.job, 1, H1)]
    held = table.life.heartbeat(H1, [(begin.job, 1)], table.now_s)
    assert held == ([], [Signal(begin.job, 1, H1, KILL)])
    assert table.life.jobs[begin.job].lease.attempt == 2


# Hosts that fail


def test_a_host_that_succeeds_in_between_is_not_set_aside():
    book = HostTable(Terms(host_failures=2, aside_s=10.0))
    book.heard(HostSlots(H1))
    job = QueuedJob(JobId("1"), user="ann")
    assert not book.failed(H1, job, 0.0)
    book.worked(H1, job)
    assert not book.failed(H1, job, 1.0)
    assert book.failed(H1, job, 2.0)
    assert book.known[H1].record.aside_until_s == 12.0


def test_only_a_successful_attempt_clears_its_host():
    table = Table(host_failures=2, crash_limit=100)
    table.life.host_gone(H2, *table.when)
    for number, ending in enumerate((LOST, OK, LOST, OK, LOST)):
        table.begin(str(number), may_restart=False)
        table.life.ended(H1, JobId(str(number)), 1, ending, *table.when)
    assert table.life.hosts.aside() == []
    table.begin("9", may_restart=False)
    table.life.ended(H1, JobId("9"), 1, LOST, *table.when)
    assert table.life.hosts.aside() == [H1]


def test_the_orderly_stop_of_a_host_counts_as_no_crash_and_no_failure():
    """Otherwise five planned reboots would hold a long job."""
    table = Table(crash_limit=1, host_failures=1)
    begin = table.begin("1")
    table.life.host_gone(begin.host, *table.when, Closed.STOPPING)
    changed, again, _ = table.ended(begin, Ending(Cause.LOST, reason=f"{begin.host} was stopped"))
    assert (changed.state, changed.fate, changed.crashes) == (JobState.PENDING, Fate.LOST, 0)
    assert again.host != begin.host
    assert table.life.hosts.aside() == []
    held, *_ = table.ended(again, Ending(Cause.LOST, reason="its keeper was killed"))
    assert (held.state, held.crashes) == (JobState.PENDING, 1)
    assert held.reason.startswith("held: "), "a real crash counts"
    assert table.life.hosts.aside() == [again.host]


def test_a_request_that_nobody_can_run_is_no_hosts_fault():
    """A host could set all others aside by submitting such requests."""
    table = Table(host_failures=1)
    (begin,) = table.submit("1")
    ending = Ending(Cause.LOST, reason="its stored request cannot be run: argv")
    (again,) = [
        action
        for action in table.life.refused(begin.host, begin.job, 1, "request", ending, *table.when)
        if isinstance(action, Begin)
    ]
    table.life.refused(again.host, again.job, 2, "request", ending, *table.when)
    assert table.life.hosts.aside() == []


# What users and hosts may request


def held_table():
    table = Table()
    for name in ("1", "2"):
        table.begin(name)
    assert table.submit("3") == []
    return table


def test_the_first_to_hold_a_job_is_named_as_its_holder():
    table = held_table()
    (held,) = table.life.hold(JobId("3"), "held by ann", *table.when)
    assert (held.state, held.reason) == (JobState.PENDING, "held by ann")
    assert table.life.hold(JobId("3"), "held by bob", *table.when) == []
    assert table.life.jobs[JobId("3")].held == "held by ann"


def test_a_job_that_may_not_restart_is_not_queued_again():
    table = Table()
    begin = table.begin("1", may_restart=False)
    with pytest.raises(LbdError, match="--no-restart"):
        table.life.requeue(begin.job)
    actions = table.ended(begin, Ending(Cause.EXITED, 1, stop_reason=REQUEUE))
    assert not any(isinstance(action, Begin) for action in actions)
    assert [action.state for action in actions if isinstance(action, Changed)] == [JobState.FAILED]


@pytest.mark.parametrize("refused", [False, True])
def test_a_host_repeats_the_stop_reason_that_the_previous_dispatcher_sent(refused):
    """Its user was told that the job is cancelled."""
    table = Table()
    begin = table.begin("1")
    ending = Ending(Cause.SIGNALLED, 143, 15, stop_reason=CANCEL)
    if refused:
        ended = table.life.refused(begin.host, begin.job, 1, "late", ending, *table.when)
    else:
        ended = table.ended(begin, ending)
    assert [a.state for a in ended if isinstance(a, Changed)] == [JobState.CANCELLED]
    assert not table.life.jobs


# Queues


def test_a_job_waits_rather_than_go_where_it_cannot_start():
    queue = Queue()
    queue.host("h1")
    assert queue.host("h2") == []
    assert queue.arrive("a") != []
    free = "h1" if queue.queues.servers_by_host["h2"].running else "h2"
    assert queue.arrive("b", barred=frozenset({HostId(free)})) == []
    assert queue.arrive("c", only=HostId("h1" if free == "h2" else "h2")) == []
    assert [row.split("@")[1] for row in queue.ended("a")] == ["h1" if free == "h2" else "h2"]


@pytest.mark.parametrize("most", [2, 8])
def test_a_job_that_can_use_more_slots_goes_where_it_gets_the_most(most):
    queue = Queue()
    queue.host("h1", 1)
    queue.host("h2", 8, load=1.0)
    assert queue.arrive("wide", slots=1, slots_most=most) == ["wide@h2"]


def test_a_started_job_counts_as_load_until_the_load_is_reported_again():
    queue = Queue()
    queue.host("h1", 4, load=0.0)
    queue.host("h2", 4, load=0.4)
    assert [queue.arrive(name) for name in "ab"] == [["a@h1"], ["b@h1"]]
    assert queue.arrive("c") == ["c@h2"]
    queue.host("h1", 4, load=0.6)
    assert queue.arrive("d") == ["d@h1"]


def test_the_lifetime_of_a_wide_job_counts_for_each_of_its_slots():
    queue = Queue()
    queue.host("h1", 4)
    queue.arrive("a", slots=3)
    queue.now_s = 10.0
    queue.ended("a")
    assert list(queue.queues.slot_times.recent_s) == [30.0]


def test_a_wide_job_works_on_all_its_slots_at_once():
    queue = Queue("least-work")
    queue.host("h1", 2)
    queue.arrive("wide", slots=2, estimate_s=100.0)
    server = queue.queues.servers_by_host[HostId("h1")]
    assert [server.work_left_s(now_s) for now_s in (0.0, 40.0, 100.0)] == [100.0, 60.0, 0.0]


def test_nothing_is_kept_of_a_departed_host_once_its_last_job_has_ended():
    queue = Queue()
    queue.host("h1")
    queue.arrive("a")
    queue.host("h2")
    queue.gone("h2")
    queue.gone("h1")
    assert queue.queues.servers_by_host.keys() == {"h1"}
    queue.ended("a")
    assert not queue.queues.servers_by_host


def test_no_lines_are_kept_of_hosts_that_come_and_go():
    queue = Queue("shortest-queue")
    queue.host("h0")
    for number in range(1, 40):
        queue.host(f"h{number}")
        queue.arrive(f"{number}", only=HostId(f"h{number}"))
        queue.arrive(f"{number + 100}")
        queue.gone(f"h{number}")
        queue.ended(f"{number}")
    assert len(queue.queues.lines) <= 2


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_a_waiting_job_starts_once_a_host_may_be_given_jobs_ahead(ahead):
    queue = Queue()
    queue.host("h1", 1)
    queue.arrive("a0", array=7)
    assert queue.ended("a0") == []
    queue.arrive("a1", array=7)
    for n in range(2, 5):
        assert queue.arrive(f"a{n}", array=7) == []
    expected = [f"a{n}@h1" for n in range(2, 2 + ahead)]
    assert queue.host("h1", 1, ahead=ahead) == expected


@pytest.mark.parametrize("lines", [1, 2])
def test_once_no_wide_job_waits_no_search_is_made_for_slots_reserved_for_one(lines):
    """All lines used to be searched at each event for ever."""
    queue = Queue("tags")
    for number in range(lines):
        queue.host(f"h{number + 1}", 2, tiers=(number + 1,))
    queue.arrive("a")
    assert queue.arrive("wide", slots=2) == []
    assert queue.queues._kept_for_wide
    assert queue.ended("a") == ["wide@h1"]
    assert not queue.queues._kept_for_wide


def test_jobs_that_are_cancelled_as_they_begin_set_no_host_aside():
    """A user can cause that with a large environment and an `lbrun -q` that exits at once."""
    table = Table(host_failures=1)
    (begin,) = table.submit("1")
    table.life.kill(JobId("1"), 0, *table.when)
    torn = Ending(Cause.LOST, reason="spawn: Connection reset by peer")
    actions = table.life.refused(begin.host, "1", 1, "spawn", torn, *table.when)
    assert JobState.CANCELLED in [getattr(action, "state", None) for action in actions]
    assert not table.life.hosts.aside()


def test_of_very_many_attempts_that_are_not_ours_some_are_ended_at_each_heartbeat():
    """Three hundred thousand in one heartbeat took seven seconds, and no other was answered."""
    table = Table()
    held = [(JobId(str(number)), 1) for number in range(1, 3 * KILLED_AT_ONCE)]
    renewed, orders = table.life.heartbeat(H1, held, table.now_s)
    assert renewed == []
    assert len(orders) == KILLED_AT_ONCE


@pytest.mark.parametrize(
    ("ending", "learns"),
    [
        (OK, True),
        (Ending(Cause.EXITED, 3), True),
        (Ending(Cause.SIGNALLED, 139, signal=11), True),
        (Ending(Cause.LOST), False),
        (Ending(Cause.EXITED, 3, stop_reason=CANCEL), False),
        (Ending(Cause.EVICTED), False),
    ],
)
def test_the_duration_of_a_job_is_learnt_only_from_those_that_ended_by_themselves(ending, learns):
    table = Table()
    table.life.queues.backfill = Backfill("learnt", 0.5, table.life.queues.run_times)
    job = QueuedJob(JobId("1"), name="x", user="ann", may_restart=False)
    (begin,) = table.life.submitted([job], *table.when)
    table.now_s = 20.0
    table.ended(begin, ending)
    longest_s = table.life.queues.backfill.longest_s(QueuedJob(JobId("2"), name="x", user="ann"))
    assert longest_s == (20.0 if learns else math.inf)


def test_a_job_that_waited_for_a_tier_starts_where_new_rules_serve_it():
    table = Table("tags")
    for host, tier in ((H1, 1), (H2, 2)):
        table.life.host_is(HostSlots(host, 1, tiers=(tier,)), *table.when)
    assert [begin.host for begin in table.submit("1", tier=2)] == [H2]
    assert table.submit("2", tier=2) == []
    (begin,) = table.life.rules_changed({H1: (1, 2), H2: (2,)}.__getitem__, *table.when)
    assert (begin.job, begin.host, begin.tier) == ("2", H1, 2)


def test_a_job_that_was_too_large_for_all_returns_to_its_place_whichever_have_left_since():
    queue = Queue()
    for host in ("h1", "h2"):
        queue.host(host)
    assert queue.arrive("1") == ["1@h1"]
    assert queue.arrive("2", slots=9) == []
    assert queue.arrive("3") == ["3@h2"]
    assert queue.arrive("4") == queue.arrive("5") == []
    assert queue.ended("4") == []
    assert queue.host("h2", open_slots=0) == []
    assert queue.lost("3") == []
    assert queue.host("h3", 9) == ["2@h3"]
    assert queue.ended("2") == ["3@h3", "5@h3"]
