"""The queue's arrays with a target: how many tasks of each may run now, and why. Pure.

- An array with a target keeps its place in the line and takes no turns with others: its running
  tasks are followed by its next ones, and an additional task gets the next free slot that no
  earlier job wants. But only as many run as its target needs, and later jobs get the rest.
- The number is DAA's (`plan.py`): at each end of a task one more, one less or as many as before. It
  is planned from the start only while none has ended yet, or none runs.
- One that is beyond help, or of whose tasks nothing is known yet, takes turns like any other array.
- A deadline is a target set earlier, by as much as the drain may well exceed its mean.

Times are from one clock that never runs backwards; `unix_s` is the UNIX time at its zero.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.targets.plan import (
    NOW,
    UNKNOWN_TASKS,
    ArrayOutlook,
    Begins,
    Within,
    share,
)
from lbd.dispatch.core.targets.target_array import Standing, TargetArray, foreseen
from lbd.dispatch.core.targets.task_times import Earlier
from lbd.model import JobId
from lbd.text.units import rough_s, show_duration
from lbd.theory.target_time import Batch, TaskMean

FRESH_S = 0.5  # what a single array may have is recomputed after this, as slots come and go
SHARED_S = 0.02  # for several arrays, after this for each of them
FEW_ARRAYS = 16  # up to this many, it is done at once when one arrives
NOTABLE_S = 1.0  # a shorter time is not called late or early
UNKNOWN = (
    "how long its tasks take is not known until one has ended; --work DUR says it, or the --name "
    "of earlier ones"
)
LEFT_BY_OTHERS = "as many as other arrays with targets leave it"
EXPECTED_MAX = 10_000  # arriving arrays with known earlier tasks
ARRAYS_OF_USER, ARRAYS_OF_HOST = 100, 400  # few: the next job is searched among all at limits


class Targets:
    """Feed it what happens to tasks; ask it how many of an array may run.

    `room`: how many such tasks all slots hold, in use or not. One class because all share these.
    """

    def __init__(self, room: Callable[[QueuedJob], int], is_held: bool = True) -> None:
        """`is_held` off: disciplines with several lines do not limit arrays. A task waits for a
        tier or for one host there, and a free slot elsewhere is of no use to its array."""
        self.is_held = is_held
        self.unix_s = 0.0
        self.arrays: dict[int, TargetArray] = {}
        self.returning: set[int] = set()  # arrays that took turns, and get their places back
        self._room = room
        # how many of so many the limits allow, and which limit that is; "" if none
        self.limit: Callable[[QueuedJob, int], tuple[int, str]] = lambda _, count: (count, "")
        self._expected: dict[int, Earlier] = {}
        # why no more tasks of an array may start, and of which state: all its tasks ask
        self._why_full: dict[int, tuple[object, str]] = {}
        self._divided_s = -math.inf

    def __bool__(self) -> bool:
        return bool(self.arrays)

    def holds(self, job: QueuedJob) -> bool:
        return job.target is not None and self.is_held

    def why_not(self, user: str, origin: str) -> str:
        """Returns why this user may have no further array with a target; "" if they may."""
        jobs = [array.job for array in self.arrays.values()]
        if sum(job.user == user for job in jobs) >= ARRAYS_OF_USER:
            return f"the limit per user is {ARRAYS_OF_USER} arrays with targets in the queue"
        if sum(job.origin == origin for job in jobs) >= ARRAYS_OF_HOST:
            return f"the limit per host is {ARRAYS_OF_HOST} arrays with targets in the queue"
        return ""

    # Events of tasks

    def expect(self, array: int, known: Earlier) -> None:
        """Stores what is known of the tasks of an array that arrives now."""
        if len(self._expected) >= EXPECTED_MAX:
            self._expected.clear()
        self._expected[array] = known

    def came(self, job: QueuedJob) -> None:
        if job.target is None or not self.holds(job):
            return
        array = self.arrays.get(job.array)
        if array is None:
            array = self.arrays[job.array] = self._new(job)
            array.most, array.limited_by = self._limited(job)
            if len(self.arrays) <= FEW_ARRAYS:
                self._divided_s = -math.inf
        array.batch.waiting += 1

    def _new(self, job: QueuedJob) -> TargetArray:
        assert job.target is not None
        until_s, known = job.target.unix_s - self.unix_s, self._expected.pop(job.array, Earlier())
        declared_s = job.work_s / job.slots if job.work_s is not None else None
        mean = known.mean(declared_s) or TaskMean(1.0, UNKNOWN_TASKS)
        array = TargetArray(job, until_s, Batch(0, until_s, 0, 1, mean))
        others_s = known.others_s if declared_s is None else (declared_s,)
        array.times.add(others_s + known.own_s)
        return array

    def began(self, job: QueuedJob, now_s: float) -> None:
        if job.target is None:
            return
        if (array := self._of(job)) is not None and array.batch.waiting:
            array.batch.began(now_s)
            array.begun_s[job.id] = now_s

    def found_running(self, job: QueuedJob) -> None:
        """It began under the previous dispatcher: the array continues with as many as it had."""
        if (array := self._of(job)) is not None:
            batch = array.batch
            batch.slots, array.is_steered = max(batch.slots, batch.running), True

    def ran_before(self, job: QueuedJob, age_s: float) -> None:
        """A task that was found running had already run for that long."""
        if (array := self._of(job)) is not None and job.id in array.begun_s and age_s > 0:
            array.batch.mean.worked_s += age_s
            array.begun_s[job.id] -= age_s

    def was_suspended(self, job: QueuedJob, for_s: float, now_s: float) -> None:
        if (array := self._of(job)) is not None and job.id in array.begun_s:
            array.begun_s[job.id] += for_s
            array.batch.stood(for_s, now_s)

    def left(self, job: JobId, kind: QueuedJob, now_s: float, *, whole: bool) -> None:
        """The task no longer waits or runs; `whole`: it ran to its own end."""
        if kind.target is None or (array := self._of(kind)) is None:
            return
        begun_s = array.begun_s.pop(job, None)
        if begun_s is None:
            if array.batch.waiting:
                array.batch.withdrawn()
            return self._drop_if_done(array)
        if whole:
            array.ended(now_s - begun_s, now_s)
        else:
            array.aim(now_s)
            array.batch.lost(now_s)
            array.batch.withdrawn()
            array.is_steered = True
        self._changed(array, now_s)

    def lost(self, job: QueuedJob, now_s: float) -> None:
        """Its attempt was lost, and it waits again."""
        array = self._of(job)
        if array is None or array.begun_s.pop(job.id, None) is None:
            return
        array.aim(now_s)
        array.batch.lost(now_s)
        self._changed(array, now_s)

    # Questions

    def keeps_place(self, number: int) -> bool:
        """Whether the array continues where it stands, instead of taking turns."""
        return number in self.arrays and self.arrays[number].keeps_place

    def took_turn(self, number: int) -> None:
        """An array, perhaps with a target, has moved behind others."""
        if number in self.arrays:
            self.arrays[number].took_turns = True

    def is_full(self, job: QueuedJob, now_s: float) -> bool:
        """Whether no more tasks of its array may start now."""
        if (array := self._of(job)) is None:
            return False
        self._refresh(array, now_s)
        return array.batch.running >= array.at_once

    def room(self, job: QueuedJob, now_s: float) -> int | None:
        """Returns how many more tasks of its array may start now; None if no target limits it."""
        if (array := self._of(job)) is None:
            return None
        self._refresh(array, now_s)
        return array.at_once - array.batch.running

    def obstacle(self, job: QueuedJob, now_s: float) -> str:
        """Returns why no more tasks of its array may start now; "" if one may. When the array will
        end is said by `standing`, which alone knows when slots come free."""
        array = self._of(job)
        if array is None or not self.is_full(job, now_s):
            return ""
        if not array.at_once:
            return "other arrays with targets need all slots more urgently"
        state = now_s, array.batch.running, array.batch.left, array.most, array.limited_by
        known = self._why_full.get(job.array)
        if known is None or known[0] != state:
            known = self._why_full[job.array] = state, why_full(array, now_s)
        return known[1]

    def standing(
        self, job: QueuedJob, now_s: float, begins: Begins | None = NOW
    ) -> Standing | None:
        """`begins`: when its next task starts, from now; None: unknown."""
        if (array := self._of(job)) is None:
            return None
        self._refresh(array, now_s)
        begins = self._begins(array, now_s, begins)
        there, end = foreseen(array, now_s, begins)
        why = reason(there, now_s, end, begins)
        return Standing(end, there.at_once, array.batch.running, array.batch.left, why)

    def first_end_s(self, job: QueuedJob, now_s: float) -> float | None:
        """Returns the time until one of the other arrays ends and leaves its slots."""
        others = (array for array in self.arrays.values() if array.job.array != job.array)
        ends = [end.mean_s for array in others if (end := array.end(now_s)) is not None]
        return min(ends, default=None)

    def remark(self, number: int, now_s: float, begins: Begins | None = NOW) -> str:
        """Returns one line on a new array that may not be in time, or whose tasks are unknown; ""
        for any other. `begins`: as for `standing`."""
        array = self.arrays.get(number)
        if array is None or not self._limited(array.job)[0]:
            return ""
        if not array.is_known:
            return UNKNOWN
        self._divided_s = -math.inf
        self._refresh(array, now_s)
        begins = self._begins(array, now_s, begins)
        there, end = foreseen(array, now_s, begins)
        is_doubtful = array.has_deadline and end is not None and now_s + end.high_s > array.until_s
        if there.in_time and not is_doubtful:
            return ""
        return too_late(array, there, now_s, end, begins)

    def _begins(self, array: TargetArray, now_s: float, begins: Begins | None) -> Begins | None:
        if array.batch.running:
            return replace(NOW, slots_s=begins.slots_s if begins is not None else ())
        if begins is None and not array.at_once:
            first_s = self.first_end_s(array.job, now_s)
            return Begins.at(first_s) if first_s is not None else None
        return begins

    # Internals

    def _of(self, job: QueuedJob) -> TargetArray | None:
        return self.arrays.get(job.array) if job.target is not None else None

    def _limited(self, job: QueuedJob) -> tuple[int, str]:
        """Returns how many of its tasks may run, and what does not let more run."""
        count, limit = self.limit(job, self._room(job))
        return count, f"as many as {limit or 'there are slots for'}"

    def _changed(self, array: TargetArray, now_s: float) -> None:
        array.look(now_s)
        self._note_place(array)
        self._drop_if_done(array)

    def _note_place(self, array: TargetArray) -> None:
        if array.keeps_place and array.took_turns:
            self.returning.add(array.job.array)
            array.took_turns = False

    def _drop_if_done(self, array: TargetArray) -> None:
        if not array.batch.left:
            del self.arrays[array.job.array]
            self.returning.discard(array.job.array)
            self._why_full.pop(array.job.array, None)

    def _refresh(self, array: TargetArray, now_s: float) -> None:
        count = len(self.arrays)
        fresh_s = SHARED_S * count if count > 1 else FRESH_S
        if now_s - self._divided_s > fresh_s:
            self._divide(now_s)
        if array.may_plan(now_s):
            array.plan(now_s)
            self._note_place(array)

    def _divide(self, now_s: float) -> None:
        """Divides the slots, as several arrays may need more than there are. Arrays without known
        times get equal parts; the others share the rest by how late each would be."""
        self._divided_s = now_s
        room = dict[int, int]()
        for number, array in self.arrays.items():
            room[number], array.limited_by = self._limited(array.job)
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
            if (part := parts.get(number, 0)) < room[number]:
                array.most, array.limited_by = part, LEFT_BY_OTHERS
        if len(known) == len(self.arrays) and slots:
            work_s = sum(
                one.batch.left * one.batch.mean.mean_s * width[n] for n, one in known.items()
            )
            for array in known.values():
                array.together_s = now_s + work_s / slots


def too_late(
    array: TargetArray, there: TargetArray, now_s: float, end: Within | None, begins: Begins | None
) -> str:
    """Warns that the array may not be in time. `there`: as it will be when it begins."""
    assert array.job.target is not None
    what = "the deadline" if array.job.target.is_deadline else "the target"
    within_s = round(array.until_s - now_s, 1)
    gets_more = array.limited_by == LEFT_BY_OTHERS and array.together_s < math.inf
    if end is None and (alone := there.end(now_s)) is not None:
        end = Within.of(alone)
    return ArrayOutlook(there.at_once, within_s, end, begins, gets_more).warning(what)


def reason(array: TargetArray, now_s: float, end: Within | None, begins: Begins | None) -> str:
    """Says why that many tasks may run, and when the next one does."""
    what = "its next task" if array.is_steered else "it"
    if begins is None:
        return f"{why_so_many(array, now_s, end)}; it is not known when {what} begins"
    wait_s = begins.first.mean_s
    mark = "~" if begins.is_guess else "about "
    begin = f"; {what} begins in {mark}{show_duration(rough_s(wait_s))}" if wait_s >= 1.0 else ""
    return why_so_many(array, now_s, end) + begin


def why_so_many(array: TargetArray, now_s: float, end: Within | None) -> str:
    batch = array.batch
    said = (
        "it is not yet known how long its tasks take: until one has ended, it takes "
        f"turns with others, at most {array.at_once} at once"
    )
    if array.is_known and batch.running and not batch.waiting:
        return "its last tasks are running, and more slots would not help"
    if array.is_known and batch.left:
        said = "".join(why_no_more(array, now_s, end))
    if array.most < batch.slots:
        said += "; other arrays with targets need the rest"
    elif batch.waiting and array.is_known and not array.keeps_place:
        said += "; that is too late to keep its place, so it takes turns with other jobs"
    elif batch.waiting and batch.running < array.at_once:
        said += "; other jobs have the slots now"
    return said


def why_full(array: TargetArray, now_s: float) -> str:
    """Says how many tasks of an array run, and why no more may."""
    run = "task of its array is" if array.batch.running == 1 else "tasks of its array are"
    if not array.is_known:
        why = "the limit until it is known how long they take"
    else:
        why, _ = why_no_more(array, now_s, foreseen(array, now_s, NOW)[1])
    return f"{array.batch.running} {run} running, {why}"


def why_no_more(array: TargetArray, now_s: float, end: Within | None) -> tuple[str, str]:
    """Says why no more of the known tasks of an array run at once, and whether that will do."""
    target, late_s = array.job.target, now_s - array.until_s + (end.mean_s if end else math.inf)
    assert target is not None
    is_late = NOTABLE_S <= late_s < math.inf
    ends_by_s = now_s + (end.high_s if end is not None and array.has_deadline else -math.inf)
    if array.in_time and not is_late and ends_by_s <= array.until_s + NOTABLE_S:
        then = "; fewer once fewer will do" if array.at_once > 1 else "; more once more are needed"
        if array.at_once <= 1 and late_s <= -NOTABLE_S:  # there is no less
            then += f"; it will end {show_duration(-late_s)} early on average"
        by = "by its deadline" if target.is_deadline else "at its target time"
        return f"as many as it needs to end {by}", then
    why = array.limited_by
    if array.in_time and array.at_once < array.most:
        why = "one more whenever a task ends"
        if not (is_late or array.may_be_late(now_s)):
            why = "as many as it needs on average; more may come free too late, should it need them"
    if end is None:
        return why, "; it will end late"
    if abs(late_s) < NOTABLE_S:
        return why, "; it will end just in time on average"
    how = "late" if is_late else "early"
    fewer = "; fewer once fewer will do" * (array.at_once > 1 and not is_late)
    return why, f"; it will end {show_duration(abs(late_s))} {how} on average{fewer}"
