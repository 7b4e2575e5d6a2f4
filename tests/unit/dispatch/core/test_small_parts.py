"""Parts of the queue that are small enough to be tested by a table."""

import math
from itertools import permutations
from random import Random

import pytest

from lbd.dispatch.core.backfill.reservation import Backfill
from lbd.dispatch.core.dependencies.conditions import conditions_of
from lbd.dispatch.core.dependencies.dependents import Waits
from lbd.dispatch.core.discipline import HostSlots, QueuedJob, able
from lbd.dispatch.core.disciplines.tiers import spread_tiers
from lbd.dispatch.core.gangs.gang_room import LAST_RUNS, MARGIN, GangRoom
from lbd.dispatch.core.ledger_rows import AttemptRow, JobRow, Tally
from lbd.dispatch.core.malleable.slot_times import ResourceTimes, SlotTimes
from lbd.dispatch.core.records import Begin, Cause, Changed, Ending, Fate, Live, Settle
from lbd.dispatch.core.registry import Entry
from lbd.dispatch.core.restore import live_job, queued_job, waits_of
from lbd.dispatch.core.row_faults import KINDS, fault_of
from lbd.dispatch.core.servers import at_random, room
from lbd.dispatch.core.shares import Rules, Shares
from lbd.model import CANCEL, Facts, HostId, JobId, JobState, Needs
from lbd.text.job_phrases import HELD_FOR_A_WHILE
from tests.unit.dispatch.core.test_cutoffs import row
from tests.unit.dispatch.core.test_lifecycle import OK, Table
from tests.unit.dispatch.core.test_queues import Table as Queue


def test_hosts_take_turns_from_the_first_on():
    table = Queue("round-robin")
    table.host("h1", 1)
    table.host("h2", 2)
    rule, hosts = table.queues.discipline, table.queues.hosts
    chosen = [rule.choose(list(hosts), hosts, 0.0, Random(1)) for _ in range(4)]
    assert chosen == ["h1", "h2", "h2", "h1"]


def test_every_order_can_be_drawn():
    drawn = {tuple(at_random((1, 2, 3), Random(seed))) for seed in range(200)}
    assert drawn == set(permutations((1, 2, 3)))


@pytest.mark.parametrize("given", ["h1", "h1:", "h1:x", "h1:0", "h1:1,", ":1"])
def test_unreadable_tiers_are_one_line(given):
    with pytest.raises(ValueError, match="must be a host and its tiers, like h1:1,2"):
        spread_tiers("h2", ("h1", "h2"), 2, [given])
    assert spread_tiers("h2", ("h1", "h2"), 2, ["h1:2", "h2:2,1"]) == (1, 2)


@pytest.mark.parametrize(
    ("suspended_s", "now_s", "for_s"), [(None, 9.0, 0.0), (4.0, 9.0, 5.0), (9.5, 9.0, 0.0)]
)
def test_the_pause_of_a_resumed_job_is_not_run_time(suspended_s, now_s, for_s):
    entry = Entry(QueuedJob(JobId("1")), 1, 0.0, 1, started_s=1.0, suspended_s=suspended_s)
    assert entry.goes_on(now_s) == for_s
    assert (entry.suspended_s, entry.started_s, entry.ran_s(10.0)) == (None, 1 + for_s, 9 - for_s)


def test_the_open_tasks_of_an_array_are_those_that_have_not_ended():
    states = {"pending": 3, "running": 2, "suspended": 1, "done": 7, "failed": 4, "lost": 2}
    assert Tally(states, None, None, None, 0).open == 6


@pytest.mark.parametrize("name", ["h1", "h2"])
def test_a_refusal_of_an_attempt_that_is_over_is_settled_and_ignored(name):
    table = Table()
    table.begin("1")
    refused = table.life.refused(HostId(name), JobId("1"), 7, "exec", OK, *table.when)
    assert refused == [Settle(JobId("1"), 7, HostId(name))]
    assert JobId("1") in table.life.leased


