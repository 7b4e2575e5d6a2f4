"""`lbctl advise`: what another `dispatch.malleable` would have done to a day's queued jobs. Pure.

The production queue runs the day again in virtual time, as fcfs, once for each strategy: the same
jobs arrive at the same times for the same slots. The run time of a malleable job on other slots
follows from its speedup, fitted to the day's runs of its user's command, or linear if they do not
allow a fit. Each strategy knows what was learnt of the whole day, so it is judged with what the
dispatcher knows after a while.

Unknown are other commands on the hosts' slots, and jobs that were cancelled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from math import inf
from random import Random
from statistics import fmean

from lbd.config.dispatch import STRATEGIES, Strategy
from lbd.dispatch.core.discipline import HostSlots, QueuedJob, Start
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.malleable.decision import Command, Rule
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.run_times import name_hash
from lbd.model import HostId, JobId
from lbd.sim.engine.intervals import half_width
from lbd.theory.speedup_fit import SpeedupFit, fit

FEWEST = 20  # malleable jobs needed for advice
JOBS_MAX = 2000  # the latest jobs: takes some seconds, plus 0.1 s for each command
PARTS = 10  # of the day: their mean savings are treated as independent
GAIN_MIN = 0.02  # a smaller gain is not worth a change
SHORTEST_S = 1e-3
LATER_S = 1e-6  # time must advance even if the job at the head waits


@dataclass(frozen=True, slots=True)
class PastQueued:
    submitted: float  # UNIX seconds, like the next two
    started: float
    finished: float
    least: int
    held: int
    most: int
    user: str
    command: str

    @property
    def run_s(self) -> float:
        return max(SHORTEST_S, self.finished - self.started)

    @property
    def is_malleable(self) -> bool:
        return self.most > self.least


@dataclass(frozen=True, slots=True)
class MalleableAdvice:
    """All values except `others_s` are for the malleable jobs."""

    strategy: Strategy
    turnaround_s: float  # mean
    saved_s: float  # against the present strategy
    saved_ci_s: float
    others_s: float  # mean turnaround of the other jobs; 0 if there are none
    is_better: bool


def results(
    jobs: Sequence[PastQueued], hosts: Sequence[tuple[str, int]], now: Strategy
) -> list[MalleableAdvice]:
    """Returns the present strategy first; empty if too few jobs were malleable."""
    jobs = sorted(jobs, key=lambda job: job.submitted)[-JOBS_MAX:]
    if sum(job.is_malleable for job in jobs) < FEWEST or not hosts:
        return []
    order = [now, *(strategy for strategy in STRATEGIES if strategy != now)]
    fits = Fits()
    found = [MalleableReplay(jobs, hosts, strategy, fits).run() for strategy in order]
    return [
        result(jobs, strategy, found[0], after)
        for strategy, after in zip(order, found, strict=True)
    ]


def result(
    jobs: Sequence[PastQueued], strategy: Strategy, before: Sequence[float], after: Sequence[float]
) -> MalleableAdvice:
    which = [n for n, job in enumerate(jobs) if job.is_malleable]
    saved = [before[n] - after[n] for n in which]
    edges = [len(saved) * part // PARTS for part in range(PARTS + 1)]
    means = [fmean(saved[a:b]) for a, b in pairwise(edges)]
    saved_s, width_s = fmean(saved), half_width(means) or 0.0
    others = [one for one, job in zip(after, jobs, strict=True) if not job.is_malleable]
    better = saved_s > max(width_s, GAIN_MIN * fmean(before[n] for n in which))
    turnaround_s = fmean(after[n] for n in which)
    return MalleableAdvice(
        strategy, turnaround_s, saved_s, width_s, fmean(others) if others else 0.0, better
    )


def best(found: Sequence[MalleableAdvice]) -> MalleableAdvice | None:
    better = [one for one in found if one.is_better]
    return max(better, key=lambda one: one.saved_s, default=None)


Fits = dict[Command, SpeedupFit]  # the same under each strategy


class MalleableReplay:
    """`fits` come from an earlier replay of these jobs; each takes a tenth of a second to make."""

    def __init__(
        self,
        jobs: Sequence[PastQueued],
        hosts: Sequence[tuple[str, int]],
        strategy: Strategy,
        fits: Fits,
    ) -> None:
        self.jobs, self.rng = jobs, Random(1)
        self.queues = Queues(make("fcfs", ()), malleable=Rule(strategy))
        self.turnarounds_s = [job.finished - job.submitted for job in jobs]
        self._ends: list[tuple[float, int]] = []
        self._learn(fits)
        slots = [HostSlots(HostId(name), count) for name, count in hosts if count > 0]
        self.queues.hosts_are(slots, 0.0, self.rng)

    def _learn(self, fits: Fits) -> None:
        heads = self.queues.heads
        for job in self.jobs:
            heads.slot_times.ended(job.run_s * job.held)
            if job.most > 1:
                heads.speedups.ended(job.user, name_hash(job.command), job.held, job.run_s)
        while (wanted := heads.speedups.to_fit()) is not None:
            command, runs = wanted
            if command not in fits:
                fits[command] = fit(runs)
            heads.speedups.fitted(command, fits[command])

    def run(self) -> list[float]:
        """Returns each job's turnaround. A job that fits on no host now has the one it had."""
        zero_s, came, now_s = self.jobs[0].submitted, 0, 0.0
        while True:
            arrives_s = self.jobs[came].submitted - zero_s if came < len(self.jobs) else inf
            ends_s = self._ends[0][0] if self._ends else inf
            asks_s = min((one.again_s for one in self.queues.heads.asked.values()), default=inf)
            if min(arrives_s, ends_s, asks_s) == inf:
                return self.turnarounds_s
            now_s = max(now_s, min(arrives_s, ends_s, asks_s + LATER_S))
            if ends_s <= now_s:
                _, number = heappop(self._ends)
                self.turnarounds_s[number] = now_s + zero_s - self.jobs[number].submitted
                starts = self.queues.ended(JobId(str(number)), now_s, self.rng)
            elif arrives_s <= now_s:
                starts = self.queues.arrived(self._queued(came), now_s, self.rng)
                came += 1
            else:
                starts = self.queues.asked_again(now_s, self.rng)
            self._begin(starts, now_s)

    def _queued(self, number: int) -> QueuedJob:
        job = self.jobs[number]
        most = job.most if job.is_malleable else 0
        command = name_hash(job.command) if job.most > 1 else 0
        return QueuedJob(
            JobId(str(number)), job.least, slots_most=most, user=job.user, command=command
        )

    def _begin(self, starts: Sequence[Start], now_s: float) -> None:
        for start in starts:
            number = int(start.job.id)
            job, run_s = self.jobs[number], self.jobs[number].run_s
            if job.is_malleable:
                speedup = self.queues.heads.known(start.job).speedup
                run_s *= speedup.at(job.held) / speedup.at(start.slots)
            heappush(self._ends, (now_s + run_s, number))
