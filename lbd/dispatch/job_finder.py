"""Finds the jobs in the ledger that a question or an order refers to."""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import ParamSpec, TypeVar

from lbd.dispatch.core.job_selection import (
    Problem,
    check_count,
    is_last,
    jobs_of,
    no_last,
    read_range,
    read_selectors,
    steps_in,
    tasks_of,
)
from lbd.dispatch.core.ledger_rows import JobRow, Ledger, Tally, Wanted
from lbd.dispatch.core.ownership import Asker, Owners
from lbd.errors import LbdError
from lbd.model import JobId, JobState
from lbd.text.ranges import merged

ANSWER_MAX = 100_000  # jobs in one answer
COMMANDS_BYTES = 64 << 20  # of jobs to start over
REQUEUE_FAILED = "requeue-failed"
REQUEUES = ("requeue", REQUEUE_FAILED)
FAILED = (JobState.FAILED.value, JobState.LOST.value)
NOTHING_TO = {
    "requeue": "there are no such jobs",
    REQUEUE_FAILED: "none of these jobs has failed",
}
EMPTY_MAX = 20  # ranges without jobs to act on, of which it is said which have none at all
FEW = 500  # selectors, or parts of one, that can be parsed within a few milliseconds
PART_CHARS = 8  # of an index, or a range of them
DENIED = "permission denied"
ANY_MORE = " any more; see lbctl history"
TOO_MANY = f"more than {ANSWER_MAX} jobs; name fewer at a time"
TOO_LONG = "these jobs do not fit into one answer; name fewer at a time"

Given = ParamSpec("Given")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Meant:
    """What selectors refer to, as job numbers."""

    wanted: Wanted
    jobs: tuple[tuple[int, int], ...]  # including all tasks of arrays among them
    tasks: tuple[tuple[int, int], ...]  # named as tasks
    named: tuple[int, ...]  # individually
    has_many: bool  # may include any number of jobs: ranges, an array or a user's jobs
    problems: tuple[Problem, ...] = ()  # with selectors of tasks that do not exist

    def ranges_without(self, found: Collection[int]) -> list[tuple[int, int]]:
        """Returns those of its ranges in which there is none of these jobs."""
        numbers = sorted(found)
        return [(low, high) for low, high in self.wanted.ranges
                if bisect_left(numbers, low) == bisect_right(numbers, high)]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ToActOn:
    """What an order applies to."""

    rows: list[JobRow]
    named: frozenset[int] = frozenset()  # individually
    problems: tuple[Problem, ...] = ()  # with selectors that it cannot apply to

    def named_words(self) -> set[str]:
        """Returns the jobs that were named individually, as they are shown, and the selectors with
        a problem."""
        words = {selector for selector, _ in self.problems}
        return words | {row.shown for row in self.rows if row.id in self.named}


