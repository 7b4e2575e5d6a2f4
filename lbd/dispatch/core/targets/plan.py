"""How many slots an array with a target time gets (`--target`, `--deadline`). Pure.

One array: Sleiman's DAA (`theory/target_time.py`). It starts with the fewest slots that end it in
time on average, and at each end of a task takes one more, one less, or as many as before. It is
never stopped for being late: an impossible target is accepted, with a warning.

Several arrays that together need more than there is: slots go, one at a time, to the array that
would be latest without it. So in the end all are equally late, as far as whole slots allow, and an
array that is in time gives nothing away before another is late.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from typing import TypeVar

from lbd.text.units import show_duration
from lbd.theory.calibration import LEAST_SPREAD
from lbd.theory.target_time import Batch, End, TaskMean, first_slots, mean_left_s

SURE = 1.645  # standard deviations either way: a 90 % interval of a normal variable
LEAST_S = 1.0  # of an interval either way: times are shown to the second
UNKNOWN_TASKS = 0.1  # weight of a guessed mean, in ended tasks

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Within:
    """A time from now: expected, and the two between which it lies in nine of ten cases."""

    mean_s: float
    low_s: float
    high_s: float

    @classmethod
    def of(cls, end: End) -> "Within":
        """Takes the time to be log-normal, so that its lower end is not now where little is known,
        but no narrower than the rest of so many exponential tasks (gamma), which may be now, and no
        surer than any is: no tasks are more alike, and no slot is taken again more promptly, than
        `LEAST_SPREAD`."""
        if end.mean_s <= 0:
            return cls(end.mean_s, end.mean_s, end.mean_s)
        sd_s = max(end.sd_s, LEAST_SPREAD * end.mean_s, LEAST_S / SURE)
        squared = math.log1p((sd_s / end.mean_s) ** 2)
        median_s, factor = end.mean_s * math.exp(-squared / 2), math.exp(SURE * math.sqrt(squared))
        low, high = gamma_90(min(1.0, (end.tasks_sd_s / end.mean_s) ** 2))
        low_s, high_s = median_s / factor, max(end.mean_s, median_s * factor)
        return cls(end.mean_s, min(low_s, low * end.mean_s), max(high_s, high * end.mean_s))

    def then(self, next_: "Within") -> "Within":
        """Returns the end of the two, one after the other. Its lower end is never before the sum of
        theirs."""
        mean_s = self.mean_s + next_.mean_s
        low_s = math.hypot(self.mean_s - self.low_s, next_.mean_s - next_.low_s)
        high_s = math.hypot(self.high_s - self.mean_s, next_.high_s - next_.mean_s)
        return Within(mean_s, mean_s - low_s, mean_s + high_s)


@dataclass(frozen=True, slots=True)
class Begins:
    """When the next task of an array begins, and when each slot that the array does not have yet
    comes free for it, from now, as far as that is predicted."""

    first: Within
    slots_s: tuple[float, ...] = ()
    is_guess: bool = False

    @classmethod
    def at(cls, wait_s: float) -> "Begins":
        return cls(Within(wait_s, wait_s, wait_s), (wait_s,))


NOW = Begins.at(0.0)


def gamma_90(spread: float) -> tuple[float, float]:
    """Returns the two between which a gamma variable of mean 1 and this variance, at most 1, lies
    in nine of ten cases, to a hundredth (Wilson, Hilferty 1931)."""
    ninth = spread / 9
    middle, off = 1 - ninth, SURE * math.sqrt(ninth)
    return (middle - off) ** 3, (middle + off) ** 3


@dataclass(frozen=True, slots=True)
class ArrayOutlook:
    """The prospects of an array with everything that it may have."""

    at_once: int  # tasks
    within_s: float  # its target, from now
    end: Within | None  # expected, from now; from its begin if that is unknown
    begins: Begins | None = NOW  # from now; None: unknown
    gets_more: bool = False  # when other arrays with targets have ended

    def warning(self, what: str) -> str:
        """Returns one line for a target that may be missed. It says no more than the interval."""
        tasks = "1 task" if self.at_once == 1 else f"{self.at_once} tasks"
        more = ", more when other arrays end" * self.gets_more
        said = f"{what} (in {show_duration(max(0.0, self.within_s))})"
        met = "may not be met"
        if self.end is not None and self.end.mean_s > self.within_s:
            is_sure = self.end.low_s > self.within_s
            met = "cannot be met" if is_sure else "will probably not be met"
        return f"{said} {met} with {tasks} at once{more}: {self._expected()}"

    def _expected(self) -> str:
        if self.end is None:
            return "it is not known when it ends"
        low, high = show_duration(self.end.low_s), show_duration(self.end.high_s)
        end = show_duration(self.end.mean_s) + f" (likely {low} to {high})" * (low != high)
        if self.begins is None:
            return f"it is not known when it begins, and expected to end {end} later"
        if self.begins.first.mean_s < 1.0:
            return f"expected to end in {end}"
        begins = show_duration(self.begins.first.mean_s)
        return f"expected to begin in {begins} and to end in {end}"


def slot_times_s(begins_s: Sequence[float], mean_s: float, slots: int) -> tuple[float, ...]:
    """Returns when each slot comes free for an array of which the next tasks begin at these times.
    A task that begins where one of its array has just ended takes that one's slot."""
    found, ends_s = list[float](), list[float]()
    for begin_s in sorted(begins_s):
        if len(found) == slots:
            break
        if ends_s and ends_s[0] <= begin_s:
            heapreplace(ends_s, begin_s + mean_s)
        else:
            found.append(begin_s)
            heappush(ends_s, begin_s + mean_s)
    return tuple(found)


