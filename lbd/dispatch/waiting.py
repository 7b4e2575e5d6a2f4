"""One line of waiting jobs, and whose turn it is.

First come, first served, but for the rules of `shares.py`, and for arrays, which take turns: an
array stands in the line like one job, and when one of its jobs has begun it goes to the line's end.
So nobody waits for all of an array that came before, and two arrays go on side by side. A job that
comes back (lost with its host) has the place with which it began.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from lbd.dispatch.discipline import Line, QueuedJob
from lbd.dispatch.shares import Flow, Shares
from lbd.model import HostId


class Placed:
    """What stands in a heap, behind its place."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        """Of two in one place either may be first: an array keeps the place of a job of its own
        that has stepped aside, and gives it to the next."""
        return False


@dataclass(slots=True, eq=False)
class Entry(Placed):
    """A job on the books. It waits in `line`, or runs on `host`, or has stepped aside (neither)."""

    job: QueuedJob
    number: int  # its place: smaller is earlier
    work_s: float  # by its estimate, on all its slots together
    tier: int  # in which it runs, or ran last
    line: Line | None = None
    host: HostId | None = None
    slots: int = 0  # it holds there
    started_s: float = 0.0
    begun: bool = False  # before: its place is its own, not its array's


@dataclass(slots=True, eq=False)
class Array(Placed):
    """Those of one array that wait in a line for their first time, the first first."""

    id: int
    heap: list[tuple[int, Entry]] = field(default_factory=list)


Heap = list[tuple[int, Entry | Array]]


class Waiting:
    """Who left otherwise than by `take` is passed over when met: his `line` is another then."""

    def __init__(self, line: Line, shares: Shares) -> None:
        self.line = line
        self.jobs = 0
        self.work_s = 0.0  # estimated
        self._shares = shares
        self._flows: dict[Flow, Heap] = {}
        self._arrays: dict[tuple[Flow, int], Array] = {}

    def add(self, entry: Entry) -> None:
        flow = self._shares.flow(entry.job)
        heap = self._flows.setdefault(flow, [])
        array = entry.job.array if self._shares.rules.interleave_arrays and not entry.begun else 0
        if not array:
            heappush(heap, (entry.number, entry))
            return
        standing = self._arrays.get((flow, array))
        if standing is None:
            standing = self._arrays[flow, array] = Array(array)
            heappush(heap, (entry.number, standing))
        heappush(standing.heap, (entry.number, entry))

    def head(self) -> Entry | None:
        """Whose turn it is; nobody's if all who wait have reached a limit."""
        shares = self._shares
        if len(self._flows) < 2 and not shares.limits:
            return self._front(next(iter(self._flows))) if self._flows else None
        best: tuple[int, float, int] | None = None
        first: Entry | None = None
        for flow in list(self._flows):
            entry = self._front(flow)
            if entry is None or (shares.limits and shares.obstacle(entry.job)):
                continue
            standing = shares.standing(flow.user) if shares.rules.fair_share_s else 0.0
            rank = -flow.priority, standing, self._flows[flow][0][0]
            if best is None or rank < best:
                best, first = rank, entry
        return first

    def take(self, head: Entry, number: Callable[[], int]) -> None:
        """It begins. `number` is for the end of the line."""
        flow = self._shares.flow(head.job)
        heap = self._flows[flow]
        turn, item = heappop(heap)
        head.number, head.begun = turn, True
        if isinstance(item, Array):
            heappop(item.heap)
            if self._front_of(item) is not None:
                heappush(heap, (number(), item))
            else:
                del self._arrays[flow, item.id]

    def keep(self, fits: Callable[[Entry], bool]) -> list[Entry]:
        """Only those; the others, who are out of the line by that."""
        gone: list[Entry] = []
        for heap in self._flows.values():
            for _, item in heap:
                if isinstance(item, Array):
                    here = [pair for pair in item.heap if pair[1].line == self.line]
                    item.heap = [pair for pair in here if fits(pair[1])]
                    heapify(item.heap)
                    gone += [entry for _, entry in here if not fits(entry)]
            singles = [item for _, item in heap if isinstance(item, Entry)]
            gone += [item for item in singles if item.line == self.line and not fits(item)]
            heap[:] = [pair for pair in heap if self._stays(pair[1], fits)]
            heapify(heap)
        standing = {
            (flow, item.id)
            for flow, heap in self._flows.items()
            for _, item in heap
            if isinstance(item, Array)
        }
        self._arrays = {key: array for key, array in self._arrays.items() if key in standing}
        return gone

    def _stays(self, item: Entry | Array, fits: Callable[[Entry], bool]) -> bool:
        if isinstance(item, Array):
            return bool(item.heap)
        return item.line == self.line and fits(item)

    def order(self) -> list[Entry]:
        """All who wait, in the order in which they would begin if nothing more came: users of equal
        standing take turns where shares are fair, and arrays in any case."""
        ranked: list[tuple[tuple[int, int, int, int], Entry]] = []
        fair = bool(self._shares.rules.fair_share_s)
        for flow, heap in self._flows.items():
            own = [(lap, turn, n, entry) for turn, item in heap
                   for lap, n, entry in self._laps(item)]  # fmt: skip
            own.sort(key=lambda one: one[:3])
            for place, (lap, turn, n, entry) in enumerate(own):
                ranked.append(((-flow.priority, place if fair else lap, turn, n), entry))
        return [entry for _, entry in sorted(ranked, key=lambda one: one[0])]

    def _laps(self, item: Entry | Array) -> Iterator[tuple[int, int, Entry]]:
        if isinstance(item, Entry):
            if item.line == self.line:
                yield 0, item.number, item
            return
        here = sorted(pair for pair in item.heap if pair[1].line == self.line)
        for lap, (number, entry) in enumerate(here):
            yield lap, number, entry

    def _front(self, flow: Flow) -> Entry | None:
        heap = self._flows[flow]
        while heap:
            item = heap[0][1]
            if isinstance(item, Array):
                entry = self._front_of(item)
                if entry is not None:
                    return entry
                del self._arrays[flow, item.id]
            elif item.line == self.line:
                return item
            heappop(heap)
        del self._flows[flow]
        return None

    def _front_of(self, array: Array) -> Entry | None:
        while array.heap:
            entry = array.heap[0][1]
            if entry.line == self.line:
                return entry
            heappop(array.heap)
        return None
