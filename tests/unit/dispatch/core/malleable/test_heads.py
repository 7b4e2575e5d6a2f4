"""Malleable jobs in the dispatcher's lines: which ones hold out, how long, and at whose cost."""

import math
from dataclasses import replace
from random import Random

import pytest

from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.ledger_rows import JobRow
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.malleable.decision import Rule
from lbd.dispatch.core.malleable.heads import AGAIN_S_MAX, AGAIN_SHARE, Expected, without
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.records import Begin, Cause, Ending
from lbd.dispatch.core.run_times import name_hash
from lbd.dispatch.core.shares import Rules
from lbd.model import HostId, JobId

WIDE = {"slots_most": 4, "speedup": (4.0, 0.0), "work_s": 400.0}


class Table:
    """`arrive("a")` returns the jobs that started, with host and slots, as "a@h1:4"."""

    def __init__(self, strategy, mode="fcfs", rules=None, lives_s=(), **rule):
        self.queues = Queues(make(mode, (1.0,)), rules, malleable=Rule(strategy, **rule))
        for life_s in lives_s:
            self.queues.slot_times.ended(life_s)
            self.queues.resource_times.slots.ended(life_s)
        self.rng = Random(1)
        self.now_s = 0.0

    def told(self, starts):
        return [f"{start.job.id}@{start.host}:{start.slots}" for start in starts]

    def host(self, name, slots=4, **more):
        host = HostSlots(HostId(name), slots, **more)
        return self.told(self.queues.host_is(host, self.now_s, self.rng))

    def arrive(self, name, **more):
        return self.told(self.queues.arrived(QueuedJob(JobId(name), **more), self.now_s, self.rng))

    def ended(self, name):
        return self.told(self.queues.ended(JobId(name), self.now_s, self.rng))

    def at(self, now_s):
        self.now_s = now_s
        return self.told(self.queues.asked_again(now_s, self.rng))

    def hold(self, name, line=1):
        return self.queues.heads.holding(line, JobId(name))


def busy(strategy, slots=3, command=0, **more):
    """Returns a host of four slots, some of them held by a job that has just started."""
    table = Table(strategy, **more)
    table.host("h1")
    table.arrive("first", slots=slots, command=command)
    return table


SHORT_LIVES_S = [10.0 * 1.3**n for n in range(12)]  # slot seconds: 10 to 180
LONG_LIVES_S = [10_000.0 * 1.3**n for n in range(12)]


@pytest.mark.parametrize("strategy", ["free", "avg"])
def test_free_slots_are_taken_at_once(strategy):
    assert busy(strategy).arrive("a", **WIDE) == ["a@h1:1"]


def test_avg_takes_no_more_than_the_average_parallelism():
    job = {"slots_most": 4, "speedup": (2.0, 0.0), "work_s": 400.0}
    for strategy, slots in (("free", 4), ("avg", 2)):
        table = Table(strategy)
        table.host("h1")
        assert table.arrive("a", **job) == [f"a@h1:{slots}"]


@pytest.mark.parametrize("strategy", ["pred", "bias"])
def test_the_prediction_decides(strategy):
    """100 s on four slots or 400 s on one: waiting is worth it where jobs are short."""
    table = busy(strategy, lives_s=SHORT_LIVES_S)
    assert table.arrive("a", **WIDE) == []
    assert table.hold("a").slots > 1
    assert table.ended("first") == ["a@h1:4"]
    table = busy(strategy, lives_s=LONG_LIVES_S)
    assert table.arrive("a", **WIDE) == ["a@h1:1"]


@pytest.mark.parametrize("strategy", ["free", "avg", "pred", "bias", "heur"])
@pytest.mark.parametrize("hosts", [("h1", "h2"), ("h1", "h2", "h3")])
def test_it_starts_where_most_slots_are_free(strategy, hosts):
    table = Table(strategy, lives_s=SHORT_LIVES_S)
    for name in hosts:
        table.host(name)
        table.arrive(f"on {name}", slots=3, only=HostId(name))
    table.ended("on h2")
    assert table.arrive("a", **WIDE) == ["a@h2:4"]


def test_nothing_is_predicted_before_jobs_have_ended():
    assert busy("pred", lives_s=[1.0]).arrive("a", **WIDE) == ["a@h1:1"]


