"""How many slots a malleable job takes: fewer now, or more later?

A. B. Downey (UCB/CSD-97-929, 1997), sections 5 and 6. The job at the head of a first-come line may
run on any number n of slots within its bounds; R(n) is its run time on them, Q(n) the time until
they are free. The strategies:

- free: what is free now. AVG: the same, but never more slots than its average parallelism A (5.1).
- PRED: the n with the least Q(n) + R(n), n ≤ A, with Q by section 3.3's predictors (5.2, 5.3).
- BIAS: the same with Q corrected by its known bias (5.4).
- HEUR: no prediction. Hold out for f·A slots until a share k of the time these would save has
  passed since the job could first have begun; then take what is free (5.5).

A job that waits although it could begin is a *rebel*. Two restraints (6.1): with *risk aversion* it
rebels only for a gain above a share of its run time; with *lock-in* it names the slots that it
holds out for and gets no more than these (`locked` lowers its bounds).

The paper decides again when a job arrives and when the predicted time is over. Released slots are a
third reason, without which nothing could ever begin. Each decision stands alone: past waiting is
spent, and counts only in HEUR. Times are seconds from now.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from lbd.config.dispatch import Strategy
from lbd.theory.calibration import Correction
from lbd.theory.queue_time import Releases
from lbd.theory.speedup import ROUNDING, Speedup

SMALL = 1e-3  # share of the turnaround: a smaller gain is not worth the search
ROUGH = 1e-5  # share of a wait: the allowed error of a prediction

Queue = Callable[[int], float]  # Q(n): seconds until n slots are free
ComesBy = Callable[[int, float], bool]  # whether Q(n) is at most the given time


@dataclass(frozen=True, slots=True)
class Malleable:
    """A job that runs on `least` to `most` slots. Raises ValueError for impossible parameters."""

    least: int
    most: int
    speedup: Speedup
    work_s: float  # L, on one slot; if unknown, its mean, since R is linear in L

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise ValueError(f"{self.least} to {self.most} slots: must be 1 <= least <= most")
        if not 0 <= self.work_s < math.inf:
            raise ValueError(f"work of {self.work_s:g} s: must be 0 or more")

    @property
    def useful(self) -> int:
        """The most slots that the job can use, n ≤ A (section 5.1)."""
        average = math.ceil(self.speedup.parallelism - ROUNDING)
        return min(self.most, max(self.least, average))

    def run_s(self, slots: int) -> float:
        """The run time on n slots, R(n) = L/S(n)."""
        return self.speedup.run_s(self.work_s, slots)

    def locked(self, slots: int) -> "Malleable":
        """Returns the job as it is after declaring that it holds out for `slots` slots (section
        6.1)."""
        return replace(self, most=max(self.least, min(self.most, slots)))


@dataclass(frozen=True, slots=True)
class Held:
    """What HEUR remembers of a job that holds out: for how long, and what it could have had."""

    for_s: float
    offered: int  # slots that were free at the start, at least `least` of the job


@dataclass(frozen=True, slots=True)
class Rules:
    """The strategies' parameters, with the paper's values as defaults."""

    risk: float = 0.0  # rebel only for a gain above this share of the run time; 0.2 in section 6.1
    work_above_s: float = 0.0  # HEUR: L_thresh
    parallelism_above: float = 1.0  # A_thresh
    fraction: float = 1.0  # f
    patience: float = 0.2  # k


PAPER = Rules()


@dataclass(frozen=True, slots=True)
class Choice:
    slots: int  # to take now, or to wait for
    begins_in_s: float  # 0: now; infinite: not with the jobs running today
    runs_s: float
    reason: str

    @property
    def now(self) -> bool:
        return self.begins_in_s <= 0

    @property
    def ends_in_s(self) -> float:
        return self.begins_in_s + self.runs_s


def choose(
    strategy: Strategy,
    job: Malleable,
    free: int,
    releases: Releases,
    bias: Correction | None = None,
    held: Held | None = None,
    rules: Rules = PAPER,
) -> Choice:
    """Returns what the job at the head of the line does now.

    `bias` is for BIAS, `held` for HEUR if the job already holds out. If the job cannot begin at
    all, the choice is the number of slots expected to be best, and when they come.
    """
    if strategy == "heur":
        return by_heuristic(job, free, releases, held, rules)
    if strategy in ("pred", "bias"):
        correction = bias if strategy == "bias" else None
        return by_prediction(job, free, predicted(free, releases, correction), releases, rules)
    return at_once(job, free, releases, job.useful if strategy == "avg" else job.most)


def at_once(job: Malleable, free: int, releases: Releases, most: int) -> Choice:
    """Decides as the strategies free and AVG do."""
    if free >= job.least:
        slots = min(free, most)
        return Choice(slots, 0.0, job.run_s(slots), "takes what is free")
    return forced(job, free, releases)


def forced(job: Malleable, free: int, releases: Releases) -> Choice:
    wait_s = predicted(free, releases)(job.least)
    return Choice(job.least, wait_s, job.run_s(job.least), "fewer are free than it needs")


def predicted(free: int, releases: Releases, correction: Correction | None = None) -> Queue:
    """Returns Q(n) by the combined rule of section 3.3; infinite for more slots than exist."""
    known: dict[int, float] = {1: 60.0}  # the nearest known answer is a good first guess

    def wait_s(slots: int) -> float:
        if slots <= free:
            return 0.0
        if slots - free > releases.total:
            return math.inf
        nearest = min(known, key=lambda one: abs(one - slots))
        raw_s = releases.combined_s(slots - free, known[nearest], ROUGH)
        known[slots] = raw_s
        return correction.corrected_s(raw_s) if correction is not None else raw_s

    return wait_s


def by_prediction(
    job: Malleable, free: int, queue: Queue, releases: Releases, rules: Rules = PAPER
) -> Choice:
    """Decides as PRED and BIAS do: the least Q(n) + R(n) (section 5.2)."""
    now = what_is_free(job, free)
    if now is not None and now.slots == job.useful:
        return replace(now, reason="has all that it can use")
    later = least_turnaround(job, free, queue, releases, now.ends_in_s if now else math.inf)
    if now is None:
        if later is None:
            return forced(job, free, releases)
        return replace(later, reason="fewer are free than it needs")
    return now if later is None else better_of(now, later, rules)


def what_is_free(job: Malleable, free: int) -> Choice | None:
    """Returns the choice of taking now what is free, at most A; None if that is less than it
    needs."""
    offered = min(free, job.useful)
    return Choice(offered, 0.0, job.run_s(offered), "ends first") if offered >= job.least else None


def better_of(now: Choice, later: Choice, rules: Rules = PAPER) -> Choice:
    """Returns the choice that ends first, fewer now or more later, with risk aversion (section
    6.1)."""
    gain_s = now.ends_in_s - later.ends_in_s
    if gain_s <= 0:
        return now
    if gain_s <= rules.risk * now.runs_s:
        return replace(now, reason="more would end first, but for too small a gain")
    return later


def least_turnaround(
    job: Malleable,
    free: int,
    queue: Queue,
    releases: Releases,
    bound_s: float = math.inf,
    comes_by: ComesBy | None = None,
) -> Choice | None:
    """Returns the best n not free yet; None if there never is one, or none ends before `bound_s`.

    Predictor A waits for the same benefactors up to the size of each job, so only those sizes
    matter. With B, Q rises with n and R falls, so a stretch is skipped if its first wait plus its
    last run exceed the best so far. `comes_by` says whether n slots are free by a time, at a tenth
    of the cost of computing when.
    """
    first = max(free + 1, job.least)
    last = min(job.useful, free + releases.total)
    if first > last:
        return None
    by_size = [slots for _, slots in releases.held]
    second = by_size[1] if len(by_size) > 1 else 0  # up to here there are two benefactors
    alone = min(last, free + second)
    start = max(first, alone + 1)
    fewest = {first, min(start, last)}  # by A and by B: Q rises with n in each
    if too_late(fewest, bound_s - job.run_s(last), bound_s, comes_by):
        return None
    found: list[tuple[float, int]] = []

    def look(slots: int) -> float:
        """Returns the wait for `slots`, or a lower bound if they come too late to be best."""
        nonlocal bound_s
        runs_s = job.run_s(slots)
        if too_late({slots}, bound_s - runs_s, bound_s, comes_by):
            return max(0.0, bound_s * (1 - SMALL) - runs_s)
        wait_s = queue(slots)
        found.append((wait_s + runs_s, slots))
        bound_s = min(bound_s, wait_s + runs_s)
        return wait_s

    stops = {alone} | {free + size for size in by_size if first <= free + size <= alone}
    for slots in sorted(stops) if first <= alone else ():
        if look(slots) + job.run_s(alone) >= bound_s * (1 - SMALL):
            break
    if start <= last:
        waits_s = {start: look(start), last: look(last)}
        stretches = [(waits_s[start] + job.run_s(last), start, last)]  # nothing in it ends sooner
        while stretches:
            soonest_s, low, high = heappop(stretches)
            if soonest_s >= bound_s * (1 - SMALL):
                break
            if high - low > 1:
                middle = (low + high) // 2
                waits_s[middle] = look(middle)
                heappush(stretches, (waits_s[low] + job.run_s(middle), low, middle))
                heappush(stretches, (waits_s[middle] + job.run_s(high), middle, high))
    turnaround_s, slots = min(found, default=(math.inf, 0))
    if math.isinf(turnaround_s):
        return None
    runs_s = job.run_s(slots)
    return Choice(slots, turnaround_s - runs_s, runs_s, "ends first though it waits")


def too_late(
    fewest: Iterable[int], within_s: float, bound_s: float, comes_by: ComesBy | None
) -> bool:
    """Whether none of these numbers of slots comes `within_s`, ignoring gains too small to search
    for."""
    if comes_by is None or math.isinf(bound_s):
        return False
    within_s -= SMALL * bound_s
    return within_s <= 0 or not any(comes_by(slots, within_s) for slots in fewest)


def by_heuristic(
    job: Malleable, free: int, releases: Releases, held: Held | None, rules: Rules
) -> Choice:
    """Decides by HEUR (section 5.5)."""
    if free < job.least:
        return forced(job, free, releases)
    target = max(job.least, min(job.useful, math.ceil(rules.fraction * job.useful - ROUNDING)))
    target = min(target, free + releases.total)  # no more than exist
    takes = min(free, job.useful)
    now = Choice(takes, 0.0, job.run_s(takes), "takes what is free")
    if free >= target:
        return replace(now, reason="has all that it holds out for")
    if job.work_s <= rules.work_above_s or job.speedup.parallelism <= rules.parallelism_above:
        return now
    offered = min(held.offered, target) if held is not None else takes
    saved_s = job.run_s(max(offered, job.least)) - job.run_s(target)
    left_s = rules.patience * saved_s - (held.for_s if held is not None else 0.0)
    if left_s <= 0:
        return replace(now, reason="has held out for long enough")
    return Choice(target, left_s, job.run_s(target), "holds out for more")
