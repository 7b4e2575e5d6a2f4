"""Guards and choices of the queue's core that only their edge cases show, each by a case or a
table.

One file because they are many small cases of many modules, none of which needs a file of its own.
"""

import math
from dataclasses import replace
from random import Random

import pytest

from lbd.dispatch.core.backlog import Backlog
from lbd.dispatch.core.cutoffs import START_S, expected_now, layouts_of, past_jobs
from lbd.dispatch.core.dependencies.conditions import Condition, How, why_never
from lbd.dispatch.core.dependencies.dependents import Dependents, Due, Waits
from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.gangs.gang import Gang
from lbd.dispatch.core.job_selection import in_few_lines, is_selector, read_tasks, widened
from lbd.dispatch.core.ledger_rows import SubmissionRange, Tally, share_of
from lbd.dispatch.core.malleable.decision import Head, Hold, KnownSpeedup
from lbd.dispatch.core.malleable.heads import (
    NOTHING_KNOWN,
    Asked,
    MalleableHeads,
    room_of,
    without,
)
from lbd.dispatch.core.malleable.prospects import picks
from lbd.dispatch.core.malleable.slot_times import SlotTimes
from lbd.dispatch.core.outlook.allowance import PER_S, Allowance
from lbd.dispatch.core.outlook.needs_outlook import NeedsOutlook, amount_of
from lbd.dispatch.core.outlook.places import FEW, Places
from lbd.dispatch.core.records import Begin, Cause, Changed, Ending, Fate, Lease, Live, changed
from lbd.dispatch.core.registry import Entry
from lbd.dispatch.core.servers import Server
from lbd.dispatch.core.shares import Rules, Shares, read_name_limits
from lbd.dispatch.core.targets.plan import unknown_mean
from lbd.dispatch.core.targets.task_times import TaskTimes
from lbd.dispatch.core.waiting_line import Waiting
from lbd.dispatch.core.why_waiting import _some, stuck_reason
from lbd.errors import ConfigError
from lbd.model import HostId, JobId, JobState, Needs
from lbd.text.job_phrases import HELD_FOR_A_WHILE
from lbd.theory.speedup import Speedup
from lbd.theory.target_time import mean_left_s
from tests.unit.dispatch.core.test_cutoffs import SLOWDOWN, row, verdict
from tests.unit.dispatch.core.test_lifecycle import OK, Table
from tests.unit.dispatch.core.test_queues import Table as Queue
from tests.unit.dispatch.gangs import Table as Gangs
from tests.unit.dispatch.gangs import of_kind

H1, H2 = HostId("h1"), HostId("h2")


@pytest.mark.parametrize(
    ("leased", "fate", "state", "tier"),
    [
        (True, None, JobState.RUNNING, 2), (True, None, JobState.PENDING, 2),
        (False, Fate.LOST, JobState.FAILED, 2), (False, Fate.LOST, JobState.PENDING, 1),
        (False, None, JobState.CANCELLED, 1), (False, None, JobState.PENDING, 1),
    ],
)  # fmt: skip
def test_the_recorded_tier_is_that_in_which_it_ran_or_would_start(leased, fate, state, tier):
    live = Live(QueuedJob(JobId("1")), attempt=1, ran_tier=2)
    if leased:
        live.lease = Lease(1, H1, 2, 9.0, True, 1, None)
    record = changed(live, state, fate)
    assert (record.tier, record.host) == (tier, H1 if leased else None)
    assert changed(replace(live, ran_tier=0), state, fate).tier == 1


@pytest.mark.parametrize(
    ("states", "state"),
    [
        ({"done": 3}, "done"), ({"done": 3, "cancelled": 1}, "cancelled"),
        ({"cancelled": 2, "failed": 1}, "failed"), ({"failed": 1, "lost": 1}, "lost"),
        ({"lost": 1, "pending": 1}, "pending"), ({"pending": 5, "suspended": 1}, "suspended"),
        ({"suspended": 1, "running": 1, "done": 7}, "running"), ({"running": 0, "lost": 1}, "lost"),
    ],
)  # fmt: skip
def test_the_state_of_an_array_is_its_most_important_one(states, state):
    assert Tally(states, None, None, None, 0).state == state


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("may_run", [False, True])
@pytest.mark.parametrize("may_restart", [False, True])
@pytest.mark.parametrize("left", [1, 2])
def test_a_gang_restarts_whole_unless_it_may_have_run(released, may_run, may_restart, left):
    gang = Gang(2, set(list("ab")[:left]), released=released, may_run=may_run)
    job = QueuedJob(JobId("a"), may_restart=may_restart, gang=2)
    has_run = released or may_run
    assert gang.may_begin_again(job) == (left == 2 and (may_restart or not has_run))


