"""`lbctl advise`: the jobs of a real day under each algorithm and some parameter sets. Pure.

The jobs are known (arrival, CPU time, origin), and so are the hosts. So the daemons' own policies
run the day again in virtual time, once as the cluster is set and once for each *trial*, and
response times are compared on exactly the same jobs. A trial's gain is the mean of the differences
over ten parts of the day, with Student's interval. The best of many trials looks good by chance
alone, so the intervals are widened until all of them hold together 95 times in 100 (Bonferroni).

Unknown are I/O, people's think time, and what they would have done had it been faster.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median, stdev

from lbd.config.schema import ALGORITHMS, LimConfig, LoadConfig
from lbd.lim.core.settings import InForce, overlaid
from lbd.policy.registry import POLICIES
from lbd.sim.balance.runs import PARTS, Outcome
from lbd.sim.balance.setup import LIM, Setup
from lbd.sim.balance.trace import TraceJob
from lbd.sim.balance.workload import BERKELEY, WORKLOADS, Costs
from lbd.sim.engine.intervals import student

JOBS_MIN = 200  # that could have moved; with fewer the parts say nothing
GAIN_MIN = 0.01  # a smaller gain is not worth a change
BEYOND = 0.05
REPLICATIONS = 3
TICKS_QUICK = 20_000  # LIM ticks of all hosts in a run: take a few tenths of a second
IDLE_S = 60.0  # at most so much of a pause with all hosts idle is replayed
# The cost of load balancing on today's machines (tests/bench), in CPU seconds.
MESSAGE_S, TRANSFER_S = 0.0001, 0.002
DELAY_S = 0.005  # of a moved command, unless the day shows otherwise
TAKEN_OVER = (
    "exchange_period_s", "local_threshold", "report_ceiling", "min_gain", "probe_limit",
    "reservations", "job_threshold_s", "change_threshold", "trust_s", "move_cost_s",
)  # fmt: skip
PROBING = ("LOWEST", "THRHLD")


@dataclass(frozen=True, slots=True)
class PastJob:
    submitted: float  # UNIX seconds
    waiting_s: float
    response_s: float
    cpu_s: float | None  # on the host where it ran; None: not measured
    command: str
    origin: str
    host: str
    pinned: bool


@dataclass(frozen=True, slots=True)
class PastHost:
    name: str
    cores: float
    speed: float


@dataclass(frozen=True, slots=True)
class Day:
    """What is replayed."""

    setup: Setup
    jobs: int
    movable: int  # could have moved, and were worth moving
    guessed: int  # without a measured CPU time
    span_s: float
    strangers: int  # left out, because their host no longer exists


@dataclass(frozen=True, slots=True)
class Trial:
    algorithm: str
    parameters: tuple[tuple[str, float], ...] = ()  # those that differ from the present ones


@dataclass(frozen=True, slots=True)
class Finding:
    """A trial compared with the present settings; `gain` is a share of the mean response time."""

    trial: Trial
    mean_response_s: float
    gain: float
    gain_ci: float
    transferred: float
    wrong_transfers: float
    messages_per_host_s: float
    overhead: float

    @property
    def is_better(self) -> bool:
        return self.gain - self.gain_ci > 0.0 and self.gain >= GAIN_MIN


def day_of(
    jobs: Sequence[PastJob], hosts: Sequence[PastHost], algorithm: str, params: dict[str, float]
) -> Day:
    """`params` are the cluster's parameters by short name."""
    speeds = {host.name: host.speed for host in hosts}
    size_s = sizes(jobs)
    rows: list[tuple[float, float, str, bool]] = []
    guessed = strangers = 0
    for job in jobs:
        where = job.host if job.pinned else job.origin
        if where not in speeds:
            strangers += 1
            continue
        cpu_s = job.cpu_s if job.cpu_s is not None else guess(job, size_s)
        guessed += job.cpu_s is None
        arrived = job.submitted + (job.waiting_s if job.pinned else 0.0)
        if cpu_s > 0:
            rows.append((arrived, cpu_s * speeds.get(job.host, 1.0), where, job.pinned))
    rows.sort()
    power = {host.name: host.cores * host.speed for host in hosts}
    trace = without_idle([(at, cpu_s, 0, where) for at, cpu_s, where, _ in rows], power)
    cores, host_speeds = powers(trace, hosts)
    taken = {f"lim.{name}": params[name] for name in TAKEN_OVER if name in params}
    setup = replace(
        Setup(replace(WORKLOADS["berkeley"], name="the jobs of the day")),
        hosts=len(hosts),
        duration_s=trace[-1][0] + 1.0 if trace else 1.0,
        lim=replace(overlaid_lim(LIM, taken), algorithm=algorithm),
        smoothing_s=params.get("smoothing_s", 0.0),
        costs=costs_of(jobs),
        cores=cores,
        speeds=host_speeds,
        trace=trace,
        pinned=frozenset(number for number, row in enumerate(rows) if row[3]),
    )
    movable = sum(not pinned and cpu > setup.lim.job_threshold_s for _, cpu, _, pinned in rows)
    span_s = rows[-1][0] - rows[0][0] if rows else 0.0
    return Day(setup, len(rows), movable, guessed, span_s, strangers)


