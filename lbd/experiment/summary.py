"""Summarises the runs: each algorithm beside NOLB on the same scripts, with 95 % intervals.

The runs of a replication are close together in time, so whatever else the machine does then affects
both sides of a ratio. From `REPLICATIONS_MIN` replications on, the ratio is the mean of the
replications' ratios, with Student intervals. With fewer, it is the ratio of the overall means, with
jackknife intervals: each figure is computed again without the users of one host in one replication,
among the hosts of one level. That treats hosts as independent, which they are only as long as
nothing disturbs them all at once; so intervals from few replications tend to be too narrow.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lbd.experiment.design import NOLB, Case, Design
from lbd.experiment.outcome import Job, Outcome
from lbd.sim.engine.intervals import half_width, mean, student_95

REPLICATIONS_MIN = 4

Block = tuple[Sequence[float], Sequence[float]]  # responses under the algorithm, and under NOLB


@dataclass(frozen=True, slots=True)
class Row:
    """One algorithm with one index under one load, over all replications; shares are of 1."""

    load: str
    algorithm: str
    index: str
    replications: int
    jobs: int
    failed: int
    mean_s: float
    mean_ci95_s: float | None
    sd_s: float
    reduction: float  # of the mean, against NOLB's
    reduction_ci95: float | None
    sd_reduction: float
    moved: float  # share of all commands
    moved_of_eligible: float
    wrong: float  # share of those moved
    lim_cores: float  # cores that a host's LIM uses
    lbm_cores: float
    lim_bytes_s: float | None  # of one host, in and out
    lbm_bytes_s: float | None
    messages_s: float
    others_cores: float
    simulated: tuple[float, float] | None  # reduction and its interval
    # number of commands, mean response, NOLB's mean response
    by_kind: dict[str, tuple[int, float, float]]
    by_level: dict[str, tuple[float, float, float]]  # mean response, NOLB's, CPU utilisation


def rows(design: Design, outcomes: Sequence[Outcome]) -> list[Row]:
    """Returns a row for each load, index and algorithm with all its replications; NOLB first."""
    by_case = {outcome.case: outcome for outcome in outcomes}
    found = []
    numbers = range(design.replications)
    first = design.indices[0]
    for load in design.loads:
        base = [by_case.get(Case(load, NOLB, first, number)) for number in numbers]
        if None in base:
            continue
        nolb = [one for one in base if one is not None]
        found.append(row(design, nolb, nolb))
        for index in design.indices:
            for algorithm in design.algorithms:
                runs = [by_case.get(Case(load, algorithm, index, number)) for number in numbers]
                done = [one for one in runs if one is not None]
                if len(done) == len(nolb):
                    found.append(row(design, done, nolb))
    return found


def row(design: Design, runs: Sequence[Outcome], nolb: Sequence[Outcome]) -> Row:
    jobs = [job for run in runs for job in run.jobs]
    responses = [job.response_s for job in jobs]
    base = [job.response_s for run in nolb for job in run.jobs]
    case = runs[0].case
    strata = blocks(runs, nolb)
    over = [(responses_of(run), responses_of(other)) for run, other in zip(runs, nolb, strict=True)]
    is_base = case.algorithm == NOLB
    many = len(over) >= REPLICATIONS_MIN
    moved = sum(job.moved for job in jobs)
    eligible = sum(job.may_leave for job in jobs)
    costs = [cost for run in runs for cost in run.hosts]
    host_s = sum(run.elapsed_s * len(run.hosts) for run in runs)
    return Row(
        load=case.load, algorithm=case.algorithm, index=case.index, replications=len(runs),
        jobs=len(jobs), failed=sum(job.status != 0 for job in jobs),
        mean_s=mean(responses), mean_ci95_s=interval(over, strata, lambda b: mean(first_of(b))),
        sd_s=deviation(responses),
        reduction=1.0 - (mean([ratio([one]) for one in over]) if many else ratio(over)),
        reduction_ci95=None if is_base else interval(over, strata, ratio),
        sd_reduction=1.0 - deviation(responses) / deviation(base),
        moved=share(moved, len(jobs)), moved_of_eligible=share(moved, eligible),
        wrong=share(sum(cost.wrong for cost in costs), moved),
        lim_cores=sum(cost.lim_cpu_s for cost in costs) / host_s,
        lbm_cores=sum(cost.lbm_cpu_s for cost in costs) / host_s,
        lim_bytes_s=rate([cost.lim_bytes for cost in costs], host_s),
        lbm_bytes_s=rate([cost.lbm_bytes for cost in costs], host_s),
        messages_s=sum(cost.messages for cost in costs) / host_s,
        others_cores=mean([run.others_cores for run in runs]),
        simulated=None, by_kind=by_kind(runs, nolb), by_level=by_level(design, runs, nolb),
    )  # fmt: skip


# -- intervals -----------------------------------------------------------------------------------


def blocks(runs: Sequence[Outcome], nolb: Sequence[Outcome]) -> list[list[Block]]:
    """Returns, for each level, its hosts' responses in each replication."""
    strata: dict[str, list[Block]] = {}
    for run, other in zip(runs, nolb, strict=True):
        for cost in run.hosts:
            block = (responses_of(run, cost.host), responses_of(other, cost.host))
            if block[1]:
                strata.setdefault(cost.level, []).append(block)
    return list(strata.values())