def test_a_job_that_is_refused_while_to_be_requeued_starts_again():
    table = Table()
    (begin,) = table.submit("1")
    table.life.requeue(JobId("1"))
    refused = table.life.refused(begin.host, begin.job, 1, "slot", OK, *table.when)
    assert [one.attempt for one in refused if isinstance(one, Begin)] == [2]


@pytest.mark.parametrize(
    ("said", "shown"), [("", "cancelled"), ("its owner is back", "its owner is back")]
)
def test_a_job_that_was_cancelled_while_it_ran_says_so(said, shown):
    table = Table()
    begin = table.begin("1")
    ending = Ending(Cause.SIGNALLED, None, 15, reason=said, stop_reason=CANCEL)
    ended = [one for one in table.ended(begin, ending) if isinstance(one, Changed)]
    assert [(one.state, one.reason) for one in ended] == [(JobState.CANCELLED, shown)]


H1, H2, H3 = map(HostId, ("h1", "h2", "h3"))


@pytest.mark.parametrize(
    ("job", "able_ones"),
    [
        ({}, [H1, H2, H3]), ({"slots": 3}, [H1, H3]), ({"slots": 5}, []), ({"only": H3}, [H3]),
        ({"only": H2, "slots": 3}, []), ({"barred": frozenset((H1, H2))}, [H3]),
        ({"needs": Needs(features=("big",))}, [H1]),
        ({"needs": Needs(features=("big",)), "barred": frozenset((H1,))}, []),
    ],
)  # fmt: skip
def test_which_hosts_a_job_may_use(job, able_ones):
    table = Queue()
    for name, slots, features in (("h1", 4, ("big",)), ("h2", 2, ()), ("h3", 4, ())):
        table.host(name, slots, facts=Facts(features))
    assert able(QueuedJob(JobId("1"), **job), table.queues.hosts) == able_ones


def test_what_a_host_has_after_jobs_have_ended_and_others_started():
    table = Queue()
    table.host("h1", 4, facts=Facts((), (("gpu", 4, 1),), memory_total=100))
    (server,) = table.queues.servers[1]
    begun = Needs((("gpu", 1),), memory_bytes=10)
    found = server.facts_when((), begun, 3)
    assert (found.resources, found.memory_given) == ((("gpu", 4, 4),), 30)
    found = server.facts_when((begun,), begun, 2)
    assert (found.resources, found.memory_given) == ((("gpu", 4, 2),), 10)


@pytest.mark.parametrize(
    ("rule", "suspended_s", "now_s", "ends_s"),
    [
        ("limit", None, 50.0, 110.0), ("limit", None, 200.0, 110.0),
        ("limit", 60.0, 50.0, math.inf),
        ("learnt", None, 12.0, 15.0), ("learnt", None, 15.0, 110.0), ("learnt", None, 50.0, 110.0),
    ],
)  # fmt: skip
def test_when_a_running_job_ends(monkeypatch, rule, suspended_s, now_s, ends_s):
    """It started at 10 s with a limit of 100 s; similar jobs have taken 5 s."""
    monkeypatch.setattr("lbd.dispatch.core.backfill.reservation.exceeded_rarely_s", lambda *_: 5.0)
    job = QueuedJob(JobId("1"), limit_s=100.0)
    entry = Entry(job, 1, 0.0, 1, started_s=10.0, suspended_s=suspended_s)
    assert Backfill(rule).ends_s(entry, now_s) == ends_s


@pytest.mark.parametrize(
    "job",
    [
        {"slots": 2}, {"only": "h2"}, {"barred": frozenset({"h1"})},
        {"needs": Needs(features=("big",))},
    ],
    ids=lambda job: next(iter(job)),
)  # fmt: skip
def test_a_job_that_fits_no_host_of_its_tier_starts_in_the_first_tier_with_one(job):
    table = Queue("tags")
    table.host("h1", tiers=(1,))
    table.host("h2", 2, tiers=(2,), facts=Facts(("big",)))
    table.host("h3", 2, tiers=(3,), facts=Facts(("big",)))
    assert table.arrive("a", **job) == ["a@h2"]
    assert table.cutoffs["a"] == 10.0


