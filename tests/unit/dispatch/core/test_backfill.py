"""Which jobs may pass a head that waits for several slots, and that they do not delay it."""

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbd.dispatch.core.backfill.reservation import Backfill, exceeded_rarely_s
from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.fcfs import Fcfs
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.shares import Rules
from lbd.model import Facts, HostId, JobId, Needs
from lbd.sim.queueing.backfill import BatchJob, easy_waits_s, waits_s

H1, H2 = HostId("h1"), HostId("h2")


class Table:
    def __init__(self, rule="limit", risk=0.1, **hosts):
        self.queues = Queues(Fcfs(), Rules(backfill=rule, backfill_risk=risk))
        self.rng, self.now_s = Random(1), 0.0
        for name, slots in (hosts or {"h1": 4}).items():
            self.queues.host_is(HostSlots(HostId(name), slots), 0.0, self.rng)

    def submit(self, number, slots, limit_s=0.0, **more):
        job = QueuedJob(JobId(str(number)), slots, limit_s=limit_s, user="ann", **more)
        return [int(start.job.id) for start in self.queues.arrived(job, self.now_s, self.rng)]

    def ended(self, number):
        starts = self.queues.ended(JobId(str(number)), self.now_s, self.rng)
        return [int(start.job.id) for start in starts]


@pytest.mark.parametrize(
    ("slots", "limit_s", "passes"),
    [(1, 100.0, True), (1, 101.0, False), (1, 0.0, False), (2, 100.0, False)],
)
def test_a_job_that_ends_before_the_head_can_start_may_pass_it(slots, limit_s, passes):
    table = Table()
    table.submit(1, 3, 100.0)
    assert table.submit(2, 4, 50.0) == []
    assert table.submit(3, slots, limit_s) == ([3] if passes else [])
    table.now_s = 100.0
    table.ended(3) if passes else None
    assert table.ended(1) == [2]


def test_a_job_that_passes_and_is_lost_repeatedly_starts_once_each_time():
    table = Table(h1=5)
    table.submit(1, 3, 100.0)
    table.submit(2, 5, 50.0)
    assert table.submit(3, 1, 10.0) == [3]
    for _ in range(3):
        starts = table.queues.lost(JobId("3"), table.now_s, table.rng)
        assert [start.job.id for start in starts] == ["3"]


def test_a_job_on_slots_that_the_head_leaves_may_run_for_ever():
    table = Table()
    table.submit(1, 3, 100.0)
    table.submit(2, 3, 50.0)
    assert table.submit(3, 1) == [3]
    assert table.submit(4, 1) == []  # the room that was left is taken


def test_without_the_setting_and_without_limits_no_job_passes():
    table = Table("off")
    table.submit(1, 3, 100.0)
    table.submit(2, 4, 50.0)
    assert table.submit(3, 1, 10.0) == []
    table = Table()
    table.submit(1, 3)  # it may run for ever, so the head's start is unknown
    table.submit(2, 4, 50.0)
    assert table.submit(3, 1, 10.0) == []


def test_hosts_other_than_that_of_the_head_are_free_for_all():
    table = Table(h1=4, h2=4)
    table.submit(1, 4, 100.0)
    table.submit(2, 2, 200.0)
    table.submit(3, 4, 50.0)  # it starts on the first of them, at 100 s
    assert table.submit(4, 2) == [4]


def test_the_job_after_the_head_is_considered_when_slots_become_free():
    table = Table()
    table.submit(1, 2, 100.0)
    table.submit(2, 2, 50.0)
    table.submit(3, 4, 50.0)
    assert table.submit(4, 2, 60.0) == []
    table.now_s = 30.0
    assert table.ended(2) == [4]  # until 90 s


def test_learnt_run_times_replace_a_limit_and_if_they_are_wrong_the_head_starts_late():
    table = Table("learnt", 0.1)
    for number in range(10):
        assert table.submit(100 + number, 1, name="short") == [100 + number]
        table.now_s += 5.0 + number / 100
        table.ended(100 + number)
    table.submit(1, 3, 100.0)
    table.submit(2, 4, 50.0)
    assert table.submit(3, 1, name="other") == []
    assert table.submit(4, 1, name="short") == [4]


@pytest.mark.parametrize(
    ("runs_s", "risk", "expected"),
    [([], 0.1, None), (range(1, 9), 0.1, None), (range(1, 10), 0.1, 9), (range(1, 20), 0.1, 18),
     (range(1, 20), 0.5, 10), ([3.0], 0.5, 3.0)],
)  # fmt: skip
def test_of_earlier_runs_the_shortest_is_taken_that_is_exceeded_rarely_enough(
    runs_s, risk, expected
):
    found = exceeded_rarely_s(map(float, runs_s), risk)
    assert found == (float("inf") if expected is None else expected)