def test_a_gang_without_a_host_is_not_overdue():
    table = Gangs(gang_hold_s=10.0)
    table.gang(2)
    gang = next(iter(table.life.gangs._gangs.values()))
    for live in table.life.jobs.values():
        live.lease = None
    assert list(table.life.gangs.overdue(100.0)) == []
    assert gang.hold_until_s == math.inf


def test_a_job_that_passes_a_head_goes_where_the_load_is_lowest():
    for loads in ((0.1, 0.9), (0.9, 0.1)):
        table = Queue(backfill="limit")
        for name, load in zip(("h1", "h2"), loads, strict=True):
            table.host(name, 4, load=load)
            table.arrive(f"on {name}", slots=3, limit_s=100.0, only=HostId(name))
        assert table.arrive("head", slots=4) == []
        lowest = "h1" if loads[0] < loads[1] else "h2"
        assert table.arrive("next", limit_s=5.0) == [f"next@{lowest}"]


def test_a_waiting_job_cannot_be_suspended():
    table = Queue()
    table.host("h1", 1)
    table.arrive("a")
    table.arrive("b")
    table.queues.is_suspended(JobId("b"), True, 5.0)
    assert table.queues.registry[JobId("b")].kind.id == "b"
    table.queues.registry.entry(table.queues.registry[JobId("b")])
    table.queues.is_suspended(JobId("b"), True, 5.0)
    assert table.queues.registry.entries[JobId("b")].suspended_s is None


def test_of_a_job_that_was_suspended_at_its_end_only_its_run_time_is_learnt():
    table = Queue()
    table.host("h1", 1)
    table.arrive("a")
    table.queues.is_suspended(JobId("a"), True, 10.0)
    table.now_s = 50.0
    table.ended("a")
    assert list(table.queues.slot_times.recent_s) == [10.0]


def test_a_task_starts_where_a_slot_is_free_rather_than_ahead_of_one():
    table = Queue()
    table.host("h1", 1, load=0.0)
    table.arrive("a0", array=7)
    table.ended("a0")
    table.arrive("a1", array=7)
    table.host("h1", 1, load=0.0, ahead=1)
    table.host("h2", 1, load=5.0)
    assert table.arrive("a2", array=7) == ["a2@h2"]
    assert table.arrive("a3", array=7) == ["a3@h1"]


def test_a_gang_meant_for_one_line_waits_where_there_are_several():
    table = Queue("tags")
    table.host("h1", 4, tiers=(1, 2, 3))
    for n in range(2):
        job = {"array": 1, "gang": 2, "array_index": n, "submission": 1}
        assert table.arrive(f"{n + 1}", **job) == []
    assert table.arrive("3") == ["3@h1"]


@pytest.mark.parametrize("slots", [1, 2])
def test_beside_a_gang_a_job_with_just_enough_slots_starts(slots):
    table = Gangs(hosts=(H1, H2), gang_drain_s=100.0)
    table.submit(slots=2, limit_s=200.0, only=H2)
    assert table.gang(4) == []
    begins = table.submit(slots=slots, limit_s=50.0)
    assert [(one.host, one.slots) for one in begins] == [(H1, slots)]


def test_counts_of_users_and_of_their_hosts_go_down_as_rows_leave():
    backlog = Backlog()
    rows = [backlog.add(QueuedJob(JobId(f"{n}"), user="ann", origin="h1"), n, 0.0) for n in (1, 2)]
    backlog.remove(rows[0])
    assert (dict(backlog.counts.of_user), dict(backlog.counts.of_origin)) == ({"ann": 1}, {"h1": 1})
    backlog.remove(rows[1])
    assert (dict(backlog.counts.of_user), dict(backlog.counts.of_origin)) == ({}, {})


def test_the_reason_why_a_job_can_never_start_is_the_failed_condition():
    waiting = Dependents()
    conditions = Condition(How.ANY, 3, 3, "3"), Condition(How.OK, 3, 3, "3")
    waiting.park(JobId("9"), Waits(conditions))
    waiting.ended(QueuedJob(JobId("3")), well=False)
    assert waiting.verdict(JobId("9"), 0.0) == why_never(conditions[1], on_record=True)


