"""Downey's figures 3, 4 and 6 (UCB/CSD-97-929, 1997): what jobs are like, and two schedules.

The paper does not contain the Paragon's log that figures 3 and 4 show. So its model is drawn beside
the jobs of our own runs under AVG, with what the text says of the log. Figure 6 is a sketch without
numbers: here two jobs of ours go through the queue, decided by production code.
"""

from bisect import bisect_right
from collections.abc import Sequence
from math import log
from statistics import fmean, median

from lbd.sim.figures.figure import Claim, Curve, Drawing, Figure, Map, Scale
from lbd.sim.queueing.malleable import Decider, Machine, Name, OneLine, Served
from lbd.sim.queueing.malleable_report import MalleableSetup, replicate
from lbd.sim.queueing.malleable_workload import (
    LIFETIMES,
    PARALLELISM_MOST,
    MalleableArrival,
    MalleableWorkload,
)
from lbd.theory.allocation import Malleable
from lbd.theory.lifetimes import UniformLog, fit
from lbd.theory.speedup import Speedup

DAYS = 30  # of each replication
TIMES_S = (3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6)
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
MEDIAN_S, MEAN_S = 18 * 60, 271 * 60  # of L, section 2.2.1
SEQUENTIAL = (0.40, 0.21)  # share of jobs at SDSC early in 1995 and in 1996, section 2.2.2
SLOTS = 128
# Figure 6: the first takes 96 slots for 25 minutes, the second arrives one minute later.
FIRST = MalleableArrival(0.0, Malleable(1, SLOTS, Speedup(96.0, 0.0), 96 * 1500.0))
SECOND = MalleableArrival(60.0, Malleable(1, SLOTS, Speedup(128.0, 0.0), 160_000.0))


def under_avg(place: tuple[int, int]) -> list[Served]:
    seed, number = place
    setup = MalleableSetup(MalleableWorkload(), DAYS, "system", seed)
    return replicate(setup, ["AVG"], number).tallies["AVG"].served


def jobs_of(scale: Scale, map_: Map) -> list[Served]:
    found = map_(under_avg, [(scale.seed, number) for number in range(scale.replications)])
    return [one for some in found for one in some]


def shares(values: Sequence[float], at: Sequence[float]) -> tuple[float, ...]:
    """Returns, for each x, the share of the values that do not exceed it."""
    ordered = sorted(values)
    return tuple(bisect_right(ordered, x) / len(ordered) for x in at)


