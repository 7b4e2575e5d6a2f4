"""What jobs wait for before they join the queue: looked up on arrival, and counted later."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from lbd.dispatch.core.dependencies.conditions import TASK, written
from lbd.dispatch.core.job_selection import is_last, with_last
from lbd.dispatch.core.ledger_rows import JobRow, LedgerTrouble, Submission, SubmissionRange, Wanted
from lbd.dispatch.core.ownership import Owners, fault_of_admins
from lbd.dispatch.daemon import Dispatcher
from lbd.dispatch.intake import after_of
from lbd.errors import LbdError
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s
from lbd.process.wake_ups import next_moment
from lbd.text.index_list import shown_runs
from lbd.text.task_indexes import TaskIndexes

if TYPE_CHECKING:
    from lbd.dispatch.core.dependencies.dependents import Span

IndexesOf = Callable[[str], TaskIndexes]

LOOK_EVERY_S = 0.2
OTHERS = 3  # times as long as this: what others have of the time meanwhile

WAITS_BYTES_MAX = 256 << 10  # of the recorded dependencies of one submission


class DependencyLookup:
    """Finds the jobs that a request refers to."""

    def __init__(self, dispatcher: Dispatcher, owners: Owners) -> None:
        self._dispatcher, self._ledger, self._owners = dispatcher, dispatcher.ledger, owners

    async def of(self, asked: pb.SubmitRequest, sent: Submission) -> str:
        """Returns the dependencies as the ledger stores them. Raises LbdError."""
        named = [after_of(text) for text in await self._with_last(asked)]
        ranges = await self._ledger.arrays([number for _, number, _ in named]) if named else {}
        owned: dict[int, bool] = {}
        for _, number, index in named:
            place = ranges.get(number)
            if place is not None and place.first not in owned:
                owned[place.first] = await self._is_theirs(asked, place)
            if place is None or not owned[place.first]:
                # The same text for both cases: others' job numbers must not be revealed.
                shown = shown_of(number, index)
                raise LbdError(f"--after: no job {shown} of yours is on record")
        found = await asyncio.to_thread(meant, named, ranges, sent) if named else {}
        if len(text := written(found)) > WAITS_BYTES_MAX:
            raise LbdError(
                f"--after: the indexes of these arrays take {len(text)} bytes; the limit for a job "
                f"is {WAITS_BYTES_MAX}: let one job wait for them all"
            )
        return text

    async def _with_last(self, asked: pb.SubmitRequest) -> list[str]:
        """Replaces `last` by the number of the user's latest job or array. Raises LbdError."""
        words = [text.partition(":") for text in asked.after]
        if not any(is_last(job) for _, _, job in words):
            return list(asked.after)
        asker = self._owners.asker(asked.user, asked.uid if asked.HasField("uid") else None)
        wanted = Wanted(user=asker.user, uid=asker.uid, ended_too=True, limit=1)
        rows = await self._ledger.find(wanted)
        if not rows:
            raise LbdError("--after last: no job of yours is on record")
        last = str(rows[0].first)
        return [
            f"{how}{colon}{with_last(job, last) if is_last(job) else job}"
            for how, colon, job in words
        ]

    async def _is_theirs(self, asked: pb.SubmitRequest, place: SubmissionRange) -> bool:
        wanted = Wanted(((place.first, place.last),), ended_too=True, limit=1, commands=False)
        rows: list[JobRow] = await self._ledger.find(wanted)
        if not rows:
            return False
        asker = self._owners.asker(asked.user, asked.uid if asked.HasField("uid") else None)
        if self._owners.owns(asker, rows[0]):
            return True
        fault = fault_of_admins(asked.origin, self._dispatcher.config)
        return asked.is_admin and (not fault or rows[0].origin == asked.origin)


def shown_of(number: int, index: int | None) -> str:
    return str(number) if index is None else f"{number}_{index}"