def test_a_start_is_recorded_once():
    table = Table()
    (begin,) = table.submit("1")
    told = [table.life.begun(begin.host, begin.job, 1) for _ in range(2)]
    assert [len([one for one in each if isinstance(one, Changed)]) for each in told] == [1, 0]


@pytest.mark.parametrize(
    ("cause", "status", "learnt"),
    [(Cause.EXITED, 0, True), (Cause.EXITED, 1, False), (Cause.SIGNALLED, 0, False)],
)
def test_a_speedup_is_learnt_only_from_successful_jobs(monkeypatch, cause, status, learnt):
    table, seen = Table(), []
    (begin,) = table.submit("1")
    monkeypatch.setattr(
        type(table.life.queues.heads), "learn", lambda _, entry, now_s: seen.append(entry.id)
    )
    table.life.begun(begin.host, begin.job, 1)
    table.life.ended(begin.host, begin.job, 1, Ending(cause, status), *table.when)
    assert seen == (["1"] if learnt else [])


def test_a_layout_has_no_more_tiers_than_hosts_and_no_more_than_four():
    for count in range(2, 8):
        hosts = [HostSlots(HostId(f"h{n}"), 1) for n in range(count)]
        names = [host.name for host in hosts]
        assert list(layouts_of(hosts, names, ())) == list(range(2, min(count, 4) + 1))


def test_without_cutoffs_in_force_there_is_no_expectation():
    assert expected_now(None, {1: (4.0,)}, ()) is None


def test_a_job_of_no_duration_counts_as_long_as_its_start():
    instant = row(cpu_s=START_S, started=100.0, finished=100.0, slots_held=1)
    (past,) = past_jobs([(instant, 1)], 0.0, by_uid=False)
    assert (past.size_s, past.ran_s) == (START_S, START_S)


def test_a_range_is_widened_only_to_the_tasks_of_arrays():
    alone, array = SubmissionRange(7, 3, ""), SubmissionRange(7, 3, "1-3")
    assert widened(5, 7, {7: array}) == (5, 9)
    assert widened(8, 8, {8: array}) is None  # a task's number is not an id
    assert widened(5, 7, {7: alone}) == (5, 7)
    assert widened(5, 7, {}) == (5, 7)


def test_a_fault_of_several_is_reported_once():
    problems = [("1", "job 1 has ended"), ("2", "job 2 has ended"), ("3", "job 3 is held")]
    assert in_few_lines(problems) == ["job 1 has ended; and 1 more", "job 3 is held"]
    assert in_few_lines([*problems, ("4", "job 4 has ended")])[0].endswith("; and 2 more")


@pytest.mark.parametrize("most", [0.5, 1.0, 90.0])
def test_for_unknown_tasks_the_mean_is_what_would_just_do(most):
    found = unknown_mean(6, most, 2)
    assert mean_left_s(6, 2, found.mean_s) == pytest.approx(most)
    with pytest.raises(ValueError, match="must be above 0"):
        unknown_mean(6, 0.0, 2)


def test_a_room_has_the_ages_of_its_jobs_and_no_age_is_negative():
    server = Server(HostSlots(H1, 4), Waiting(H1, Shares(Rules()), Backlog()))
    for number, began_s in enumerate((2.0, 5.0, 11.0)):
        job = QueuedJob(JobId(f"{number}"))
        server.sits(Entry(job, number, 0.0, 1, host=H1, slots=1, started_s=began_s))
    found = room_of(server, math.inf, 10.0, NOTHING_KNOWN[0], named=True)
    assert found.releases.held == ((8.0, 1), (5.0, 1), (0.0, 1))
    assert (found.free, found.jobs) == (1, {"0": 1, "1": 1, "2": 1})
    assert room_of(server, 0.0, 10.0, NOTHING_KNOWN[0]).free == 0
    server.is_of(HostSlots(H1, 2))  # one slot fewer than jobs: what ends first gives nothing back
    found = room_of(server, math.inf, 10.0, NOTHING_KNOWN[0], named=True)
    assert found.releases.held == ((5.0, 1), (0.0, 1))
    assert (found.free, found.jobs) == (0, {"1": 1, "2": 1})
    assert without([1, 3, 2], 2) == [0, 2, 2]


