"""Whose turn it is: arrays, priorities, fair shares and limits, on top of the order of arrival."""

from math import exp
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.shares import Rules, Shares, read_name_limits
from lbd.dispatch.core.waiting_line import Waiting
from lbd.model import JobId
from tests.unit.dispatch.core.test_queues import Table


def run_all(table, jobs):
    """Returns which job runs when on one slot: each ends when the next is to start."""
    order, starts = [], table.host("h1")
    while starts:
        (start,) = starts
        order.append(start.partition("@")[0])
        starts = table.ended(order[-1])
    assert len(order) == jobs
    return order


def test_arrays_take_turns_and_nobody_waits_for_all_of_one():
    table = Table()
    table.host("h1", open_slots=0)
    for name in ("a1", "a2", "a3", "a4"):
        table.arrive(name, array=1)
    table.arrive("x")
    for name in ("b1", "b2"):
        table.arrive(name, array=2)
    table.arrive("y")
    assert [waiter.id for waiter in table.queues.lines[1].order()] == [
        "a1", "x", "b1", "y", "a2", "b2", "a3", "a4"]  # fmt: skip
    assert run_all(table, 8) == ["a1", "x", "b1", "y", "a2", "b2", "a3", "a4"]


def test_if_arrays_do_not_take_turns_all_of_one_goes_before_later_jobs():
    table = Table(interleave_arrays=False)
    for name, array in (("a1", 1), ("a2", 1), ("x", 0), ("b1", 2)):
        table.arrive(name, array=array)
    assert run_all(table, 4) == ["a1", "a2", "x", "b1"]


def test_a_lost_task_of_an_array_keeps_the_place_it_started_from():
    table = Table()
    for name, array in (("a1", 1), ("a2", 1), ("x", 0), ("y", 0)):
        table.arrive(name, array=array)
    assert table.host("h1") == ["a1@h1"]
    assert table.lost("a1") == ["a1@h1"]  # before x, not behind a2
    assert table.ended("a1") == ["x@h1"]


def test_a_cancelled_task_of_an_array_passes_its_turn_on():
    table = Table()
    for name, array in (("a1", 1), ("a2", 1), ("x", 0)):
        table.arrive(name, array=array)
    table.ended("a1")
    assert table.host("h1") == ["a2@h1"]


def test_a_limited_array_runs_only_so_many_tasks_at_once_and_others_pass():
    table = Table()
    for name in ("a1", "a2", "a3", "a4"):
        table.arrive(name, array=1, at_once=2)
    table.arrive("x")
    assert table.host("h1", slots=8) == ["a1@h1", "x@h1", "a2@h1"]
    assert table.queues.shares.obstacle(table.queues.registry[JobId("a3")].kind) == (
        "2 tasks of its array may run at once (%2)"
    )
    assert table.ended("x") == []
    assert table.ended("a1") == ["a3@h1"]
    assert table.lost("a2") == ["a2@h1"]  # in its own place again
    assert table.ended("a2") == ["a4@h1"]
    assert [*table.ended("a3"), *table.ended("a4")] == []
    assert table.queues.shares.arrays == {}


@pytest.mark.parametrize("mode", ["round-robin", "fcfs"])
def test_the_end_of_a_task_lets_another_of_its_array_start_wherever_it_waits(mode):
    table = Table(mode)
    table.host("h1")
    table.host("h2")
    begun = [
        start for name in ("a1", "a2", "a3") for start in table.arrive(name, array=1, at_once=1)
    ]
    assert len(begun) == 1
    for _ in range(2):
        begun += table.ended(begun[-1].partition("@")[0])
    assert {start.partition("@")[0] for start in begun} == {"a1", "a2", "a3"}


def test_a_limited_array_found_running_counts():
    table = Table()
    table.queues.found_running(QueuedJob(JobId("a1"), array=1, at_once=1), "h1", 0.0)
    table.arrive("a2", array=1, at_once=1)
    assert table.host("h1", slots=4) == []
    assert table.ended("a1") == ["a2@h1"]


def test_a_changed_job_keeps_its_place():
    table = Table(priorities=True)
    table.host("h1", open_slots=0)
    for name, priority in (("a", 0), ("b", 0), ("c", 5)):
        table.arrive(name, priority=priority)

    def change(job, **new):
        return table.queues.changed(QueuedJob(JobId(job), **new), 0.0, table.rng)

    change("a", priority=5, name="first")
    assert [waiter.id for waiter in table.queues.lines[1].order()] == ["a", "c", "b"]
    change("a", priority=0)
    assert run_all(table, 3) == ["c", "a", "b"]
    assert change("a", priority=1) == []  # it has ended


def test_a_higher_priority_goes_first_if_priorities_count():
    given = {"low": -5, "middle": 0, "high": 7, "next": 7}
    for counts, order in ((True, ["high", "next", "middle", "low"]), (False, list(given))):
        table = Table(priorities=counts)
        for name, priority in given.items():
            table.arrive(name, priority=priority)
        assert run_all(table, 4) == order