def meant(
    named: Sequence[tuple[str, int, int | None]],
    ranges: Mapping[int, SubmissionRange],
    sent: Submission,
) -> dict[tuple[str, int, int, str], None]:
    """Returns the dependencies as `written` takes them. With many tasks this takes a second, so it
    runs outside the event loop; the indexes of an array, which may have ten thousand parts, are
    parsed once. Raises LbdError."""
    indexes_of, found = cache(TaskIndexes), dict[tuple[str, int, int, str], None]()
    for how, number, index in named:
        place = ranges[number]
        if how == TASK:
            check_tasks(place, number, index, sent, indexes_of)
            found[how, place.first, place.last, place.indexes] = None
        else:
            shown = shown_of(number, index)
            found[how, *numbers_of(place, number, index, indexes_of), shown] = None
    return found


def numbers_of(
    place: SubmissionRange, number: int, index: int | None, indexes_of: IndexesOf
) -> tuple[int, int]:
    """Returns the numbers of a job, of one task, or of all tasks of an array. Raises LbdError."""
    if index is None:
        if number == place.first:
            return place.first, place.last
        if place.indexes:  # a task's number, which is not its id
            raise LbdError(f"--after: no job {number} of yours is on record")
        return number, number
    if not place.indexes or number != place.first:
        raise LbdError(f"--after: job {number} is not an array, so it has no task {index}")
    indexes = indexes_of(place.indexes)
    begin, end = indexes.places(index, index)
    if begin == end:
        own = shown_runs(indexes.runs)
        raise LbdError(f"--after: array {number} has no task {index}; its indexes are {own}")
    return number + begin, number + begin


def check_tasks(
    place: SubmissionRange, number: int, index: int | None, sent: Submission, indexes_of: IndexesOf
) -> None:
    """Checks that each new task has a counterpart in that array. Raises LbdError."""
    if index is not None or not place.indexes or number != place.first:
        raise LbdError(f"--after-task: job {number} is not an array; name one, like 12")
    if sent.first_index is None:
        raise LbdError("--after-task needs --array: each task waits for the task with its index")
    if sent.gang:
        raise LbdError("--after-task cannot be used with --gang: all its jobs start together")
    indexes = indexes_of(place.indexes)
    for first, last, step in sent.runs:
        for low, high in (
            [(first, last)] if step == 1 else ((n, n) for n in range(first, last + 1, step))
        ):
            begin, end = indexes.places(low, high)
            if end - begin != high - low + 1:
                own = shown_runs(indexes.runs)
                which = str(low) if low == high else f"all of {low} to {high}"
                raise LbdError(
                    f"--after-task: array {number} does not have {which}; its indexes are {own}"
                )


@dataclass(frozen=True, slots=True)
class DependencyCounts:
    """Counts how many awaited jobs have ended, which at first only the ledger knows."""

    dispatcher: Dispatcher

    async def run(self) -> None:
        """Counts what is uncounted, and continues what an event left, until cancelled. If that is
        very much, others have most of the time."""
        while True:
            await self.look()
            spent_s = self.look_on()
            if self.dispatcher.life.dependents.due:
                await asyncio.sleep(OTHERS * spent_s)
            else:
                await next_moment(LOOK_EVERY_S)

    def look_on(self) -> float:
        """Returns the seconds that it took."""
        dispatcher, began_s = self.dispatcher, time.thread_time()
        if dispatcher.life.dependents.due:
            dispatcher.carry(dispatcher.life.look_on(clock_s(), dispatcher.rng))
        return time.thread_time() - began_s

    async def look(self) -> None:
        dispatcher, dependents = self.dispatcher, self.dispatcher.life.dependents
        dependents.unix_s = time.time() - clock_s()
        if not (spans := dependents.uncounted()):
            return
        left: list[Span] = list(spans)
        try:
            await dispatcher.settled()  # earlier ends are on disk by then
            while left:
                first, last = left[-1]
                on_record, bad = await dispatcher.ledger.ended_otherwise(first, last)
                actions = dispatcher.life.counted(
                    left.pop(), on_record, clock_s(), dispatcher.rng, bad=bad
                )
                await dispatcher.carry(actions)
        except LedgerTrouble:
            pass  # retried at the next look
        finally:
            dependents.not_counted(left)