def test_heur_waits_for_a_fifth_of_what_it_would_save():
    table = busy("heur")
    assert table.arrive("a", **WIDE) == []
    assert table.at(59.0) == []
    assert table.at(60.5) == ["a@h1:1"]  # 0.2 · (400 - 100)


@pytest.mark.parametrize("ends_suspended", [False, True])
def test_suspended_time_is_not_learnt_as_run_time(ends_suspended):
    table = busy("heur", command=3)
    queues, entry = table.queues, table.queues.registry.entries["first"]
    for at_s, suspended in ((10.0, True), (12.0, True), (100.0, False), (105.0, False)):
        queues.is_suspended(JobId("first"), suspended, at_s)
    assert entry.ran_s(110.0) == 20.0  # its age, for predictions
    if ends_suspended:
        queues.is_suspended(JobId("first"), True, 110.0)
    end_s = 500.0 if ends_suspended else 110.0
    queues.heads.learn(entry, end_s)
    table.now_s = end_s
    table.ended("first")
    assert list(queues.slot_times.recent_s) == [20.0 * 3]
    assert queues.heads.speedups._runs["", 3][0] == (3, 20.0)


def test_a_job_that_was_suspended_on_one_host_is_not_suspended_on_the_next():
    table = busy("heur")
    table.queues.is_suspended(JobId("first"), True, 10.0)
    table.queues.lost(JobId("first"), 50.0, table.rng)
    entry = table.queues.registry.entries["first"]
    assert (entry.host, entry.ran_s(60.0)) == ("h1", 10.0)


def test_no_job_waits_for_more_slots_than_a_host_has():
    table = Table("heur")
    table.host("h1", 2)
    assert table.arrive("a", **WIDE) == ["a@h1:2"]


def test_no_job_passes_a_head_that_holds_out():
    table = busy("heur")
    assert table.arrive("a", **WIDE) == []
    assert table.arrive("b") == []
    assert table.ended("first") == ["a@h1:4"]
    assert table.ended("a") == ["b@h1:1"]


def test_cancelling_a_head_that_holds_out_lets_the_next_start():
    table = busy("heur")
    assert [table.arrive("a", **WIDE), table.arrive("b")] == [[], []]
    assert table.ended("a") == ["b@h1:1"]
    assert (table.hold("a"), table.hold("b")) == (None, None)


def test_a_host_of_two_lines_reserves_slots_for_it():
    """With tags, the host helps the second tier, whose job must not take the slots of the first."""
    table = Table("heur", "tags")
    table.host("h1", tiers=(1, 2))
    table.arrive("first", slots=3)
    assert table.arrive("a", **WIDE) == []
    assert table.arrive("b", tier=2) == []
    assert table.ended("first") == ["a@h1:4"]


def test_it_is_asked_again_as_slots_come_back_but_not_continually():
    table = Table("pred", lives_s=SHORT_LIVES_S)
    table.host("h1", 4)
    for name in ("x", "y", "z"):
        table.arrive(name)
    assert table.arrive("a", **WIDE) == []
    first = table.queues.heads.asked[1]
    table.now_s = AGAIN_S_MAX / 2
    assert table.ended("x") == []
    assert table.queues.heads.asked[1] is first  # the answer stands for a moment
    assert first.again_s == min(AGAIN_S_MAX, AGAIN_SHARE * first.hold.ask_at_s)
    assert table.at(AGAIN_S_MAX) == []
    assert table.queues.heads.asked[1] is not first
    assert table.ended("y") == []
    assert table.ended("z") == ["a@h1:4"]  # all that it can use, at once


def test_slots_on_a_host_that_it_may_not_use_change_nothing():
    table = busy("heur")
    assert table.arrive("a", barred=frozenset({HostId("h2")}), **WIDE) == []
    asked = table.queues.heads.asked[1]
    assert table.host("h2", 8) == []
    assert table.at(1.0) == []
    assert table.host("h2", 8, load=0.5) == []
    assert table.queues.heads.asked[1].hold == asked.hold
    assert table.at(60.5) == ["a@h1:1"]


