"""What every ledger can do, whatever stores it: its queries and changes as pieces of `work`.

Waiting changes are committed together as one group, so many callers share one wait for the disk.
That a job now runs only matters to watchers, so it is committed with the next change if that
follows shortly: for a short job, with its end. If a commit fails none of it is acknowledged:
submissions are refused, and what must not be lost (`record`) is retried until it succeeds, since
the daemon has nothing better to do.

If it fails because of a value that the store cannot hold, others must not suffer: the group is
written once more, each request separately (`steps`). A submission that fails then is refused alone;
a record is written without the texts that a host or a user added to it (`bare`).
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from itertools import groupby
from random import Random

from lbd.dispatch.core.ledger_room import Disk, Excess, LedgerRoom, OnRecord, Weight
from lbd.dispatch.core.ledger_rows import (
    ATTEMPTS_KEPT,
    Accepted,
    AttemptRow,
    JobRow,
    LedgerTrouble,
    Sample,
    Stored,
    Submission,
    SubmissionRange,
    Tally,
    Wanted,
)
from lbd.dispatch.core.records import Changed, Ending, Fate, Record
from lbd.dispatch.ledger import array_work, past_sample, recent_ends, retention, work
from lbd.dispatch.ledger.counts import LedgerCounts
from lbd.dispatch.ledger.work import Arrived, Dated, MakeWork, Result, Work
from lbd.model import JobId

log = logging.getLogger("lbd.dispatch")

GROUP_MAX = 1000  # requests in one transaction
ROWS_MAX = 10_000  # in one, except by a single request
NOT_RECORDED = "the ledger could not record why"


@dataclass(slots=True, eq=False)
class Request:
    """Something to write; `must`: retried until written."""

    done: "asyncio.Future[object]"
    # None: it consists of `changes`, which may be merged with those of others
    make: MakeWork[object] | None
    changes: Sequence[Dated] = ()
    arrived: Arrived | None = None  # what `make` adds, if adjacent ones may be added together
    result: object = field(default=None)
    may_linger: bool = False  # so that others can join its group
    was_passed: bool = False  # others were written first
    until_s: float = 0.0  # by the event loop's clock: then it is refused, unless started

    @property
    def must(self) -> bool:
        return self.make is None

    @property
    def rows(self) -> int:
        """About how many it writes."""
        return self.arrived[0].count if self.arrived is not None else len(self.changes) or 1


class Store(ABC):
    """Implements the protocol `Ledger`."""

    trouble = ""  # why the last group is not written; "" if it is

    def __init__(self) -> None:
        self.counts = LedgerCounts()
        self.room = LedgerRoom()

    @abstractmethod
    async def _read(self, make: MakeWork[Result]) -> Result:
        """Raises LedgerTrouble."""

    @abstractmethod
    def _put(self, request: Request) -> None:
        """Queues a request for the next group."""

    @abstractmethod
    async def close(self) -> None: ...

    async def live(self, after: int = 0, limit: int | None = None) -> list[JobRow]:
        return await self._read(lambda: work.live(after, limit))

    async def find(self, wanted: Wanted) -> list[JobRow]:
        find = recent_ends.find if wanted.ended_since else work.find
        return await self._read(lambda: find(wanted))

    async def sample(self, since_unix_s: float, limit: int, rng: Random, *, by_uid: bool) -> Sample:
        return await self._read(lambda: past_sample.sample(since_unix_s, limit, rng, by_uid=by_uid))

    async def count(self, wanted: Wanted, *, by_array: bool) -> int:
        return await self._read(lambda: work.count(wanted, by_array=by_array))

    async def lines(self, wanted: Wanted) -> list[JobRow]:
        return await self._read(lambda: array_work.lines(wanted))

    async def tallies(self, arrays: Sequence[JobRow]) -> dict[int, Tally]:
        return await self._read(lambda: array_work.tallies(arrays))

    async def arrays(self, numbers: Sequence[int]) -> dict[int, SubmissionRange]:
        return await self._read(lambda: array_work.arrays(numbers))

    async def attempts(self, jobs: Sequence[JobId], most: int = ATTEMPTS_KEPT) -> list[AttemptRow]:
        return await self._read(lambda: work.attempts(jobs, most))

    async def accepted(self, submission: Submission) -> Accepted | None:
        return await self._read(lambda: work.accepted(submission))

    async def spec(self, submission: int) -> Stored:
        return await self._read(lambda: work.spec(submission))

    async def ended_otherwise(self, first: int, last: int) -> tuple[int, bool]:
        return await self._read(lambda: work.ended_otherwise(first, last))

    async def counter(self, name: str) -> int | None:
        return await self._read(lambda: work.counter(name))

    async def set_counter(self, name: str, value: int) -> None:
        await self._ask(lambda: work.set_counter(name, value))

    async def submit(self, submission: Submission, unix_s: float) -> Accepted:
        make = partial(work.insert, submission, unix_s)
        request = Request(new_future(), make, arrived=(submission, unix_s))
        self._put(request)
        accepted = await request.done
        assert isinstance(accepted, Accepted)
        return accepted

    def record(self, changes: Sequence[Record], unix_s: float) -> "asyncio.Future[object]":
        request = Request(new_future(), None, [(change, unix_s) for change in changes])
        request.may_linger = all(map(is_news_alone, changes))
        self._put(request)
        return request.done

    def _settle(self, outcomes: Sequence[tuple[Request, LedgerTrouble | None]]) -> None:
        """Must be called in the event loop's thread."""
        for request, trouble in outcomes:
            if request.done.done():
                continue
            if trouble is not None:
                request.done.set_exception(trouble)
            else:
                request.done.set_result(request.result)
                self.counts.note(request.changes)

    async def on_record(self, *, by_uid: bool) -> list[OnRecord]:
        return await self._read(lambda: retention.on_record(by_uid=by_uid))

    async def excess(
        self, found: Sequence[OnRecord], weight: Weight, keep: int, *, by_uid: bool
    ) -> Excess:
        return await self._read(lambda: retention.excess(found, weight, keep, by_uid=by_uid))

    def disk(self) -> Disk | None:
        return None

    async def forget(self, before_unix_s: float, excess: Excess, limit: int) -> int:
        count = await self._ask(lambda: retention.forget(before_unix_s, excess, limit))
        assert isinstance(count, int)
        return count

    def _say(self, trouble: str) -> None:
        """Logs each problem once."""
        if trouble and trouble != self.trouble:
            log.warning("%s", trouble)
        elif self.trouble and not trouble:
            log.info("the ledger can be written again")
        self.trouble = trouble

    async def _ask(self, make: MakeWork[object]) -> object:
        request = Request(new_future(), make)
        self._put(request)
        return await request.done


