"""Waiting jobs that have never started, a hundred thousand of them in a few megabytes. Pure.

What a discipline may know of a job is the same for all tasks of an array, and usually for all jobs
that one user submits: it is stored once, as their `kind`. What differs is in columns, with a row
for each job in the order of ids, which is the order of arrival. A job leaves its row when it
starts, is held or ends. Its row stays empty until more than half are; then the others move up.
"""

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import compress
from operator import attrgetter
from typing import ClassVar

from lbd.dispatch.core.discipline import HostConnection, QueuedJob
from lbd.model import NO_NEEDS, HostId, JobId

EMPTY_MIN = 1000  # rows: with fewer, moving up is not worth it
LEFT_MIN = 64  # jobs that have left a list before it is copied without them
KINDS_KNOWN, NAMES_KNOWN = 4096, 100_000  # kinds, and host names in their exclusion lists
DIGITS_MAX = 18  # of an id that always fits a column
NO_INDEX = -1
OWN = (
    "id",
    "submission",
    "array_index",
    "command",
    "command_line",
)  # fields of the single job; the others make up its kind
KIND_FIELDS = tuple(name for name in QueuedJob._fields if name not in OWN)
kind_values: Callable[[QueuedJob], tuple[object, ...]] = attrgetter(*KIND_FIELDS)


def shape_of(kind: QueuedJob) -> tuple[object, ...]:
    """Returns all that decides which hosts could ever take a job, whatever line it waits in."""
    needs = None if kind.needs is NO_NEEDS else kind.needs
    return kind.slots, kind.gang, kind.only, kind.barred, needs, kind.spooled


def number_in(job: str) -> int:
    """Returns -1 unless the id is a number as a ledger assigns it."""
    if job.isascii() and job.isdecimal() and job[0] != "0" and len(job) <= DIGITS_MAX:
        return int(job)
    return -1


class Row:
    """A job of the backlog; valid until another job leaves. It is an `Entry` for readers."""

    __slots__ = ("_backlog", "at", "kind")
    host: ClassVar[HostId | None] = None
    slots: ClassVar[int] = 0
    begun: ClassVar[bool] = False

    def __init__(self, backlog: "Backlog", at: int, kind: QueuedJob) -> None:
        self._backlog = backlog
        self.at = at
        self.kind = kind

    @property
    def number(self) -> int:
        return self._backlog.numbers[self.at]

    @property
    def work_s(self) -> float:
        return self._backlog.work_s[self.at]

    @property
    def job_number(self) -> int:
        return self._backlog.ids[self.at]

    @property
    def id(self) -> JobId:
        return JobId(str(self._backlog.ids[self.at]))

    @property
    def job(self) -> QueuedJob:
        at, (submissions, indexes, commands, lines) = self.at, self._backlog.own
        *shared, origin, at_once = kind_values(self.kind)  # the last of the fields
        own = submissions[at], None if indexes[at] == NO_INDEX else indexes[at]
        values = self.id, *shared, *own, origin, at_once, commands[at], lines[at]  # in field order
        return QueuedJob._make(values)

    @property
    def line(self) -> HostConnection | None:
        return self._backlog.lines[self.at]

    @line.setter
    def line(self, line: HostConnection | None) -> None:
        self._backlog.lines[self.at] = line


class JobCounts:
    """How many jobs each user has, and how many each host sent, in all and of each user."""

    def __init__(self) -> None:
        self.of_user: defaultdict[str, int] = defaultdict(int)
        self.of_origin: defaultdict[str, int] = defaultdict(int)
        self.by_user: defaultdict[str, defaultdict[str, int]] = defaultdict(_zeros)  # of a host

    def add(self, job: QueuedJob, more: int) -> None:
        user, origin = job.user, job.origin
        self.of_user[user] += more
        self.of_origin[origin] += more
        by_user = self.by_user[origin]
        by_user[user] += more
        if not by_user[user]:
            del by_user[user]
        if not self.of_user[user]:
            del self.of_user[user]
        if not self.of_origin[origin]:
            del self.of_origin[origin], self.by_user[origin]


def _zeros() -> defaultdict[str, int]:
    return defaultdict(int)