BATCH = st.builds(
    BatchJob,
    submitted_s=st.integers(0, 300).map(float),
    run_s=st.integers(1, 60).map(float),
    slots=st.integers(1, 8),
    limit_s=st.integers(0, 60).map(float),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(BATCH, min_size=2, max_size=25))
def test_with_limits_it_is_easy_and_the_head_is_never_delayed(drawn):
    jobs = sorted(
        (replace(job, limit_s=job.run_s + job.limit_s) for job in drawn),
        key=lambda job: job.submitted_s,
    )
    assert waits_s(jobs, 8, "limit") == easy_waits_s(jobs, 8)


@settings(max_examples=100, deadline=None)
@given(st.lists(BATCH, min_size=2, max_size=25))
def test_with_exact_limits_no_head_starts_later_than_without_backfill(drawn):
    """The first job that waits in the strict order starts at the same time."""
    jobs = sorted(
        (replace(job, limit_s=job.run_s) for job in drawn), key=lambda job: job.submitted_s
    )
    strict, filled = waits_s(jobs, 8, "off"), waits_s(jobs, 8, "limit")
    first = next((n for n, wait in enumerate(strict) if wait > 0), None)
    assert first is None or filled[first] <= strict[first]


GPU, GPUS = Needs((("gpu", 1),)), Needs((("gpu", 2),))


def with_gpus():
    table = Table()
    facts = Facts(("linux",), (("gpu", 2, 0),))
    table.queues.host_is(HostSlots(H1, 8, facts=facts), 0.0, table.rng)
    return table


def test_a_head_that_waits_for_a_resource_is_not_delayed_by_jobs_that_take_it():
    table = with_gpus()
    assert table.submit(1, 1, 100.0, needs=GPU) == [1]
    assert table.submit(2, 1, 50.0, needs=GPUS) == []
    assert table.submit(3, 1, 101.0, needs=GPU) == []  # it would hold one when the head could start
    assert table.submit(4, 1, 500.0) == [4]  # it takes none of it
    assert table.submit(5, 1, 100.0, needs=GPU) == [5]
    assert table.submit(6, 1, 9.0, needs=GPU) == []  # none is free
    table.now_s = 100.0
    table.ended(5)
    assert table.ended(1) == [2]


@pytest.mark.parametrize("where", [{"only": H2}, {"barred": frozenset((H1,))}])
def test_slots_are_reserved_for_the_head_only_on_a_host_that_it_may_use(where):
    """A job on a host that the head may not use does not delay it, however long it takes."""
    table = Table(h1=4, h2=4)
    table.submit(1, 3, 100.0, only=H1)
    table.submit(2, 3, 200.0, only=H2)
    assert table.submit(3, 4, **where) == []
    assert table.submit(4, 1) == [4]
    assert table.queues.registry.entries[JobId("4")].host == H1
    assert table.submit(5, 1, 201.0) == []
    assert table.submit(6, 1, 200.0) == [6]


def test_no_job_passes_the_head_beyond_a_limit_of_its_own():
    table = Table()
    table.queues.shares.rules = Rules(backfill="limit")
    table.submit(1, 3, 100.0)
    assert table.submit(2, 4, 50.0) == []
    assert table.submit(3, 1, 10.0, array=3, at_once=1) == [3]
    table.now_s = 1.0
    table.submit(4, 1, 10.0, array=3, at_once=1)
    assert table.ended(3) == [4]  # one at once, however many slots are free


def test_earlier_runs_of_the_same_command_line_let_a_job_pass():
    table = Table("learnt", 0.1)
    for number in range(20):
        took_s, line = (5.0, 7) if number % 2 else (500.0, 8)
        ran = QueuedJob(JobId("0"), user="ann", command=3, command_line=line)
        table.queues.run_times.ended(ran, took_s)
    table.submit(1, 3, 100.0)
    table.submit(2, 4, 50.0)
    assert table.submit(3, 1, command=3, command_line=8) == []
    assert table.submit(4, 1, command=3, command_line=7) == [4]


def test_the_nearest_kind_with_enough_known_runs_counts():
    learnt = Backfill("learnt", risk=0.25)  # of three runs the longest
    line = QueuedJob(JobId("1"), command=3, command_line=7)
    like = line._replace(command_line=8)
    for run_s in (1.0, 2.0):
        learnt.run_times.ended(line, run_s)
    learnt.run_times.ended(like, 9.0)
    assert learnt.longest_s(line) == 9.0
    learnt.run_times.ended(line, 3.0)
    assert learnt.longest_s(line) == 3.0
    assert Backfill("limit", 0.25, learnt.run_times).longest_s(line) == math.inf
