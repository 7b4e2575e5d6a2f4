"""One array with a target: how many of its tasks may run, and when it will end. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.outlook.lives import Lives
from lbd.dispatch.core.targets.plan import SURE, Begins, Within, unknown_mean
from lbd.dispatch.core.targets.rounds import PLAYED_MAX, played_s
from lbd.dispatch.core.targets.task_times import TaskTimes
from lbd.model import JobId
from lbd.theory.batch_end import quantile_s
from lbd.theory.calibration import LEAST_SPREAD
from lbd.theory.target_time import (
    STEERED,
    Batch,
    End,
    first_slots,
    harmonic,
    last_of_equal_s,
    mean_left_s,
    next_slots,
    variance_left_s2,
    variance_steered_s2,
)

DEADLINE_CHANCE = 0.95  # of meeting it, as far as the drain decides
KNOWN_TASKS = 1.0  # ended tasks needed before an end is predicted
ROUNDS_MAX = 64  # slots whose rounds are counted at each end of a task; 0.5 ms
MOST_OFF = 0.5  # by which tasks are taken to be shorter or longer than the mean
PLAN_SHARE = 0.01  # of the tasks or of the time left: the change that causes a new plan


@dataclass(frozen=True, slots=True)
class Standing:
    """The progress of an array towards its target, for people."""

    # from now, its wait included; None: nothing is known of its tasks, or of when it begins
    end: Within | None
    at_once: int  # tasks that may run now
    running: int
    left: int
    why: str


@dataclass(slots=True)
class TargetArray:
    job: QueuedJob  # one of its tasks; what is used of it is the same for all
    until_s: float
    batch: Batch
    times: TaskTimes = field(default_factory=TaskTimes)
    begun_s: dict[JobId, float] = field(default_factory=dict)  # of running tasks
    most: int = 0  # tasks that may run at all, given what others with targets need
    limited_by: str = ""  # in words, what does not let more run
    is_steered: bool = False  # a task has ended: one step at a time from now on
    in_time: bool = False  # with everything it may have, as of the last look
    given_s: float | None = None  # from its first look to its target
    is_beyond_help: bool = False  # late by more than that at best, as of the last look
    took_turns: bool = False  # others that came later may stand before it
    together_s: float = math.inf  # when all arrays with targets have ended, if they get the slots
    # number of tasks and slots planned for, and when
    planned: tuple[int, int, float] = (0, 0, -math.inf)

    @property
    def is_known(self) -> bool:
        return self.batch.mean.tasks >= KNOWN_TASKS

    @property
    def has_deadline(self) -> bool:
        return self.job.target is not None and self.job.target.is_deadline

    @property
    def keeps_place(self) -> bool:
        """Whether the array continues where it stands, instead of taking turns."""
        return self.is_known and not self.is_beyond_help

    @property
    def at_once(self) -> int:
        return min(self.batch.slots, self.most)

    def aim(self, now_s: float) -> None:
        """Sets the time at which the batch should end on average."""
        batch = self.batch
        batch.target_s = self.until_s
        ages = [now_s - begun_s for begun_s in self.begun_s.values()]
        batch.mean.only_ended = not self.times.is_told_by(ages)
        if self.has_deadline and self.is_known:
            batch.target_s -= before_deadline_s(batch.slots, batch.left, batch.mean.mean_s)
        batch.most, batch.drain = max(1, self.most), self.times.drain
        batch.extra = self.times.beyond_means(ages, batch.mean.mean_s)

    def plan(self, now_s: float) -> None:
        """Plans the slots from the start. Twice, as a deadline's margin depends on them."""
        batch = self.batch
        self.planned = batch.left, self.most, now_s
        if not self.is_known:
            within_s = max(1.0, self.until_s - now_s)
            batch.mean.prior_s = unknown_mean(batch.left, within_s, max(1, self.most)).prior_s
            batch.slots = min(batch.left, max(1, self.most))
            return
        for _ in range(2):
            self.aim(now_s)
            within_s = batch.target_s - now_s
            batch.slots = first_slots(
                batch.left, within_s, batch.mean.mean_s, batch.most, batch.drain
            )
        if self.may_be_late(now_s):
            batch.slots = min(batch.left, batch.most)
        self.look(now_s)

    def ended(self, took_s: float, now_s: float) -> None:
        """A task has ended: as many as before, one more or one fewer run from now on."""
        self.times.add((took_s,))
        self.aim(now_s)
        had = max(1, self.batch.slots)
        self.batch.mean.ended_s += took_s
        self.batch.ended(now_s)
        self.is_steered = True
        if self.may_be_late(now_s):
            self.batch.slots = min(had + 1, self.batch.left, self.batch.most)

    def may_be_late(self, now_s: float) -> bool:
        """Whether a deadline may be missed even with all that it may have, as too little is known
        of how long its tasks take. Slots can be given back later; lost time cannot."""
        batch, slots = self.batch, max(1, self.at_once, self.most)
        if not (batch.waiting and self.is_known and self.has_deadline):
            return False
        if self.times.are_alike and slots > ROUNDS_MAX:  # by the latest that each slot comes free
            mean_s = batch.mean.mean_s
            end_s = max(self.times.seen_s) + mean_s * math.ceil(batch.waiting / slots)
            end = End(end_s, end_s * math.sqrt(self.times.spread / batch.mean.tasks))
        else:
            end = self.soonest(now_s)
        return now_s + Within.of(end).high_s > self.until_s

    def at_begin(self, begin_s: float) -> "TargetArray":
        """Returns what it will be when its first task begins: planned for the time left then."""
        if not self.is_known:
            return self
        found = replace(self, batch=replace(self.batch))
        found.plan(begin_s)
        return found

    def look(self, now_s: float) -> None:
        batch = self.batch
        if not batch.left:
            return
        end_s = mean_left_s(batch.left, batch.most, batch.mean.mean_s, batch.drain)
        spread_s2 = variance_steered_s2(batch.left, batch.most, batch.mean.mean_s)
        self.in_time = now_s + end_s <= batch.target_s + math.sqrt(spread_s2)
        if self.given_s is None:
            self.given_s = max(0.0, self.until_s - now_s)
        # At best: those that run end now, and it has all that it may have from now on. Less would
        # do harm: others that came later would go first, and make it late in earnest.
        least_s = batch.waiting * batch.mean.least_s(batch.running) / max(1, self.most)
        self.is_beyond_help = now_s + least_s > self.until_s + self.given_s

    def may_plan(self, now_s: float) -> bool:
        """Whether it is not limited to one step at a time, and something has changed."""
        if self.is_steered and self.batch.running:
            return False
        left, most, at_s = self.planned
        changed = abs(self.batch.left - left) > PLAN_SHARE * left or self.most != most
        if self.batch.running:
            return changed
        return changed or now_s - at_s > PLAN_SHARE * max(0.0, self.until_s - at_s)

    def starts_s(self, slots: int, next_s: Sequence[float]) -> list[float]:
        """Returns when each of so many slots that it does not have yet comes free. The last that is
        known counts for all that follow."""
        more = max(0, slots - self.batch.running)
        known = list(next_s[:more]) or [0.0]
        return (known + known[-1:] * more)[:more]

    def end(self, now_s: float, next_s: Sequence[float] = ()) -> End | None:
        """Returns when it ends, from now, with what others leave it. `next_s`: when each slot that
        it does not have yet comes free, as far as known; else they are free now."""
        batch = self.batch
        if not (batch.left and self.is_known):
            return None
        if not batch.waiting and self.times.tells_of_ages:
            return self._last_end(now_s)
        slots, mean_s = max(1, self.at_once), batch.mean.mean_s
        is_alike = self.times.may_be_alike
        on_s, variance, varies_s = self._on(slots, now_s, next_s, is_alike=is_alike)
        end_s, played_s = on_s, self._played_s(now_s, next_s) if self.in_time else []
        if batch.waiting and self.in_time:
            # One task fewer at once would be too late: it alternates between the two, and ends
            # there, if it can with everything that it may have.
            if played_s:
                end_s = played_s[0]
            elif slots > 1:
                all_s = self._left_s(max(slots, self.most), now_s, next_s, is_alike=is_alike)
                end_s = max(batch.target_s - now_s, all_s)
            if 1 < slots < self.most:
                variance = min(variance, variance_steered_s2(batch.left, slots, mean_s))
                varies_s = mean_s * (harmonic(min(slots, batch.left)) + STEERED / slots)
        if not self.in_time and self.together_s < math.inf:  # it gets what others leave later
            drain_s = mean_s * harmonic(min(slots, batch.left))
            wait_s = next_s[0] if next_s and not batch.running else 0.0
            end_s = min(end_s, wait_s + max(0.0, self.together_s - now_s) + drain_s)
        # If its tasks go on as now, it ends when as many slots to the end would end it.
        off_s = max(abs(one_s - end_s) for one_s in (*played_s, on_s))
        unsure_s2, spread = varies_s**2 / batch.mean.tasks, self.times.spread
        sd_s = max(math.sqrt((variance + unsure_s2) * spread), off_s / SURE)
        return End(end_s, sd_s, math.sqrt(variance * spread))

    def soonest(self, now_s: float, next_s: Sequence[float] = ()) -> End:
        """Returns when it ends, from now, on all slots that it may have; else as `end`."""
        slots, is_alike = max(1, self.at_once, self.most), self.times.are_alike
        end_s, variance, varies_s = self._on(slots, now_s, next_s, is_alike=is_alike)
        variance += varies_s**2 / self.batch.mean.tasks
        return End(end_s, math.sqrt(variance * self.times.spread))

    def _on(
        self, slots: int, now_s: float, next_s: Sequence[float], *, is_alike: bool
    ) -> tuple[float, float, float]:
        """Returns when it ends on as many slots throughout, the variance of that, and the part of
        it that varies with the mean."""
        end_s = self._left_s(slots, now_s, next_s, is_alike=is_alike)
        variance = variance_left_s2(self.batch.left, slots, self.batch.mean.mean_s)
        return end_s, variance, end_s - min(self.starts_s(slots, next_s), default=0.0)

    def _left_s(
        self, slots: int, now_s: float, next_s: Sequence[float], *, is_alike: bool
    ) -> float:
        """Returns the mean time until its last task ends, on as many slots throughout. Tasks that
        take about the same time (`is_alike`) end in rounds: what is left of one that runs is its
        length without its age, and at the end the longest of a round takes as much longer as its
        drain does."""
        batch, starts_s = self.batch, self.starts_s(slots, next_s)
        mean_s = batch.mean.mean_s
        if not (is_alike and batch.waiting):
            left_s = mean_left_s(batch.left + batch.extra, slots, mean_s, batch.drain)
            return left_s + sum(starts_s) / max(slots, len(starts_s))
        free_s = sorted(self._run_s(now_s) + starts_s)[:slots]
        return last_of_equal_s(batch.waiting, free_s, mean_s) + self._longer_s(slots)

    def _played_s(self, now_s: float, next_s: Sequence[float]) -> list[float]:
        """Returns when it ends, from now, as its slots are decided at each end of a task, where
        tasks end in rounds: if they take the mean, and a little less or more. Empty for others."""
        batch, mean_s = self.batch, self.batch.mean.mean_s
        is_few = 0 < batch.waiting <= PLAYED_MAX
        if not (self.times.may_be_alike and is_few) or self.may_be_late(now_s):
            return []

        slots, most = max(1, self.at_once), max(1, self.most)
        by_s = self.until_s - now_s

        def decide(slots: int, left: int, at_s: float) -> int:
            before_s = before_deadline_s(slots, left + 1, mean_s) if self.has_deadline else 0.0
            return next_slots(slots, left, by_s - before_s - at_s, mean_s, most, batch.drain)

        run_s = self._run_s(now_s)
        free_s = self.starts_s(min(max(slots, most), batch.left), next_s)
        sd = max(LEAST_SPREAD, math.sqrt(self.times.spread / batch.mean.tasks))
        off = min(SURE * sd, MOST_OFF)
        return [
            self._longer_s(slots)
            + played_s(batch.waiting, run_s, free_s, mean_s * factor, slots, decide)
            for factor in (1.0, 1.0 - off, 1.0 + off)
        ]

    def _run_s(self, now_s: float) -> list[float]:
        """Returns what is left of each task that runs, where tasks are alike."""
        return self.times.left_s([now_s - begun_s for begun_s in self.begun_s.values()])

    def _longer_s(self, slots: int) -> float:
        """Returns by how much the longest of the last round is longer than the others."""
        at_once = min(slots, self.batch.left)
        longer = max(0.0, self.batch.drain(at_once) - at_once / (at_once + 1))
        return longer * self.times.unlike * self.batch.mean.mean_s

    def _last_end(self, now_s: float) -> End:
        """Its last tasks are running: the end is that of the last one, by how long tasks of their
        ages took."""
        lives = Lives(tuple(sorted(self.times.seen_s)), None)
        ages_s = [max(0.0, now_s - begun_s) for begun_s in self.begun_s.values()]
        if not ages_s:
            return End(0.0, 0.0)
        low_s, median_s, high_s = (
            max(lives.left_s(share ** (1 / len(ages_s)), age_s) for age_s in ages_s)
            for share in (0.05, 0.5, 0.95)
        )
        return End(median_s, (high_s - low_s) / (2 * SURE))