def test_jobs_ahead_of_a_part_advance_at_the_rate_of_all_that_exists_of_it():
    for total in (1, 2, 5):
        outlook = NeedsOutlook(False, 1.0, None, {"gpu": total})
        assert outlook.behind_s({"gpu": 4, "disk": 0}, lambda _: (None, 30.0)) == 120.0 / total
    assert outlook.behind_s({"gpu": 1}, lambda _: None) is None
    needs = Needs((("gpu", 2),), memory_bytes=7)
    assert [amount_of(needs, name) for name in ("gpu", "memory", "disk")] == [2, 7, 0]


def test_a_place_is_searched_again_where_another_look_costs_nothing():
    queues, rng = Queue().queues, Random(1)
    queues.host_is(HostSlots(H1, 1, open_slots=0), 0.0, rng)
    places = Places(queues)
    for n in range(1, 4):
        queues.arrived(QueuedJob(JobId(f"{n}"), array=5), 0.0, rng)
        found = places.of(queues.registry[JobId(f"{n}")], 0.0)
        assert found == (n - 1, n - 1), f"of at most {FEW}"


def test_a_job_that_ended_on_arrival_is_not_stuck():
    table = Table()
    assert stuck_reason(table.life, JobId("nobody")) == ""


@pytest.mark.parametrize(
    "text",
    ["12_[3", "12_3", "12_", "12", "12-13", "12-", "12-x", "12_٣", "12_x", "_3", "x_3", "h1-17"],
)
def test_spellings_that_select_tasks_of_an_array(text):
    assert is_selector(text) == (text in ("12_[3", "12_3", "12_", "12", "12-13"))


def test_the_reasons_for_a_temporary_hold_start_the_same_way():
    table = Table()
    (begin,) = table.submit("1")
    table.life.refused(begin.host, begin.job, 1, "files", OK, *table.when)
    assert table.life.jobs[JobId("1")].held.startswith(HELD_FOR_A_WHILE)


def test_a_job_that_was_cut_off_joins_the_end_of_the_next_tier():
    table = Queue("tags")
    table.host("h1", 1, tiers=(1,))
    table.host("h2", 1, tiers=(2,))
    assert table.arrive("a") == ["a@h1"]
    assert table.arrive("b", tier=2) == ["b@h2"]
    table.arrive("c", tier=2)
    table.cut_off("a")
    assert [one.id for one in table.queues.lines[2].order()] == ["c", "a"]


@pytest.mark.parametrize(
    ("user", "uid", "by_uid", "share"),
    [("ann", 7, False, "ann"), ("ann", None, False, "ann"), ("ann", None, True, "ann")],
)
def test_whose_share_a_job_counts_towards(user, uid, by_uid, share):
    assert share_of(user, uid, by_uid=by_uid) == share
    assert share_of("bob", 7, by_uid=True) == share_of("ann", 7, by_uid=True)


def test_held_slots_count_and_if_unknown_the_requested_ones():
    times = SlotTimes()
    heads = MalleableHeads(times)
    heads.learn_from(row(slots=3, slots_held=2), by_uid=False)
    heads.learn_from(row(slots=3, slots_held=0), by_uid=False)
    one_s = row().run_s
    assert list(times.recent_s) == [2 * one_s, 3 * one_s]


def test_a_missing_host_has_no_slots():
    server = Server(None, Waiting(H1, Shares(Rules()), Backlog()))
    assert (server.slots, server.usable, server.free, server.load) == (0, 0, 0, 0.0)


@pytest.mark.parametrize("text", ["12_3]", "12_[3", "12_[]"])
def test_unbalanced_brackets_hold_no_indexes(text):
    with pytest.raises(ConfigError):
        read_tasks(text)
    assert read_tasks("12_[3-4]") == read_tasks("12_3-4")


@pytest.mark.parametrize("slots", [1, 2])
def test_a_job_behind_one_that_must_wait_for_a_gang_passes_if_it_ends_in_time(slots):
    table = Gangs(hosts=(H1, H2), gang_drain_s=100.0)
    table.submit(slots=2, limit_s=200.0, only=H2)
    assert table.gang(4) == []
    assert table.submit(limit_s=150.0) == []
    begins = table.submit(slots=slots, limit_s=50.0)
    assert [(one.host, one.slots) for one in begins] == [(H1, slots)]
    assert table.gang(2, limit_s=10.0) == []


def test_the_distribution_of_task_times_is_examined_again_soon():
    times = TaskTimes()
    times.add([10.0] * 10)
    assert times.spread == 0.0
    times.add([30.0])
    assert times.spread > 0.2


