"""The backlog: many jobs in little memory. It decides nothing."""

import gc
import tracemalloc
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbd.config.dispatch import MODES
from lbd.dispatch.core.backlog import EMPTY_MIN, Backlog, Rows, number_in
from lbd.dispatch.core.discipline import ONLY_LINE, HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.registry import TIERED, make
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.records import Jobs, Live
from lbd.dispatch.core.run_times import name_hash
from lbd.dispatch.core.servers import Server
from lbd.errors import LbdError
from lbd.model import HostId, JobId
from tests.unit.dispatch.core.test_queues import Table
from tests.unit.dispatch.core.test_random_histories import EVENTS, RULES, SHARED_EVENTS, History

MANY = 12_000
EACH_BYTES = 110  # the queue's own share of the 200 bytes that tests/bench allows the whole process
WHEN = 0.0, Random(1)
CLOSED = HostSlots(HostId("h1"), 2, open_slots=0)


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=60, deadline=None)
@given(events=EVENTS, conserving=st.booleans(), seed=st.integers(0, 9))
def test_jobs_of_the_backlog_start_as_they_would_elsewhere(mode, events, conserving, seed):
    assert told(events, mode, conserving and mode in TIERED, seed)


@pytest.mark.parametrize("mode", ["fcfs", "tags", "shortest-queue"])
@settings(max_examples=100, deadline=None)
@given(events=SHARED_EVENTS, rules=st.sampled_from(RULES), seed=st.integers(0, 9))
def test_jobs_of_several_users_and_arrays_do_too(mode, events, rules, seed):
    assert told(events, mode, False, seed, rules)


def told(events, *more):
    """Returns which jobs started where in what order; the same with the backlog and without."""
    histories = History(*more), History(*more, prefix="j")
    for history in histories:
        for name, *details in events:
            getattr(history, name)(*details)
        history.finish()
    assert histories[0].told == histories[1].told
    return True


def life(*hosts):
    made = Lifecycle(make("fcfs", ()), Terms())
    for host in hosts:
        made.host_is(host, *WHEN)
    return made


def array_of(count):
    return (
        QueuedJob(JobId(str(n)), user="ann", array=7, submission=7, array_index=n)
        for n in range(1, count + 1)
    )


def singles_of(count, only=None):
    """Returns single jobs of two users in turn, each of a command of its own."""
    return (
        QueuedJob(
            JobId(str(n)), user=("ann", "bob")[n % 2], submission=n, only=only,
            command=name_hash(f"fit-{n}"), command_line=n,
        )
        for n in range(1, count + 1)
    )  # fmt: skip


@pytest.mark.parametrize("hosts", [(), (CLOSED,)], ids=["aside", "in line"])
@pytest.mark.parametrize("jobs", [array_of, singles_of])
def test_a_waiting_job_takes_few_bytes(jobs, hosts):
    queue = life(*hosts)
    tracemalloc.start()
    try:
        queue.submitted(jobs(MANY), *WHEN)
        assert len(queue.jobs) == MANY
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] / MANY < EACH_BYTES
        for n in range(1, MANY + 1):
            queue.kill(JobId(str(n)), 0, *WHEN)
        assert not queue.jobs
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] / MANY < EACH_BYTES / 2
    finally:
        tracemalloc.stop()


def test_any_job_of_the_backlog_can_be_killed_held_and_released():
    queue = life(CLOSED)
    queue.submitted(singles_of(5), *WHEN)
    (killed,) = queue.kill(JobId("3"), 0, *WHEN)
    (held,) = queue.hold(JobId("2"), "held by ann", *WHEN)
    assert (killed.job, held.job, held.reason) == ("3", "2", "held by ann")
    assert sorted(queue.jobs) == ["1", "2", "4", "5"]
    with pytest.raises(LbdError, match="has ended"):
        queue.kill(JobId("3"), 0, *WHEN)
    queue.release(JobId("2"), *WHEN)
    begins = []
    for number in range(1, 5):
        begins += queue.host_is(HostSlots(HostId("h1"), 9, open_slots=number), *WHEN)
    assert [(begin.job, begin.submission) for begin in begins] == [
        ("1", 1), ("4", 4), ("5", 5), ("2", 2)]  # fmt: skip