def test_it_holds_out_no_longer_than_the_setting_says():
    table = busy("pred", lives_s=SHORT_LIVES_S, hold_s_max=5.0)
    assert table.arrive("a", **WIDE) == []
    assert table.at(4.9) == []
    assert table.at(5.1) == ["a@h1:1"]


def test_while_slots_are_reserved_for_a_gang_no_head_holds_out():
    table = busy("heur", slots=1, rules=Rules(priorities=True))
    assert table.arrive("a", **WIDE) == []
    assert table.hold("a") is not None
    for n in range(4):
        assert table.arrive(f"g{n}", array=9, array_index=n, gang=4, priority=1) == []
    assert table.queues.plan is not None
    assert table.hold("a") is None
    assert table.queues.heads.due(1e9) == []


def test_when_locked_in_it_gets_no_more_than_it_named():
    table = Table("pred", lives_s=SHORT_LIVES_S, lock_in=True)
    table.host("h1", 8)
    for name in ("x", "y"):
        table.arrive(name, slots=3)
    job = {"slots_most": 8, "speedup": (8.0, 0.0), "work_s": 120.0}
    assert table.arrive("a", **job) == []
    named = table.hold("a").slots
    assert named < 8
    table.now_s = 50.0
    began = table.ended("x") + table.ended("y")
    assert began == [f"a@h1:{named}"]


def test_a_user_at_the_limit_does_not_wait_for_slots_beyond_it():
    table = Table("heur", rules=Rules(user_slots=2))
    table.host("h1")
    table.arrive("first", slots=2, user="bob")
    assert table.arrive("a", user="ann", **WIDE) == ["a@h1:2"]


def test_no_job_waits_for_a_small_gain():
    table = busy("heur")
    assert table.arrive("a", slots_most=4, speedup=(4.0, 0.0), work_s=0.5) == ["a@h1:1"]


def test_a_host_with_fewer_slots_than_running_jobs_offers_none_of_them():
    table = Table("pred", lives_s=SHORT_LIVES_S)
    table.host("h1")
    for name in ("x", "y", "z"):
        table.arrive(name)
    assert table.arrive("a", **WIDE) == []
    table.now_s = 1.0
    table.host("h1", open_slots=3)  # a command of its owner has the fourth
    assert table.ended("x") == []
    assert table.ended("y") == []
    assert table.hold("a").slots <= 3
    assert table.ended("z") + table.at(1.0 + AGAIN_S_MAX) == ["a@h1:3"]


def test_the_speedup_is_learnt_from_jobs_of_that_name():
    table = Table("avg")
    table.host("h1", 8)
    seen = table.queues.heads.speedups
    for slots in (1, 2, 4, 8):
        for _ in range(3):
            seen.ended("ann", 4, slots, 100.0 / min(slots, 2))
    job = QueuedJob(JobId("a"), slots_most=8, user="ann", command=4)
    assert table.queues.heads.known(job).linear
    from lbd.theory.speedup_fit import fit

    while (wanted := seen.to_fit()) is not None:
        seen.fitted(wanted[0], fit(wanted[1]))
    known = table.queues.heads.known(job)
    assert known.fitted is not None
    assert known.speedup.parallelism == pytest.approx(2.0, rel=0.05)
    assert table.told(table.queues.arrived(job, 0.0, table.rng)) == ["a@h1:2"]
    assert table.queues.heads.known(job._replace(user="bob")).linear


def test_the_bias_is_learnt_also_from_predictions_that_were_not_followed():
    table = busy("bias", lives_s=SHORT_LIVES_S)
    table.arrive("a", **WIDE)
    (expected,) = table.queues.heads._expected
    table.now_s = 25.0
    table.ended("a")  # cancelled: what it waited for comes true all the same
    table.ended("first")
    bias = table.queues.heads.bias
    assert bias.jobs == 1
    assert bias._actual == pytest.approx(math.log(25.0))
    assert bias._predicted == pytest.approx(math.log(expected.raw_s))


# In the life of a job


def life(strategy):
    found = Lifecycle(make("fcfs", ()), Terms(), malleable=Rule(strategy))
    found.host_is(HostSlots(HostId("h1"), 4), 0.0, Random(1))
    return found


def begun(actions):
    return [(action.job, action.slots) for action in actions if isinstance(action, Begin)]


