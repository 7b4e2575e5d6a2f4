"""Arrays with targets in the queue that runs in production, in virtual time.

`lbd sim target` simulates the rule by itself, with an unlimited supply of slots. Here it is the
dispatcher's `Queues`: hosts of a few slots each, other jobs that wait, hosts that are lost.
"""

from heapq import heappop, heappush
from itertools import count
from math import log
from random import Random
from statistics import fmean, variance

import pytest

from lbd.dispatch.core.discipline import HostSlots, QueuedJob, Target
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.shares import Rules
from lbd.dispatch.core.targets.task_times import Earlier
from lbd.model import HostId, JobId
from lbd.theory.target_time import mean_left_s, variance_left_s2, variance_steered_s2

MEAN_S = 10.0


class World:
    def __init__(self, seed, hosts=4, slots=8, rules=None):
        self.rng = Random(seed)
        self.queues = Queues(make("fcfs", ()), rules or Rules())
        self.now_s, self.order, self.ids = 0.0, count(), count(1)
        self.ends, self.sizes, self.attempts = [], {}, {}
        self.ended_s, self.peak, self.running, self.array_of = {}, {}, {}, {}
        for number in range(hosts):
            host = HostSlots(HostId(f"h{number}"), slots)
            self.began(self.queues.host_is(host, 0.0, self.rng))

    def array(self, number, sizes, target, known=(), **more):
        self.queues.targets.expect(number, Earlier(others_s=tuple(known)))
        for size in sizes:
            self.job(size, array=number, target=target, **more)

    def job(self, size, array=0, **more):
        id_ = JobId(str(next(self.ids)))
        self.sizes[id_], self.array_of[id_] = size, array
        job = QueuedJob(id_, array=array, **more)
        self.began(self.queues.arrived(job, self.now_s, self.rng))

    def began(self, starts):
        for start in starts:
            id_, array = start.job.id, start.job.array
            attempt = self.attempts[id_] = self.attempts.get(id_, 0) + 1
            self.running[array] = self.running.get(array, 0) + 1
            self.peak[array] = max(self.peak.get(array, 0), self.running[array])
            heappush(self.ends, (self.now_s + self.sizes[id_], next(self.order), id_, attempt))

    def lose(self, id_):
        """Loses the task's host; the task has to start again."""
        self.running[self.array_of[id_]] -= 1
        self.began(self.queues.lost(id_, self.now_s, self.rng))

    def step(self):
        """Advances to the end of the next task; returns whether one ended."""
        while self.ends:
            self.now_s, _, id_, attempt = heappop(self.ends)
            if self.attempts[id_] == attempt and id_ in self.queues.registry:
                array = self.array_of[id_]
                self.running[array] -= 1
                self.ended_s[array] = self.now_s
                self.began(self.queues.ended(id_, self.now_s, self.rng))
                return True
        return False

    def run(self):
        while self.step():
            pass


def exponential(rng, tasks):
    return [rng.expovariate(1 / MEAN_S) for _ in range(tasks)]


QUANTILES = [-log(1 - (n + 0.5) / 20) for n in range(20)]
KNOWN = [MEAN_S * q / fmean(QUANTILES) for q in QUANTILES]  # of tasks that ended before


def ends_of(replications, tasks=64, slots=4, known=KNOWN, sizes=exponential, **world):
    target_s = mean_left_s(tasks, slots, MEAN_S)
    ends = []
    for seed in range(replications):
        run = World(seed, **world)
        run.array(1, sizes(run.rng, tasks), Target(target_s), known)
        run.run()
        ends.append(run.ended_s[1])
    return target_s, ends


def test_the_end_varies_as_little_as_theory_says_and_less_than_with_fixed_slots():
    """SAA's figure is its own formula: with fixed slots nothing is left to simulate."""
    target_s, ends = ends_of(200)
    theory, fixed = (f(64, 4, MEAN_S) for f in (variance_steered_s2, variance_left_s2))
    assert fmean(ends) == pytest.approx(target_s, abs=3 * (theory / 200) ** 0.5 + 0.2 * MEAN_S)
    assert 0.75 * theory < variance(ends) < 1.3 * theory  # 200 runs: a tenth either way is chance
    assert variance(ends) < 0.5 * fixed


@pytest.mark.parametrize(
    ("name", "sizes", "spread"),
    [
        ("unknown", exponential, 3.6),
        ("all the same", lambda _, tasks: [MEAN_S] * tasks, 0.1),
        ("uniform", lambda rng, tasks: [2 * MEAN_S * rng.random() for _ in range(tasks)], 1.0),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tasks_of_unknown_length_are_learnt_in_time(name, sizes, spread):
    target_s, ends = ends_of(100, known=(), sizes=sizes)
    assert fmean(ends) == pytest.approx(target_s, abs=0.4 * MEAN_S)
    assert variance(ends) < spread * MEAN_S**2


def test_the_remaining_slots_go_to_others_who_lose_little():
    """A target of four slots on eight: jobs that come meanwhile have four, as if it were not
    there."""
    waited = []
    for seed in range(20):
        run = World(seed, hosts=2, slots=4)
        run.array(1, exponential(run.rng, 64), Target(mean_left_s(64, 4, MEAN_S)), KNOWN)
        for _ in range(16):
            run.job(MEAN_S)
        run.run()
        waited.append(run.ended_s[0])
        assert run.peak[1] <= 8
    assert fmean(waited) < 5.5 * MEAN_S  # 16 jobs on four slots: 4 × MEAN_S


def test_two_arrays_that_need_more_than_all_slots_are_about_equally_late():
    late = []
    for seed in range(20):
        run = World(seed, hosts=2, slots=4)
        for number in (1, 2):
            target = Target(mean_left_s(64, 6, MEAN_S))
            run.array(number, exponential(run.rng, 64), target, KNOWN)
        run.run()
        late.append(run.ended_s[1] - run.ended_s[2])
    assert abs(fmean(late)) < 2 * MEAN_S


def test_lost_tasks_are_compensated():
    ends = []
    for seed in range(60):
        run = World(seed)
        target_s = mean_left_s(64, 4, MEAN_S)
        run.array(1, exponential(run.rng, 64), Target(target_s), KNOWN)
        steps = 0
        while run.step():
            steps += 1
            if steps % 8 == 0 and steps < 50:  # one host's tasks
                lost = list(run.queues.servers_by_host[HostId("h1")].running)
                for id_ in lost:
                    run.lose(id_)
        assert run.queues.registry.entries == {}
        ends.append(run.ended_s[1])
    assert fmean(ends) == pytest.approx(target_s, abs=0.6 * MEAN_S)