class Backlog:
    def __init__(self) -> None:
        self.ids = array("q")
        self.numbers = array("q")  # places in line
        self.work_s = array("d")
        self.own = tuple(array("q") for _ in OWN[1:])
        self.kinds: list[QueuedJob | None] = []  # None: the row is empty
        self.lines: list[HostConnection | None] = []  # None: it has stepped aside
        self._jobs = 0
        self.counts = JobCounts()
        self._kinds: dict[tuple[object, ...], QueuedJob] = {}
        self._names = 0  # host names in the exclusion lists of `_kinds`

    def __len__(self) -> int:
        return self._jobs

    def __contains__(self, job: str) -> bool:
        return self._jobs > 0 and self.place(number_in(job)) >= 0

    def __iter__(self) -> Iterator[JobId]:
        return (JobId(str(n)) for n, kind in zip(self.ids, self.kinds, strict=True) if kind)

    def get(self, job: JobId) -> Row | None:
        return self.find(number_in(job)) if self._jobs else None

    def find(self, job_number: int) -> Row | None:
        at = self.place(job_number)
        kind = self.kinds[at] if at >= 0 else None
        return Row(self, at, kind) if kind is not None else None

    def place(self, job_number: int) -> int:
        """Returns the row of a job; -1 if it has none."""
        ids = self.ids
        if not ids or not ids[0] <= job_number <= ids[-1]:
            return -1
        at = job_number - ids[0]  # its place if no row in between is missing
        if at >= len(ids) or ids[at] != job_number:
            at = bisect_left(ids, job_number)
            if ids[at] != job_number:
                return -1
        return at if self.kinds[at] is not None else -1

    def takes(self, job: QueuedJob) -> bool:
        """Whether the job can be added: jobs must arrive in the order of their ids."""
        return number_in(job.id) > (self.ids[-1] if self.ids else 0)

    def add(self, job: QueuedJob, number: int, work_s: float) -> Row:
        """Adds a job that is in no line yet."""
        self.ids.append(int(job.id))
        self.numbers.append(number)
        self.work_s.append(work_s)
        index = NO_INDEX if job.array_index is None else job.array_index
        own = job.submission, index, job.command, job.command_line
        for column, value in zip(self.own, own, strict=True):
            column.append(value)
        self.kinds.append(kind := self._kind_of(job))
        self.counts.add(kind, 1)
        self.lines.append(None)
        self._jobs += 1
        return Row(self, len(self.ids) - 1, kind)

    def _kind_of(self, job: QueuedJob) -> QueuedJob:
        values = kind_values(job)
        kind = self._kinds.get(values)
        if kind is None:
            if len(self._kinds) >= KINDS_KNOWN or self._names > NAMES_KNOWN:
                self._kinds.clear()
                self._names = 0
            self._names += len(job.barred)
            kind = job._replace(
                id=JobId(""), submission=0, array_index=None, command=0, command_line=0
            )
            self._kinds[values] = kind
        return kind

    def remove(self, row: Row) -> None:
        at = row.at
        self.counts.add(row.kind, -1)
        self.kinds[at] = self.lines[at] = None
        self._jobs -= 1
        if len(self.ids) - self._jobs > max(EMPTY_MIN, self._jobs):
            self._move_up()

    def _move_up(self) -> None:
        full = [kind is not None for kind in self.kinds]
        self.ids = array("q", compress(self.ids, full))
        self.numbers = array("q", compress(self.numbers, full))
        self.work_s = array("d", compress(self.work_s, full))
        for column in self.own:
            column[:] = array("q", compress(column, full))
        self.lines = list(compress(self.lines, full))
        self.kinds = list(compress(self.kinds, full))

    def in_line(self, line: HostConnection) -> list[tuple[int, int]] | None:
        """Returns places and slots of the jobs in that line, in order; None if one has other
        needs."""
        here = [one == line for one in self.lines]
        kinds = [kind for kind in compress(self.kinds, here) if kind is not None]
        if any(kind.needs for kind in {id(kind): kind for kind in kinds}.values()):
            return None
        slots = [kind.slots for kind in kinds]
        return list(zip(compress(self.numbers, here), slots, strict=True))


class Rows:
    """Some jobs of a line that are in the backlog, by id, in order. Skips those that have left."""

    __slots__ = ("_backlog", "_begin", "_ids", "_late", "_line")

    def __init__(self, backlog: Backlog, line: HostConnection) -> None:
        self._backlog = backlog
        self._line = line
        self._ids = array("q")
        self._begin = 0  # all before this have left
        self._late: list[int] = []  # a heap of those that came, or came back, after later ones

    def add(self, row: Row) -> None:
        number = row.job_number
        if self._ids and self._ids[-1] >= number:
            heappush(self._late, number)
            if len(self._late) > len(self._ids) - self._begin + EMPTY_MIN:
                self._sort()
        else:
            self._ids.append(number)

    def front(self) -> Row | None:
        late, first = self._late, self._first()
        while late and (first is None or late[0] <= first.job_number):
            if (row := self._find(late[0])) is not None:
                return row
            heappop(late)
        return first

    def _first(self) -> Row | None:
        while self._begin < len(self._ids):
            if (row := self._find(self._ids[self._begin])) is not None:
                return row
            self._begin += 1
            if self._begin > max(EMPTY_MIN, len(self._ids) // 2):
                self._ids, self._begin = self._ids[self._begin :], 0
        return None

    def __iter__(self) -> Iterator[Row]:
        """Forgets those that have left it wherever there are many: jobs behind the front may start
        first, one after the other, and each time somebody looks for the next."""
        self._sort()
        ids, begin, end = self._ids, self._begin, len(self._ids)  # these ids stay where they are
        at, here = begin, array("q")
        while at < end:
            number = ids[at]
            if (row := self._find(number)) is not None:
                if at - begin > 2 * len(here) + LEFT_MIN and self._ids is ids:
                    self._ids, self._begin = here + ids[at:], 0
                    begin, at, ids = 0, len(here), self._ids
                    end = len(ids)
                here.append(number)
                yield row
            at += 1

    def _find(self, number: int) -> Row | None:
        backlog = self._backlog
        at = backlog.place(number)
        if at < 0 or (kind := backlog.kinds[at]) is None or backlog.lines[at] != self._line:
            return None
        return Row(backlog, at, kind)

    def _sort(self) -> None:
        if self._late:  # one that left and came back may be there twice
            ids = dict.fromkeys(sorted([*self._ids[self._begin :], *self._late]))
            self._ids, self._begin, self._late = array("q", ids), 0, []
