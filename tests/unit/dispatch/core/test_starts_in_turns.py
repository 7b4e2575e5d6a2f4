"""A host that says that it has very many slots gets its jobs bit by bit."""

from random import Random

import pytest

from lbd.dispatch.core.discipline import ONLY_LINE, HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.queues import STARTS_MAX, Queues
from lbd.dispatch.core.records import Begin
from lbd.dispatch.core.shares import Rules
from lbd.dispatch.core.waiting_line import SKIPPED_PER_LOOK, Waiting
from lbd.model import HostId, JobId
from tests.unit.dispatch.gangs import H1, Table, of_kind

JOBS, SLOTS = 3 * STARTS_MAX + 7, 65535


def waiting(count, users=3, **rules):
    queues, rng = Queues(make("fcfs", ()), Rules(**rules)), Random(1)
    for number in range(count):
        queues.arrived(QueuedJob(JobId(str(number)), user=f"u{number % users}"), 0.0, rng)
    return queues, rng


def test_the_jobs_of_a_host_of_very_many_slots_start_a_number_in_each_turn():
    """60,000 started in one step of a second and a half, while nobody else was heard."""
    queues, rng = waiting(JOBS)
    turns = [queues.host_is(HostSlots(HostId("h1"), SLOTS), 0.0, rng)]
    while queues.is_cut_short:
        turns.append(queues.tick(float(len(turns)), rng))
    assert [len(starts) for starts in turns] == [STARTS_MAX, STARTS_MAX, STARTS_MAX, 7]
    assert len({start.job.id for starts in turns for start in starts}) == JOBS
    assert queues.tick(100.0, rng) == []


@pytest.mark.parametrize("rules", [{"fair_share_s": 3600.0}, {"user_slots": 4}])
def test_where_all_users_are_compared_for_each_start_fewer_start_in_a_turn(rules, monkeypatch):
    """3,000 users of whom a host had told, and its 3,000 slots, were one step of 3.9 s."""
    most = 8000
    monkeypatch.setattr("lbd.dispatch.core.queues.LOOKS_MAX", most)
    queues, rng = waiting(600, 300, **rules)
    turns = [queues.host_is(HostSlots(HostId("h1"), SLOTS), 0.0, rng)]
    while queues.is_cut_short:
        turns.append(queues.tick(float(len(turns)), rng))
    at_once = 1.1 * SKIPPED_PER_LOOK * most / 300
    assert all(100 < len(starts) < at_once for starts in turns[:2])
    assert sum(map(len, turns)) == 600


def test_all_lines_together_have_one_turn(monkeypatch):
    """Ten lines of 500 users, one for each host, took five times as long as one."""
    monkeypatch.setattr("lbd.dispatch.core.queues.LOOKS_MAX", 1000)
    queues, rng = Queues(make("shortest-queue", ()), Rules(fair_share_s=3600.0)), Random(1)
    for n in range(10):
        queues.host_is(HostSlots(HostId(f"h{n}"), 0), 0.0, rng)
    for number in range(500):
        queues.arrived(QueuedJob(JobId(str(number)), user=f"u{number % 50}"), 0.0, rng)
    queues.is_cut_short, before = True, queues.shares.looks
    for n in range(10):
        queues.host_is(HostSlots(HostId(f"h{n}"), SLOTS), 0.0, rng)
    turns = []
    while queues.is_cut_short:
        before = queues.shares.looks
        turns.append(queues.tick(float(len(turns)), rng))
        assert queues.shares.looks - before < 1200
    assert sum(map(len, turns)) > 400


@pytest.mark.parametrize("limit", ["array", "name"])
def test_what_is_at_its_limit_is_looked_at_again_only_once_that_has_room(limit):
    """5,000 arrays (`%1`) that ran were passed over for each start: 1,000 were one step of 21 s."""
    queues, rng = Queues(make("fcfs", ()), Rules(name_jobs=(("fit-*", 1),))), Random(1)
    queues.host_is(HostSlots(HostId("h1"), SLOTS), 0.0, rng)
    starts = []
    for n in range(300):
        for task in "ab":
            more = {"array": n + 1, "at_once": 1} if limit == "array" else {"name": f"fit-{n}"}
            starts += queues.arrived(QueuedJob(JobId(f"{n}{task}"), **more), 0.0, rng)
    assert [start.job.id for start in starts] == [f"{n}a" for n in range(300)]
    waiting = queues.lines[ONLY_LINE]
    before = queues.shares.looks
    for n in range(1000, 1100):
        assert len(queues.arrived(QueuedJob(JobId(f"{n}")), 0.0, rng)) == 1
    assert queues.shares.looks - before < 1000
    assert [waiter.id for waiter in waiting.in_turn()] == [f"{n}b" for n in range(300)]
    assert [start.job.id for start in queues.ended(JobId("7a"), 1.0, rng)] == ["7b"]
    assert queues.ended(JobId("7b"), 2.0, rng) == []
    assert len(list(waiting.in_turn())) == 299