def unknown_mean(tasks: int, within_s: float, most: int) -> TaskMean:
    """Returns the mean to assume if nothing is known: as long as all slots together could just do
    in time.

    Being late cannot be undone, giving slots back can: so it starts with everything it may have,
    and the first tasks that end show what is really needed. Raises ValueError for a target that has
    passed, for no task, or no slot.
    """
    if tasks < 1 or within_s <= 0:
        raise ValueError(f"{tasks} tasks within {within_s:g} s: must be above 0")
    return TaskMean(within_s / mean_left_s(tasks, most, 1.0), UNKNOWN_TASKS)


def share(
    batches: Mapping[Key, Batch], slots: int, now_s: float, widths: Mapping[Key, int] | None = None
) -> dict[Key, int]:
    """Returns the most tasks of each array that may run on the slots of all together.

    `widths`: the slots of one task, where it is not 1. While there is enough for what each needs,
    the result is as many as all slots hold. Raises ValueError for a negative number of slots.
    """
    width = widths or {}
    if slots < 0:
        raise ValueError(f"{slots} slots: must be 0 or more")
    active = {key: batch for key, batch in batches.items() if batch.left}
    room = {key: slots // width.get(key, 1) for key in active}
    needs = {key: needed(batch, room[key], now_s) for key, batch in active.items()}
    if sum(need * width.get(key, 1) for key, need in needs.items()) <= slots:
        return room
    given = dict.fromkeys(active, 0)
    order = [(-late_s(batch, 1, now_s), number) for number, batch in enumerate(active.values())]
    keys = list(active)
    # First a slot each, the latest first; then always where the next one is needed most.
    queue, rest = [], slots
    for late, number in sorted(order):  # appending in sorted order makes a heap
        if width.get(keys[number], 1) <= rest:
            given[keys[number]] = 1
            rest -= width.get(keys[number], 1)
            queue.append((late, number))
    while rest and queue:
        number = queue[0][1]
        key = keys[number]
        if given[key] >= needs[key] or width.get(key, 1) > rest:
            heappop(queue)
            continue
        given[key] += 1
        rest -= width.get(key, 1)
        heapreplace(queue, (-late_s(active[key], given[key], now_s), number))
    return given


def needed(batch: Batch, most: int, now_s: float) -> int:
    if most < 1:
        return 1
    within_s = batch.target_s - now_s
    return first_slots(batch.left, within_s, batch.mean.mean_s, most, batch.drain)


def late_s(batch: Batch, slots: int, now_s: float) -> float:
    """Returns how long after its target it ends with that many slots, on average; negative: before
    it."""
    left_s = mean_left_s(batch.left, slots, batch.mean.mean_s, batch.drain)
    return now_s + left_s - batch.target_s