@dataclass(frozen=True, slots=True)
class JobFinder:
    ledger: Ledger
    owners: Owners
    _beside: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def _read(
        self, count: int, read: Callable[Given, Found], *given: Given.args, **named: Given.kwargs
    ) -> Found:
        """Returns what `read` returns. `count`: of what it goes through. Very many take most of a
        second, so that is done outside the event loop, one question at a time."""
        if count <= FEW:
            return read(*given, **named)
        async with self._beside:
            return await asyncio.to_thread(read, *given, **named)

    async def named(
        self,
        selectors: Sequence[str],
        asker: Asker,
        ended_too: bool,
        bytes_max: int = 0,
        *,
        commands: bool = True,
        by_number: bool = False,
        absent: list[str] | None = None,
        ended_since: float = 0.0,
    ) -> list[JobRow]:
        """Returns the jobs that the selectors name; without any the `newest`. Raises LbdError if
        one is missing; given `absent`, only if all are, and otherwise adds what to say of
        those."""
        if not selectors:
            wanted = newest(asker, ended_too, bytes_max, ended_since)
            return await self.ledger.find(replace(wanted, commands=commands))
        meant = await self._meant(selectors, asker, absent, by_number=by_number)
        rows = await self._found(replace(meant.wanted, bytes_max=bytes_max, commands=commands))
        await self._check_found(selectors, meant, {row.id for row in rows}, absent)
        return rows

    async def lines(
        self,
        selectors: Sequence[str],
        asker: Asker,
        ended_too: bool,
        bytes_max: int,
        absent: list[str] | None = None,
    ) -> list[tuple[JobRow, Tally | None]]:
        """Returns the same, with each array as one line with its tally, unless its tasks are
        named."""
        if not selectors:
            wanted = newest(asker, ended_too, bytes_max)
            return await self._tallied(await self.ledger.lines(wanted))
        meant = await self._meant(selectors, asker, absent)
        wanted = replace(meant.wanted, bytes_max=bytes_max)
        tasks, whole = list[JobRow](), list[JobRow]()
        if meant.tasks:
            tasks = await self._found(replace(wanted, ranges=meant.tasks))
        if meant.jobs or not meant.tasks:
            whole = await self.ledger.lines(replace(wanted, ranges=meant.jobs))
        found = {row.id for row in tasks} | {row.id for row in whole} | {row.first for row in whole}
        await self._check_found(selectors, meant, found, absent)
        return sorted(
            [*await self._tallied(whole), *((row, None) for row in tasks)],
            key=lambda line: line[0].id,
        )

    async def _tallied(self, rows: Sequence[JobRow]) -> list[tuple[JobRow, Tally | None]]:
        arrays = [row for row in rows if row.array_index is not None]
        tallies = await self.ledger.tallies(arrays) if arrays else {}
        return [(row, None if row.array_index is None else tallies[row.first]) for row in rows]

    async def ids(
        self, selectors: Sequence[str], asker: Asker, *, by_number: bool = False
    ) -> list[int]:
        """Returns the numbers of the jobs that the selectors name, in order. Raises LbdError."""
        rows = await self.named(
            selectors, asker, ended_too=True, commands=False, by_number=by_number
        )
        return [row.id for row in rows]

    async def numbers(self, selectors: Sequence[str]) -> list[int]:
        """Returns the job numbers in these ranges, in order, whether there are such jobs or not.
        Raises LbdError."""
        return await self._read(len(selectors), numbers_in, selectors)

    async def _meant(
        self,
        selectors: Sequence[str],
        asker: Asker,
        absent: list[str] | None = None,
        *,
        by_number: bool = False,
    ) -> Meant:
        """Raises LbdError if one does not exist, as far as that can be told without the jobs;
        `absent` as for `named`."""
        meant = await self._meant_as_far(selectors, asker, by_number=by_number)
        whys = list(dict.fromkeys(why for _, why in meant.problems[:EMPTY_MAX]))
        has_others = meant.wanted.ranges or meant.wanted.user  # without, it would mean all jobs
        if whys and (absent is None or not has_others):
            raise LbdError("; ".join(whys))
        if absent is not None:
            absent += whys
        return meant

    async def _meant_as_far(
        self, selectors: Sequence[str], asker: Asker, *, by_number: bool = False
    ) -> Meant:
        """Leaves out what does not exist. Raises LbdError."""
        check_count(selectors)
        last, own = None, Wanted(user=asker.user, uid=asker.uid, ended_too=True, limit=1)
        problems: list[Problem] = []
        if of_last := list(filter(is_last, selectors)):
            rows = await self.ledger.find(own)
            last = rows[0].first if rows else None
            if last is None:
                problems += [(one, no_last(asker.user)) for one in of_last]
                selectors = [one for one in selectors if not is_last(one)]
        read = await self._read(parts_in(selectors), read_selectors, selectors, asker.user, last)
        wanted = replace(read, uid=asker.uid, limit=ANSWER_MAX + 1, tasks=())
        if by_number:
            return Meant(wanted, wanted.ranges, (), singles(wanted.ranges), True, tuple(problems))
        ends = [number for ends in read.ranges for number in ends]
        ends += [array for array, _ in read.tasks]
        placed = await self.ledger.arrays(ends) if ends else {}
        parts = parts_in({place.first: place.indexes for place in placed.values()}.values())
        jobs, no_ids = await self._read(parts + len(read.ranges), jobs_of, read.ranges, placed)
        problems += no_ids
        parts += sum(steps_in(runs) for _, runs in read.tasks)
        tasks, absent = await self._read(parts, tasks_of, read.tasks, placed)
        ranges = *jobs, *tasks
        has_many = "@me" in selectors or any(low < high for low, high in ranges)
        wanted = replace(wanted, ranges=ranges)
        return Meant(wanted, jobs, tasks, singles(ranges), has_many, (*problems, *absent))

    async def _found(self, wanted: Wanted) -> list[JobRow]:
        """Raises LbdError if there are too many for one answer."""
        rows = await self.ledger.find(wanted)
        if len(rows) > ANSWER_MAX:
            raise LbdError(TOO_MANY)
        if wanted.bytes_max and sum(len(row.command) for row in rows) >= wanted.bytes_max:
            raise LbdError(TOO_LONG)
        return rows

    async def to_act_on(
        self,
        verb: str,
        selectors: Sequence[str],
        asker: Asker,
        *,
        may: Callable[[JobRow], bool],
        commands: bool,
        by_number: bool = False,
    ) -> ToActOn:
        """Returns the jobs that an order applies to, and what is wrong with the other selectors.
        `may`: whether the asker may act on a job.

        From a range, an array or @me it takes only those that have not ended, however many have;
        `requeue` also takes the ended ones. `commands`: also read the commands of jobs that start
        over. Raises LbdError if it can apply to nothing.
        """
        meant = await self._meant_as_far(selectors, asker, by_number=by_number)
        problems = list(meant.problems)
        if not (meant.wanted.ranges or meant.wanted.user):  # this would find everybody's jobs
            return ToActOn([], problems=tuple(problems))
        rows = await self._all_to_act_on(verb, meant, commands=commands)
        empty = meant.ranges_without([row.id for row in rows])[:EMPTY_MAX]
        last_ended = {one: await self._last_ended(one, verb) for one in empty}
        absent = [one for one, row in last_ended.items() if row is None]
        problems += [
            (shown(one), f"no job {shown(one)} in the queue{await self._gone(one)}")
            for one in absent
        ]
        ended = [have_ended(one, row, may) for one, row in last_ended.items() if row]
        problems += ended if rows else only_denied(ended, nothing_else=not problems)
        if verb == REQUEUE_FAILED:
            rows = [row for row in rows if row.state in FAILED]
        if not rows and (meant.wanted.user or len(absent) < len(meant.wanted.ranges)):
            why = NOTHING_TO.get(verb) or await self._why_none(meant)
            said = {name for name, _ in problems}
            problems += [(one, f"nothing to {verb.partition('-')[0]}: {why}")
                         for one in selectors if one not in said]  # fmt: skip
        if verb in REQUEUES:
            rows = await forgiven(self.ledger, rows)
        return ToActOn(rows, frozenset(meant.named), tuple(problems))

    async def _check_found(
        self,
        selectors: Sequence[str],
        meant: Meant,
        found: Collection[int],
        absent: list[str] | None = None,
    ) -> None:
        """Raises LbdError if one is missing; given `absent`, only if all are, and otherwise says
        there which are."""

        def name(number: int) -> str:
            is_task = any(low <= number <= high for low, high in meant.tasks)
            return " ".join(selectors) if is_task else str(number)

        missing = [number for number in meant.named if number not in found]
        empty = [one for one in meant.ranges_without(found) if one[0] < one[1]]
        if not missing and (found or "@me" in selectors) and not (empty and absent is not None):
            return
        names = [*map(name, missing[:EMPTY_MAX]), *map(shown, empty[:EMPTY_MAX])]
        names = list(dict.fromkeys(names)) or [" ".join(selectors)]
        more = f" and {len(missing) - EMPTY_MAX} more" if len(missing) > EMPTY_MAX else ""
        gone = await self._gone([*missing, *(high for _, high in empty)])
        said = f"no job {', '.join(names)}{more} in the queue{gone}"
        if absent is None or not found:
            raise LbdError(said)
        absent.append(said)

    async def _gone(self, numbers: Collection[int]) -> str:
        """Returns what to add about jobs that are not on record: whether all of them may have
        been."""
        following = await self.ledger.counter("next_job") or 0
        return ANY_MORE if numbers and max(numbers) < following else ""

    async def _why_none(self, meant: Meant) -> str:
        """Why there are no open jobs of these."""
        if meant.wanted.user and not meant.wanted.ranges:
            any_of_user = replace(meant.wanted, ended_too=True, limit=1, commands=False)
            if not await self.ledger.find(any_of_user):
                return "you have no queued jobs"
        return "all these jobs have ended"

    async def _all_to_act_on(self, verb: str, meant: Meant, *, commands: bool) -> list[JobRow]:
        """Raises LbdError."""
        if verb in REQUEUES:
            bytes_max = COMMANDS_BYTES if commands else 0
            return await self._found(replace(meant.wanted, bytes_max=bytes_max, commands=commands))
        wanted = replace(meant.wanted, commands=False)
        if not meant.has_many:
            return await self._found(wanted)
        rows = {row.id: row for row in await self._found(replace(wanted, ended_too=False))}
        if meant.named:
            one_by_one = tuple((number, number) for number in meant.named)
            others = await self._found(replace(wanted, ranges=one_by_one, ended_too=True))
            rows |= {row.id: row for row in others}
        return [rows[number] for number in sorted(rows)]

    async def _last_ended(self, numbers: tuple[int, int], verb: str) -> JobRow | None:
        """Returns the last of these jobs, of which an order applies to none; None if the ledger has
        none of them."""
        if numbers[0] == numbers[1] or verb in REQUEUES:
            return None
        wanted = Wanted(ranges=(numbers,), ended_too=True, limit=1, commands=False)
        return next(iter(await self.ledger.find(wanted)), None)


