"""The arrays of the queue that have a target: how many tasks of each may run now, and why. Pure.

- An array with a target stands in the line where it came and takes no turns with others: tasks that
  run are followed by its next ones, and a task more gets the next free slot that nobody before it
  wants. But no more of them run than its target asks for, and who came later gets the rest.
- The number is DAA's (`plan.py`): at each end of a task one more, one less or as many as before.
  Only while none has ended yet, or none runs, is it planned again from the start.
- One that cannot be in time with all it may have, or of whose tasks nothing is known yet, takes
  turns like any other array: an impossible target is no way past those who wait.
- A deadline is a target that lies before it by as much as the drain may well take longer.

Times are those of one clock that never runs back; `unix_s` is what UNIX time was at its zero.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from lbd.dispatch.core.discipline import QueuedJob, Target
from lbd.dispatch.core.targets.plan import SURE, UNKNOWN_TASKS, ArrayOutlook, share, unknown_mean
from lbd.dispatch.core.targets.task_times import SHORTEST_S, Earlier, TaskTimes
from lbd.model import JobId
from lbd.text.units import show_duration
from lbd.theory.batch_end import quantile_s
from lbd.theory.target_time import (
    STEERED,
    Batch,
    End,
    TaskMean,
    first_slots,
    harmonic,
    mean_left_s,
    variance_left_s2,
    variance_steered_s2,
)

DEADLINE_CHANCE = 0.95  # to be met, as far as the drain decides
KNOWN_TASKS = 1.0  # that have ended, before anything is said of the end
FRESH_S = 0.5  # slots come and go, and what one array may have is looked at again after this;
SHARED_S = 0.02  # what several may have, after this for each of them
FEW_ARRAYS = 16  # with no more of them it is done at once when one comes
PLAN_SHARE = 0.01  # of the tasks or of the time left: by so much it changes before another plan
EXPECTED_MAX = 10_000  # arrays about to come, of which something is known already
# Whoever is next is looked for among all that have as many tasks as they may: so these are few.
ARRAYS_OF_USER, ARRAYS_OF_HOST = 100, 400


@dataclass(frozen=True, slots=True)
class Standing:
    """An array on its way to its target, for people."""

    end: End | None  # from now; None: nothing is known of its tasks
    at_once: int  # tasks that may run now
    running: int
    left: int
    why: str


@dataclass(slots=True)
class TargetArray:
    job: QueuedJob  # one of its tasks; what is asked of it is the same for all
    until_s: float
    batch: Batch
    times: TaskTimes = field(default_factory=TaskTimes)
    begun_s: dict[JobId, float] = field(default_factory=dict)  # of the tasks that run
    most: int = 0  # tasks that may run at all, with what others with targets need
    is_steered: bool = False  # a task has ended: one step at a time from now on
    in_time: bool = False  # with all it may have, as was found last
    planned: tuple[int, int, float] = (0, 0, -math.inf)  # for how many tasks, slots, and when

    @property
    def is_known(self) -> bool:
        return self.batch.mean.tasks >= KNOWN_TASKS

    @property
    def at_once(self) -> int:
        return min(self.batch.slots, self.most)

    def aim(self, now_s: float) -> None:
        """Sets what the batch is to end at on average."""
        target = self.job.target
        assert target is not None
        batch = self.batch
        batch.target_s = self.until_s
        if target.is_deadline and self.is_known:
            batch.target_s -= before_deadline_s(max(1, batch.slots), batch)
        batch.most, batch.drain = max(1, self.most), self.times.drain
        ages = [now_s - begun_s for begun_s in self.begun_s.values()]
        batch.extra = self.times.beyond_means(ages, batch.mean.mean_s)

    def plan(self, now_s: float) -> None:
        """How many it takes from the start. A second look, as a deadline's margin depends on it."""
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
        self.look(now_s)

    def look(self, now_s: float) -> None:
        batch = self.batch
        if not batch.left:
            return
        end_s = mean_left_s(batch.left, batch.most, batch.mean.mean_s, batch.drain)
        spread_s2 = variance_steered_s2(batch.left, batch.most, batch.mean.mean_s)
        self.in_time = now_s + end_s <= batch.target_s + math.sqrt(spread_s2)

    def may_plan(self, now_s: float) -> bool:
        """Whether it is not held to one step at a time, and something has changed."""
        if self.is_steered and self.batch.running:
            return False
        left, most, at_s = self.planned
        changed = abs(self.batch.left - left) > PLAN_SHARE * left or self.most != most
        if self.batch.running:
            return changed
        return changed or now_s - at_s > PLAN_SHARE * max(0.0, self.until_s - at_s)

    def end(self, now_s: float) -> End | None:
        """When it ends, from now; with what others leave it."""
        batch = self.batch
        if not (batch.left and self.is_known):
            return None
        slots, mean_s = max(1, self.at_once), batch.mean.mean_s
        end_s = mean_left_s(batch.left + batch.extra, slots, mean_s, batch.drain)
        variance = variance_left_s2(batch.left, slots, mean_s)
        varies_s = end_s
        if batch.waiting and self.in_time:
            # One task less at once would be too late: it goes between the two, and ends there.
            steered_s2 = variance_steered_s2(batch.left, slots, mean_s)
            variance = min(variance, steered_s2)
            if slots > 1:
                end_s = max(0.0, batch.target_s - now_s)
            varies_s = mean_s * (harmonic(min(slots, batch.left)) + STEERED / slots)
        variance += varies_s**2 / batch.mean.tasks
        return End(end_s, math.sqrt(variance * self.times.spread))