def test_a_job_that_fits_no_host_of_a_later_tier_either_waits_in_its_own():
    table = Queue("tags")
    for number in (1, 2):
        table.host(f"h{number}", tiers=(number,))
    assert table.arrive("a", slots=2) == []
    assert table.host("h3", 2, tiers=(1, 2)) == ["a@h3"]
    assert table.cutoffs["a"] == 1.0


def test_decisions_use_the_time_of_the_event():
    """Shares, targets and the slots reserved for a gang all change as time passes."""
    table = Queue(fair_share_s=10.0)
    queues, rng = table.queues, Random(1)
    host, job = HostSlots(HostId("h1"), 2), QueuedJob(JobId("1"))
    events = [
        lambda at_s: queues.arrived(job, at_s, rng),
        lambda at_s: queues.host_is(host, at_s, rng),
        lambda at_s: queues.lost(job.id, at_s, rng),
        lambda at_s: queues.cut_off(job.id, at_s, rng),
        lambda at_s: queues.host_gone(host.name, at_s, rng),
        lambda at_s: queues.ended(job.id, at_s, rng),
        lambda at_s: queues.returned(job, at_s, rng),
        lambda at_s: queues.changed(job._replace(name="a"), at_s, rng),
        lambda at_s: queues.ended(job.id, at_s, rng),
        lambda at_s: queues.found_running(job, host.name, at_s),
        lambda at_s: queues.hosts_are([host], at_s, rng),
        lambda at_s: queues.rules_changed(lambda _: (1,), at_s, rng),
    ]
    for at_s, event in enumerate(events, 1):
        event(float(at_s))
        assert queues.shares.now_s == at_s


def test_what_a_new_dispatcher_finds_is_not_started_again():
    life = Table().life
    found = [
        life.restored(Live(QueuedJob(JobId("1"))), (1, "h1", 1, True, 1, None), 0.0, Random(1)),
        life.restored(Live(QueuedJob(JobId("2")), held="by ann"), None, 0.0, Random(1)),
        life.restored(Live(QueuedJob(JobId("3"))), None, 0.0, Random(1), Waits((), 99.0)),
    ]
    assert found == [[], [], []]
    assert [begin.job for begin in life.submitted([QueuedJob(JobId("4"))], 0.0, Random(1))] == ["4"]


def test_a_job_that_had_a_time_to_begin_and_runs_goes_on_under_a_new_dispatcher():
    life, job = Table().life, QueuedJob(JobId("1"))
    leased = (1, "h1", 1, True, 1, None)
    life.restored(Live(job), leased, 0.0, Random(1), Waits((), begin=5.0))
    assert job.id in life.leased
    assert life.tick(5.0, Random(1)) == []


@pytest.mark.parametrize(
    ("found", "waits"),
    [
        ({}, Waits(conditions_of("ok:7-7:7", None))),
        ({"not_before": 99.0}, Waits(conditions_of("ok:7-7:7", None), 99.0)),
        ({"met": True}, None),
        ({"attempt": 1}, None),
        ({"requeued": 5.0}, None),
        ({"met": True, "not_before": 99.0}, Waits((), 99.0)),
        ({"after": ""}, None),
    ],
)
def test_what_a_recorded_job_still_waits_for(found, waits):
    assert waits_of(row(**{"after": "ok:7-7:7", "attempt": 0, **found})) == waits