async def forgiven(ledger: Ledger, rows: Sequence[JobRow]) -> list[JobRow]:
    """Lets jobs retry hosts that could not start them, but not hosts that their users excluded."""
    barred = [JobId(str(row.id)) for row in rows if row.barred and row.attempt]
    had = {(one.job, one.host) for one in await ledger.attempts(barred)} if barred else ()
    return [
        replace(row, barred=tuple(host for host in row.barred if (row.id, host) not in had))
        for row in rows
    ]


def newest(asker: Asker, ended_too: bool, bytes_max: int = 0, ended_since: float = 0.0) -> Wanted:
    """The asker's jobs, or everybody's if there is no user; with `ended_since` those that ended
    before then are left out, and those that have not ended come last."""
    return Wanted(
        (), asker.user, asker.uid, ended_too, ended_since=ended_since, limit=ANSWER_MAX,
        bytes_max=bytes_max,
    )  # fmt: skip


def parts_in(texts: Collection[str]) -> int:
    """Returns about how many indexes, or ranges of them, are to be read in them."""
    return sum(len(text) // PART_CHARS + 1 for text in texts)


def numbers_in(selectors: Sequence[str]) -> list[int]:
    """Raises LbdError."""
    check_count(selectors)
    ranges = merged([read_range(one) for one in selectors])
    if sum(high - low + 1 for low, high in ranges) > ANSWER_MAX:
        raise LbdError(TOO_MANY)
    return [number for low, high in ranges for number in range(low, high + 1)]


def singles(ranges: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(low for low, high in ranges if low == high)


def shown(numbers: tuple[int, int]) -> str:
    low, high = numbers
    return str(low) if low == high else f"{low}-{high}"


def only_denied(ended: Sequence[Problem], *, nothing_else: bool) -> list[Problem]:
    """Returns what is said of others' jobs. Raises LbdError if there is nothing else to say."""
    denied = [one for one in ended if one[1].startswith(DENIED)]
    if denied and nothing_else:
        raise LbdError(denied[0][1])
    return denied


def have_ended(numbers: tuple[int, int], last: JobRow, may: Callable[[JobRow], bool]) -> Problem:
    """Says that all these jobs have ended, of which this is the last one. That an array has, only
    its user and administrators hear: `may`."""
    low, high = numbers
    if last.array_index is None or low < last.first:
        name = shown((low, high if last.array_index is None else last.first))
        return name, f"jobs {name} have ended"
    name = str(last.first)
    if not may(last):
        return name, not_yours([name])
    is_whole = high - low + 1 == last.count
    return name, f"job {name} has ended" if is_whole else f"these tasks of job {name} have ended"


def not_yours(jobs: Sequence[str], fault: str = "") -> str:
    jobs_are = f"job {jobs[0]} is" if len(jobs) == 1 else "these jobs are"
    return f"{DENIED}: {jobs_are} not yours{fault}"