def foreseen(
    array: TargetArray, now_s: float, begins: Begins | None
) -> tuple[TargetArray, Within | None]:
    """Returns the array as it will be when it begins, and when it ends, from now."""
    if begins is None:
        return array, None
    there, wait_s = array, begins.first.mean_s
    if wait_s > 0:
        starts_s = array.starts_s(max(1, array.at_once), begins.slots_s)
        there = array.at_begin(now_s + sum(starts_s) / len(starts_s))
    if (end := there.end(now_s, begins.slots_s)) is None:
        return there, None
    found = after(begins.first, end)
    if array.has_deadline and there.in_time and there.batch.waiting:
        # It takes more slots as soon as its tasks turn out to be longer.
        last_s = after(begins.first, there.soonest(now_s, begins.slots_s)).high_s
        found = replace(found, high_s=min(found.high_s, max(array.until_s - now_s, last_s)))
    return there, found


def after(first: Within, end: End) -> Within:
    """Returns the end of what begins then. Both are from now."""
    return first.then(Within.of(replace(end, mean_s=max(0.0, end.mean_s - first.mean_s))))


def before_deadline_s(slots: int, left: int, mean_s: float) -> float:
    """Returns how long before its deadline a batch with so many tasks left should end on average,
    to meet it in 95 % of cases.

    Under DAA the spread of the end is that of the drain, whose distribution is known (equation 1),
    and a small, nearly normal part.
    """
    at_once = min(max(1, slots), max(1, left))
    return mean_s * before_deadline(at_once, min(max(0, left - at_once), STEERED))


@lru_cache(maxsize=4096)
def before_deadline(at_once: int, steered: int) -> float:
    """Returns the same in means of a task. `steered`: tasks before the drain that count."""
    late = quantile_s(DEADLINE_CHANCE, at_once, at_once, 1.0) - harmonic(at_once)
    return math.hypot(late, SURE * math.sqrt(steered) / at_once)