def test_a_task_starts_with_its_index():
    queue = life(HostSlots(HostId("h1"), 2))
    begins = queue.submitted(array_of(3), *WHEN)
    assert [(b.submission, b.array_index) for b in begins] == [(7, 1), (7, 2)]
    assert queue.jobs[JobId("3")].job == QueuedJob(
        JobId("3"), user="ann", array=7, submission=7, array_index=3
    )


def test_a_job_of_the_backlog_is_given_back_whole():
    queue = life(CLOSED)
    jobs = [one._replace(priority=int(one.id)) for one in singles_of(3)]
    queue.submitted(jobs, *WHEN)
    assert [queue.jobs[job.id].job for job in jobs] == jobs


def test_rows_move_up_and_all_are_found():
    queue = life(CLOSED)
    count = 4 * EMPTY_MIN
    queue.submitted(singles_of(count), *WHEN)
    left = {JobId(str(n)) for n in range(1, count + 1)}
    for n in Random(5).sample(range(1, count + 1), count - 10):
        queue.kill(JobId(str(n)), 0, *WHEN)
        left.remove(JobId(str(n)))
    assert set(queue.jobs) == left
    assert len(queue.queues.registry.backlog.ids) < count / 2
    assert all(queue.jobs[job].job.id == job for job in left)
    begins = queue.host_is(HostSlots(HostId("h1"), 99), *WHEN)
    assert [int(begin.job) for begin in begins] == sorted(map(int, left))


def test_a_job_that_waited_aside_has_its_place_when_its_host_comes():
    queue = life(CLOSED)
    queue.submitted([QueuedJob(JobId("1"), only=HostId("h2")), QueuedJob(JobId("2"))], *WHEN)
    queue.submitted([QueuedJob(JobId("3"), only=HostId("h2")), QueuedJob(JobId("4"))], *WHEN)
    assert [waiter.id for waiter in queue.queues.lines[1].order()] == ["2", "4"]
    queue.host_is(HostSlots(HostId("h2"), 9, open_slots=0), *WHEN)
    assert [waiter.id for waiter in queue.queues.lines[1].order()] == ["1", "2", "3", "4"]
    begins = queue.host_is(HostSlots(HostId("h2"), 9), *WHEN)
    assert [begin.job for begin in begins] == ["1", "2", "3", "4"]


def test_a_job_is_found_where_earlier_ones_have_left():
    backlog = Backlog()
    for n, name in enumerate(("1", "3", "4", "9")):
        assert backlog.takes(QueuedJob(JobId(name)))
        backlog.add(QueuedJob(JobId(name)), n, 0.0)
    for name in ("3", "8", "9"):
        assert not backlog.takes(QueuedJob(JobId(name))), "it is in their order"
    found = {n: row.id for n in range(-1, 12) if (row := backlog.find(n)) is not None}
    assert found == {1: "1", 3: "3", 4: "4", 9: "9"}


def test_jobs_are_counted_by_user_and_host_wherever_they_are():
    backlog = Backlog()
    jobs = Jobs(backlog)
    for n, origin in enumerate(("h1", "h1", "h2"), 1):
        job = QueuedJob(JobId(str(n)), user="ann", origin=origin)
        backlog.add(job, n, 0.0)
    jobs.keep(Live(QueuedJob(JobId("x"), user="ann", origin="h1")))
    jobs.keep(Live(QueuedJob(JobId("7"), user="bob", origin="h3")))
    assert jobs.among([0, 2, 3, 4, 7, 9]) == [2, 3, 7], "in the backlog or not"
    dropped = jobs.dropped
    jobs.drop(JobId("7"))
    assert jobs.dropped > dropped
    assert [jobs.of_origin(host) for host in ("h1", "h2", "h3")] == [3, 1, 0]
    assert jobs.of_user("ann") == 4
    assert [jobs.users_of(host) for host in ("h1", "h2", "h3")] == [{"ann"}, {"ann"}, set()]
    assert (len(jobs), len(list(jobs))) == (4, 4)
    # the same job belongs to another user
    jobs.keep(Live(QueuedJob(JobId("x"), user="bob", origin="h2")))
    assert (jobs.of_user("ann"), jobs.of_user("bob"), jobs.of_origin("h2")) == (3, 1, 2)
    jobs.drop(JobId("x"))
    assert (jobs.of_user("bob"), *map(dict, vars(jobs._counts).values())) == (0, {}, {}, {})