def apart(one: Sequence[float], other: Sequence[float]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def model(lifetimes: UniformLog) -> tuple[float, ...]:
    return tuple(1 - lifetimes.longer_than(x) for x in TIMES_S)


def allocated_time(scale: Scale, map_: Map) -> Drawing:
    """Figure 3: the time T for which jobs hold slots, and their work L."""
    return times_of(jobs_of(scale, map_))


def times_of(served: Sequence[Served]) -> Drawing:
    times_s = [one.duration_s * one.slots for one in served]
    fitted, measured = fit(times_s), shares(times_s, TIMES_S)
    works_s = [one.job.work_s for one in served]
    off, given = apart(measured, model(fitted)), shares(works_s, TIMES_S)
    claims = (
        Claim("T is close to uniform in its logarithm", off < 0.06, f"{off:.1%} apart at most"),
        Claim("T has the shape of L and higher values",
              median(times_s) > median(works_s)
              and all(t <= s + 1e-9 for t, s in zip(measured, given, strict=True)),
              f"median {median(times_s) / 60:.0f} min, of L {median(works_s) / 60:.0f} min"),
        Claim("half of all lifetimes are below 18 minutes, the mean is 271 minutes",
              abs(median(works_s) / MEDIAN_S - 1) < 0.15 and abs(fmean(works_s) / MEAN_S - 1) < 0.1,
              f"{median(works_s) / 60:.1f} min, {fmean(works_s) / 60:.0f} min"),
    )  # fmt: skip
    lines = (
        Curve("T, simulated", TIMES_S, measured),
        Curve("T, nearest uniform-log", TIMES_S, model(fitted)),
        Curve("L, as drawn", TIMES_S, given),
        Curve("L, model", TIMES_S, model(LIFETIMES), printed=True),
    )
    return Drawing("seconds", "share of jobs", lines, claims, log_x=True)


def cluster_sizes(scale: Scale, map_: Map) -> Drawing:
    """Figure 4: the slots that jobs could use, and those they got."""
    return sizes_of(jobs_of(scale, map_))


def sizes_of(served: Sequence[Served]) -> Drawing:
    straight = tuple(log(size) / log(PARALLELISM_MOST) for size in SIZES)
    wanted = shares([one.job.speedup.parallelism for one in served], SIZES)
    got = shares([float(one.slots) for one in served], SIZES)
    off = apart(wanted, straight)
    claims = (
        Claim("A is uniform in its logarithm from 1 to 128", off < 0.03, f"{off:.1%} from it"),
        Claim("the model has fewer sequential jobs than were measured (40 %, then 21 %)",
              wanted[1] < SEQUENTIAL[1], f"{wanted[1]:.1%} have A below 2"),
        Claim("nobody gets more slots than its parallelism, rounded up",
              all(one.slots < one.job.speedup.parallelism + 1 for one in served),
              f"on average {fmean(one.slots / one.job.speedup.parallelism for one in served):.2f}"
              " of it"),
    )  # fmt: skip
    lines = (
        Curve("A, as drawn", SIZES, wanted),
        Curve("slots under AVG", SIZES, got),
        Curve("A, model", SIZES, straight, printed=True),
        Curve("1995", SIZES[:1], SEQUENTIAL[:1], printed=True),
        Curve("1996", SIZES[:1], SEQUENTIAL[1:], printed=True),
    )
    return Drawing("slots", "share of jobs", lines, claims, log_x=True)


def schedules(_scale: Scale, _map: Map) -> Drawing:
    """Figure 6: a job that waits, and no L-shaped schedule."""
    avg, pred = two_jobs("AVG"), two_jobs("PRED")
    lines = (busy("AVG", avg), busy("PRED", pred))
    return Drawing("seconds", "slots in use", lines, claims_6(avg, pred))


def claims_6(avg: Sequence[Served], pred: Sequence[Served]) -> tuple[Claim, ...]:
    waits = [one[1].began_s - one[1].arrived_s for one in (avg, pred)]
    takes = [one[1].turnaround_s for one in (avg, pred)]
    used = [utilisation(one) for one in (avg, pred)]
    return (
        Claim("the second job waits and ends sooner", waits[0] == 0 < waits[1]
              and takes[1] < takes[0],
              f"waits {waits[1]:.0f} s, is done after {takes[1]:.0f} s, not {takes[0]:.0f} s"),
        Claim("that it waits makes better use of the slots", used[1] > used[0],
              f"{used[1]:.0%} instead of {used[0]:.0%}, until both have ended"),
    )  # fmt: skip


def two_jobs(name: Name) -> list[Served]:
    return OneLine(Machine(SLOTS), Decider(name)).run([FIRST, SECOND])


def ends_s(one: Served) -> float:
    return one.began_s + one.duration_s


def utilisation(served: Sequence[Served]) -> float:
    return sum(one.job.work_s for one in served) / max(map(ends_s, served)) / SLOTS


def busy(name: str, served: Sequence[Served]) -> Curve:
    """Returns a line with a corner before and after each change."""
    edges = sorted({edge for one in served for edge in (one.began_s, ends_s(one))})
    x, y, used = [], [], 0
    for edge in edges:
        x.append(edge)
        y.append(float(used))
        used = sum(one.slots for one in served if one.began_s <= edge < ends_s(one))
        x.append(edge)
        y.append(float(used))
    return Curve(name, tuple(x), tuple(y))


FIGURES = {
    "downey-3": Figure("Allocated time", "Downey 1997, figure 3", allocated_time),
    "downey-4": Figure("Cluster sizes", "Downey 1997, figure 4", cluster_sizes),
    "downey-6": Figure("Two schedules of two jobs", "Downey 1997, figure 6", schedules),
}
