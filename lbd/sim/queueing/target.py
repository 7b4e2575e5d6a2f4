"""A batch of tasks with a target time, in virtual time: static and dynamic numbers of slots.

The simulation of Sleiman, Lipsky, Sheahan, sections V and VI, with the deciding code of the
dispatcher (`dispatch/core/targets/plan.py`). As there, slots come and go at once and at no cost.
What the paper leaves open can be set: a mean that is learnt, tasks that are not exponential, slots
of unequal speed, tasks whose host is lost, several batches that share the slots.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from random import Random
from typing import Literal, NamedTuple

from lbd.dispatch.core.targets.plan import share
from lbd.theory.target_time import Batch, Drain, TaskMean, equal_tasks_s, harmonic, mean_left_s

Policy = Literal["SAA", "DAA"]
POLICIES: tuple[Policy, ...] = ("SAA", "DAA")
Sizes = Callable[[Random], float]  # draws one task's size, in units of the mean
ENDLESS = 1 << 30  # slots


@dataclass(frozen=True, slots=True)
class BatchWork:
    """One batch. Times are in units of the mean task time."""

    tasks: int
    slots: int  # of the static rule; the dynamic rule starts with the same number
    sizes: Sizes
    target_s: float
    policy: Policy = "DAA"
    learns: bool = False  # otherwise the mean is known to be 1
    drain: Drain = harmonic  # what the rule assumes for the tasks


@dataclass(frozen=True, slots=True)
class TargetCluster:
    slots: int = ENDLESS
    speeds: tuple[float, ...] = (1.0,)  # of the slots, repeated in turn
    loss_rate: float = 0.0  # of a busy slot: its task is lost and starts again


@dataclass(slots=True)
class BatchRun:
    """The result for one batch."""

    end_s: float = 0.0
    drain_s: float = 0.0  # when the static rule's drain would start: task N - P has ended
    worked_s: float = 0.0  # total of all its slots
    peak: int = 0
    # changes of the number of slots while tasks are left, by one each, including the drain's
    changes: int = 0


class Event(NamedTuple):
    at_s: float
    number: int  # of the start: no two are equal
    array: int
    slot: int
    began_s: float
    lost: bool


@dataclass(slots=True)
class Array:
    work: BatchWork
    batch: Batch
    sizes: list[float]  # of the waiting tasks; the last one starts next
    slots: int  # when last checked
    run: BatchRun = field(default_factory=BatchRun)


def simulate(works: Sequence[BatchWork], cluster: TargetCluster, rng: Random) -> list[BatchRun]:
    """Runs all batches from time 0 until the last task has ended."""
    world = BatchWorld(works, cluster, rng)
    world.start(0.0)
    while world.events:
        world.step()
    return [array.run for array in world.arrays]


class BatchWorld:
    def __init__(self, works: Sequence[BatchWork], cluster: TargetCluster, rng: Random) -> None:
        self.cluster = cluster
        self.rng = rng
        self.arrays = [new_array(work, cluster, rng) for work in works]
        self.events: list[Event] = []
        self.free: list[int] = []  # slots used before
        self.used = 0  # slots ever used
        self.starts = 0
        if len(works) > 1:
            self.divide(0.0)

    def step(self) -> None:
        event = heappop(self.events)
        array, now_s = self.arrays[event.array], event.at_s
        heappush(self.free, event.slot)
        array.run.worked_s += now_s - event.began_s
        batch = array.batch
        if event.lost:
            batch.lost(now_s)
        else:
            batch.ended(now_s)
        if array.work.policy == "SAA":
            batch.slots = min(array.work.slots, batch.left)
        ended = array.work.tasks - batch.left
        if ended == array.work.tasks - array.work.slots and not array.run.drain_s:
            array.run.drain_s = now_s
        if batch.left == 0:
            array.run.end_s = now_s
        if len(self.arrays) > 1:
            self.divide(now_s)
        self.start(now_s)

    def divide(self, now_s: float) -> None:
        batches = {
            number: array.batch
            for number, array in enumerate(self.arrays)
            if array.work.policy == "DAA"
        }
        for number, most in share(batches, self.cluster.slots, now_s).items():
            batches[number].limit(max(1, most), now_s)

    def start(self, now_s: float) -> None:
        for number, array in enumerate(self.arrays):
            batch = array.batch
            while batch.waiting and batch.running < batch.slots and self.has_room():
                batch.began(now_s)
                self.begin(number, array, now_s)
            note_slots(array, array.run)

    def has_room(self) -> bool:
        return bool(self.free) or self.used < self.cluster.slots

    def begin(self, number: int, array: Array, now_s: float) -> None:
        if self.free:
            slot = heappop(self.free)
        else:
            slot, self.used = self.used, self.used + 1
        size = array.sizes.pop()
        takes_s = size / self.cluster.speeds[slot % len(self.cluster.speeds)]
        rate = self.cluster.loss_rate
        lost_s = self.rng.expovariate(rate) if rate else math.inf
        if lost_s < takes_s:
            array.sizes.insert(0, size)
        self.starts += 1
        heappush(
            self.events,
            Event(now_s + min(takes_s, lost_s), self.starts, number, slot, now_s, lost_s < takes_s),
        )


def new_array(work: BatchWork, cluster: TargetCluster, rng: Random) -> Array:
    slots = min(work.slots, work.tasks)
    sizes = [work.sizes(rng) for _ in range(work.tasks)]
    mean = TaskMean(1.0)
    batch = Batch(
        work.tasks, work.target_s, slots, cluster.slots, mean, work.learns, drain=work.drain
    )
    return Array(work, batch, sizes, slots)


def note_slots(array: Array, run: BatchRun) -> None:
    batch = array.batch
    run.peak = max(run.peak, batch.running)
    if batch.left:
        run.changes += abs(batch.slots - array.slots)
        array.slots = batch.slots


@dataclass(frozen=True, slots=True)
class TargetResult:
    """Results over all replications; times in units of the mean task time."""

    policy: Policy
    mean_s: float
    variance: float
    drain_mean_s: float
    drain_variance: float
    mean_slots: float
    peak_slots: float
    changes: float


def summed_up(policy: Policy, runs: Sequence[BatchRun]) -> TargetResult:
    ends = [run.end_s for run in runs]
    drains = [run.drain_s for run in runs]
    return TargetResult(
        policy,
        mean(ends),
        variance(ends),
        mean(drains),
        variance(drains),
        mean([run.worked_s / run.end_s for run in runs]),
        mean([float(run.peak) for run in runs]),
        mean([float(run.changes) for run in runs]),
    )


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def variance(values: Sequence[float]) -> float:
    """Returns the sample variance, with n - 1; 0 for a single value."""
    centre = mean(values)
    return math.fsum((x - centre) ** 2 for x in values) / max(1, len(values) - 1)


# -- sizes -----------------------------------------------------------------------------------------


def exponential(rng: Random) -> float:
    return rng.expovariate(1.0)


def uniform(rng: Random) -> float:
    return 2.0 * rng.random()


def deterministic(_rng: Random) -> float:
    return 1.0


@dataclass(frozen=True, slots=True)
class Pareto:
    """Pareto without an upper bound, with mean 1."""

    alpha: float

    def __post_init__(self) -> None:
        """Raises ValueError if α is so small that there is no mean."""
        if not 1 < self.alpha < math.inf:
            raise ValueError(f"ALPHA = {self.alpha:g} leaves no mean: must be above 1")

    def __call__(self, rng: Random) -> float:
        return (self.alpha - 1) / self.alpha * math.pow(1.0 - rng.random(), -1.0 / self.alpha)


@dataclass(frozen=True, slots=True)
class Measured:
    """Draws from observed sizes, scaled to a mean of 1."""

    sizes: tuple[float, ...]

    def __call__(self, rng: Random) -> float:
        return rng.choice(self.sizes)


def measured(seen: Sequence[float]) -> Measured:
    """Raises ValueError for no sizes, a size not above 0, or a sum that overflows a float."""
    if not seen:
        raise ValueError("no sizes")
    centre = mean(seen)
    if not all(0 < size < math.inf for size in seen) or not math.isfinite(centre):
        raise ValueError("a size has to be above 0")
    return Measured(tuple(size / centre for size in seen))


def static_end_s(work: BatchWork, replications: int, seed: int) -> float:
    """Returns when the static rule ends on average; simulated if there is no formula."""
    if work.sizes is exponential:
        return mean_left_s(work.tasks, work.slots, 1.0)
    if work.sizes is deterministic:
        return equal_tasks_s(work.tasks, work.slots, 1.0)
    rng = Random(seed)
    return mean([list_schedule_s(work, rng) for _ in range(replications)])


def list_schedule_s(work: BatchWork, rng: Random) -> float:
    """Does the same as `simulate` under SAA, but only that."""
    sizes = [work.sizes(rng) for _ in range(work.tasks)]
    busy = sizes[: work.slots]
    heapify(busy)
    for size in sizes[work.slots :]:
        heappush(busy, heappop(busy) + size)
    return max(busy)
