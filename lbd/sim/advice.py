"""`lbctl advise`: the jobs of a real day under each algorithm and some parameter sets. Pure.

What the jobs were is known (arrival, CPU time, where from); what the hosts are, too. So the day is
run again in virtual time by the daemons' own policies, once as the cluster is set and once for each
*trial*, and response times are compared on the very same jobs. A trial's gain is the mean of the
differences over ten parts of the day, with Student's interval; as the best of many trials looks
good by chance alone, the intervals are made so wide that all of them hold together 95 times in 100
(Bonferroni).

What it cannot know: I/O, people's think time, and what they would have done had it been faster.
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
GAIN_MIN = 0.01  # a smaller one is not worth a change
BEYOND = 0.05
REPLICATIONS = 3
TICKS_QUICK = 20_000  # of all hosts' LIMs in a run: a few tenths of a second
IDLE_S = 60.0  # as much of a longer pause, with all hosts idle, is replayed
# What load balancing costs on machines of today (tests/bench), in CPU seconds.
MESSAGE_S, TRANSFER_S = 0.0001, 0.002
DELAY_S = 0.005  # of a command that moves, unless its day says otherwise
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
    movable: int  # could have moved, and were worth it
    guessed: int  # their CPU time was not measured
    span_s: float
    strangers: int  # left out: of hosts that are no more


@dataclass(frozen=True, slots=True)
class Trial:
    algorithm: str
    parameters: tuple[tuple[str, float], ...] = ()  # other than they are


@dataclass(frozen=True, slots=True)
class Finding:
    """One trial beside how it is now; `gain` is of the mean response time, as a share of it."""

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
    """`params`: as the cluster has them, by short name."""
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
    """The mean CPU time of each command, by those measured."""
    found: dict[str, list[float]] = {}
    for job in jobs:
        if job.cpu_s is not None:
            found.setdefault(job.command, []).append(job.cpu_s)
    return {command: fmean(values) for command, values in found.items()}


def guess(job: PastJob, size_s: dict[str, float]) -> float:
    """Of a job that nobody measured: as its command mostly, but no more than it ran."""
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
    """From 0 on, with long pauses cut short: nights decide nothing and take long."""
    if not trace:
        return ()
    busy_until = dict.fromkeys(power, -math.inf)
    all_idle = -math.inf
    cut_s = trace[0][0]
    found: list[TraceJob] = []
    for earlier, job in pairwise((trace[0], *trace)):
        cut_s += max(0.0, job[0] - max(earlier[0], all_idle) - IDLE_S)
        at_s, cpu_s, ios, where = job
        # One core each at worst; a host's jobs one after another, so later than they would end.
        rate = min(power[where], 1.0)
        busy_until[where] = max(busy_until[where], at_s) + cpu_s / rate
        all_idle = max(all_idle, busy_until[where])
        found.append((at_s - cut_s, cpu_s, ios, where))
    return tuple(found)


def powers(
    trace: Sequence[TraceJob], hosts: Sequence[PastHost]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Cores and speeds, in the order in which the trace first names hosts: so they are dealt."""
    by_name = {host.name: host for host in hosts}
    order = [*dict.fromkeys(job[3] for job in trace)]
    order += [name for name in by_name if name not in set(order)]
    ours = [by_name[name] for name in order]
    return tuple(host.cores for host in ours), tuple(host.speed for host in ours)


def trials(day: Day) -> list[Trial]:
    """How it is now first; then the other algorithms, and other parameters for the one in use."""
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
    """More than one averages out the algorithms' random choices, where that does not take long."""
    ticks = day.setup.hosts * day.setup.duration_s / day.setup.lim.exchange_period_s
    return REPLICATIONS if ticks <= TICKS_QUICK else 1


def setup_for(day: Day, trial: Trial) -> Setup:
    changes = {f"lim.{name}": value for name, value in trial.parameters}
    return replace(day.setup, lim=overlaid_lim(day.setup.lim, changes))


def overlaid_lim(lim: LimConfig, changes: dict[str, float]) -> LimConfig:
    return overlaid(InForce(lim, LoadConfig()), changes).lim


def findings(day: Day, runs: Sequence[tuple[Trial, Sequence[Outcome]]]) -> list[Finding]:
    """`runs`: how it is now first; of each trial its replications, all of the same jobs."""
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
    """The mean response of each part of the day, over the replications."""
    return [fmean(means) for means in zip(*(run.part_means_s for run in outcomes), strict=True)]


def best(found: Sequence[Finding]) -> Finding | None:
    """Of those that are clearly better than how it is now."""
    better = [one for one in found[1:] if one.is_better]
    return max(better, key=lambda one: one.gain, default=None)
