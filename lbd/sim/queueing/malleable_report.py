"""Downey's Tables 1 and 2, simulated: each strategy's results for jobs and for the system.

Utilisation is the paper's, efficiency averaged over slots and time (section 6), from the first
morning until all queued jobs have started: then a day has ended (section 4). Savings are against
AVG, job by job. Losers are the share of the rebels that would have ended sooner under AVG.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Literal, get_args

from lbd.sim.engine.intervals import half_width, mean
from lbd.sim.queueing.malleable import Decider, Machine, Name, OneLine, Served, alone
from lbd.sim.queueing.malleable_workload import Day, Workload
from lbd.theory.allocation import PAPER, Rules
from lbd.theory.calibration import Outcome, judged

View = Literal["application", "system"]
VIEWS: tuple[View, ...] = get_args(View)
LEAST_LOSS_S = 1e-6  # a smaller loss is rounding


@dataclass(frozen=True, slots=True)
class MalleableSetup:
    workload: Workload
    days: int  # in each replication; a trace is one day
    view: View
    seed: int
    rules: Rules = PAPER
    lock_in: bool = False


@dataclass(frozen=True, slots=True)
class MalleableResult:
    """One strategy's results. Shares and means of nothing are NaN."""

    strategy: Name
    mean_turnaround_s: float
    mean_duration_s: float
    median_duration_s: float
    rebels: float  # share of all jobs
    losers: float  # share of the rebels
    mean_saving_s: float  # for each job
    median_rebel_saving_s: float
    mean_rebel_saving_s: float
    utilisation: float
    spoiled: float  # share of all jobs that were offered all slots they can use
    ci95_saving_s: float | None  # over replications


@dataclass(frozen=True, slots=True)
class Prediction:
    """Figure 5 in numbers; logarithms are to base 10."""

    slope: float
    intercept: float
    cc_raw: float | None
    cc_corrected: float | None


@dataclass(slots=True)
class Tally:
    """One strategy in one replication."""

    decider: Decider
    served: list[Served] = field(default_factory=list)
    work_s: float = 0.0  # work done while days lasted
    room_s: float = 0.0  # slot-seconds available meanwhile

    def count_day(self, served: Sequence[Served], slots: int, arrivals_last_s: float) -> None:
        ends_s = max([arrivals_last_s, *(one.began_s for one in served)])
        for one in served:
            run_s = min(one.duration_s, ends_s - one.began_s)
            self.work_s += run_s * one.job.speedup.at(one.slots)
        self.room_s += slots * ends_s


@dataclass(frozen=True, slots=True)
class Replication:
    tallies: dict[Name, Tally]


def replicate(setup: MalleableSetup, names: Sequence[Name], number: int) -> Replication:
    """Runs the same jobs under AVG, for comparison, and under each named strategy."""
    rng = Random(f"{setup.seed} {number}")
    wanted: tuple[Name, ...] = ("AVG", *(name for name in names if name != "AVG"))
    tallies = {name: Tally(Decider(name, setup.rules, setup.lock_in)) for name in wanted}
    workload = setup.workload
    for _ in range(setup.days):
        day = workload.day(rng)
        known = workload.lifetimes(day)
        if setup.view == "system":
            served = {
                name: OneLine(Machine(workload.slots, lifetimes=known), tally.decider).run(day)
                for name, tally in tallies.items()
            }
        else:
            served = followed(tallies, day, Machine(workload.slots, lifetimes=known))
        for name, tally in tallies.items():
            tally.served += served[name]
            tally.count_day(served[name], workload.slots, workload.arrivals_last_s(day))
    return Replication(tallies)


def followed(tallies: dict[Name, Tally], day: Day, machine: Machine) -> dict[Name, list[Served]]:
    """Runs a day under AVG, and each of its jobs as each strategy would have chosen for it."""
    arrivals_s = [at_s for at_s, _ in day]
    chosen: dict[Name, dict[int, Served]] = {name: {} for name in tallies}

    def watch(one: Served, machine: Machine) -> None:
        if one.offered >= one.job.useful:
            return
        later_s = arrivals_s[bisect_right(arrivals_s, one.began_s) :]
        for name, tally in tallies.items():
            if name != "AVG":
                chosen[name][id(one)] = alone(tally.decider, one, machine, later_s)

    served = OneLine(machine, tallies["AVG"].decider, watch).run(day)
    return {name: [chosen[name].get(id(one), one) for one in served] for name in tallies}


def results(replications: Sequence[Replication], names: Sequence[Name]) -> list[MalleableResult]:
    return [result(name, replications) for name in names]


def result(name: Name, replications: Sequence[Replication]) -> MalleableResult:
    served = [one for found in replications for one in found.tallies[name].served]
    savings = [savings_s(found, name) for found in replications]
    saved = [saving for some in savings for saving in some]
    pairs = zip(saved, served, strict=True)
    rebels = [saving for saving, one in pairs if one.rebelled]
    tallies = [found.tallies[name] for found in replications]
    return MalleableResult(
        name,
        mean([one.turnaround_s for one in served]),
        mean([one.duration_s for one in served]),
        median([one.duration_s for one in served]) if served else math.nan,
        len(rebels) / len(served) if served else math.nan,
        mean([float(saving < -LEAST_LOSS_S) for saving in rebels]),
        mean(saved),
        median(rebels) if rebels else math.nan,
        mean(rebels),
        sum(tally.work_s for tally in tallies) / sum(tally.room_s for tally in tallies),
        mean([float(one.spoiled) for one in served]),
        half_width([mean(some) for some in savings]),
    )


def savings_s(found: Replication, name: Name) -> list[float]:
    """Returns each job's saving against AVG."""
    base, mine = found.tallies["AVG"].served, found.tallies[name].served
    return [a.turnaround_s - b.turnaround_s for a, b in zip(base, mine, strict=True)]


def prediction(replications: Sequence[Replication]) -> Prediction | None:
    """Returns the bias and accuracy of PRED's predictions, or else of BIAS's. The corrected
    accuracy is that of BIAS's predictions if BIAS ran. None if nothing was predicted."""
    raw = outcomes(replications, "PRED") or outcomes(replications, "BIAS")
    if not raw:
        return None
    found = judged(raw)
    corrected = outcomes(replications, "BIAS") or raw
    return Prediction(
        found.line.slope, found.line.intercept_log10, found.raw, judged(corrected).corrected
    )


def outcomes(replications: Sequence[Replication], name: Name) -> list[Outcome]:
    tallies = [found.tallies[name] for found in replications if name in found.tallies]
    return [outcome for tally in tallies for outcome in tally.decider.outcomes]