def test_fair_share_divides_slots_that_become_free_together():
    table = Table(fair_share_s=100.0)
    for n in range(6):
        table.arrive(f"a{n}", user="ann")
    for n in range(2):
        table.arrive(f"b{n}", user="bob")
    assert table.host("h1", 4) == ["a0@h1", "b0@h1", "a1@h1", "b1@h1"]


def test_fair_share_remembers_past_use_and_forgets_it_over_time():
    table = Table(fair_share_s=100.0)
    table.host("h1")
    table.arrive("old", user="ann")
    table.now_s = 100.0
    table.arrive("a", user="ann")
    table.arrive("b", user="bob")
    assert table.ended("old") == ["b@h1"]  # b came later, and its user has had nothing
    table.now_s = 1e5
    table.arrive("b2", user="bob")
    assert table.ended("b") == ["a@h1"]


@pytest.mark.parametrize("seed", range(5))
def test_the_usage_of_a_user_is_what_they_have_and_had_recently(seed):
    """It is their current slots and the mean of past slots, with weights that fall by 1/e in
    `fair_share_s`."""
    rng, now_s, had = Random(seed), 1.0, []
    shares = Shares(Rules(fair_share_s=50.0))
    for _ in range(60):
        now_s += rng.choice((0.0, rng.expovariate(0.1)))
        shares.at(now_s)
        running = [one for one in had if one[1] is None]
        if running and rng.random() < 0.5:
            one = rng.choice(running)
            one[1] = now_s
            shares.gave(QueuedJob(JobId("1"), user="ann"), one[2])
        else:
            had.append([now_s, None, rng.randint(1, 4)])
            shares.took(QueuedJob(JobId("1"), user="ann"), had[-1][2])
        later_s = now_s + rng.choice((0.0, 30.0))
        shares.at(later_s)
        now = sum(slots for _, end_s, slots in had if end_s is None)
        mean = sum(
            slots * (exp((min(end_s or later_s, later_s) - later_s) / 50) - exp((s - later_s) / 50))
            for s, end_s, slots in had
        )
        assert shares.standing("ann") == pytest.approx(now + mean, abs=1e-9)
    assert shares.standing("bob") == 0.0


def test_a_user_at_the_slot_limit_is_passed_by_others():
    table = Table(user_slots=2)
    table.host("h1", 4)
    assert table.arrive("a1", user="ann", slots=2) == ["a1@h1"]
    assert table.arrive("a2", user="ann") == []
    assert table.arrive("b", user="bob") == ["b@h1"]
    assert table.queues.shares.obstacle(table.queues.registry[JobId("a2")].job) == (
        "ann's jobs hold 2 slots; the limit per user is 2"
    )
    assert table.ended("a1") == ["a2@h1"]


def test_a_user_gets_no_more_of_a_range_than_allowed():
    table = Table(user_slots=3)
    table.host("h1", 8)
    table.arrive("a", user="ann", slots_most=8)
    assert table.queues.registry[JobId("a")].slots == 3


def test_a_limit_reached_in_one_line_is_lifted_by_ends_in_another():
    """Hosts have lines of their own here: an end on h1 makes room for a job that waits for h2."""
    table = Table("round-robin", user_slots=1)
    table.host("h1")
    table.host("h2")
    assert table.arrive("a", user="ann") == ["a@h1"]
    assert table.arrive("b", user="ann") == []
    assert table.ended("a") == ["b@h2"]


def test_names_have_limits_of_their_own():
    table = Table(name_jobs=read_name_limits(["lic-*:1", "x:2"]))
    table.host("h1", 9)
    named = [("1", "lic-a"), ("2", "lic-a"), ("3", "lic-b"), ("4", "other"), ("5", "")]
    named += [("6", "other"), ("7", ""), ("8", "lic-b")]
    started = [start for job, name in named for start in table.arrive(job, name=name)]
    assert started == ["1@h1", "3@h1", "4@h1", "5@h1", "6@h1", "7@h1"]
    assert table.ended("1") == ["2@h1"]
    other = QueuedJob(JobId("8"), name="free")
    assert table.told(table.queues.changed(other, 0.0, table.rng)) == ["8@h1"]
    for name in "2345678":
        table.ended(name)
    assert (table.queues.shares.names, table.queues.shares.users) == ({}, {})


@pytest.mark.parametrize("text", ["x", "x:", ":2", "x:0", "x:-1", "x:two", "x:2147483648"])
def test_an_unreadable_name_limit_is_refused(text):
    with pytest.raises(ValueError, match="like fit-"):
        read_name_limits([text])
    assert read_name_limits(["x:1", "a:b:2147483647"]) == (("x", 1), ("a:b", 2147483647))