@pytest.mark.parametrize(
    ("parallelism", "sigma", "speedup"),
    [(None, None, None), (4.0, None, (4.0, 0.0)), (4.0, 0.5, (4.0, 0.5))],
)
def test_a_recorded_speedup_is_linear_up_to_a_unless_its_user_said_more(
    parallelism, sigma, speedup
):
    assert row(parallelism=parallelism, sigma=sigma).speedup == speedup


def test_if_lines_are_not_tiers_all_jobs_run_in_the_first():
    table = Queue("round-robin")
    table.host("h1", 1)
    (start,) = table.queues.arrived(QueuedJob(JobId("1"), tier=1), 0.0, table.rng)
    assert (start.tier, table.queues.registry.entries[JobId("1")].tier) == (1, 1)


def test_of_many_users_those_are_forgotten_who_have_had_nothing_for_longest(monkeypatch):
    monkeypatch.setattr("lbd.dispatch.core.shares.USERS_KNOWN", 2)
    shares = Shares(Rules(fair_share_s=1.0))
    for n, user in enumerate(("a", "b", "c", "d")):
        job = QueuedJob(JobId(user), user=user)
        shares.at(100.0 * n)
        shares.took(job, 1)
        shares.at(100.0 * n + 50.0)
        shares.gave(job, 1)
        assert (user in shares.users) == (n < 4)
    assert len(shares.users) <= 2
    together = [QueuedJob(JobId(f"{n}"), user=f"{n}") for n in range(9)]
    for job in together:
        shares.took(job, 1)
    shares.at(1000.0)
    for job in together:
        shares.gave(job, 1)
    shares.at(2000.0)
    shares.took(together[0], 1)
    shares.gave(together[0], 1)
    assert len(shares.users) <= 2


def test_of_many_users_those_whose_plays_are_paid_off_are_forgotten(monkeypatch):
    monkeypatch.setattr("lbd.dispatch.core.outlook.allowance.USERS_KNOWN", 3)
    allowance = Allowance()
    for n in range(20):
        allowance.took(PER_S, f"user{n}", 100.0 * n)
        assert not allowance.has(f"user{n}", 100.0 * n)
        assert len(allowance._due_s) <= 3


def test_when_hosts_change_heads_that_hold_out_are_asked_again():
    table = Queue()
    for change in (lambda: table.host("h1", 4), lambda: table.gone("h1")):
        before = table.queues.heads._changes
        change()
        assert table.queues.heads._changes > before


def test_without_prospects_nothing_is_picked():
    assert picks([], 1, 4, KnownSpeedup(Speedup(4.0, 0.5), 9.0, None, linear=False)) == {}


def test_a_time_is_due_by_the_wall_clock():
    waiting = Dependents()
    waiting.unix_s = 1000.0
    waiting.park(JobId("9"), Waits((), 1005.0))
    waiting.due = Due()
    waiting.passed(4.9)
    assert not waiting.due
    waiting.passed(5.0)
    assert list(waiting.due) == ["9"]


def test_a_job_that_no_longer_waits_is_not_examined():
    table = Table()
    table.life.dependents.due.add(JobId("gone"), "ann")
    assert table.life.tick(*table.when) == []
    assert not table.life.dependents.due


@pytest.mark.parametrize(
    ("count", "said"), [(1, "0"), (4, "0, 1, 2, 3"), (5, "0, 1, 2, 3 and 1 more")]
)
def test_of_many_names_four_are_shown(count, said):
    assert _some([f"{n}" for n in range(count)]) == said


@pytest.mark.parametrize(("slots", "begins"), [(1, 1), (2, 0)])
def test_beside_the_slots_reserved_for_a_gang_all_the_rest_may_be_used(slots, begins):
    """Of four slots two come back at 50 s, and three are reserved."""
    table = Gangs(hosts=(H1,), slots=4, gang_drain_s=100.0)
    table.submit(slots=2, limit_s=50.0)
    assert table.gang(3) == []
    assert len(table.submit(slots=slots)) == begins


def test_a_task_that_is_to_end_is_not_ready_and_makes_its_gang_incomplete():
    table = Gangs()
    first, second = table.gang(2)
    table.life.jobs[first.job].stop_reason = "cancel"
    assert table.ready(first) == []
    assert table.ready(second) == []


