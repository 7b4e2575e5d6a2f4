"""The malleable jobs of Downey's simulations (UCB/CSD-97-929, 1997, sections 2.2 and 4).

Sequential lifetimes L are uniform in their logarithm from e² to e¹² seconds, average parallelism A
from 1 to 128, σ is uniform from 0 to 2. Jobs arrive for twelve hours at a rate of λ = load · slots
/ E[L] (Poisson); in the night that follows none arrive until all have run.

A recorded trace only has arrivals, run times and processors. A and σ are drawn as above, and L is
set to match the record: the run time on that many processors times the speedup there. Predictors
then know the log-uniform distribution nearest to these lifetimes.
"""

from dataclasses import dataclass
from math import exp, log
from random import Random
from typing import NamedTuple

from lbd.sim.queueing.trace import TraceJob
from lbd.theory.allocation import Malleable
from lbd.theory.lifetimes import UniformLog, fit
from lbd.theory.speedup import Speedup

LIFETIMES = UniformLog(exp(2), exp(12))
PARALLELISM_MOST = 128.0
SIGMA_MOST = 2.0
DAY_S = 12 * 3600.0


class MalleableArrival(NamedTuple):
    after_s: float  # since the start of its day
    job: Malleable


Day = list[MalleableArrival]


def drawn_speedup(rng: Random) -> Speedup:
    parallelism = exp(rng.uniform(0.0, log(PARALLELISM_MOST)))
    return Speedup(parallelism, rng.uniform(0.0, SIGMA_MOST))


@dataclass(frozen=True, slots=True)
class MalleableWorkload:
    slots: int = 128
    load: float = 0.75  # ρ, sequential work over capacity, during the day

    @property
    def rate_per_s(self) -> float:
        return self.load * self.slots / LIFETIMES.mean_s

    def day(self, rng: Random) -> Day:
        found: Day = []
        at_s = rng.expovariate(self.rate_per_s)
        while at_s < DAY_S:
            work_s = LIFETIMES.quantile_s(rng.random())
            job = Malleable(1, self.slots, drawn_speedup(rng), work_s)
            found.append(MalleableArrival(at_s, job))
            at_s += rng.expovariate(self.rate_per_s)
        return found

    def lifetimes(self, _: Day) -> UniformLog:
        return LIFETIMES

    def arrivals_last_s(self, _: Day) -> float:
        return DAY_S


@dataclass(frozen=True, slots=True)
class RecordedWorkload:
    """All jobs of a trace, at least two, as one day without an end."""

    jobs: tuple[TraceJob, ...]  # by time of submission
    slots: int = 128
    load: float | None = None  # gaps are stretched to give it; None: as recorded

    def day(self, rng: Random) -> Day:
        begin_s = self.jobs[0].submitted_s
        found: Day = []
        for one in self.jobs:
            speedup = drawn_speedup(rng)
            job = Malleable(1, self.slots, speedup, one.run_s * speedup.at(one.slots))
            found.append(MalleableArrival(one.submitted_s - begin_s, job))
        if self.load is None:
            return found
        stretch = load_of(found, self.slots) / self.load
        return [MalleableArrival(at_s * stretch, job) for at_s, job in found]

    def lifetimes(self, day: Day) -> UniformLog:
        return fit([job.work_s for _, job in day])

    def arrivals_last_s(self, day: Day) -> float:
        return day[-1].after_s


Workload = MalleableWorkload | RecordedWorkload


def load_of(day: Day, slots: int) -> float:
    """Returns ρ, work over capacity, while jobs arrive. Raises ValueError if all came at once."""
    span_s = day[-1].after_s - day[0].after_s
    if span_s <= 0:
        raise ValueError("all jobs of the trace came at once: no load to speak of")
    return sum(job.work_s for _, job in day) / span_s / slots