def before_deadline_s(slots: int, batch: Batch) -> float:
    """How long before its deadline a batch is to end on average, to meet it in 95 % of cases.

    Under DAA its spread is that of the drain, whose distribution is known (equation 1), and a
    little that is close to normal.
    """
    at_once, mean_s = min(slots, max(1, batch.left)), batch.mean.mean_s
    late_s = quantile_s(DEADLINE_CHANCE, at_once, at_once, mean_s) - mean_s * harmonic(at_once)
    steered = min(max(0, batch.left - at_once), STEERED) / at_once**2
    return math.hypot(late_s, SURE * mean_s * math.sqrt(steered))


class Targets:
    """Feed it what becomes of tasks; ask it how many of an array may run.

    `room` says how many tasks like this one all slots together hold, whoever has them now.
    """

    def __init__(self, room: Callable[[QueuedJob], int], is_held: bool = True) -> None:
        """`is_held` off: under a discipline of several lines nobody is limited. A task waits for a
        tier or for one host there, and a free slot elsewhere is of no use to its array."""
        self.is_held = is_held
        self.unix_s = 0.0
        self.arrays: dict[int, TargetArray] = {}
        self._room = room
        self.limit: Callable[[QueuedJob, int], int] = lambda _, count: count  # what shares allow
        self._expected: dict[int, Earlier] = {}
        self._divided_s = -math.inf

    def __bool__(self) -> bool:
        return bool(self.arrays)

    def holds(self, job: QueuedJob) -> bool:
        return job.target is not None and self.is_held

    def why_not(self, user: str, origin: str) -> str:
        """Why this user may have no further array with a target, "" if they may."""
        jobs = [array.job for array in self.arrays.values()]
        if sum(job.user == user for job in jobs) >= ARRAYS_OF_USER:
            return f"the limit per user is {ARRAYS_OF_USER} arrays with targets in the queue"
        if sum(job.origin == origin for job in jobs) >= ARRAYS_OF_HOST:
            return f"the limit per host is {ARRAYS_OF_HOST} arrays with targets in the queue"
        return ""

    # What becomes of tasks

    def expect(self, array: int, known: Earlier) -> None:
        """What is known of the tasks of an array that comes now."""
        if len(self._expected) >= EXPECTED_MAX:
            self._expected.clear()
        self._expected[array] = known

    def came(self, job: QueuedJob) -> None:
        if not self.holds(job):
            return
        array = self.arrays.get(job.array)
        if array is None:
            array = self.arrays[job.array] = self._new(job)
            array.most = self._room_of(job)
            if len(self.arrays) <= FEW_ARRAYS:
                self._divided_s = -math.inf
        array.batch.waiting += 1

    def _new(self, job: QueuedJob) -> TargetArray:
        assert job.target is not None
        until_s, known = job.target.unix_s - self.unix_s, self._expected.pop(job.array, Earlier())
        mean = known.mean() or TaskMean(1.0, UNKNOWN_TASKS)
        if job.work_s is not None and mean.tasks < KNOWN_TASKS:
            mean = TaskMean(max(SHORTEST_S, job.work_s / job.slots), KNOWN_TASKS)
        array = TargetArray(job, until_s, Batch(0, until_s, 0, 1, mean))
        array.times.add(known.others_s + known.own_s)
        return array

    def began(self, job: QueuedJob, now_s: float) -> None:
        if (array := self._of(job)) is not None and array.batch.waiting:
            array.batch.began(now_s)
            array.begun_s[job.id] = now_s

    def found_running(self, job: QueuedJob) -> None:
        """It began under the last dispatcher: the array goes on with as many as it had."""
        if (array := self._of(job)) is not None:
            batch = array.batch
            batch.slots, array.is_steered = max(batch.slots, batch.running), True

    def ran_before(self, job: QueuedJob, age_s: float) -> None:
        """One that was found running had run so long by then."""
        if (array := self._of(job)) is not None and job.id in array.begun_s and age_s > 0:
            array.batch.mean.worked_s += age_s
            array.begun_s[job.id] -= age_s

    def was_suspended(self, job: QueuedJob, for_s: float, now_s: float) -> None:
        if (array := self._of(job)) is not None and job.id in array.begun_s:
            array.begun_s[job.id] += for_s
            array.batch.stood(for_s, now_s)

    def left(self, job: JobId, kind: QueuedJob, now_s: float, *, whole: bool) -> None:
        """It waits no more, nor runs; `whole`: it ran to its own end."""
        if (array := self._of(kind)) is None:
            return
        begun_s = array.begun_s.pop(job, None)
        if begun_s is None:
            if array.batch.waiting:
                array.batch.withdrawn()
            return self._drop_if_done(array)
        if whole:
            array.times.add((now_s - begun_s,))
        array.aim(now_s)
        if whole:
            array.batch.ended(now_s)
        else:
            array.batch.lost(now_s)
            array.batch.withdrawn()
        array.is_steered = True
        self._changed(array, now_s)

    def lost(self, job: QueuedJob, now_s: float) -> None:
        """Its attempt came to nothing, and it waits again."""
        array = self._of(job)
        if array is None or array.begun_s.pop(job.id, None) is None:
            return
        array.aim(now_s)
        array.batch.lost(now_s)
        self._changed(array, now_s)

    # What is asked

    def keeps_place(self, number: int) -> bool:
        """Whether the array goes on where it stands, instead of taking turns."""
        array = self.arrays.get(number)
        return array is not None and array.is_known and array.in_time

    def is_full(self, job: QueuedJob, now_s: float) -> bool:
        """Whether no more tasks of its array may begin now."""
        if (array := self._of(job)) is None:
            return False
        self._refresh(array, now_s)
        return array.batch.running >= array.at_once

    def obstacle(self, job: QueuedJob, now_s: float) -> str:
        """Why no more tasks of its array may begin now, "" if one may."""
        array = self._of(job)
        if array is None or not self.is_full(job, now_s):
            return ""
        if not array.at_once:
            return "other arrays with targets need all slots more urgently"
        run = "task of its array is" if array.batch.running == 1 else "tasks of its array are"
        target = array.job.target
        assert target is not None
        if not array.is_known:
            why = "the limit until it is known how long they take"
        elif array.in_time:
            why = f"as many as it needs to end {aim_phrase(target)}"
        else:
            why = "the limit, and it will still be late"
        return f"{array.batch.running} {run} running, {why}"

    def standing(self, job: QueuedJob, now_s: float) -> Standing | None:
        if (array := self._of(job)) is None:
            return None
        self._refresh(array, now_s)
        batch = array.batch
        end = array.end(now_s)
        return Standing(end, array.at_once, batch.running, batch.left, reason(array, now_s))

    def remark(self, number: int, now_s: float) -> str:
        """One line on an array that has just come and cannot be in time; "" of any other."""
        array = self.arrays.get(number)
        if array is None or not self._room_of(array.job):
            return ""
        self._divided_s = -math.inf
        self._refresh(array, now_s)
        end = array.end(now_s)
        if end is None or array.in_time:
            return ""
        assert array.job.target is not None
        what = "the deadline" if array.job.target.is_deadline else "the target"
        return ArrayOutlook(array.at_once, round(array.until_s - now_s, 1), end).warning(what)

    # Inside

    def _of(self, job: QueuedJob) -> TargetArray | None:
        return self.arrays.get(job.array) if job.target is not None else None

    def _room_of(self, job: QueuedJob) -> int:
        return self.limit(job, self._room(job))

    def _changed(self, array: TargetArray, now_s: float) -> None:
        array.look(now_s)
        self._drop_if_done(array)

    def _drop_if_done(self, array: TargetArray) -> None:
        if not array.batch.left:
            del self.arrays[array.job.array]

    def _refresh(self, array: TargetArray, now_s: float) -> None:
        count = len(self.arrays)
        fresh_s = SHARED_S * count if count > 1 else FRESH_S
        if now_s - self._divided_s > fresh_s:
            self._divide(now_s)
        if array.may_plan(now_s):
            array.plan(now_s)

    def _divide(self, now_s: float) -> None:
        """What several need together may be more than there is. Those of which nothing is known
        have an equal part each; the others share the rest by how late each would be."""
        self._divided_s = now_s
        room = {number: self._room_of(array.job) for number, array in self.arrays.items()}
        width = {number: array.job.slots for number, array in self.arrays.items()}
        for number, array in self.arrays.items():
            array.most = room[number]
        if len(room) < 2:
            return
        slots = max(room[number] * width[number] for number in room)
        rest = slots
        for number, array in self.arrays.items():
            if not array.is_known:
                array.most = max(1, min(room[number], slots // len(room) // width[number]))
                rest -= min(array.most, array.batch.left) * width[number]
        known = {number: array for number, array in self.arrays.items() if array.is_known}
        for array in known.values():
            array.aim(now_s)
        parts = share({n: one.batch for n, one in known.items()}, max(0, rest), now_s, width)
        for number, array in known.items():
            array.most = min(room[number], parts.get(number, 0))


def aim_phrase(target: Target) -> str:
    return "by its deadline" if target.is_deadline else "at its target time"


def reason(array: TargetArray, now_s: float) -> str:
    """Why as many run as may, in words."""
    batch, target = array.batch, array.job.target
    assert target is not None
    end = array.end(now_s)
    if end is None:
        return (
            "it is not yet known how long its tasks take: until some have ended, it takes "
            f"turns with others, at most {array.at_once} at once"
        )
    if not batch.waiting:
        return "its last tasks are running, and more slots would not help"
    late_s = now_s + end.mean_s - array.until_s
    if not array.in_time:
        said = f"the limit; it will end {show_duration(late_s)} late on average"
    elif array.at_once == 1 and late_s < -end.sd_s:
        said = f"one at a time is enough: it will end {show_duration(-late_s)} early on average"
    else:
        said = f"as many as it needs to end {aim_phrase(target)}"
    if array.most < batch.slots:
        said += "; other arrays with targets need the rest"
    elif batch.running < array.at_once:
        said += "; other jobs have the slots now"
    return said