@pytest.mark.parametrize(
    ("phase", "is_hosts"),
    [
        *((phase, False) for phase in ("slot", "drained", "late", "files", "exec", "chdir")),
        *((phase, False) for phase in ("directory", "admission", "user", "request", "stage")),
        ("not-yet", False),
        ("keeper", True), ("fork", True), ("", True),
    ],
)  # fmt: skip
def test_whose_fault_a_refusal_is(monkeypatch, phase, is_hosts):
    table, failed = Table(), []
    (begin,) = table.submit("1")
    monkeypatch.setattr(
        type(table.life), "_host_failed", lambda _, name, *__: failed.append(name) or []
    )
    table.life.refused(begin.host, begin.job, 1, phase, OK, *table.when)
    assert bool(failed) == is_hosts


def test_a_job_that_leaves_a_line_does_not_end_the_wait_of_others_for_more_slots():
    heads = MalleableHeads(SlotTimes())
    hold = Hold(4, None, 9.0, Head(), "")
    heads.asked[1] = Asked(JobId("a"), hold, 0, 9.0, 9.0, 4, 9)
    heads.gone(JobId("b"), 1)
    assert heads.holding(1, JobId("a")) is hold
    heads.gone(JobId("a"), 1)
    assert heads.holding(1, JobId("a")) is None


def test_no_job_passes_a_head_beyond_the_limit_of_a_name():
    table = Queue(backfill="limit", name_jobs=(("x", 1),))
    table.host("h1", 5)
    assert table.arrive("a", slots=3, limit_s=100.0, name="x") == ["a@h1"]
    assert table.arrive("head", slots=5) == []
    assert table.arrive("b", limit_s=10.0, name="x") == []
    assert table.arrive("c", limit_s=10.0, name="y") == ["c@h1"]


@pytest.mark.parametrize(
    ("limit", "given", "passes"),
    [
        ({"name_jobs": (("x", 1),)}, {"name": "x"}, False),
        ({"name_jobs": (("x", 2),)}, {"name": "x"}, True),
        ({"user_slots": 3}, {}, False),
        ({"user_slots": 4}, {}, True),
        ({}, {"array": 9, "at_once": 1}, False),
        ({}, {"array": 9, "at_once": 2}, True),
    ],
)
def test_no_job_passes_a_head_that_could_not_start_beside_it(limit, given, passes):
    """While it ran the head was passed over, and others took the slots that nobody kept for it:
    with short jobs of its name another user kept it waiting for ever."""
    table = Queue(backfill="limit", **limit)
    table.host("h1", 4)
    table.arrive("a", slots=3, limit_s=10.0, user="carl")
    assert table.arrive("head", slots=3, limit_s=5.0, user="ann", **given) == []
    next_user = "bob" if "name_jobs" in limit else "ann"
    started = table.arrive("next", limit_s=5.0, user=next_user, **given)
    assert started == (["next@h1"] if passes else [])


@pytest.mark.parametrize("text", ["x:٣", "x:0", "x", ":3", "x:2147483648", "x:-1"])
def test_unreadable_limits_of_names(text):
    with pytest.raises(ValueError, match="must be a name and the number to run at once"):
        read_name_limits([text])
    assert read_name_limits(["a:b:2147483647"]) == (("a:b", 2147483647),)


def test_as_many_jobs_as_needed_are_enough():
    for count, few in ((SLOWDOWN.jobs_min - 1, True), (SLOWDOWN.jobs_min, False)):
        assert verdict(count=count).reason.endswith("(tags.solve_jobs)") == few


def test_a_lost_task_that_had_passed_a_gang_is_ahead_of_later_jobs():
    table = Gangs(hosts=(H1, H2), gang_drain_s=100.0)
    (own,) = table.submit(slots=2, limit_s=200.0, only=H2)
    assert table.gang(3) == []
    assert table.submit() == []  # nobody knows how long it takes
    (passed,) = table.submit(array=90, limit_s=50.0)
    for array in (90, 90, 0):
        assert table.submit(array=array) == []
    begun = of_kind(Begin, table.ended(own))
    for one in begun:
        table.ready(one)
    for one in begun:
        table.begun(one)
    table.ended(begun[0])
    (second,) = of_kind(Begin, table.ended(begun[1]))  # of the array, whose turn is now last
    (again,) = of_kind(Begin, table.ended(passed, Ending(Cause.EVICTED)))
    assert (again.job, int(second.job)) == (passed.job, int(passed.job) + 1)
