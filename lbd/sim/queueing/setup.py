"""What `lbd sim dispatch` simulates: jobs, hosts, and the cutoffs of the tiered modes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from lbd.config.dispatch import Mode, Objective
from lbd.dispatch.core.disciplines.registry import TIERED, make
from lbd.sim.queueing.dispatcher import Arrival, simulate, single_hosts
from lbd.sim.queueing.report import Result, Summary, result, summary
from lbd.sim.queueing.trace import Trace
from lbd.theory.bounded_pareto import BoundedPareto
from lbd.theory.cutoffs import Infeasible, solve
from lbd.theory.measured_sizes import MeasuredSizes
from lbd.theory.pareto_fit import fit
from lbd.theory.rivals import sita_cutoffs_s
from lbd.theory.tags import Traffic, balanced

MOST_TIERS = 64  # the most tiers for which cutoffs can be computed within seconds


class NoCutoffs(ValueError):
    """A tiered mode cannot run; the text says why in one line."""


@dataclass(frozen=True, slots=True)
class Synthetic:
    """Poisson arrivals of bounded Pareto sizes, drawn again for each replication."""

    sizes: BoundedPareto
    load: float
    hosts: int
    jobs: int

    @property
    def traffic(self) -> Traffic:
        return Traffic(self.sizes, self.load, self.hosts)

    def arrivals(self, rng: Random) -> list[Arrival]:
        sizes, rate = self.sizes, self.traffic.rate_per_s
        found = []
        now_s = 0.0
        for _ in range(self.jobs):
            now_s += rng.expovariate(rate)
            size_s = sizes.sample(rng)
            found.append(Arrival(now_s, size_s, size_s))
        return found

    def tags_traffic(self) -> Traffic:
        return self.traffic

    def sita_cutoffs_s(self) -> tuple[float, ...]:
        return sita_cutoffs_s(self.traffic)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The jobs of a trace, the same in each replication."""

    jobs: tuple[Arrival, ...]
    hosts: int
    fitted: bool = False  # tags' cutoffs are for the nearest bounded Pareto, not for these sizes

    @property
    def load(self) -> float:
        """Returns work over time and hosts; infinite if all jobs came at once."""
        span_s = self.jobs[-1].at_s - self.jobs[0].at_s
        work_s = sum(job.size_s for job in self.jobs)
        return work_s / span_s / self.hosts if span_s > 0 else float("inf")

    def arrivals(self, _: Random) -> Sequence[Arrival]:
        return self.jobs

    def tags_traffic(self) -> Traffic:
        """Returns Poisson arrivals with the load of the trace."""
        sizes_s = [job.size_s for job in self.jobs]
        sizes = fit(sizes_s).sizes if self.fitted else MeasuredSizes(sizes_s)
        return Traffic(sizes, self.load, self.hosts)

    def sita_cutoffs_s(self) -> tuple[float, ...]:
        """Returns sizes that divide the recorded work into equal parts."""
        sizes = sorted(job.size_s for job in self.jobs)
        total_s = sum(sizes)
        cutoffs: list[float] = []
        done_s = 0.0
        for size_s in sizes:
            done_s += size_s
            if done_s >= total_s * (len(cutoffs) + 1) / self.hosts:
                if not cutoffs or size_s > cutoffs[-1]:
                    cutoffs.append(size_s)
                if len(cutoffs) == self.hosts - 1:
                    return tuple(cutoffs)
        raise NoCutoffs(f"too few sizes for {self.hosts} tiers of equal work")


Workload = Synthetic | Recorded


def recorded(
    trace: Trace,
    hosts: int,
    scale_load: float | None = None,
    estimates_by_user: bool = False,
    fitted: bool = False,
) -> Recorded:
    """A job's size is its run time on one host; with `scale_load`, gaps are stretched to that load.

    Least-work and sita-e know the true sizes, as in the paper, or the users' requested times.
    """
    begin_s = trace.jobs[0].submitted_s
    jobs = tuple(
        Arrival(
            job.submitted_s - begin_s,
            job.run_s,
            job.requested_s if estimates_by_user else job.run_s,
        )
        for job in trace.jobs
    )
    found = Recorded(jobs, hosts, fitted)
    if scale_load is None:
        return found
    stretch = found.load / scale_load
    if not 0 < stretch < float("inf"):
        raise ValueError("all jobs of the trace came at once: no load to scale")
    stretched = tuple(job._replace(at_s=job.at_s * stretch) for job in jobs)
    return Recorded(stretched, hosts, fitted)


class Cutoffs(NamedTuple):
    """The cutoffs of a tiered mode."""

    cutoffs_s: tuple[float, ...]
    warning: str = ""  # one line, if they are not what was requested


def cutoffs_for(
    mode: Mode,
    workload: Workload,
    hosts: int,
    given: tuple[float, ...] | None,
    objective: Objective,
) -> Cutoffs | None:
    """Returns a mode's cutoffs, None for modes without; `given` ones are for tags."""
    if mode not in TIERED:
        return None
    if hosts < 2:
        raise NoCutoffs(f"{mode} needs at least two tiers, so at least two hosts")
    if mode == "tags" and given is not None:
        return Cutoffs(given)
    if hosts > MOST_TIERS:
        raise NoCutoffs(
            f"no cutoffs for {mode}: they are worked out for at most {MOST_TIERS} tiers"
        )
    if mode == "sita-e":
        return Cutoffs(workload.sita_cutoffs_s())
    return best_cutoffs(workload, hosts, objective)


def best_cutoffs(workload: Workload, hosts: int, objective: Objective) -> Cutoffs:
    """Returns cutoffs from theory. If a host must be overloaded, all are loaded equally."""
    try:
        traffic = workload.tags_traffic()
        found = solve(traffic, objective)
    except ValueError as problem:
        raise NoCutoffs(f"no cutoffs for tags: {problem}") from None
    if not isinstance(found, Infeasible):
        return Cutoffs(found.cutoffs_s)
    cuts, max_load = balanced(traffic.sizes, hosts)
    warning = (
        f"tags: at load {workload.load:.3g} one of {hosts} hosts is overloaded whatever the cutoffs"
        f" (not so below {max_load:.4g}); taken are those that load all alike"
    )
    return Cutoffs(tuple(traffic.sizes.size(y) for y in cuts[1:-1]), warning)


def run_mode(
    mode: Mode,
    workload: Workload,
    hosts: int,
    cutoffs_s: tuple[float, ...] | None,
    seed: int,
    replications: int,
    progress: Callable[[int], None] | None = None,
    work_conserving: bool = False,
) -> Result:
    """Runs all modes on the same arrivals, which depend on the seed and the replication."""
    runs: list[Summary] = []
    for replication in range(replications):
        arrivals = workload.arrivals(Random(f"arrivals {seed} {replication}"))
        rng = Random(f"{mode} {seed} {replication}")
        discipline = make(mode, cutoffs_s or (), work_conserving)
        places = single_hosts(hosts, mode in TIERED)
        runs.append(summary(arrivals, simulate(arrivals, discipline, places, rng, progress)))
    return result(mode, cutoffs_s, runs, replications > 1 and isinstance(workload, Synthetic))
