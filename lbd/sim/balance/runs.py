"""`lbd sim balance`: one run of an algorithm over a seed's jobs, and the summary of many runs.

All runs of a replication have exactly the same jobs, whatever the algorithm: the ratio to NOLB is
of two means over the same arrivals. Intervals are over replications (Student's t, 95 %); with one
replication they come from its ten parts by order of arrival.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from lbd.sim.balance.bounds import PerfectKnowledge
from lbd.sim.balance.engine import AtHome, Engine, Placement
from lbd.sim.balance.lims import Lims
from lbd.sim.balance.setup import BOUNDS, Setup
from lbd.sim.balance.trace import dealt_out, utilisation
from lbd.sim.balance.workload import Job, Stream, drawn_jobs
from lbd.sim.engine import intervals

PARTS = 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run."""

    algorithm: str
    jobs: int
    mean_response_s: float
    sd_response_s: float
    part_means_s: tuple[float, ...]
    moved: int
    wrong: int
    messages_per_host_s: float
    overhead_share: float  # share of all CPU time
    events: int
    seen: Mapping[int, int]  # queue length -> arriving jobs that found it
    p99_response_s: float = math.nan


@dataclass(frozen=True, slots=True)
class BalanceResult:
    """All runs of one algorithm."""

    algorithm: str
    mean_response_s: float
    sd_response_s: float
    p99_response_s: float
    ci95_s: float
    ratio_to_nolb: float
    ratio_ci95: float
    transferred: float
    wrong_transfers: float
    host_overloading: float  # the thesis's τ: wrong transfers as a share of all transfers
    messages_per_host_s: float
    overhead: float


Run = tuple[Setup, str, int]  # algorithm, replication


def run_once(setup: Setup, algorithm: str, replication: int) -> Outcome:
    engine, jobs = begun((setup, algorithm, replication))
    engine.run(jobs)
    return outcome(engine, algorithm, jobs)


def begun(run: Run) -> tuple[Engine, list[Job]]:
    """Returns the engine and the jobs of a run, before it runs."""
    setup, algorithm, replication = run
    seed = f"{setup.seed} {replication}"
    engine = Engine(setup)
    jobs = jobs_of(setup, seed)
    engine.placement = placement_of(engine, algorithm, seed)
    return engine, jobs


def jobs_of(setup: Setup, seed: str) -> list[Job]:
    if setup.trace:
        return dealt_out(
            setup.trace,
            setup.hosts,
            setup.duration_s,
            setup.immobile,
            seed,
            stretch_of(setup),
            setup.pinned,
        )
    stream = Stream(
        setup.workload,
        powers_of(setup),
        load_of(setup),
        setup.duration_s,
        setup.immobile,
        setup.imbalance,
        setup.weights,
    )
    return drawn_jobs(stream, seed)


def powers_of(setup: Setup) -> list[float]:
    return [cores * speed for cores, speed in map(setup.power, range(setup.hosts))]


def stretch_of(setup: Setup) -> float:
    """Returns the factor for a trace's gaps that gives the requested utilisation."""
    return recorded_load(setup) / setup.utilisation if setup.utilisation else 1.0


def recorded_load(setup: Setup) -> float:
    return utilisation(setup.trace, sum(powers_of(setup)))


def load_of(setup: Setup) -> float:
    """Returns the utilisation by jobs alone: as requested, or as measured."""
    if setup.utilisation:
        return setup.utilisation
    return recorded_load(setup) if setup.trace else setup.workload.utilisation


def placement_of(engine: Engine, algorithm: str, seed: str) -> Placement:
    if algorithm == "NOLB":  # its rule needs no LIM: every command stays
        return AtHome()
    if algorithm in BOUNDS:
        return PerfectKnowledge(engine, algorithm == "PartCOST", Random(f"{seed} {algorithm}"))
    return Lims(engine, algorithm, seed)


def outcome(engine: Engine, algorithm: str, jobs: Sequence[Job]) -> Outcome:
    responses = [job.response_s for job in jobs]
    mean, sd = mean_and_sd(responses)
    edges = [len(responses) * part // PARTS for part in range(PARTS + 1)]
    parts = [responses[begin:end] for begin, end in pairwise(edges)]
    hosts, duration_s = engine.setup.hosts, engine.setup.duration_s
    powers = sum(cpu.cores * cpu.speed for cpu in engine.cpus)
    return Outcome(
        algorithm=algorithm,
        jobs=len(jobs),
        mean_response_s=mean,
        sd_response_s=sd,
        part_means_s=tuple(mean_and_sd(part)[0] for part in parts if part),
        moved=engine.moved,
        wrong=engine.wrong,
        messages_per_host_s=engine.messages / hosts / duration_s,
        overhead_share=engine.overhead_s / powers / duration_s,
        events=engine.handled,
        seen=dict(engine.seen),
        p99_response_s=percentile(responses, 0.99),
    )


def summed_up(runs: Sequence[Outcome], nolb: Sequence[Outcome]) -> BalanceResult:
    """`nolb` holds the runs of NOLB on the same jobs, in the same order."""
    means = [run.mean_response_s for run in runs]
    ratios = [
        run.mean_response_s / base.mean_response_s for run, base in zip(runs, nolb, strict=True)
    ]
    jobs = sum(run.jobs for run in runs)
    return BalanceResult(
        algorithm=runs[0].algorithm,
        mean_response_s=mean_and_sd(means)[0],
        sd_response_s=mean_and_sd([run.sd_response_s for run in runs])[0],
        p99_response_s=mean_and_sd([run.p99_response_s for run in runs])[0],
        ci95_s=half_width(means if len(means) > 1 else runs[0].part_means_s),
        ratio_to_nolb=mean_and_sd(ratios)[0],
        ratio_ci95=half_width(ratios) if len(ratios) > 1 else math.nan,
        transferred=sum(run.moved for run in runs) / jobs,
        wrong_transfers=sum(run.wrong for run in runs) / jobs,
        host_overloading=sum(run.wrong for run in runs) / max(1, sum(run.moved for run in runs)),
        messages_per_host_s=mean_and_sd([run.messages_per_host_s for run in runs])[0],
        overhead=mean_and_sd([run.overhead_share for run in runs])[0],
    )


def mean_and_sd(values: Sequence[float]) -> tuple[float, float]:
    """Returns mean and sample deviation; the deviation of a single value is 0."""
    middle = intervals.mean(values)
    if len(values) < 2:
        return middle, 0.0 if values else math.nan
    return middle, math.sqrt(math.fsum((v - middle) ** 2 for v in values) / (len(values) - 1))


def percentile(values: Sequence[float], share: float) -> float:
    """Returns the smallest value that at least `share` of them do not exceed."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def half_width(values: Sequence[float]) -> float:
    """Returns half the 95 % interval of their mean; NaN if there is none."""
    width = intervals.half_width(values)
    return math.nan if width is None else width