def test_if_nothing_counts_for_a_user_nothing_is_remembered():
    for rules, left in (({}, 0), ({"user_slots": 1}, 0), ({"fair_share_s": 9.0}, 1)):
        table = Table(**rules)
        table.host("h1", 2)
        table.arrive("a", user="ann")
        table.now_s = 5.0
        table.ended("a")
        assert len(table.queues.shares.users) == left


JOBS = st.lists(st.tuples(st.integers(-1, 1), st.sampled_from([0, 0, 7, 8, 9])), max_size=30)


@settings(max_examples=60, deadline=None)
@given(jobs=JOBS, cancelled=st.sets(st.integers(0, 29), max_size=5), priorities=st.booleans())
def test_the_reported_order_is_that_in_which_they_start(jobs, cancelled, priorities):
    table = Table(priorities=priorities)
    table.host("h1", open_slots=0)
    for n, (priority, array) in enumerate(jobs):
        table.arrive(f"j{n}", priority=priority, array=array)
    for n in cancelled:
        table.ended(f"j{n}")
    left = len(jobs) - sum(n < len(jobs) for n in cancelled)
    told = [waiter.id for waiter in table.queues.lines[1].order()] if jobs else []
    assert run_all(table, left) == told


def test_of_many_limited_arrays_those_whose_turn_it_is_not_are_not_looked_at(monkeypatch):
    """Three thousand such arrays took all of a dispatcher's time."""
    table, looks = Table(), []
    front, count = Waiting._front, 300
    monkeypatch.setattr(Waiting, "_front", lambda line, flow: looks.append(1) or front(line, flow))
    table.host("h1", slots=2)
    for n in range(1, count + 1):
        for task in range(2):
            table.arrive(f"{1000 * task + n}", array=n, at_once=1)
    assert len(looks) < 30 * count
    looks.clear()
    table.arrive("x")
    table.ended("1")
    assert len(table.queues.lines[1].first(3)) == 3
    assert len(looks) < 30


def test_however_many_arrays_are_at_their_limit_the_jobs_behind_them_start():
    table, arrays = Table(), 150
    table.host("h1", slots=arrays + 1)
    for n in range(1, arrays + 1):
        assert table.arrive(f"{n}", array=n, at_once=1) == [f"{n}@h1"]
        assert table.arrive(f"{1000 + n}", array=n, at_once=1) == []
    assert table.arrive("x") == ["x@h1"]


def first_of_all(line):
    """Returns the job whose turn it is, by looking at each that could go first."""
    shares, found = line._shares, []
    for flow in list(line._flows):
        front = line._front(flow)
        if front is not None and not shares.bars(front.kind):
            standing = shares.standing(flow.user) if shares.rules.fair_share_s else 0.0
            found.append((-flow.priority, standing, line._flows[flow][0][0], front.id))
    return min(found)[-1] if found else None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "arrive", "arrive", "ended", "lost", "slots"]),
        st.integers(0, 39), st.sampled_from(["ann", "bob"]), st.integers(1, 2), st.integers(0, 2),
    ),
    max_size=60,
)  # fmt: skip
RULES = st.sampled_from(
    [
        {},
        {"priorities": True},
        {"user_slots": 3},
        {"fair_share_s": 9.0, "user_slots": 3},
        {"name_jobs": (("x*", 1), ("y", 2))},
        {"name_jobs": (("x*", 2),), "fair_share_s": 9.0, "user_slots": 3, "priorities": True},
    ]
)


@settings(max_examples=100, deadline=None)
@given(steps=STEPS, rules=RULES, interleave=st.booleans())
def test_whose_turn_it_is_whatever_has_happened(steps, rules, interleave):
    table, jobs = Table(interleave_arrays=interleave, **rules), []
    table.host("h1", slots=4)
    for what, number, user, slots, more in steps:
        table.now_s += 1.0
        if what == "arrive":
            jobs.append(f"{len(jobs) + 1}")
            table.arrive(
                jobs[-1],
                user=user,
                slots=slots,
                array=number % 5 + 1,
                at_once=more,
                name=("", "x", "xx", "y")[number % 4],
                priority=number % 3 - 1,
            )
        elif what == "slots":
            table.host("h1", slots=4, open_slots=more)
        elif jobs:
            getattr(table, what)(jobs[number % len(jobs)])
        if (line := table.queues.lines.get(1)) is not None and line.jobs:
            expected, head = first_of_all(line), line.head()
            assert (head.id if head is not None else None) == expected


def test_names_that_were_checked_are_not_remembered_forever(monkeypatch):
    monkeypatch.setattr("lbd.dispatch.core.shares.NAMES_KNOWN", 5)
    shares = Shares(Rules(name_jobs=(("x*", 2),)))
    for number in range(40):
        assert (shares.name_limit(f"x{number}"), shares.name_limit(f"y{number}")) == (2, 0)
    assert len(shares._limits) <= 5
