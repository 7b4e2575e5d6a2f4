"""Arrays with targets in the queue: how many of their tasks run, in whose place, and why."""

import math
from random import Random
from statistics import fmean

import pytest

from lbd.dispatch.core.discipline import HostSlots, QueuedJob, Target
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.shares import Rules
from lbd.dispatch.core.targets.arrays import Targets
from lbd.dispatch.core.targets.task_times import AGES_MAX, Earlier, TaskTimes, earlier
from lbd.model import HostId, JobId
from lbd.text.units import show_duration
from lbd.theory.target_time import harmonic, mean_left_s
from tests.unit.dispatch.core.test_cutoffs import row

MEAN_S = 10.0
FOUR_S = mean_left_s(64, 4, MEAN_S)  # with four at once
QUANTILES = [-math.log(1 - (n + 0.5) / 20) for n in range(20)]  # of an exponential variable
EARLIER = Earlier(others_s=tuple(MEAN_S * q / fmean(QUANTILES) for q in QUANTILES))


class Table:
    def __init__(self, slots=8, mode="fcfs", **rules):
        self.rng, self.now_s, self.running = Random(1), 0.0, []
        self.queues = Queues(make(mode, (1.0, 10.0)), Rules(**rules))
        self.host("h1", slots)

    def host(self, name, slots):
        self.note(self.queues.host_is(HostSlots(HostId(name), slots), self.now_s, self.rng))

    def note(self, starts):
        self.running += [start.job.id for start in starts]
        return [start.job.id for start in starts]

    def arrive(self, id_, **more):
        job = QueuedJob(JobId(str(id_)), **more)
        return self.note(self.queues.arrived(job, self.now_s, self.rng))

    def array(self, number, tasks, target, known=EARLIER, **more):
        """Adds array 1 with tasks 1001, 1002, …"""
        if not isinstance(target, Target):
            target = Target(target)
        self.queues.targets.expect(number, known)
        for n in range(1, tasks + 1):
            self.arrive(number * 1000 + n, array=number, target=target, **more)

    def ended(self, id_, whole=True):
        self.running.remove(str(id_))
        starts = self.queues.ended(JobId(str(id_)), self.now_s, self.rng, whole=whole)
        return self.note(starts)

    def of(self, number):
        return [id_ for id_ in self.running if int(id_) // 1000 == number]

    def standing(self, id_):
        return self.queues.targets.standing(self.queues.registry[JobId(str(id_))].job, self.now_s)


def test_it_starts_with_as_many_tasks_as_it_takes_and_leaves_the_rest():
    table = Table()
    table.array(1, 64, FOUR_S)
    assert len(table.running) == 4
    assert table.arrive("1") == ["1"]  # another user's job starts at once
    found = table.standing(1001)
    assert (found.at_once, found.running, found.left) == (4, 4, 64)
    assert found.why == "as many as it needs to end at its target time; fewer once fewer will do"
    waits = table.queues.shares.obstacle(table.queues.registry[JobId("1064")].job)
    said = "4 tasks of its array are running, as many as it needs to end at its target time"
    assert waits == said


def test_when_a_task_ends_it_starts_one_more_one_fewer_or_as_many():
    table = Table()
    table.array(1, 64, FOUR_S)
    table.now_s = MEAN_S / 4
    assert len(table.ended(1001)) == 1  # on schedule
    table.now_s += 3 * MEAN_S
    assert len(table.ended(1002)) == 2  # late: one more
    assert len(table.running) == 5
    early = Table()
    early.array(1, 64, FOUR_S)
    early.now_s = 0.1
    began = [len(early.ended(early.of(1)[0])) for _ in range(8)]
    assert set(began) == {0, 1}  # early: one fewer, and again
    assert len(early.running) == 4 - began.count(0)


def test_it_keeps_its_place_before_later_jobs_but_takes_no_more_than_it_needs():
    table = Table(slots=4)
    table.array(1, 64, FOUR_S)
    table.arrive("9")
    table.now_s = MEAN_S / 4
    assert table.ended(1001) == ["1005"]
    table.now_s += MEAN_S / 4
    assert table.ended(1002) == ["1006"]
    table.now_s += 0.1
    began = [table.ended(table.of(1)[0]) for _ in range(6)]
    assert ["9"] in began  # early: one fewer, and the slot goes to the waiting job
    assert len(table.of(1)) == 3


def test_an_array_that_cannot_be_in_time_takes_turns_as_any_array_does():
    table = Table(slots=2)
    table.array(1, 64, 1.0)
    why = table.standing(1001).why
    assert why.startswith("as many as there are slots for; it will end ")
    waits = table.queues.shares.obstacle(table.queues.registry[JobId("1064")].job)
    # Two figures for its end would differ: only one of them knows when slots come free.
    assert waits == "2 tasks of its array are running, as many as there are slots for"
    table.arrive("9")
    table.now_s = 1.0
    assert table.ended(1001) == ["1003"]  # its turn came before that of 9
    assert table.ended(1002) == ["9"]


def test_if_nothing_is_known_it_takes_turns_until_a_task_has_ended():
    table = Table(slots=2)
    table.array(1, 64, 1e6, known=Earlier())
    assert len(table.running) == 2
    found = table.standing(1001)
    assert found.end is None
    assert "it is not yet known" in found.why
    waits = table.queues.shares.obstacle(table.queues.registry[JobId("1064")].job)
    assert waits.endswith("the limit until it is known how long they take")
    table.arrive("9")
    table.now_s = 10.0
    table.ended(1001)
    table.ended(1002)
    assert "9" in table.running
    assert table.standing(1010).end is not None
    assert table.standing(1010).at_once == 1


def test_what_its_user_declares_counts_as_one_task_instead_of_those_of_other_arrays():
    table = Table(slots=40)
    table.array(1, 64, FOUR_S, known=Earlier(), work_s=MEAN_S)
    assert len(table.of(1)) == 4
    table.array(2, 64, FOUR_S, known=Earlier(others_s=(MEAN_S / 10,) * 20), work_s=MEAN_S)
    assert len(table.of(2)) == 4
    table.array(3, 64, FOUR_S, known=Earlier(), work_s=2 * MEAN_S, slots=2)
    assert len(table.of(3)) == 4
    known = Earlier(own_s=(MEAN_S,) * 99, others_s=(1.0,) * 20)
    table.array(4, 64, FOUR_S, known=known, work_s=2 * MEAN_S)
    assert table.queues.targets.arrays[4].batch.mean.mean_s == pytest.approx(1.01 * MEAN_S)


def test_the_mean_is_learnt_from_its_own_tasks():
    table = Table()
    table.array(1, 64, FOUR_S)
    for _ in range(1, 31):
        table.now_s += 1.0
        table.ended(table.of(1)[0])
    mean = table.queues.targets.arrays[1].batch.mean
    assert mean.tasks == 50
    assert mean.mean_s == pytest.approx((200 + mean.worked_s) / 50)
    assert mean.mean_s < 7.0


def test_the_suspended_time_of_a_task_is_not_learnt():
    table = Table(slots=1)
    table.array(1, 3, 1e5)
    (first,) = table.of(1)
    for now_s, suspended in ((0.5, True), (3600.0, False)):
        table.now_s = now_s
        table.queues.is_suspended(JobId(first), suspended, now_s)
    table.now_s += 0.5
    table.ended(first)
    array = table.queues.targets.arrays[1]
    assert array.times.seen_s[-1] == pytest.approx(1.0)
    assert array.batch.mean.worked_s == pytest.approx(1.0)
    (second,) = table.of(1)
    table.queues.is_suspended(JobId(second), True, table.now_s + 2.0)
    table.queues.lost(JobId(second), table.now_s + 900.0, table.rng)
    assert array.batch.mean.worked_s == pytest.approx(3.0)  # the time of a lost one counts


def test_a_target_that_cannot_be_met_is_reported_in_one_line():
    table = Table()
    table.array(1, 64, FOUR_S)
    assert table.queues.targets.remark(1, 0.0) == ""
    table.array(2, 64, 30.0)
    assert table.queues.targets.remark(7, 0.0) == ""
    line = table.queues.targets.remark(2, 0.0)
    assert line.startswith("the target (in 30s) cannot be met with ")
    assert " tasks at once, more when other arrays end: expected to end in " in line
    assert "\n" not in line
    table.array(4, 64, 30.0, at_once=1)
    line = table.queues.targets.remark(4, 0.0)
    assert " cannot be met with 1 task at once: expected to end in " in line, "its own limit"
    table = Table()
    table.queues.host_gone(HostId("h1"), 0.0, table.rng)
    table.array(3, 64, 30.0)
    assert table.queues.targets.remark(3, 0.0) == ""  # the future number of slots is unknown


def test_the_expected_lateness_is_reported():
    table = Table()
    table.array(1, 64, 30.0)
    found = table.standing(1001)
    late_s = found.end.mean_s - 30.0
    assert f"it will end {show_duration(late_s)} late on average" in found.why


def test_a_deadline_is_targeted_with_a_margin_for_the_drain():
    table = Table(slots=30)
    table.array(1, 64, FOUR_S)
    table.array(2, 64, Target(FOUR_S, is_deadline=True))
    assert (len(table.of(1)), len(table.of(2))) == (4, 5)
    found = table.queues.targets.arrays[2].batch.target_s
    assert 2.0 * MEAN_S < FOUR_S - found < 2.5 * MEAN_S
    assert "by its deadline" in table.standing(2001).why


def test_several_arrays_share_by_how_late_each_would_be():
    table = Table(slots=8)
    table.array(1, 64, mean_left_s(64, 6, MEAN_S))
    table.array(2, 64, mean_left_s(64, 6, MEAN_S))
    assert len(table.of(1)) == 6  # it was alone when it started, and nothing is taken from it
    assert len(table.of(2)) == 2
    table.now_s = 1.0
    table.ended(1001)
    table.ended(1002)
    assert (len(table.of(1)), len(table.of(2))) == (4, 4)
    assert len(table.running) == 8
    table.array(3, 64, mean_left_s(64, 6, MEAN_S))
    table.now_s = 2.0
    assert "other arrays with targets need the rest" in table.standing(1003).why


def test_an_array_of_unknown_tasks_takes_only_its_own_share():
    table = Table(slots=8)
    table.array(1, 64, 1e6, known=Earlier())
    table.array(2, 64, FOUR_S)
    for _ in range(8):
        table.now_s += 0.6
        if len(table.of(1)) > 4:
            table.ended(table.of(1)[0], whole=False)
    assert len(table.of(2)) == 4


def test_tasks_of_several_slots_count_as_tasks():
    table = Table(slots=8)
    table.array(1, 64, mean_left_s(64, 3, MEAN_S), slots=2)
    assert len(table.running) == 3
    assert table.queues.servers_by_host[HostId("h1")].used == 6
    wide = Table(slots=8)
    wide.array(1, 64, 1.0, slots=3)
    assert wide.standing(1001).at_once == 2


def test_a_lost_task_waits_again_and_a_cancelled_one_does_not():
    table = Table()
    table.array(1, 64, FOUR_S)
    table.now_s = 1.0
    table.running.remove("1001")
    again = table.note(table.queues.lost(JobId("1001"), 1.0, table.rng))
    assert again[0] == "1001"
    assert table.standing(1002).left == 64
    table.queues.ended(JobId("1064"), 1.0, table.rng, whole=False)
    assert table.standing(1002).left == 63
    table.ended(1002, whole=False)
    found = table.queues.targets.arrays[1].batch
    assert (found.left, found.mean.ended) == (62, 0)


def test_nothing_is_kept_of_an_array_whose_last_task_has_ended():
    table = Table()
    table.array(1, 2, 100.0)
    table.ended(1001)
    table.now_s = 5.0
    table.ended(1002)
    assert not table.queues.targets
    assert not table.running


def test_after_a_restart_it_continues_with_as_many_as_it_had():
    table = Table(slots=8)
    for n in range(1, 4):
        job = QueuedJob(JobId(f"100{n}"), array=1, target=Target(FOUR_S))
        if n == 1:
            table.queues.targets.expect(1, Earlier(own_s=(MEAN_S,) * 6))
        table.queues.found_running(job, HostId("h2"), 0.0)
        table.queues.targets.ran_before(job, 20.0)
        table.running.append(job.id)
    for n in range(4, 60):
        table.arrive(1000 + n, array=1, target=Target(FOUR_S))
    table.host("h2", 4)
    array = table.queues.targets.arrays[1]
    assert (array.at_once, array.batch.running) == (3, 3)
    assert array.batch.mean.worked_s == 60.0
    table.now_s = 100.0  # late
    assert len(table.ended(1001)) == 2  # one more at a time, also now


@pytest.mark.parametrize("mode", ["random", "tags", "shortest-queue"])
def test_under_another_discipline_an_earlier_target_limits_nobody(mode):
    table = Table(mode=mode)
    table.array(1, 8, 1e6)
    assert len(table.running) == 8
    assert table.standing(1001) is None


def test_with_one_that_waits_long_it_is_planned_for_the_time_that_is_left():
    table = Table(slots=4)
    for n in range(4):
        table.arrive(n + 1)
    table.array(1, 64, FOUR_S)
    table.now_s = FOUR_S - 2 * MEAN_S
    for n in range(4):
        table.ended(n + 1)
    assert len(table.of(1)) == 4
    assert not table.queues.targets.arrays[1].in_time


def test_with_many_arrays_shares_are_divided_only_from_time_to_time():
    calls = []
    targets = Targets(lambda job: calls.append(job) or 100)
    for number in range(1, 41):
        job = QueuedJob(JobId(str(number)), array=number, target=Target(1e6))
        targets.expect(number, EARLIER)
        targets.came(job)
    assert targets.obstacle(job, 0.0) == ""
    count = len(calls)
    for n in range(10):
        targets.began(job, 0.0)
        targets.lost(job, 0.01 * n)
        targets.obstacle(job, 0.01 * n)
    assert len(calls) == count


# What is known of task times


def ended(submission, name, seconds, command=b"fit", **more):
    values = {"submission": submission, "name": name, "command": command, "state": "done",
              "cause": "exited", "started": 100.0, "finished": 100.0 + seconds}  # fmt: skip
    return row(**(values | more))


def test_earlier_tasks_are_those_of_the_name_or_else_of_the_kind_of_command():
    rows = [
        ended(1, "fit", 4.0),
        ended(2, "fit", 5.0),
        ended(2, "other", 6.0),
        ended(2, "", 7.0, b"fit\0-x"),
        ended(2, "fit", 8.0, state="cancelled"),
        ended(2, "fit", 8.0, cause="timeout"),
        ended(2, "fit", 8.0, started=None),
    ]
    assert earlier(rows, 1, "fit", b"fit") == Earlier((4.0,), (5.0,))
    assert earlier(rows, 9, "", b"fit\0-y").others_s == (7.0,)
    assert earlier(rows, 9, "", b"other") == Earlier()


def test_earlier_arrays_count_for_twenty_tasks_at_most():
    assert Earlier().mean() is None
    mean = Earlier((1.0,) * 5, (5.0,) * 500).mean()
    assert (mean.tasks, mean.mean_s) == (25.0, pytest.approx((5 + 20 * 5) / 25))


def test_for_very_different_tasks_the_drain_and_the_ages_count():
    times = TaskTimes()
    times.add([1.0] * 9)
    assert times.drain is harmonic
    times.add([1.0] * 30 + [100.0])
    assert times.drain(4) > harmonic(4)
    assert times.beyond_means([50.0, 50.0], 3.0) > 10
    assert times.beyond_means([], 3.0) == 0
    assert times.beyond_means([500.0, 500.0], 10.0) == 2 * 50 - 2  # older than all: as long again
    assert times.beyond_means([500.0] * AGES_MAX, 500.0) == 0
    assert times.beyond_means([500.0] * (AGES_MAX + 1), 1.0) == 0
    assert TaskTimes().beyond_means([50.0], 3.0) == 0
    equal = TaskTimes()
    equal.add([7.0] * 10)
    assert equal.drain(4) == pytest.approx(0.8)
    assert equal.beyond_means([50.0], 7.0) == 0


def test_however_many_arrays_there_are_a_new_one_starts_at_once():
    table = Table(slots=1000)
    for number in range(1, 40):
        table.array(number, 3, 1e6, known=Earlier())
        assert len(table.of(number)) > 0


def test_what_takes_more_slots_if_need_be_is_not_expected_after_its_deadline():
    """It was said to take as many as it needs, and to be late in more than one of 20 cases."""
    table = Table(slots=8)
    table.array(1, 20, Target(150.0, is_deadline=True), known=Earlier())
    table.now_s = 6.0
    for id_ in range(1001, 1005):
        table.ended(id_)
    found = table.standing(1020)
    so_many = "as many as it needs to end by its deadline; fewer once fewer will do"
    assert (found.at_once, found.why) == (5, so_many)
    assert table.now_s + found.end.high_s == pytest.approx(150.0)