def is_news_alone(change: Record) -> bool:
    """Whether it only says that a job now runs. The attempt itself is on record since its lease."""
    return isinstance(change, Changed) and change.fate is Fate.RUNNING


def new_future() -> "asyncio.Future[object]":
    return asyncio.get_running_loop().create_future()


def next_group(
    waiting: Sequence[Request], rows_max: int = ROWS_MAX
) -> tuple[list[Request], list[Request]]:
    """Returns those to write together next, and the rest. A large array is written alone, and
    after it first what else there is, so that nobody waits for more than one of them."""
    group, large, rows = list[Request](), list[Request](), 0
    last = 1 if waiting[0].was_passed else GROUP_MAX
    for request in waiting[:last]:
        if rows >= rows_max:
            break
        if request.arrived is not None and rows + request.rows > rows_max and last > 1:
            large.append(request)
        else:
            group.append(request)
            rows += request.rows
    rest = [*large, *waiting[len(group) + len(large) :]]
    if not group:
        return rest[:1], rest[1:]
    if large:
        large[0].was_passed = True
    return group, rest


def pieces(
    group: Sequence[Request],
) -> Iterator[tuple[MakeWork[Sequence[object]], Sequence[Request]]]:
    """Yields the group's work in order, with a result for each of its requests; adjacent
    submissions as one piece, and adjacent changes."""
    for kind, of_kind in groupby(group, key=kind_of):
        some = list(of_kind)
        if kind is Kind.SUBMISSION:
            arrived = [one.arrived for one in some if one.arrived is not None]
            yield partial(work.insert_all, arrived), some
        elif kind is Kind.CHANGES:
            changes = [change for one in some for change in one.changes]
            yield partial(with_results, partial(work.apply_all, changes), len(some)), some
        else:
            for one in some:
                assert one.make is not None
                yield partial(with_results, one.make, 1), [one]


class Kind(Enum):
    SUBMISSION, CHANGES, OTHER = range(3)


def kind_of(request: Request) -> Kind:
    if request.arrived is not None:
        return Kind.SUBMISSION
    return Kind.CHANGES if request.make is None else Kind.OTHER


def with_results(make: MakeWork[object], count: int) -> Work[Sequence[object]]:
    result = yield from make()
    return [result] * count


@dataclass(frozen=True, slots=True)
class Step:
    """A part of a group that is written, or not, independently of the others."""

    request: Request
    make: MakeWork[object]
    instead: MakeWork[object] | None  # None: the request is refused instead


def steps(group: Sequence[Request]) -> Iterator[Step]:
    """Yields the group's work in order, each submission and each record separately."""
    for request in group:
        if request.make is not None:
            yield Step(request, request.make, None)
        for change, unix_s in request.changes:
            apply = partial(work.apply_all, [(change, unix_s)])
            yield Step(request, apply, partial(work.apply_all, [(bare(change), unix_s)]))


def bare(change: Record) -> Record:
    """Returns the row's state without texts that a host or a user supplied."""
    if not isinstance(change, Changed):
        return change
    ending = change.ending
    return replace(
        change,
        reason=NOT_RECORDED if change.reason else "",
        ending=Ending(ending.cause, reason=NOT_RECORDED) if ending is not None else None,
    )
