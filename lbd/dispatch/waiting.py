"""One line of waiting jobs, and whose turn it is.

First come, first served, but for the rules of `shares.py`, and for arrays, which take turns: an
array stands in the line like one job, and when one of its jobs has begun it goes to the line's end.
So nobody waits for all of an array that came before, and two arrays go on side by side. A job that
comes back (lost with its host) has the place with which it began.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from typing import NamedTuple

from lbd.dispatch.backlog import Backlog, Rows
from lbd.dispatch.books import Booked, Entry, Placed
from lbd.dispatch.discipline import Line, QueuedJob
from lbd.dispatch.shares import Flow, Shares
from lbd.model import JobId

ALONE = 0  # instead of an array


class Waiter(NamedTuple):
    id: JobId
    slots: int  # it needs


@dataclass(slots=True, eq=False)
class Group(Placed):
    """Those of one array that wait in a line for their first time, the first first; or, of those
    that came alone, all of the backlog. Then its place is that of its front."""

    array: int
    place: int
    rows: Rows
    heap: list[tuple[int, Entry]] = field(default_factory=list)

    def add(self, booked: Booked) -> None:
        if isinstance(booked, Entry):
            heappush(self.heap, (booked.number, booked))
        else:
            self.rows.add(booked)

    def front(self, line: Line) -> Booked | None:
        heap = self.heap
        while heap and heap[0][1].line != line:
            heappop(heap)
        row = self.rows.front()
        if heap and (row is None or heap[0][0] < row.number):
            return heap[0][1]
        return row

    def keep(
        self, line: Line, fits: Callable[[QueuedJob], bool], leave: Callable[[Booked], None]
    ) -> None:
        here = [pair for pair in self.heap if pair[1].line == line]
        self.heap = [pair for pair in here if fits(pair[1].job)]
        for _, entry in here:
            if not fits(entry.job):
                leave(entry)
        heapify(self.heap)
        self.rows.keep(fits, leave)

    def order(self, line: Line) -> list[tuple[int, Waiter]]:
        """With their own places."""
        here = [(n, Waiter(one.id, one.job.slots)) for n, one in self.heap if one.line == line]
        here += [(row.number, Waiter(row.id, row.kind.slots)) for row in self.rows]
        return sorted(here)


Heap = list[tuple[int, Entry | Group]]


class Waiting:
    """Who left otherwise than by `take` is passed over when met: his `line` is another then."""

    def __init__(self, line: Line, shares: Shares, backlog: Backlog) -> None:
        self.line = line
        self.jobs = 0
        self.work_s = 0.0  # estimated
        self._shares = shares
        self._backlog = backlog
        self._flows: dict[Flow, Heap] = {}
        self._groups: dict[tuple[Flow, int], Group] = {}

    def add(self, booked: Booked) -> None:
        flow = self._shares.flow(booked.kind)
        heap = self._flows.setdefault(flow, [])
        interleave = self._shares.rules.interleave_arrays and not booked.begun
        array = booked.kind.array if interleave else ALONE
        if array == ALONE and isinstance(booked, Entry):
            heappush(heap, (booked.number, booked))
            return
        group = self._groups.get((flow, array))
        if group is None:
            group = Group(array, booked.number, Rows(self._backlog))
            self._groups[flow, array] = group
            heappush(heap, (group.place, group))
        elif array == ALONE and booked.number < group.place:
            self._bring_forward(heap, group, booked.number)
        group.add(booked)

    def _bring_forward(self, heap: Heap, group: Group, place: int) -> None:
        """Somebody is back who had stepped aside."""
        heap.remove((group.place, group))
        group.place = place
        heap.append((place, group))
        heapify(heap)

    def head(self) -> Booked | None:
        """Whose turn it is; nobody's if all who wait have reached a limit."""
        shares = self._shares
        if len(self._flows) < 2 and not shares.limits:
            return self._front(next(iter(self._flows))) if self._flows else None
        best: tuple[int, float, int] | None = None
        first: Booked | None = None
        for flow in list(self._flows):
            booked = self._front(flow)
            if booked is None or (shares.limits and shares.obstacle(booked.kind)):
                continue
            standing = shares.standing(flow.user) if shares.rules.fair_share_s else 0.0
            rank = -flow.priority, standing, self._flows[flow][0][0]
            if best is None or rank < best:
                best, first = rank, booked
        return first

    def take(self, head: Entry, number: Callable[[], int]) -> None:
        """It begins, and is out of the line already. `number` is for the end of the line."""
        flow = self._shares.flow(head.job)
        heap = self._flows[flow]
        turn, item = heappop(heap)
        head.number, head.begun = turn, True
        if not isinstance(item, Group):
            return
        following = item.front(self.line)
        if following is None:
            del self._groups[flow, item.array]
        else:
            item.place = following.number if item.array == ALONE else number()
            heappush(heap, (item.place, item))

    def keep(self, fits: Callable[[QueuedJob], bool], leave: Callable[[Booked], None]) -> None:
        """Only those; `leave` takes each of the others out of the line."""
        for heap in self._flows.values():
            heap[:] = [pair for pair in heap if self._stays(pair[1], fits, leave)]
            heapify(heap)
        standing = {item for heap in self._flows.values() for _, item in heap}
        self._groups = {key: one for key, one in self._groups.items() if one in standing}

    def _stays(
        self,
        item: Entry | Group,
        fits: Callable[[QueuedJob], bool],
        leave: Callable[[Booked], None],
    ) -> bool:
        if isinstance(item, Group):
            item.keep(self.line, fits, leave)
            return item.front(self.line) is not None
        if item.line != self.line:
            return False
        if not fits(item.job):
            leave(item)
        return item.line == self.line

    def order(self) -> list[Waiter]:
        """All who wait, in the order in which they would begin if nothing more came: users of equal
        standing take turns where shares are fair, and arrays in any case."""
        ranked: list[tuple[tuple[int, int, int, int], Waiter]] = []
        fair = bool(self._shares.rules.fair_share_s)
        for flow, heap in self._flows.items():
            own = sorted(lap for turn, item in heap for lap in self._laps(turn, item))
            for place, (lap, turn, n, waiter) in enumerate(own):
                ranked.append(((-flow.priority, place if fair else lap, turn, n), waiter))
        return [waiter for _, waiter in sorted(ranked)]

    def _laps(self, turn: int, item: Entry | Group) -> Iterator[tuple[int, int, int, Waiter]]:
        if isinstance(item, Group):
            for lap, (number, waiter) in enumerate(item.order(self.line)):
                alone = item.array == ALONE
                yield (0, number, number, waiter) if alone else (lap, turn, number, waiter)
        elif item.line == self.line:
            yield 0, turn, item.number, Waiter(item.id, item.job.slots)

    def _front(self, flow: Flow) -> Booked | None:
        heap = self._flows[flow]
        while heap:
            place, item = heap[0]
            if isinstance(item, Group):
                front = item.front(self.line)
                if front is None:
                    del self._groups[flow, item.array]
                elif item.array != ALONE or front.number == place:
                    return front
                else:
                    item.place = front.number
                    heapreplace(heap, (front.number, item))
                    continue
            elif item.line == self.line:
                return item
            heappop(heap)
        del self._flows[flow]
        return None
