"""The jobs of one array in a line, or all jobs of the backlog there, in the order of their numbers.
Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, merge
from itertools import islice
from typing import NamedTuple, TypeVar

from lbd.dispatch.core.backlog import Rows
from lbd.dispatch.core.discipline import HostConnection, QueuedJob
from lbd.dispatch.core.registry import Entry, Placed, Registered
from lbd.model import NO_NEEDS, JobId, Needs

ALONE = 0  # the value for no array
SWEPT = 200  # places of a heap that are looked at in one sweep
Item = TypeVar("Item")


class Waiter(NamedTuple):
    id: JobId
    slots: int  # that it needs
    needs: Needs = NO_NEEDS


def waiter_of(one: Registered) -> Waiter:
    return Waiter(one.id, one.kind.slots, one.kind.needs)


@dataclass(slots=True, eq=False)
class Group(Placed):
    """The jobs of one array that have not started before, in order; or, for jobs without an array,
    all those of the backlog. In that case its place is that of its front."""

    array: int
    place: int
    rows: Rows
    heap: list[tuple[int, Entry]] = field(default_factory=list)

    def add(self, registered: Registered) -> None:
        if isinstance(registered, Entry):
            heappush(self.heap, (registered.number, registered))
        else:
            self.rows.add(registered)

    def front(self, line: HostConnection) -> Registered | None:
        heap = self.heap
        while heap and heap[0][1].line != line:
            heappop(heap)
        row = self.rows.front()
        if heap and (row is None or heap[0][0] < row.number):
            return heap[0][1]
        return row

    def first(self, line: HostConnection, count: int) -> Iterator[Registered]:
        yield from islice((one for _, one in in_order(self.heap) if one.line == line), count)
        yield from islice(self.rows, count)

    def keep(
        self,
        line: HostConnection,
        fits: Callable[[QueuedJob], bool],
        leave: Callable[[Registered], None],
    ) -> None:
        here = [pair for pair in self.heap if pair[1].line == line]
        self.heap = [pair for pair in here if fits(pair[1].job)]
        for _, entry in here:
            if not fits(entry.job):
                leave(entry)
        heapify(self.heap)
        self.rows.keep(fits, leave)

    def order(self, line: HostConnection) -> Iterator[tuple[int, Waiter]]:
        """Yields the waiting jobs with their positions."""
        entries = ((n, waiter_of(one)) for n, one in in_order(self.heap) if one.line == line)
        return merge(entries, ((row.number, waiter_of(row)) for row in self.rows))

    def laps(
        self, turn: int, line: HostConnection, stays: bool
    ) -> Iterator[tuple[int, int, int, Waiter]]:
        """Yields the same with the turns in which they start. `stays`: all in the group's place."""
        for lap, (number, waiter) in enumerate(self.order(line)):
            if self.array == ALONE:
                yield 0, number, number, waiter
            else:
                yield 0 if stays else lap, turn, number, waiter


Swept = TypeVar("Swept", Entry, Entry | Group)


def sweep(heap: list[tuple[int, Swept]], line: HostConnection) -> None:
    """Removes the jobs that have left the line from the first places of a heap."""
    for pair in [heappop(heap) for _ in range(min(SWEPT, len(heap)))]:
        if isinstance(pair[1], Group) or pair[1].line == line:
            heappush(heap, pair)


def in_order(heap: Sequence[Item]) -> Iterator[Item]:
    """Yields a heap's items in order, without looking at more items than are consumed."""
    ahead = [(place, at) for at, place in enumerate(heap[:1])]
    while ahead:
        place, at = heappop(ahead)
        yield place
        for below in (2 * at + 1, 2 * at + 2):
            if below < len(heap):
                heappush(ahead, (heap[below], below))