def interval(
    over: Sequence[Block],
    strata: Sequence[Sequence[Block]],
    figure: Callable[[Sequence[Block]], float],
) -> float | None:
    """Returns half the interval; None if there is too little data."""
    if len(over) >= REPLICATIONS_MIN:
        return half_width([figure([block]) for block in over])
    return jackknifed(strata, figure)


def jackknifed(
    strata: Sequence[Sequence[Block]], figure: Callable[[Sequence[Block]], float]
) -> float | None:
    variance, freedom = 0.0, 0
    for number, stratum in enumerate(strata):
        if len(stratum) < 2:
            continue
        others = [block for n, some in enumerate(strata) if n != number for block in some]
        without = [
            figure([*others, *stratum[:at], *stratum[at + 1 :]]) for at in range(len(stratum))
        ]
        middle = mean(without)
        factor = (len(stratum) - 1) / len(stratum)
        variance += factor * math.fsum((value - middle) ** 2 for value in without)
        freedom += len(stratum) - 1
    return student_95(freedom) * math.sqrt(variance) if freedom else None


def ratio(some: Sequence[Block]) -> float:
    return mean(first_of(some)) / mean([value for _, base in some for value in base])


def first_of(some: Sequence[Block]) -> list[float]:
    return [value for values, _ in some for value in values]


# -- parts ---------------------------------------------------------------------------------------


def by_kind(
    runs: Sequence[Outcome], nolb: Sequence[Outcome]
) -> dict[str, tuple[int, float, float]]:
    kinds = dict.fromkeys(job.kind for run in nolb for job in run.jobs)
    found = {}
    for kind in sorted(kinds):
        mine = [job.response_s for run in runs for job in run.jobs if job.kind == kind]
        base = [job.response_s for run in nolb for job in run.jobs if job.kind == kind]
        found[kind] = (len(mine), mean(mine), mean(base))
    return found


def by_level(
    design: Design, runs: Sequence[Outcome], nolb: Sequence[Outcome]
) -> dict[str, tuple[float, float, float]]:
    """Groups by the level of the user's host; the utilisation is that of the level's hosts."""
    found = {}
    for level in dict.fromkeys(cost.level for cost in runs[0].hosts):
        mine, base = (
            [job.response_s for run in some for job in run.jobs if job.host in hosts_of(run, level)]
            for some in (runs, nolb)
        )
        busy_s = sum(cost.cpu_s for run in runs for cost in run.hosts if cost.level == level)
        there_s = sum(run.elapsed_s * len(hosts_of(run, level)) for run in runs)
        found[level] = (mean(mine), mean(base), busy_s / (there_s * design.cpus))
    return found


def hosts_of(run: Outcome, level: str) -> set[str]:
    return {cost.host for cost in run.hosts if cost.level == level}


def present(run: Outcome, points: int = 60) -> dict[str, list[float]]:
    """Returns each host's mean number of commands in each of `points` parts of the run."""
    last_s = max((job.submitted_s + job.response_s for job in run.jobs), default=0.0)
    step_s = last_s / points
    found: dict[str, list[float]] = {}
    for cost in run.hosts:
        found[cost.host] = [
            math.fsum(overlap(job, at * step_s, (at + 1) * step_s) for job in run.jobs
                      if job.ran_on == cost.host) / step_s if step_s else 0.0
            for at in range(points)
        ]  # fmt: skip
    return found


def overlap(job: Job, from_s: float, until_s: float) -> float:
    return max(0.0, min(until_s, job.submitted_s + job.response_s) - max(from_s, job.submitted_s))


def responses_of(run: Outcome, host: str = "") -> list[float]:
    return [job.response_s for job in run.jobs if not host or job.host == host]


def rate(counts: Sequence[int], host_s: float) -> float | None:
    return None if any(count < 0 for count in counts) else sum(counts) / host_s


def share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def deviation(values: Sequence[float]) -> float:
    if len(values) < 2:
        return math.nan
    middle = mean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1))