def sizes(jobs: Iterable[PastJob]) -> dict[str, float]:
    """Returns each command's mean CPU time over its measured jobs."""
    found: dict[str, list[float]] = {}
    for job in jobs:
        if job.cpu_s is not None:
            found.setdefault(job.command, []).append(job.cpu_s)
    return {command: fmean(values) for command, values in found.items()}


def guess(job: PastJob, size_s: dict[str, float]) -> float:
    """Returns a job's CPU time, unmeasured, as its command's mean but at most its run time."""
    ran_s = max(0.0, job.response_s - job.waiting_s)
    return min(ran_s, size_s.get(job.command, ran_s))


def costs_of(jobs: Sequence[PastJob]) -> Costs:
    moved = [job.waiting_s for job in jobs if not job.pinned and job.host != job.origin]
    return replace(
        BERKELEY,
        send_s=MESSAGE_S,
        receive_s=MESSAGE_S,
        transfer_s=TRANSFER_S,
        transfer_delay_s=median(moved) if moved else DELAY_S,
    )


def without_idle(trace: list[TraceJob], power: dict[str, float]) -> tuple[TraceJob, ...]:
    """Starts the trace at 0 and shortens long idle pauses: they decide nothing and take long."""
    if not trace:
        return ()
    busy_until = dict.fromkeys(power, -math.inf)
    all_idle = -math.inf
    cut_s = trace[0][0]
    found: list[TraceJob] = []
    for earlier, job in pairwise((trace[0], *trace)):
        cut_s += max(0.0, job[0] - max(earlier[0], all_idle) - IDLE_S)
        at_s, cpu_s, ios, where = job
        # Assumes at most one core and one job at a time for each host, which is never too early.
        rate = min(power[where], 1.0)
        busy_until[where] = max(busy_until[where], at_s) + cpu_s / rate
        all_idle = max(all_idle, busy_until[where])
        found.append((at_s - cut_s, cpu_s, ios, where))
    return tuple(found)