def test_nothing_is_left_of_those_that_rested():
    """Each user who had ever had such an array made every submission a little longer."""
    queues, rng = (
        Queues(make("fcfs", ()), Rules(fair_share_s=60.0, name_jobs=(("fit", 1),))),
        Random(1),
    )
    queues.host_is(HostSlots(HostId("h1"), SLOTS), 0.0, rng)
    for n in range(500):
        more = {"user": f"u{n}", "name": "fit" if n % 2 else ""}
        for task in "abc":
            queues.arrived(QueuedJob(JobId(f"{n}{task}"), array=n + 1, at_once=1, **more), 0.0, rng)
    resting = queues.lines[ONLY_LINE]._resting
    assert len(list(resting.heaps())) > 400
    running = [JobId(f"{n}a") for n in range(500) if not n % 2] + [JobId("1a")]
    while running:
        running += [start.job.id for start in queues.ended(running.pop(0), 1.0, rng)]
    assert queues.lines[ONLY_LINE].jobs == 0
    left = resting._turns, resting._of_users, resting._of_names, resting._of_arrays
    assert left == ({}, {}, {}, {})


def test_of_all_that_wait_for_a_name_no_more_are_looked_at_than_can_start(monkeypatch):
    """Each end of one woke all of that name: 0.07 s of 20,000, and 256 may come in a message."""
    queues, rng = Queues(make("fcfs", ()), Rules(name_jobs=(("fit", 2),))), Random(1)
    queues.host_is(HostSlots(HostId("h1"), SLOTS), 0.0, rng)
    count, running = 300, []
    for n in range(count):
        job = QueuedJob(JobId(f"{n}"), array=n + 1, at_once=1, name="fit")
        running += queues.arrived(job, 0.0, rng)
    assert [start.job.id for start in running] == ["0", "1"]
    looks, front = [], Waiting._front
    monkeypatch.setattr(Waiting, "_front", lambda line, flow: looks.append(1) or front(line, flow))
    order = []
    while running:
        order.append(running.pop(0).job.id)
        running += queues.ended(order[-1], 1.0, rng)
    assert order == [f"{n}" for n in range(count)]
    assert len(looks) < 10 * count


@pytest.mark.parametrize("rules", [{}, {"fair_share_s": 60.0, "priorities": True}])
def test_a_task_that_rests_is_cancelled_as_any_other(rules):
    queues, rng = Queues(make("fcfs", ()), Rules(**rules)), Random(1)
    queues.host_is(HostSlots(HostId("h1"), 4), 0.0, rng)
    for task in range(4):
        job = QueuedJob(JobId(f"{task}"), user="ann", array=1, at_once=1)
        queues.arrived(job, 0.0, rng)
    assert queues.ended(JobId("1"), 1.0, rng) == []
    assert [start.job.id for start in queues.ended(JobId("0"), 1.0, rng)] == ["2"]
    assert [start.job.id for start in queues.ended(JobId("2"), 2.0, rng)] == ["3"]


def test_until_the_next_turn_each_event_starts_one():
    queues, rng = waiting(JOBS)
    starts = queues.host_is(HostSlots(HostId("h1"), SLOTS), 0.0, rng)
    for start in starts[:5]:
        assert len(queues.ended(start.job.id, 1.0, rng)) == 1
    assert len(queues.host_is(HostSlots(HostId("h2"), SLOTS), 1.0, rng)) == 1
    assert len(queues.tick(2.0, rng)) == STARTS_MAX


def test_what_fits_in_one_turn_starts_in_it():
    queues, rng = waiting(STARTS_MAX)
    assert len(queues.host_is(HostSlots(HostId("h1"), SLOTS), 0.0, rng)) == STARTS_MAX
    assert not queues.is_cut_short
    queues, rng = waiting(JOBS)
    assert len(queues.host_is(HostSlots(HostId("h1"), 5), 0.0, rng)) == 5
    assert not queues.is_cut_short


def test_gangs_that_wait_for_a_host_of_very_many_slots_start_some_in_each_turn(monkeypatch):
    """One after another took the place of one that started, all in one step."""
    monkeypatch.setattr("lbd.dispatch.core.queues.STARTS_MAX", 4)
    table = Table(hosts=())
    table.host(H1, 2)
    table.submit()
    for _ in range(6):
        assert table.gang(2) == []
    turns = [len(of_kind(Begin, table.host(H1, 65535)))]
    turns += [len(of_kind(Begin, table.life.tick(*table.when))) for _ in range(4)]
    assert turns == [4, 4, 4, 0, 0]


@pytest.mark.parametrize("rules", [{"fair_share_s": 3600.0}, {"user_slots": 4}])
def test_a_user_whose_turn_cannot_be_next_is_not_looked_at(rules, monkeypatch):
    """With 60,000 users, of whom a host had told, each end of a job was one step of 0.9 s."""
    queues, rng = waiting(600, 300, **rules)
    queues.host_is(HostSlots(HostId("h1"), 1), 0.0, rng)
    looks, front = [], Waiting._front
    monkeypatch.setattr(Waiting, "_front", lambda line, flow: looks.append(1) or front(line, flow))
    for number in range(20):
        (start,) = queues.ended(JobId(str(number)), float(number), rng)
        assert start.job.id == str(number + 1)
    assert len(looks) < 20 * 20
