"""What the first runs of a command say about its running and waiting jobs."""

from random import Random

import pytest

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.outlook.arrivals import Arrivals
from lbd.dispatch.core.outlook.forecast import Forecast
from lbd.dispatch.core.outlook.line_played import Line, Queued, Running
from lbd.dispatch.core.outlook.lives import Lives
from lbd.model import HostId, JobId
from lbd.theory.lifetimes import UniformLog
from tests.unit.dispatch.core.test_queues import Table

LIVES = UniformLog(1.0, 100.0)


def test_running_jobs_are_longer_than_the_first_that_ended():
    """Three jobs of a new command ended after about 10 s; five that started with them still run."""
    lives = Lives((9.0, 10.0, 11.0), LIVES, alike="fit")
    runs = tuple(Running(0, 1, 40.0, lives, n) for n in range(5))
    waits = tuple(Queued(1, lives, 10 + n) for n in range(3))
    plays = Line((HostId("h1"),), (-4,), runs, waits, {}).begins_s(101)
    # They run one after another on one slot: the second takes until the third starts.
    took_s = sorted(third_s - second_s for _, second_s, third_s in plays)
    assert took_s[50] > 40.0
    alone = Line((HostId("h1"),), (1,), (), waits, {}).begins_s(101)
    assert sorted(third_s - second_s for _, second_s, third_s in alone)[50] < 12.0


def test_uncertainty_from_few_runs_is_not_averaged_out_over_many_waiting_jobs():
    """Fifty jobs that wait for each other are together as uncertain as one of them."""
    few, many = ((5.0, 10.0, 20.0) * count for count in (1, 30))
    widths = []
    for like_s in (few, many):
        lives = Lives(tuple(sorted(like_s)), None, alike="fit")
        waits = tuple(Queued(1, lives, n) for n in range(50))
        low_s, _, high_s = Line((HostId("h1"),), (1,), (), waits, {}).spreads(101)[-1]
        widths.append(high_s / low_s)
    assert widths[0] > 1.6 > 1.5 > widths[1]


class NewCommand:
    """Sixteen jobs of a command that never ran, on four slots of a lab where other commands did."""

    def __init__(self, rng):
        self.rng, self.table = rng, Table()
        for _ in range(30):
            self.table.queues.resource_times.slots.ended(rng.lognormvariate(3.0, 1.0))
        mean_s = rng.lognormvariate(3.0, 1.0)
        self.run_s = {f"{n}": mean_s * rng.lognormvariate(0.0, 0.5) for n in range(1, 17)}
        self.table.host("h1", 4)
        self.ends_s, self.began_s = {}, {}
        for name in self.run_s:
            self.begin(self.table.arrive(name, user="ann", command=3, command_line=7))

    def begin(self, starts):
        for start in starts:
            name, now_s = start.partition("@")[0], self.table.now_s
            self.began_s[name], self.ends_s[name] = now_s, now_s + self.run_s[name]

    def one_ends(self):
        name = min(self.ends_s, key=self.ends_s.get)
        self.table.now_s = self.ends_s.pop(name)
        self.begin(self.table.ended(name))

    def is_within(self, ended):
        """After this many have ended, does the last job start within its interval?"""
        for _ in range(ended):
            self.one_ends()
        asked_s, last = self.table.now_s, self.table.queues.registry[JobId("16")]
        low_s, high_s = Forecast(self.table.queues).of(last, asked_s).within_s
        while "16" not in self.began_s:
            self.one_ends()
        return low_s <= self.began_s["16"] - asked_s <= high_s


@pytest.mark.parametrize("ended", [1, 2, 4])
def test_forecasts_from_the_first_runs_of_a_command_come_true_nine_times_in_ten(ended):
    """The short jobs are the first to end."""
    within = sum(NewCommand(Random(seed)).is_within(ended) for seed in range(40))
    assert within >= 32


class LabelledJobs:
    """Forty jobs of a command that never ran arrive one by one, each with a label of its own, on
    eight slots of a cluster where so far only short tasks ran."""

    def __init__(self, rng, own_line, gap_s):
        self.table, self.ends_s, self.waits_s = Table(), {}, {}
        for _ in range(600):
            self.table.queues.resource_times.slots.ended(rng.uniform(0.1, 0.5), ("ann", "short"))
        for host in range(4):
            self.table.host(f"h{host}", 2)
        self.run_s = {f"{n}": rng.uniform(4.0, 15.0) for n in range(40)}
        arrivals, foreseen, self.came_s = Arrivals(Forecast(self.table.queues)), {}, {}
        for n, name in enumerate(self.run_s):
            self.until(1.0 + n * gap_s)
            line = n + 1 if own_line else 7
            like = {"user": "ann", "command": 3, "command_line": line, "name": f"s{n}"}
            job = QueuedJob(JobId(""), **like)
            foreseen[name] = arrivals.of(job, self.table.now_s)
            self.came_s[name] = self.table.now_s
            self.begin(self.table.arrive(name, **like))
        self.until(1e6)
        self.outcomes = [
            (one, self.waits_s[name]) for name, one in foreseen.items() if one and one.wait_s > 0
        ]

    def begin(self, starts):
        for start in starts:
            name, now_s = start.partition("@")[0], self.table.now_s
            self.waits_s[name] = now_s - self.came_s[name]
            self.ends_s[name] = now_s + self.run_s[name]

    def until(self, at_s):
        while self.ends_s and min(self.ends_s.values()) <= at_s:
            name = min(self.ends_s, key=self.ends_s.get)
            self.table.now_s = self.ends_s.pop(name)
            self.begin(self.table.ended(name))
        self.table.now_s = at_s


@pytest.mark.parametrize("own_line", [False, True])
@pytest.mark.parametrize("gap_s", [0.1, 0.4])
def test_jobs_of_a_new_command_are_alike_whatever_their_labels(own_line, gap_s):
    """With a run time drawn for each label, the forecast was the shortest of eight draws: below a
    second, and surely so."""
    found = [
        one for seed in range(4) for one in LabelledJobs(Random(seed), own_line, gap_s).outcomes
    ]
    assert len(found) > 100
    within = sum(one.within_s[0] <= waited_s <= one.within_s[1] for one, waited_s in found)
    assert within >= 0.8 * len(found)


def test_jobs_behind_those_of_a_new_command_are_judged_by_the_oldest_of_them():
    table = Table()
    for n in range(200):
        table.queues.resource_times.slots.ended(0.3 + n / 1000, ("ann", f"short {n // 20}"))
    table.host("h1", 2)
    for n in range(8):
        table.now_s = 5.0 * min(n, 1)  # one has run for 5 s, another has just begun
        table.arrive(f"{n}", user="ann", command=3, command_line=7, name=f"s{n}")
    found = Forecast(table.queues).of(table.queues.registry[JobId("7")], 5.0)
    assert found.is_rough
