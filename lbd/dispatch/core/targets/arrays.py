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

from lbd.dispatch.core.discipline import QueuedJob, Target
from lbd.dispatch.core.targets.plan import UNKNOWN_TASKS, ArrayOutlook, share
from lbd.dispatch.core.targets.target_array import KNOWN_TASKS, Standing, TargetArray
from lbd.dispatch.core.targets.task_times import SHORTEST_S, Earlier
from lbd.model import JobId
from lbd.text.units import show_duration
from lbd.theory.target_time import (
    Batch,
    TaskMean,
)

FRESH_S = 0.5  # slots come and go, and what one array may have is looked at again after this;
SHARED_S = 0.02  # what several may have, after this for each of them
FEW_ARRAYS = 16  # with no more of them it is done at once when one comes
EXPECTED_MAX = 10_000  # arrays about to come, of which something is known already
# Whoever is next is looked for among all that have as many tasks as they may: so these are few.
ARRAYS_OF_USER, ARRAYS_OF_HOST = 100, 400


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

    def room(self, job: QueuedJob, now_s: float) -> int | None:
        """How many more tasks of its array may begin now; None if no target limits it."""
        if (array := self._of(job)) is None:
            return None
        self._refresh(array, now_s)
        return array.at_once - array.batch.running

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

    def first_end_s(self, job: QueuedJob, now_s: float) -> float | None:
        """When one of the other arrays will have ended and leave its slots, from now."""
        others = (array for array in self.arrays.values() if array.job.array != job.array)
        ends = [end.mean_s for array in others if (end := array.end(now_s)) is not None]
        return min(ends, default=None)

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
            array.most, array.together_s = room[number], math.inf
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
        if len(known) == len(self.arrays) and slots:
            work_s = sum(
                one.batch.left * one.batch.mean.mean_s * width[n] for n, one in known.items()
            )
            for array in known.values():
                array.together_s = now_s + work_s / slots


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
