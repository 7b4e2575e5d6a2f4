"""Cutoffs from the ledger's records: when to change them, to what, and why. Pure.

A bounded Pareto is fitted to the sizes of the ended jobs in CPU seconds. If it fits poorly the
measured sizes are used directly, since cutoffs solved for a wrong distribution overload a tier. The
arrival rate, and the CPU seconds that a slot does per second, are measured too. For tags the
formulas then give the best cutoffs (`theory.tier_cutoffs`); for sita-e they divide the work in
proportion to the tiers' slots.

No user sets everybody's cutoffs. The jobs are a sample in which each user has an even share
(`ledger/past_sample.py`), each weighted by how many it stands for: loads and waits follow from the
jobs as they arrived, of whomever. But in the objective nobody's jobs count for more than a quarter
of all (a half of what two or three users have, a third of four). Otherwise an array of a thousand
short jobs, which costs some seconds, would decide alone, since a short wait is a large slowdown for
each of them. This way others can lose no more than a factor of two by what two users do (in the
means; `fairness` is about tiers, however few the jobs that end in one, and promises them less).

New cutoffs replace those in force only if they promise a considerable improvement (`min_gain`).
Otherwise every week's few jobs would move them back and forth, and each move sends some waiting
jobs to another tier. If all possible cutoffs overload a tier, there are none: nothing is killed,
and one queue serves all hosts.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from lbd.config.dispatch import Objective
from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.disciplines.tiers import spread_tiers
from lbd.dispatch.core.ledger_rows import JobRow, share_of
from lbd.model import JobState
from lbd.theory.cutoffs import Infeasible
from lbd.theory.measured_sizes import MeasuredSizes
from lbd.theory.pareto_fit import Fit, fit
from lbd.theory.tags import Sizes
from lbd.theory.tier_cutoffs import Expected, Tiers, solve_tiers

MOST_TIERS = 4  # tried where `tags.tiers` is not set; more gain little
START_S = 0.01  # about what it takes to start a job; a cutoff below that would gain nothing
GOOD_KS = 0.05
MOST_HEARD = 0.25
ENDED = (JobState.DONE.value, JobState.FAILED.value)
WHOLE = ("exited", "signalled")

Cutoffs = tuple[float, ...]
Layouts = Mapping[int, tuple[float, ...]]  # by number of tiers: the slots of each


@dataclass(frozen=True, slots=True)
class PastJob:
    size_s: float  # CPU seconds
    ran_s: float  # run time over all its slots
    submitted: float  # UNIX seconds
    may_restart: bool
    user: str = ""
    weight: int = 1  # how many jobs of its user it stands for


def ran_whole(row: JobRow) -> bool:
    """Returns whether the job used all the CPU time that it needs."""
    return row.state in ENDED and row.cause in WHOLE


def past_jobs(
    sample: Iterable[tuple[JobRow, int]], since_unix_s: float, *, by_uid: bool
) -> list[PastJob]:
    return [
        PastJob(
            row.cpu_s,
            max(START_S, row.run_s) * (row.slots_held or row.slots),
            row.submitted,
            row.may_restart,
            share_of(row.user, row.uid, by_uid=by_uid),
            weight,
        )
        for row, weight in sample
        if row.submitted >= since_unix_s and ran_whole(row)
        if row.cpu_s is not None and row.run_s is not None
        if row.cpu_s >= START_S
    ]


def heard(jobs: Sequence[PastJob], objective: Objective) -> list[float]:
    """Returns how many jobs each counts as in the objective, where what a user's count for has a
    limit (`most_of`): in the mean slowdown very small jobs count for very much."""
    parts = dict.fromkeys((job.user for job in jobs), 0.0)
    for job in jobs:
        parts[job.user] += job.weight / (1.0 if objective == "waiting" else job.size_s)
    most = most_of(sorted(parts.values(), reverse=True))
    return [job.weight * min(1.0, most / parts[job.user]) for job in jobs]


def most_of(parts: Sequence[float]) -> float:
    """Returns to what the largest parts are cut, which come first. One alone is not."""
    share = max(MOST_HEARD, 1.0 / max(2, len(parts) - 1))
    for cut, part in enumerate(parts[:-1]):
        if part <= (most := share * math.fsum(parts[cut:]) / (1.0 - share * cut)):
            return most
    return parts[-1]


@dataclass(frozen=True, slots=True)
class SolverTerms:
    objective: Objective
    jobs_min: int
    min_gain: float


@dataclass(frozen=True, slots=True)
class Record:
    """The ended jobs, in figures."""

    jobs: int
    rate_per_s: float  # of jobs that may restart
    mean_s: float
    pace: float  # CPU seconds that a busy slot does per second
    pinned: float  # slots' worth of jobs that may not restart, which go to the last tier at once
    fit: Fit
    sizes: Sizes
    minded: Sizes | None = None  # of the jobs that the objective is about; None: of all alike

    @property
    def is_fitted(self) -> bool:
        return self.sizes is self.fit.sizes

    def tiers(self, slots: Sequence[float]) -> Tiers:
        """Converts the tiers to the form the formulas take."""
        servers = [count * self.pace for count in slots]
        servers[-1] = max(0.0, servers[-1] - self.pinned)
        return Tiers(self.sizes, self.rate_per_s, tuple(servers), self.minded)


def recorded(past: Sequence[PastJob], now_unix_s: float, objective: Objective) -> Record:
    """Raises ValueError if the jobs allow no fit."""
    movable = [job for job in past if job.may_restart]
    sizes_s, weights = [job.size_s for job in movable], [job.weight for job in movable]
    found = fit(sizes_s, weights)
    minded = heard(movable, objective)
    alike = minded == weights
    good = alike and found.ks_distance <= max(found.chance, GOOD_KS)
    span_s = max(1.0, now_unix_s - min(job.submitted for job in past))
    work_s = math.fsum(job.weight * job.size_s for job in past)
    return Record(
        jobs=len(movable),
        rate_per_s=sum(weights) / span_s,
        mean_s=found.mean_s,
        pace=work_s / math.fsum(job.weight * job.ran_s for job in past),
        pinned=math.fsum(job.weight * job.size_s for job in past if not job.may_restart) / span_s,
        fit=found,
        sizes=found.sizes if good else MeasuredSizes(sizes_s, weights),
        minded=None if alike else MeasuredSizes(sizes_s, minded),
    )


def tier_order(configured: Sequence[str], present: Iterable[str]) -> list[str]:
    """Returns the hosts in the order in which tiers are assigned; hosts that joined come last, by
    name."""
    return [*configured, *sorted(set(present) - set(configured))]


def as_spread(hosts: Iterable[str], order: Sequence[str]) -> list[str]:
    """Sorts the hosts in that order; those not in it, which have just gone, come last."""
    place = {name: at for at, name in enumerate(order)}
    return sorted(hosts, key=lambda name: (place.get(name, len(order)), name))


def layouts_of(hosts: Sequence[HostSlots], order: Sequence[str], given: Sequence[str]) -> Layouts:
    """Returns the possible numbers of tiers with the slots of each tier. A host in several tiers
    divides its slots among them. A number that leaves a tier without a host is omitted."""
    most = max((highest(item) for item in given), default=0)
    counts = [most] if given else range(2, min(len(order), MOST_TIERS) + 1)
    found: dict[int, tuple[float, ...]] = {}
    for count in counts:
        slots = [0.0] * count
        for host in hosts:
            own = {min(tier, count) for tier in spread_tiers(host.name, order, count, given)}
            for tier in own:
                slots[tier - 1] += host.slots / len(own)
        if count > 1 and all(slots):
            found[count] = tuple(slots)
    return found


def highest(item: str) -> int:
    """Returns the highest tier of a specification, such as 2 of "h1:1,2"."""
    return max(map(int, item.partition(":")[2].split(",")))


@dataclass(frozen=True, slots=True)
class Verdict:
    cutoffs_s: Cutoffs
    changed: bool
    reason: str  # one line
    record: Record | None = None
    expected: Expected | None = None  # for these cutoffs; None for sita-e, and without cutoffs
    load: float | None = None
    one_queue: float | None = None  # value of the objective if one queue served all hosts


def judge(
    mode: str,
    past: Sequence[PastJob],
    now_unix_s: float,
    layouts: Layouts,
    terms: SolverTerms,
    in_force: Cutoffs,
) -> Verdict:
    """Decides on new cutoffs. `in_force` is () while there are none."""
    movable = sum(job.may_restart for job in past)
    if movable < terms.jobs_min:
        few = f"{movable} jobs on record; {terms.jobs_min} are needed (tags.solve_jobs)"
        return Verdict(in_force, False, few)
    try:
        record = recorded(past, now_unix_s, terms.objective)
    except ValueError as problem:
        return Verdict(in_force, False, f"nothing to cut: {problem}")
    if not layouts:
        return Verdict(in_force, False, "too few hosts for two tiers at present", record)
    if mode == "sita-e":
        return judge_sita(record, layouts, terms, in_force)
    return judge_tags(record, layouts, terms, in_force)


def judge_tags(record: Record, layouts: Layouts, terms: SolverTerms, in_force: Cutoffs) -> Verdict:
    objective = terms.objective
    traffics = [record.tiers(slots) for slots in layouts.values()]
    load = min(traffic.load for traffic in traffics)
    alone = replace(traffics[0], servers=(sum(traffics[0].servers),))
    one_queue = alone.expected([0.0, record.sizes.width]).worth(objective)
    solved = [solve_tiers(traffic, objective) for traffic in traffics]
    found = [one for one in solved if not isinstance(one, Infeasible)]
    if not found:
        limit = max(one.max_load for one in solved if isinstance(one, Infeasible))
        why = (
            f"at load {load:.2f} a tier is overloaded whatever the cutoffs, since killed work is "
            f"repeated (not below {limit:.2f}): nothing is killed"
        )
        return Verdict((), bool(in_force), why, record, None, load, one_queue)
    best = min(found, key=lambda one: one.worth(objective))
    now = expected_now(record, layouts, in_force)
    if now is not None and now.worth(objective) * (1.0 - terms.min_gain) <= best.worth(objective):
        of_best = ", ".join(f"{s:.4g}" for s in best.cutoffs_s)
        why = f"{in_words(now, objective)}; {best.worth(objective):.3g} with {of_best} s"
        return Verdict(in_force, False, why, record, now, load, one_queue)
    instead = "" if now is None else f" instead of {now.worth(objective):.3g}"
    why = f"{in_words(best, objective)}{instead}, one queue for all {one_queue:.3g}"
    return Verdict(best.cutoffs_s, True, why, record, best, load, one_queue)


def expected_now(record: Record, layouts: Layouts, in_force: Cutoffs) -> Expected | None:
    slots = layouts.get(len(in_force) + 1)
    return record.tiers(slots).expected_of(in_force) if in_force and slots else None


def in_words(expected: Expected, objective: Objective) -> str:
    worth = expected.worth(objective)
    if objective == "waiting":
        return f"mean waiting {worth:.3g} s expected"
    what = "mean slowdown" if objective == "slowdown" else "unfairness"
    return f"{what} {worth:.3g} expected"


def judge_sita(record: Record, layouts: Layouts, terms: SolverTerms, in_force: Cutoffs) -> Verdict:
    """Uses as many tiers as possible, each with its share of the work."""
    slots = layouts[max(layouts)]
    load = record.tiers(slots).load
    shares = [count / sum(slots) for count in slots]
    if len(in_force) + 1 == len(slots):
        bounds = [0.0, *(work_below(record.sizes, s) for s in in_force), 1.0]
        parts = [b - a for a, b in pairwise(bounds)]
        worst = max(part / share for part, share in zip(parts, shares, strict=True))
        if worst <= 1.0 + terms.min_gain:
            why = f"the fullest tier has {worst:.2f} of its share of the work: no change"
            return Verdict(in_force, False, why, record, None, load)
    below, cutoffs = 0.0, list[float]()
    for share in shares[:-1]:
        below += share
        cutoffs.append(record.sizes.size(record.sizes.y_of_work(below)))
    if any(not a < b for a, b in pairwise(cutoffs)):
        return Verdict(in_force, False, "too few sizes for tiers of their own", record, None, load)
    return Verdict(tuple(cutoffs), True, "each tier its share of the work", record, None, load)


def work_below(sizes: Sizes, size_s: float) -> float:
    """Returns the share of the work that is in jobs up to that size."""
    y = min(sizes.width, max(0.0, math.log(max(size_s, 1e-300) / sizes.k)))
    return sizes.part_y(1.0, 0.0, y) / sizes.mean_s if y > 0 else 0.0


def described(verdict: Verdict) -> str:
    """Describes for the log which cutoffs are in force now, and why."""
    cutoffs = ", ".join(f"{s:.4g}" for s in verdict.cutoffs_s)
    now = f"cutoffs {cutoffs} s" if verdict.cutoffs_s else "no cutoffs"
    basis = ""
    if (record := verdict.record) is not None and verdict.load is not None:
        found = record.fit
        by = "fitted" if record.is_fitted else "as measured"
        basis = (
            f" ({record.jobs} jobs {by}: alpha {found.sizes.alpha:.2f}, KS {found.ks_distance:.3f};"
            f" {record.rate_per_s:.3g} a second, load {verdict.load:.2f})"
        )
    return f"{now}: {verdict.reason}{basis}"