def test_time_alone_lets_a_job_that_holds_out_start():
    jobs = life("heur")
    jobs.submitted([QueuedJob(JobId("1"), slots=3)], 0.0, Random(1))
    assert begun(jobs.submitted([QueuedJob(JobId("2"), **WIDE)], 0.0, Random(1))) == []
    assert begun(jobs.tick(10.0, Random(1))) == []
    jobs.leased[JobId("1")].lease.until_s = 1e9
    assert begun(jobs.tick(60.5, Random(1))) == [("2", 1)]


@pytest.mark.parametrize(("status", "learnt"), [(0, [100.0]), (1, [])])
def test_a_successful_run_says_how_much_work_it_was(status, learnt):
    jobs = life("pred")
    job = QueuedJob(JobId("1"), slots=4, user="ann", command=4)
    jobs.submitted([job], 0.0, Random(1))
    ending = Ending(Cause.EXITED, status)
    jobs.ended(HostId("h1"), JobId("1"), 1, ending, 25.0, Random(1))
    known = jobs.queues.heads.speedups.of("ann", 4, 4, 0.0)
    assert [known.work_s] * bool(known.work_s) == learnt


def test_a_new_dispatcher_learns_from_what_has_ended():
    values = dict.fromkeys(JobRow.__dataclass_fields__)
    row = JobRow(**values | {
        "id": 1, "user": "ann", "command": b"/usr/bin/solve\0big", "slots": 1, "slots_most": 4,
        "slots_held": 4, "started": 100.0, "finished": 125.0, "state": "done", "suspended_s": 0.0,
    })  # fmt: skip
    heads = Table("pred").queues.heads
    heads.learn_from(row, by_uid=False)
    heads.learn_from(replace(row, state="failed", finished=1000.0), by_uid=False)
    assert heads.speedups.of("ann", name_hash("solve"), 4, 0.0).work_s == 100.0
    assert list(heads.slot_times.recent_s) == [100.0, 3600.0]


def test_a_prediction_has_come_true_once_the_missing_slots_are_back():
    heads = Table("bias").queues.heads
    heads._expected.append(Expected(3, {JobId("a"): 2, JobId("b"): 1, JobId("c"): 1}, 7.0, 10.0))
    for name, left in (("x", 3), ("a", 1), ("a", 1)):
        heads.released(JobId(name), 20.0)
        assert [one.missing for one in heads._expected] == [left]
    heads.released(JobId("b"), 30.0)
    assert (heads._expected, heads.bias.jobs) == ([], 1)
    assert heads.bias._actual == pytest.approx(math.log(20.0))


@pytest.mark.parametrize(
    ("missing", "left"),
    [
        (0, [2, 3, 1]),
        (1, [1, 3, 1]),
        (2, [0, 3, 1]),
        (4, [0, 1, 1]),
        (6, [0, 0, 0]),
        (9, [0, 0, 0]),
    ],
)
def test_slots_are_taken_from_the_first_release_onwards(missing, left):
    assert without([2, 3, 1], missing) == left


def test_a_head_that_leaves_its_line_is_no_longer_a_head():
    table = busy("pred", lives_s=SHORT_LIVES_S)
    for name in ("a", "b"):
        assert table.arrive(name, **WIDE) == []
    assert (table.hold("a") is None, table.hold("b") is None) == (False, True)
    table.ended("b")
    assert table.hold("a") is not None, "another has left"
    table.ended("a")
    assert table.hold("a") is None
    assert table.queues.heads.due(1e9) == []


def test_a_job_that_passes_a_head_that_holds_out_is_not_mistaken_for_it():
    table = Table("heur", rules=Rules(priorities=True))
    table.host("h1")
    table.arrive("first", slots=3)
    assert table.arrive("a", **WIDE) == []
    assert table.arrive("b", priority=1, **WIDE | {"speedup": (1.0, 0.0)}) == ["b@h1:1"]


def test_by_default_no_head_is_asked():
    job = QueuedJob(JobId("a"), **WIDE)
    assert not Queues(make("fcfs", ())).heads.decides(job)
    assert Table("pred").queues.heads.decides(job)
    assert not Table("pred").queues.heads.decides(job._replace(slots=4))