def powers(
    trace: Sequence[TraceJob], hosts: Sequence[PastHost]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns cores and speeds in the order in which the trace first names hosts, because jobs are
    dealt out in that order."""
    by_name = {host.name: host for host in hosts}
    order = [*dict.fromkeys(job[3] for job in trace)]
    order += [name for name in by_name if name not in set(order)]
    ours = [by_name[name] for name in order]
    return tuple(host.cores for host in ours), tuple(host.speed for host in ours)


def trials(day: Day) -> list[Trial]:
    """Returns the present settings first, then other algorithms, and other parameters for the
    present one."""
    lim = day.setup.lim
    now = lim.algorithm
    found = [Trial(now), *(Trial(name) for name in ALGORITHMS if name != now)]
    tuned = now if now != "NOLB" else "GLOBAL"
    sets: list[tuple[str, float]] = [
        ("local_threshold", lim.local_threshold / 2),
        ("local_threshold", max(1.0, lim.local_threshold * 2)),
        ("min_gain", lim.min_gain / 2),
        ("min_gain", max(0.2, lim.min_gain * 3)),
        ("job_threshold_s", max(0.5, lim.job_threshold_s * 10)),
    ]
    if POLICIES[tuned].reporting.of_changes:
        sets += [("exchange_period_s", max(0.05, lim.exchange_period_s / 2))]
        sets += [("exchange_period_s", min(3600.0, lim.exchange_period_s * 4))]
    if tuned in PROBING:
        sets += [("probe_limit", min(1024, lim.probe_limit * times)) for times in (2, 4)]
    if tuned == "RESERVE":
        sets.append(("reservations", min(1024, lim.reservations * 2)))
    readable = [(name, float(f"{value:.4g}")) for name, value in sets]
    changes = [(name, value) for name, value in readable if value != getattr(lim, name)]
    return found + [Trial(tuned, (change,)) for change in changes]


def replications(day: Day) -> int:
    """Returns how many runs average out the algorithms' random choices without taking too long."""
    ticks = day.setup.hosts * day.setup.duration_s / day.setup.lim.exchange_period_s
    return REPLICATIONS if ticks <= TICKS_QUICK else 1


def setup_for(day: Day, trial: Trial) -> Setup:
    changes = {f"lim.{name}": value for name, value in trial.parameters}
    return replace(day.setup, lim=overlaid_lim(day.setup.lim, changes))


def overlaid_lim(lim: LimConfig, changes: dict[str, float]) -> LimConfig:
    return overlaid(InForce(lim, LoadConfig()), changes).lim


def findings(day: Day, runs: Sequence[tuple[Trial, Sequence[Outcome]]]) -> list[Finding]:
    """`runs`: the present settings first; each trial's replications are of the same jobs."""
    now = runs[0][1]
    beyond = BEYOND / max(1, len(runs) - 1)
    return [finding(day, trial, outcomes, now, beyond) for trial, outcomes in runs]


def finding(
    day: Day, trial: Trial, outcomes: Sequence[Outcome], now: Sequence[Outcome], beyond: float
) -> Finding:
    mean_s, now_s = (fmean(run.mean_response_s for run in runs) for runs in (outcomes, now))
    saved = [was - would_be for was, would_be in zip(parts(now), parts(outcomes), strict=True)]
    spread = stdev(saved) if len(saved) > 1 else math.inf
    width = student(PARTS - 1, beyond) * spread / math.sqrt(len(saved))
    jobs = sum(run.jobs for run in outcomes)
    stretch = day.setup.duration_s / max(day.span_s, day.setup.duration_s)
    return Finding(
        trial=trial,
        mean_response_s=mean_s,
        gain=(now_s - mean_s) / now_s,
        gain_ci=width / now_s,
        transferred=sum(run.moved for run in outcomes) / jobs,
        wrong_transfers=sum(run.wrong for run in outcomes) / jobs,
        messages_per_host_s=fmean(run.messages_per_host_s for run in outcomes) * stretch,
        overhead=fmean(run.overhead_share for run in outcomes) * stretch,
    )


def parts(outcomes: Sequence[Outcome]) -> list[float]:
    """Returns the mean response time of each part of the day, over the replications."""
    return [fmean(means) for means in zip(*(run.part_means_s for run in outcomes), strict=True)]


def best(found: Sequence[Finding]) -> Finding | None:
    """Returns the best of the trials that are clearly better than the present settings."""
    better = [one for one in found[1:] if one.is_better]
    return max(better, key=lambda one: one.gain, default=None)