def test_jobs_on_a_departed_host_count_as_room_and_only_those():
    table = Queue()
    table.host("h1", 4)
    table.arrive("a", slots=3)
    table.arrive("b", slots=4)
    job, servers = QueuedJob(JobId("c")), table.queues.servers_by_host.values
    assert (room(servers(), job), room(servers(), job._replace(slots=2))) == (4, 2)
    table.gone("h1")
    assert (room(servers(), job), room(servers(), job._replace(slots=2))) == (3, 1)


def test_a_running_job_is_not_changed():
    table = Queue()
    table.host("h1")
    job = QueuedJob(JobId("a"))
    assert table.arrive("a") == ["a@h1"]
    assert table.queues.changed(job._replace(name="x"), 0.0, Random(1)) == []
    assert table.queues.registry[job.id].job.name == ""
    assert table.queues.changed(job._replace(id=JobId("b")), 0.0, Random(1)) == []


@pytest.mark.parametrize(
    ("reason", "held"),
    [
        ("held by ann", "held by ann"),
        (f"{HELD_FOR_A_WHILE}its files", ""),
        ("h1: no such file", ""),
        ("", ""),
    ],
)
def test_a_job_that_a_user_held_is_still_held(reason, held):
    live, leased = live_job(row(reason=reason, attempt=3, crashes=2, requeued=9.0), None)
    assert (live.held, live.attempt, live.crashes, live.requeued) == (held, 3, 2, 9.0)
    assert leased is None


@pytest.mark.parametrize("fate", Fate)
def test_an_attempt_that_has_not_ended_may_be_alive(fate):
    last = AttemptRow(
        1, 3, "h2", 2, 5.0, fate.value, 1.0, None, None, None, None, "", 4, stop_reason=CANCEL
    )
    live, leased = live_job(row(), last)
    is_open = fate in (Fate.LEASED, Fate.RUNNING, Fate.SUSPENDED)
    assert leased == ((3, H2, 2, fate is not Fate.LEASED, 4, 5.0) if is_open else None)
    assert live.stop_reason == (CANCEL if is_open else "")


def test_a_recorded_job_is_queued_as_it_was_submitted():
    found = queued_job(row(tier=2, only="h2", barred=("h1", "h3"), first=7), 5.0)
    assert (found.tier, found.only, found.barred) == (2, H2, frozenset((H1, H3)))
    assert (found.estimate_s, found.array) == (5.0, 0)
    assert queued_job(row(tier=2), from_start=True).tier == 1
    task = queued_job(row(id=9, first=7, array_index=2))
    assert (task.array, task.array_index, task.shown) == (7, 2, "7_2")


def test_how_long_slots_are_held_is_what_was_seen_recently():
    times = SlotTimes()
    for life_s in (10.0, 20.0, 30.0, 40.0):
        times.ended(life_s)
    assert times.lifetimes() is None
    times.ended(50.0)
    assert times.lifetimes()[1] == 30.0
    for _ in range(1000):
        times.ended(500.0)
    assert times.lifetimes()[1] == pytest.approx(500.0, rel=0.02)
    assert times.count == 1005


def test_resources_are_tracked_separately_and_only_so_many(monkeypatch):
    monkeypatch.setattr("lbd.dispatch.core.malleable.slot_times.RESOURCES_MAX", 2)
    times = ResourceTimes()
    for name in ("gpu", "disk", "tape", "gpu"):
        times.ended(Needs(((name, 1),)), 5.0)
    assert [times.count(name) for name in ("gpu", "disk", "tape")] == [2, 1, 0]
    times = ResourceTimes()
    times.ended(Needs((("gpu", 1),), memory_bytes=1), 5.0)
    assert sorted(times.by_name) == ["gpu", "memory"]


def test_what_was_found_running_is_learnt_from_then_on():
    table = Queue()
    table.queues.found_running(QueuedJob(JobId("a")), H1, 5.0, slots=2)
    server = table.queues.servers_by_host[H1]
    assert not server.takes(QueuedJob(JobId("b"), array=1))
    table.now_s = 12.0
    table.ended("a")
    assert list(table.queues.slot_times.recent_s) == [14.0]


