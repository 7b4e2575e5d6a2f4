"""When an array will end: what is said beside what happens, in virtual time."""

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from statistics import median

import pytest

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.outlook.array_ends import end_of
from lbd.dispatch.core.outlook.arrays_played import pace
from lbd.dispatch.core.outlook.forecast import Forecast
from lbd.dispatch.core.outlook.line_maker import PLAYED_MAX
from lbd.model import NO_NEEDS, JobId, Needs
from tests.unit.dispatch.core.test_queues import Table

FIT = {"user": "ann", "command": 1, "command_line": 1}
OTHER = {"user": "bob", "command": 2, "command_line": 2}
KINDS: dict[str, Callable[[Random], float]] = {
    "alike": lambda rng: rng.uniform(6.0, 6.1),
    "varied": lambda rng: rng.uniform(3.0, 9.0),
    "exponential": lambda rng: rng.expovariate(1 / 6),
}
SIMILAR = ["alike", "varied"]
BESIDE = ["", "jobs", "array"]


class ArrayRun:
    """An array on one host, perhaps behind some jobs or beside another array of known commands."""

    def __init__(self, seed, tasks, slots, kind="varied", beside="", runs=0, at_once=0):
        """`runs`: how many jobs of its command line have ended."""
        self.rng, self.table, self.first, self.tasks = Random(seed), Table(), 1001, tasks
        self.forecast, self.seed = Forecast(self.table.queues), seed
        self.order, self.ended, self.ends, self.sizes_s = 0, 0, [], {}
        self.table.host("h1", slots)
        for _ in range(runs):
            self.has_run(KINDS[kind](self.rng), FIT)
        if beside:
            for _ in range(10):
                self.has_run(self.rng.uniform(4.0, 8.0), OTHER)
        for n in range(3 * slots if beside == "jobs" else 0):
            self.arrive(1 + n, self.rng.uniform(4.0, 8.0), **OTHER)
        for n in range(tasks):
            more = {"array": self.first, "at_once": at_once}
            self.arrive(self.first + n, KINDS[kind](self.rng), **FIT, **more)
        for n in range(2 * tasks // 3 if beside == "array" else 0):
            self.arrive(90_001 + n, self.rng.uniform(4.0, 8.0), **OTHER, array=90_001)

    def has_run(self, took_s, like):
        job = QueuedJob(JobId("x"), **like)
        self.table.queues.run_times.ended(job, took_s)
        self.table.queues.resource_times.ended(NO_NEEDS, took_s, (job.user, job.command))

    def arrive(self, number, took_s, **more):
        self.sizes_s[f"{number}"] = took_s
        self.begin(self.table.arrive(f"{number}", **more))

    def begin(self, starts):
        for start in starts:
            self.order += 1
            name = start.partition("@")[0]
            heappush(self.ends, (self.table.now_s + self.sizes_s[name], self.order, name))

    @property
    def own(self):
        numbers = range(self.first, self.first + self.tasks)
        found = [self.table.queues.registry.find(JobId(f"{n}")) for n in numbers]
        return [one for one in found if one is not None]

    def until(self, ended):
        """Goes on until so many of its tasks have ended; returns the time."""
        while self.ended < ended:
            self.table.now_s, _, name = heappop(self.ends)
            self.begin(self.table.ended(name))
            self.ended += self.first <= int(name) < self.first + self.tasks
        return self.table.now_s

    def said(self):
        left = self.own
        waits = [one for one in left if one.line is not None]
        last = waits[-1] if waits else None
        now_s = self.table.now_s
        return end_of(self.forecast, left[0].job, self.ended, len(waits), last, now_s)

    def looks(self, *at):
        """Returns what is said after so many ends, each with the true time that is left."""
        found = [(self.until(ended), self.said()) for ended in at]
        end_s = self.until(self.tasks)
        return [(said, end_s - at_s) for at_s, said in found]


def factors(looks):
    found = [said.wait_s / true_s for said, true_s in looks]
    return [max(one, 1 / one) for one in found]


def share_within(looks):
    within = [said.within_s[0] - 1 <= true_s <= said.within_s[1] + 1 for said, true_s in looks]
    return sum(within) / len(within)


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("kind", SIMILAR)
def test_of_a_known_command_line_the_end_is_known_from_the_start(kind, beside):
    """It was not, `before one of its tasks has ended`."""
    looks = []
    for seed in range(4):
        for tasks, slots in ((21, 4), (40, 16)):
            run = ArrayRun(seed, tasks, slots, kind, beside, runs=24)
            looks += run.looks(0, tasks // 3, 2 * tasks // 3)
    off_by = factors(looks)
    print(f"seeds 0 to 3: {sorted(off_by)}")
    assert median(off_by) < 1.1
    assert max(off_by) < 1.5
    assert share_within(looks) >= 0.85
    assert not any(said.is_rough for said, _ in looks)


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("kind", SIMILAR)
def test_of_an_unknown_command_line_it_is_known_once_tasks_have_ended(kind, beside):
    """At a third of the array it was off by a factor of up to 1.9, after the first task of 4."""
    looks = []
    for seed in range(4):
        for tasks, slots in ((21, 4), (40, 8)):
            run = ArrayRun(seed, tasks, slots, kind, beside)
            looks += run.looks(tasks // 3, 2 * tasks // 3)
    off_by = factors(looks)
    print(f"seeds 0 to 3: {sorted(off_by)}")
    assert median(off_by) < 1.15
    assert max(off_by) < 1.5
    known = [one for one in looks if one[0].within_s is not None]
    assert len(known) >= 4  # once twenty jobs have ended
    assert share_within(known) >= 0.8


@pytest.mark.parametrize("beside", ["", "jobs"])
def test_the_first_of_a_round_to_end_are_the_shortest(beside):
    run = ArrayRun(5, 24, 6, "varied", beside)
    while run.ended < 12:
        run.until(run.ended + 1)
        said, running = run.said(), sum(one.line is None for one in run.own)
        if said.wait_s is None:  # nothing is known of the jobs beside it
            continue
        is_early = run.ended < 2 * running
        assert (said.is_rough, "; take it as a rough guess: the " in said.how) == (is_early,) * 2
        assert not (run.ended < running and said.within_s)
    assert run.ended == 12
    known = ArrayRun(5, 24, 6, "varied", beside, runs=24)
    known.until(1)
    assert not known.said().is_rough


def test_before_anything_has_ended_it_is_said_what_is_missing():
    run = ArrayRun(1, 12, 4, "alike")
    said = run.said()
    assert (said.wait_s, said.within_s) == (None, None)
    assert said.how == (
        "not known yet: 0 of the 5 jobs needed have ended; one of its own tasks is enough where "
        "all commands ahead have run before"
    )
    (first, true_s), *_ = run.looks(8)
    assert first.wait_s == pytest.approx(true_s, rel=0.1)
    assert first.within_s is None  # twenty jobs are needed
    assert first.how == "by ended runs of the same commands"


@pytest.mark.parametrize("beside", ["", "jobs"])
def test_no_more_tasks_run_at_once_than_its_user_allows(beside):
    """Before its first task ran, the limit was left out of what was played."""
    looks = ArrayRun(3, 24, 8, "alike", beside, runs=24, at_once=2).looks(0, 8)
    assert max(factors(looks)) < 1.1


def test_when_its_last_tasks_run_their_ages_say_when_it_ends():
    run = ArrayRun(1, 8, 8, "alike", runs=24)
    run.table.now_s = 4.0
    said = run.said()
    assert said.wait_s == pytest.approx(2.0, abs=0.2)
    assert said.within_s[0] < 2.05 < said.within_s[1]


def test_the_last_task_may_take_longer_than_all_others():
    """It was said to end in less than a second, without more, once one other had taken longer."""
    looks = []
    for seed in range(100):
        looks += ArrayRun(seed, 20, 4, "exponential", runs=20).looks(19)
    print(f"seeds 0 to 99: {share_within(looks)}")
    assert share_within(looks) >= 0.85


@pytest.mark.parametrize("beside", BESIDE)
def test_a_long_array_goes_on_at_the_pace_of_its_first_thousand_tasks(beside):
    """Once another array has ended, it has all slots."""
    run = ArrayRun(7, 3000, 16, "varied", beside, runs=100)
    looks = run.looks(0, 1200)
    assert max(factors(looks)) < 1.15
    played = run.forecast.plays._lines[(1,)][1]
    assert len(played.line.waits) == PLAYED_MAX


def test_one_that_came_behind_a_thousand_others_has_their_pace():
    run = ArrayRun(7, 40, 4, "varied", runs=100)
    behind = ArrayRun(7, 40, 4, "varied", runs=100)
    behind.tasks = 0
    for n in range(1500):
        behind.arrive(10_001 + n, behind.rng.uniform(3.0, 9.0), **FIT)
    behind.first, behind.tasks = 20_001, 40
    for n in range(40):
        behind.arrive(20_001 + n, behind.rng.uniform(3.0, 9.0), **FIT, array=20_001)
    assert run.said().wait_s < 100.0
    assert max(factors(behind.looks(0))) < 1.2


def test_tasks_that_began_since_a_long_play_were_played(monkeypatch):
    monkeypatch.setitem(KINDS, "short", lambda rng: rng.uniform(0.05, 0.0505))
    run = ArrayRun(2, 2000, 4, "short", runs=24)
    run.said()
    run.until(150)  # 1.9 s later
    said, events = run.said(), run.forecast.plays._lines[(1,)][0]
    assert events < run.table.queues.shares.events  # it was not played again
    assert said.wait_s == pytest.approx(1850 * 0.05 / 4, rel=0.05)


def test_a_play_does_not_outlast_much_of_its_line():
    """It served for 5 s, whatever had ended since: what a slow first round had made it say, and
    then some seconds too much, was said until an array of short tasks had ended."""
    run = ArrayRun(1, 300, 4, "alike")
    for n in range(run.first + 8, run.first + 300):
        run.sizes_s[f"{n}"] = 0.05
    (early, true_early_s), _, (late, true_late_s) = run.looks(10, 120, 210)
    assert early.wait_s > 10 * true_early_s
    assert late.wait_s == pytest.approx(true_late_s, abs=0.2)


def test_the_interval_of_many_short_tasks_allows_for_what_hosts_do_beside():
    """Each task took a little longer, since its host was busy: the mean of hundreds hardly varies
    by their own times, and 3 of 4 true ends were outside."""
    run = ArrayRun(1, 300, 4, "alike", runs=24)
    for n in range(run.first, run.first + 300):
        run.sizes_s[f"{n}"] = 0.06
    ((said, true_s),) = run.looks(200)
    assert true_s == pytest.approx(1.5, abs=0.1)
    assert said.within_s == pytest.approx((0.75, 2.25), abs=0.25)


def test_nothing_is_said_of_tasks_behind_a_job_of_which_nothing_is_known():
    run = ArrayRun(2, 0, 1, "alike")
    for _ in range(24):
        run.table.queues.run_times.ended(QueuedJob(JobId("x"), **FIT), 6.0)
    run.first, run.tasks = 50_001, 6
    for n in range(6):
        run.arrive(50_001 + n, 6.0, **FIT, array=50_001)
    assert run.said().wait_s == pytest.approx(36.0, rel=0.1)
    run.arrive(60_001, 6.0, user="cy", command=9, command_line=9)
    said = run.said()
    assert said.wait_s is None
    assert said.how.startswith("not known yet: 0 of the 5 jobs")


def test_a_long_play_serves_an_array_that_has_come_since():
    """Until the line is played again, it is behind what was played."""
    run = ArrayRun(2, 400, 4, "alike", runs=24)
    run.said()
    run.first, run.tasks = 50_001, 30
    for n in range(30):
        run.arrive(50_001 + n, 6.0, **FIT, array=50_001)
    run.table.now_s = 0.5
    assert run.said().wait_s == pytest.approx(430 * 6.0 / 4, rel=0.1)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"needs": Needs(resources=(("gpu", 1),))}, "no estimate for tasks that need memory or "),
        ({"gang": 40}, ""),
    ],
)
def test_of_some_arrays_nothing_is_said(more, why):
    run = ArrayRun(1, 4, 1, "alike", runs=24)
    run.first, run.tasks = 50_001, 2
    for n in range(2):
        run.arrive(50_001 + n, 6.0, **FIT, array=50_001, **more)
    waits = run.own
    said = end_of(run.forecast, waits[0].job, 0, 2, waits[-1], 0.0)
    assert said.wait_s is None
    assert said.how.startswith(why)


def test_where_each_host_has_a_line_of_its_own_nothing_is_said():
    table = Table("round-robin")
    table.host("h1")
    for n in range(3):
        table.arrive(f"{n + 1}", array=1, **FIT)
    waits = table.queues.registry[JobId("3")]
    assert end_of(Forecast(table.queues), waits.job, 0, 2, waits, 0.0) == (None, "", False, None)


def test_of_tasks_that_all_begin_at_once_the_pace_includes_those_still_running_then():
    begins_s, ends_s = [10.0] * 3, [20.0] * 3
    assert pace(begins_s, [12.0, *ends_s]) == (10.0, 4)
    assert pace(begins_s, [10.0, *ends_s]) == (10.0, 3), "it has made room for them"
