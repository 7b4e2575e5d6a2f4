"""One array with a target: how many of its tasks may run, and when it will end. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.outlook.lives import Lives
from lbd.dispatch.core.targets.plan import SURE, Within, unknown_mean
from lbd.dispatch.core.targets.task_times import TaskTimes
from lbd.model import JobId
from lbd.theory.batch_end import quantile_s
from lbd.theory.target_time import (
    STEERED,
    Batch,
    End,
    first_slots,
    harmonic,
    last_of_equal_s,
    mean_left_s,
    variance_left_s2,
    variance_steered_s2,
)

DEADLINE_CHANCE = 0.95  # of meeting it, as far as the drain decides
KNOWN_TASKS = 1.0  # ended tasks needed before an end is predicted
ROUNDS_MAX = 64  # slots whose rounds are counted at each end of a task; 0.5 ms
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
            batch.target_s -= before_deadline_s(max(1, batch.slots), batch)
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
        if not batch.waiting and self.times.seen_s:
            return self._last_end(now_s)
        slots, mean_s = max(1, self.at_once), batch.mean.mean_s
        on_s, variance, varies_s = self._on(slots, now_s, next_s)
        end_s = on_s
        if batch.waiting and self.in_time:
            # One task fewer at once would be too late: it alternates between the two, and ends
            # there, if it can with everything that it may have.
            steered_s2 = variance_steered_s2(batch.left, slots, mean_s)
            variance = min(variance, steered_s2)
            if slots > 1:
                all_s = self._left_s(max(slots, self.most), now_s, next_s)
                end_s = max(batch.target_s - now_s, all_s)
            varies_s = mean_s * (harmonic(min(slots, batch.left)) + STEERED / slots)
        if not self.in_time and self.together_s < math.inf:  # it gets what others leave later
            drain_s = mean_s * harmonic(min(slots, batch.left))
            wait_s = next_s[0] if next_s and not batch.running else 0.0
            end_s = min(end_s, wait_s + max(0.0, self.together_s - now_s) + drain_s)
        variance += varies_s**2 / batch.mean.tasks
        # If its tasks go on as now, it ends when as many slots to the end would end it.
        sd_s = max(math.sqrt(variance * self.times.spread), (end_s - on_s) / SURE)
        return End(end_s, sd_s)

    def soonest(self, now_s: float, next_s: Sequence[float] = ()) -> End:
        """Returns when it ends, from now, on all slots that it may have; else as `end`."""
        end_s, variance, varies_s = self._on(max(1, self.at_once, self.most), now_s, next_s)
        variance += varies_s**2 / self.batch.mean.tasks
        return End(end_s, math.sqrt(variance * self.times.spread))

    def _on(self, slots: int, now_s: float, next_s: Sequence[float]) -> tuple[float, float, float]:
        """Returns when it ends on as many slots throughout, the variance of that, and the part of
        it that varies with the mean."""
        end_s = self._left_s(slots, now_s, next_s)
        variance = variance_left_s2(self.batch.left, slots, self.batch.mean.mean_s)
        return end_s, variance, end_s - min(self.starts_s(slots, next_s), default=0.0)

    def _left_s(self, slots: int, now_s: float, next_s: Sequence[float]) -> float:
        """Returns the mean time until its last task ends, on as many slots throughout. Tasks that
        take about the same time end in rounds: what is left of one that runs is its length without
        its age, and at the end the longest of a round takes as much longer as its drain does."""
        batch, starts_s = self.batch, self.starts_s(slots, next_s)
        mean_s = batch.mean.mean_s
        if not (self.times.are_alike and batch.waiting):
            left_s = mean_left_s(batch.left + batch.extra, slots, mean_s, batch.drain)
            return left_s + sum(starts_s) / max(slots, len(starts_s))
        run_s = self.times.left_s([now_s - begun_s for begun_s in self.begun_s.values()])
        free_s = sorted(run_s + starts_s)[:slots]
        at_once = min(slots, batch.left)
        longer = max(0.0, batch.drain(at_once) - at_once / (at_once + 1))
        return last_of_equal_s(batch.waiting, free_s, mean_s) + longer * mean_s

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


def before_deadline_s(slots: int, batch: Batch) -> float:
    """Returns how long before its deadline a batch should end on average, to meet it in 95 % of
    cases.

    Under DAA the spread of the end is that of the drain, whose distribution is known (equation 1),
    and a small, nearly normal part.
    """
    at_once, mean_s = min(slots, max(1, batch.left)), batch.mean.mean_s
    late_s = quantile_s(DEADLINE_CHANCE, at_once, at_once, mean_s) - mean_s * harmonic(at_once)
    steered = min(max(0, batch.left - at_once), STEERED) / at_once**2
    return math.hypot(late_s, SURE * mean_s * math.sqrt(steered))