def test_a_job_that_was_sent_ahead_runs_from_when_its_slot_was_free():
    """An array of tasks of 0.05 s was foretold to end after twice its time."""
    table = Queue()
    table.host("h1", 1, ahead=2)
    jobs = [QueuedJob(JobId(name), array=7, user="ann", command="fit") for name in "0abcd"]
    for job, now_s in zip(jobs, (0.0, 100.0, 100.0, 100.0, 100.0), strict=True):
        table.queues.arrived(job, now_s, table.rng)
        if not now_s:
            table.queues.ended(job.id, 9.0, table.rng)
    for job, ends_s in zip(jobs[1:], (110.0, 120.0, 133.0, 140.0), strict=True):
        table.queues.ended(job.id, ends_s, table.rng)
    assert list(table.queues.run_times.of(jobs[0])) == [9.0, 10.0, 10.0, 13.0, 7.0]
    assert not table.queues.servers_by_host[H1].ahead


def test_a_departed_host_takes_nothing():
    table = Queue()
    table.host("h1", 2, ahead=1)
    for name in ("a", "b", "c"):
        table.arrive(name, array=1)
    table.ended("a")
    server = table.queues.servers_by_host[H1]
    assert server.takes(QueuedJob(JobId("d"), array=1))
    table.gone("h1")
    assert not server.takes(QueuedJob(JobId("d"), array=1))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"id": 9}, "it is no job of its submission"), ({"state": "gone"}, "state is gone"),
        ({"needs": "gpu=="}, "not an amount"), ({"after": "soon:1-1:1"}, "cannot wait for"),
        ({"after": "ok:1-1:1", "needs": "gpu=1"}, ""), ({"user": None}, "user is nothing"),
        ({"name": b"x"}, "name is bytes"), ({"slots": "2"}, "slots is a text"),
        ({"slots": 2.5}, "slots is a number"), ({"priority": 1 << 40}, "priority is 1099511627776"),
        ({}, ""),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_row(wrong, said):
    found = row(**{"first": 1, "count": 3, "attempt": 0, **wrong})
    fault = fault_of(found, tuple(getattr(found, name) for name in KINDS[JobRow]))
    assert said in fault
    assert bool(fault) is bool(said)
    if " is " in said:
        assert fault == said


@pytest.mark.parametrize(
    ("started", "finished", "suspended_s", "suspended", "run_s"),
    [
        (None, 90.0, 0.0, None, None), (10.0, None, 0.0, None, None),
        (10.0, 90.0, 0.0, None, 80.0), (10.0, 90.0, 30.0, None, 50.0),
        (10.0, 90.0, 30.0, 60.0, 20.0), (10.0, 90.0, 0.0, 95.0, 80.0),
        (10.0, 90.0, -5.0, None, 80.0), (10.0, 5.0, 0.0, None, 0.0),
    ],
)  # fmt: skip
def test_suspended_time_is_not_recorded_as_run_time(
    started, finished, suspended_s, suspended, run_s
):
    one = row(started=started, finished=finished, suspended_s=suspended_s, suspended=suspended)
    assert one.run_s == run_s


def test_the_expected_duration_of_a_job_is_that_of_recent_similar_ones():
    room, job = GangRoom(Shares(Rules())), QueuedJob(JobId("1"), name="x", user="ann")
    for run_s in (900.0, *[10.0] * (LAST_RUNS - 1)):
        room.run_times.ended(job, run_s)
    assert room.longest_s(job) == MARGIN * 900.0
    room.run_times.ended(job, 20.0)
    assert room.longest_s(job) == MARGIN * 20.0


def test_a_job_that_can_use_more_slots_than_it_needs_is_malleable():
    found = [row(slots=2, slots_most=most).is_malleable for most in (0, 1, 2, 3)]
    assert found == [False, False, False, True]