@pytest.mark.parametrize(
    ("job", "number"),
    [("7", 7), ("9" * 18, 10**18 - 1), ("9" * 19, -1), ("07", -1), ("x7", -1), ("٣", -1)],
)
def test_only_numbers_that_a_ledger_assigns_are_accepted(job, number):
    assert number_in(JobId(job)) == number


ARRIVALS = st.lists(st.tuples(st.booleans(), st.integers(1, 3), st.booleans()), max_size=20)


@settings(max_examples=60, deadline=None)
@given(ARRIVALS, st.sets(st.integers(0, 19), max_size=6), st.booleans())
def test_the_order_of_arrival_applies_where_nobody_takes_turns(arrivals, left, is_array):
    """This holds for rows and for entries, whichever jobs have left from among them."""
    queues, rng = Queues(make("fcfs", ())), Random(1)
    queues.host_is(HostSlots(HostId("h1"), 4, open_slots=0), 0.0, rng)
    for n, (is_row, slots, leaves) in enumerate(arrivals):
        job = QueuedJob(JobId(f"{n + 1}" if is_row else f"j{n + 1}"), slots)
        queues.arrived(job, 0.0, rng)
        if leaves and n in left:
            queues.ended(job.id, 0.0, rng)
    if is_array:
        queues.arrived(QueuedJob(JobId("99"), array=7), 0.0, rng)
    if (line := queues.lines.get(1)) is not None and line.jobs:
        order = [(queues.registry[one.id].number, one.slots) for one in line.order()]
        found = line.in_order_of_arrival()
        assert found == (None if is_array else order)
        assert [one.id for one in line.first(99)] == [one.id for one in line.order()]


def test_a_row_that_moves_takes_all_of_its_job_along():
    backlog, count = Backlog(), 2 * EMPTY_MIN
    rows = {
        n: backlog.add(
            QueuedJob(JobId(str(n)), submission=n // 7, array=n // 7, array_index=n % 7), n, n / 2
        )
        for n in range(1, count + 1)
    }
    for n in rows:
        if n % 5:
            backlog.remove(backlog.get(JobId(str(n))))
    assert len(backlog.ids) < count
    for n in range(5, count + 1, 5):
        row = backlog.get(JobId(str(n)))
        assert (row.number, row.work_s) == (n, n / 2)
        assert (row.job.submission, row.job.array_index) == (n // 7, n % 7)


def test_jobs_that_came_to_a_line_in_another_order_are_listed_by_their_ids():
    backlog = Backlog()
    for n in range(1, 5):
        backlog.add(QueuedJob(JobId(f"{n}")), n, 0.0).line = ONLY_LINE
    rows = Rows(backlog, ONLY_LINE)
    for job in "312":
        rows.add(backlog.get(JobId(job)))
    assert [row.id for row in rows] == ["1", "2", "3"]
    backlog.get(JobId("2")).line = None
    assert [row.id for row in rows] == ["1", "3"], "one has stepped aside"
    backlog.get(JobId("2")).line = ONLY_LINE
    rows.add(backlog.get(JobId("4")))
    rows.add(backlog.get(JobId("2")))
    assert [row.id for row in rows] == ["1", "2", "3", "4"], "it is back, and listed once"


def test_kinds_of_jobs_that_no_longer_wait_are_forgotten(monkeypatch):
    monkeypatch.setattr("lbd.dispatch.core.backlog.KINDS_KNOWN", 5)
    backlog = Backlog()
    rows = [backlog.add(QueuedJob(JobId(f"{n}"), name=f"{n}"), n, 0.0) for n in range(1, 40)]
    assert len(backlog._kinds) <= 5
    assert [row.kind.name for row in rows] == [f"{n}" for n in range(1, 40)]


@pytest.mark.parametrize("slots", [1, 4])  # they wait for the host, or for a larger one
def test_when_hosts_change_jobs_that_differ_in_their_names_are_looked_at_as_one(monkeypatch, slots):
    """A user's hundreds of thousands, each of another name, cost a look at all hosts each, whenever
    a host of anybody's had other slots."""
    table, looks, suits = Table(), [], Server.suits
    table.host("h1", slots=2, open_slots=0)
    for n in range(1, 200):
        table.arrive(f"{n}", slots=slots, name=f"n{n}")
    monkeypatch.setattr(Server, "suits", lambda *given: looks.append(1) or suits(*given))
    table.host("h1", slots=3, open_slots=0)
    assert len(looks) < 5
    assert table.host("h1", slots=4) == [f"{n}@h1" for n in range(1, 4 // slots + 1)]
