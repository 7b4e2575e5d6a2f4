"""One line of waiting jobs, and whose turn it is.

First come, first served, except for the rules of `shares.py`, and for arrays, which take turns: an
array stands in the line like one job, and moves to the end when one of its jobs has started. So no
job waits for a whole array that came before, and two arrays progress side by side. An array with a
target it can meet keeps its place, and is passed over while it has enough running; one that took
turns gets the place of its submission back once it can. A job that comes back (lost with its host)
has the place it started from. One file because a line and its groups are read in one order.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace, merge
from itertools import chain, islice
from operator import itemgetter
from typing import NamedTuple, TypeVar

from lbd.dispatch.core.backlog import Backlog, Rows
from lbd.dispatch.core.discipline import HostConnection, QueuedJob
from lbd.dispatch.core.heaps import Ranked, Source, in_order, merged, sweep
from lbd.dispatch.core.registry import Entry, Placed, Registered, Shapes
from lbd.dispatch.core.shares import Flow, Shares
from lbd.model import NO_NEEDS, JobId, Needs

ALONE = 0  # the value for no array
LAST = sys.maxsize  # place of a job that has yet to come


class Waiter(NamedTuple):
    id: JobId
    slots: int  # that it needs
    needs: Needs = NO_NEEDS


def waiter_of(one: Registered) -> Waiter:
    return Waiter(one.id, one.kind.slots, one.kind.needs)


def number_of(one: Registered) -> int:
    return one.number


def in_group(entry: Entry, line: HostConnection) -> bool:
    """Whether it waits in its array's place, and not, as it has begun before, in its own."""
    return entry.line == line and not entry.begun


@dataclass(slots=True, eq=False)
class Group(Placed):
    """The jobs of one array that have not started before, in order; or, for jobs without an array,
    all those of the backlog. In that case its place is that of its front."""

    array: int
    place: int
    rows: Rows
    heap: list[tuple[int, Entry]] = field(default_factory=list)
    is_gone: bool = False  # no job of it waits: it is skipped when met

    def add(self, registered: Registered) -> None:
        if isinstance(registered, Entry):
            heappush(self.heap, (registered.number, registered))
        else:
            self.rows.add(registered)

    def front(self, line: HostConnection) -> Registered | None:
        heap = self.heap
        while heap and not in_group(heap[0][1], line):
            heappop(heap)
        row = self.rows.front()
        if heap and (row is None or heap[0][0] < row.number):
            return heap[0][1]
        return row

    def in_order(self, line: HostConnection) -> Iterator[Registered]:
        entries = (one for _, one in in_order(self.heap) if in_group(one, line))
        return merge(entries, self.rows, key=number_of)

    def order(self, line: HostConnection) -> Iterator[tuple[int, Waiter]]:
        """Yields the waiting jobs with their positions, whatever leaves meanwhile."""
        heap = self.heap[:]
        entries = ((n, waiter_of(one)) for n, one in in_order(heap) if in_group(one, line))
        return merge(entries, ((row.number, waiter_of(row)) for row in self.rows))

    def laps(self, turn: int, line: HostConnection, stays: bool) -> Iterator[Ranked[Waiter]]:
        """Yields the same with lap, turn and position. `stays`: all in the group's place."""
        for lap, (number, waiter) in enumerate(self.order(line)):
            if self.array == ALONE:
                yield (0, number, number), waiter
            else:
                yield (0 if stays else lap, turn, number), waiter


Heap = list[tuple[int, Entry | Group]]
Item = TypeVar("Item", Entry, Entry | Group)
Turn = tuple[int, int, Flow]  # priority, place, flow
SPARE_TURNS = 64  # stale turns allowed in a heap
PASSED_MIN = 64  # jobs that started from behind others before what they left in a heap is removed
SKIPPED_PER_LOOK = 8  # users whose first turn cannot be the best
NARROW = 100  # flows skipped in a row because they need more slots than their user has left


class Resting:
    """The flows of a line whose array or name is at its limit, and their turns. They are not looked
    at until it is below. An array has few flows: all wake at once. A name may be that of thousands
    of arrays, and few of them can start: one wakes, and the next when that has been looked at."""

    def __init__(self) -> None:
        self._turns: dict[Flow, Turn] = {}
        self._counts: Counter[str] = Counter()  # of these, by user
        # heaps, in which some turns are outdated
        self._of_users: dict[str, list[Turn]] = {}
        self._of_names: dict[str, dict[str, list[Turn]]] = {}  # each by user
        self._of_arrays: dict[int, set[Flow]] = {}

    def __contains__(self, flow: Flow) -> bool:
        return flow in self._turns

    def heaps(self) -> Iterable[list[Turn]]:
        return self._of_users.values()

    def add(self, limit: int | str, turn: Turn) -> None:
        """`limit`: the array or the name."""
        flow = turn[-1]
        self.discard(flow)
        self._turns[flow] = turn
        self._counts[flow.user] += 1
        self._push(self._of_users, turn)
        if isinstance(limit, str):
            self._push(self._of_names.setdefault(limit, {}), turn)
        else:
            self._of_arrays.setdefault(limit, set()).add(flow)

    def _push(self, heaps: dict[str, list[Turn]], turn: Turn) -> None:
        user = turn[-1].user
        turns = heaps.setdefault(user, [])
        heappush(turns, turn)
        if len(turns) > 2 * self._counts[user] + SPARE_TURNS:
            turns[:] = {one for one in turns if self._turns.get(one[-1]) == one}
            heapify(turns)

    def wake(self, limits: Iterable[int | str]) -> list[Turn]:
        """Returns the turns of the flows of these arrays, and of each user's first of these
        names."""
        found: list[Turn | None] = []
        for limit in limits:
            if isinstance(limit, str):
                found += [self.next_of(limit, user) for user in [*self._of_names.get(limit, ())]]
            else:
                found += map(self.discard, self._of_arrays.pop(limit, ()))
        return [turn for turn in found if turn is not None]

    def next_of(self, name: str, user: str) -> Turn | None:
        """Wakes this user's first flow of a name. Returns its turn, if there is one."""
        heaps, found = self._of_names.get(name, {}), None
        turns = heaps.get(user, [])
        while turns and found is None:
            turn = heappop(turns)
            if self._turns.get(turn[-1]) == turn:
                found = self.discard(turn[-1])
        if not turns and heaps:
            heaps.pop(user, None)
            if not heaps:
                del self._of_names[name]
        return found

    def discard(self, flow: Flow) -> Turn | None:
        """Returns its turn if it rests."""
        if (turn := self._turns.pop(flow, None)) is not None:
            self._counts[flow.user] -= 1
            if not self._counts[flow.user]:
                del self._counts[flow.user], self._of_users[flow.user]
        return turn


class Waiting:
    """One line. A job that left other than by `take` is skipped when met: its `line` differs.

    One class because whose turn it is depends on all of its tables.
    """

    def __init__(self, line: HostConnection, shares: Shares, backlog: Backlog) -> None:
        self.line = line
        self.jobs = 0
        self.slots = 0  # that the jobs need
        self.work_s = 0.0  # estimated
        self._shares = shares
        self._backlog = backlog
        self.shapes = Shapes(backlog, lambda one: one.line == line)
        self._flows: dict[Flow, Heap] = {}
        self._groups: dict[tuple[Flow, int], Group] = {}
        # The turns of the flows in this line, by user. Each array with a limit (`--array 1-9%2`)
        # has its own flow, so only the first flows are considered.
        self._turns: dict[str, list[Turn]] = {}
        self._noted: dict[Flow, Turn] = {}  # the valid ones of these, and of those at rest
        self._resting = Resting()
        self._passed: dict[Flow, int] = {}  # jobs that started from behind others, since a sweep
        self._left: dict[Flow, int] = {}  # items without waiting jobs that a look passed over

    def add(self, registered: Registered) -> None:
        flow = self._shares.flow(registered.kind)
        if flow in self._flows:
            self._front(flow)  # an array without waiting jobs does not keep its place
        self._add(flow, registered)
        self._note_turn(flow)  # the front waits: it did, or it is this job

    def _add(self, flow: Flow, registered: Registered) -> None:
        heap = self._flows.setdefault(flow, [])
        array = self._array(registered)
        if array == ALONE and isinstance(registered, Entry):
            heappush(heap, (registered.number, registered))
            return self._sweep_at_times(heap)
        group = self._groups.get((flow, array))
        if group is None:
            group = Group(array, registered.number, Rows(self._backlog, self.line))
            self._groups[flow, array] = group
            heappush(heap, (group.place, group))
            self._sweep_at_times(heap)
        elif array == ALONE and registered.number < group.place:
            self._bring_forward(heap, group, registered.number)
        group.add(registered)
        self._sweep_at_times(group.heap)

    def _sweep_at_times(self, heap: list[tuple[int, Item]]) -> None:
        """What leaves and comes back (hold and release) leaves its former place in the heap."""
        if len(heap) > 2 * self.jobs + PASSED_MIN:
            heap[:] = [pair for pair in heap if self._waits(pair[1])]
            heapify(heap)

    def _bring_forward(self, heap: Heap, group: Group, place: int) -> None:
        """Returns a job that had stepped aside, or an array that took turns, to its position."""
        heap.remove((group.place, group))
        group.place = place
        heap.append((place, group))
        heapify(heap)

    def head(self) -> Registered | None:
        """Returns the job whose turn it is; None if all waiting jobs have reached a limit."""
        if not self.jobs:
            return None
        shares = self._shares
        if shares.targets.returning:
            self._return_arrays()
        passes_over = shares.passes_over
        if len(self._flows) < 2 and not passes_over:
            return self._front(next(iter(self._flows))) if self._flows else None
        best: tuple[int, float, int] | None = None
        first: Registered | None = None
        is_fair = bool(shares.rules.fair_share_s)
        shares.looks += len(self._turns) // SKIPPED_PER_LOOK
        for user, turns in list(self._turns.items()):
            standing = shares.standing(user) if is_fair else 0.0
            if best is not None and turns and (turns[0][0], standing, turns[0][1]) >= best:
                continue  # its first turn may be outdated, but no other is before that
            if (found := self._next_of(user)) is not None:
                registered, (priority, place, _) = found
                rank = priority, standing, place
                if best is None or rank < best:
                    best, first = rank, registered
        return first

    def wake(self, freed: Iterable[int | str]) -> None:
        """Looks again at what waits for these arrays and names."""
        for turn in self._resting.wake(freed):
            heappush(self._turns.setdefault(turn[-1].user, []), turn)

    def _looked_at(self, turn: Turn) -> None:
        """A turn has left its heap, so that the next at rest of its name is looked at, too."""
        name, user = turn[-1].name, turn[-1].user
        if not name or self._shares.is_full(name):
            return
        if (following := self._resting.next_of(name, user)) is not None:
            heappush(self._turns.setdefault(user, []), following)

    def _return_arrays(self) -> None:
        returning = self._shares.targets.returning
        for (flow, array), group in list(self._groups.items()):
            if array not in returning or (front := group.front(self.line)) is None:
                continue
            if front.number < group.place:
                self._bring_forward(self._flows[flow], group, front.number)
                self._note(flow)
        returning.clear()

    def _next_of(self, user: str) -> tuple[Registered, Turn] | None:
        """Returns whose turn it is among one user's jobs, or all jobs where users do not matter.
        Those whose array or name is at its limit rest; few others are passed over: those that have
        enough for a target, or need more slots than their user has left."""
        shares, turns, passed, found = self._shares, self._turns[user], list[Turn](), None
        left, narrow = shares.slots_left(user), 0
        shares.looks += 1
        while turns and found is None and narrow < NARROW and left > 0:
            turn = turns[0]
            front = self._note(turn[-1]) if self._noted.get(turn[-1]) == turn else None
            if front is None or self._noted[turn[-1]] != turn:
                if turns[:1] == [turn]:  # unless all outdated ones have been removed
                    self._looked_at(heappop(turns))
            elif shares.passes_over and shares.bars(front.kind):
                if (limit := shares.full(front.kind)) is not None:
                    self._resting.add(limit, heappop(turns))
                else:
                    passed.append(heappop(turns))
                    narrow += front.kind.slots > left
                self._looked_at(turn)
            else:
                found = front, turn
        shares.looks += 2 * len(passed)
        for turn in passed:
            heappush(turns, turn)
        if not turns:
            del self._turns[user]
        return found

    def _note(self, flow: Flow) -> Registered | None:
        """Notes and returns whose turn it is in this flow."""
        if (front := self._front(flow)) is not None:
            self._note_turn(flow)
        return front

    def _note_turn(self, flow: Flow) -> None:
        turn = -flow.priority, self._flows[flow][0][0], flow
        if self._noted.get(flow) == turn:
            return
        self._noted[flow] = turn
        self._resting.discard(flow)
        turns = self._turns.setdefault(flow.user, [])
        heappush(turns, turn)
        if len(turns) > 2 * len(self._noted) + SPARE_TURNS:
            valid = (one for one in self._noted.values() if one[-1].user == flow.user)
            kept = {one for one in valid if one[-1] not in self._resting}
            outdated = [one for one in turns if one not in kept]
            turns[:] = kept
            heapify(turns)
            for one in outdated:
                self._looked_at(one)

    def take(self, head: Entry, number: Callable[[], int]) -> None:
        """The job starts, and has already left the line. `number` gives a place at its end."""
        flow = self._shares.flow(head.job)
        heap = self._flows[flow]
        turn, item = heappop(heap)
        head.number, head.begun = turn, True
        if isinstance(item, Group):
            if (following := item.front(self.line)) is None:
                self._is_empty(flow, item)
            else:
                targets = self._shares.targets
                if item.array == ALONE:
                    item.place = following.number
                elif not targets.keeps_place(item.array):
                    item.place = number()
                    targets.took_turn(item.array)
                heappush(heap, (item.place, item))
        if heap and heap[0][1] is item:  # of which a job waits
            self._note_turn(flow)
        else:
            self._note(flow)

    def passed(self, job: QueuedJob) -> None:
        """Notes a job that started ahead of others and has left the line. What such jobs leave in
        the heaps is removed at times, since each look for the next job passes over it."""
        flow = self._shares.flow(job)
        self._passed[flow] = self._passed.get(flow, 0) + 1
        if self._passed[flow] < PASSED_MIN or flow not in self._flows:
            return
        del self._passed[flow]
        if (group := self._groups.get((flow, job.array))) is not None:
            sweep(group.heap, self._waits)
        sweep(self._flows[flow], self._waits)

    def _waits(self, item: Entry | Group) -> bool:
        return not item.is_gone if isinstance(item, Group) else item.line == self.line

    def stepped_aside(self, registered: Registered) -> None:
        """The job has left, and may come back: if no other of its array waits, not to the place
        that the array had."""
        flow = self._shares.flow(registered.kind)
        if (group := self._groups.get((flow, self._array(registered)))) is not None:
            self._is_empty(flow, group)

    def _is_empty(self, flow: Flow, group: Group) -> bool:
        """Whether none of its jobs waits. Then it is forgotten; those that come back have another
        group."""
        if group.front(self.line) is not None:
            return False
        if not group.is_gone:
            group.is_gone, group.heap, group.rows = True, [], Rows(self._backlog, self.line)
            del self._groups[flow, group.array]
        return True

    def _array(self, registered: Registered) -> int:
        interleave = self._shares.rules.interleave_arrays and not registered.begun
        return registered.kind.array if interleave else ALONE

    def first(self, count: int) -> list[Registered]:
        """Returns the first few waiting jobs, regardless of turns."""
        flows = self._first_flows(count)
        each = [one for flow in flows for one in self._in_order(flow, count)]
        return list(islice(merge(*each, key=number_of), count))

    def _first_flows(self, count: int) -> list[Flow]:
        """Returns the flows whose turn comes first, each with a waiting job."""
        ahead = [(turns[0], turns) for turns in self._turns.values() if turns]
        heapify(ahead)
        found: dict[Turn, Flow] = {}
        while ahead and len(found) < count:
            _, turns = heappop(ahead)
            turn = heappop(turns)
            flow = turn[-1]
            self._looked_at(turn)
            if self._noted.get(flow) == turn:
                self._note(flow)
                if self._noted.get(flow) == turn:
                    found[turn] = flow
            if turns:
                heappush(ahead, (turns[0], turns))
        for turn, flow in found.items():
            heappush(self._turns[flow.user], turn)
        return list(found.values())

    def _waits_at(self, place: int, entry: Entry) -> bool:
        """Whether it waits, in that place: one that left from behind others and came back with
        another place, as after a checkpoint, is still listed at the former one."""
        return entry.line == self.line and entry.number == place

    def _in_order(self, flow: Flow, count: int) -> list[Iterable[Registered]]:
        """Returns the flow's first arrays, and its jobs without one, each in order. Nothing is made
        of what is not looked at: a flow may have a hundred thousand jobs."""
        alone, groups = list[Entry](), list[Iterable[Registered]]()
        for place, item in in_order(self._flows[flow]):
            found = len(alone) + len(groups)
            if found > count:  # one may be of jobs without an array, met too early
                break
            if isinstance(item, Entry):
                alone += [item] * self._waits_at(place, item)
            elif item.front(self.line) is not None:
                groups.append(item.in_order(self.line))
        return [alone, *groups]

    def in_order_of_arrival(self) -> list[tuple[int, int]] | None:
        """Returns places and slots of all waiting jobs, in order, cheaply, as a million may wait.
        None if some take turns or need more than slots: then `order` gives the order."""
        if len(self._flows) != 1:
            return None
        entries: dict[Entry, tuple[int, int]] = {}
        for heap in self._flows.values():
            for place, item in heap:
                if isinstance(item, Entry):
                    if self._waits_at(place, item):
                        if item.job.needs:
                            return None
                        entries[item] = place, item.job.slots
                elif item.array != ALONE:
                    return None
        rows = self._backlog.in_line(self.line)
        return sorted([*rows, *entries.values()]) if entries and rows is not None else rows

    def order(self) -> list[Waiter]:
        """Returns all waiting jobs in the order of their turns."""
        return list(self.in_turn())

    def in_turn(self, new: QueuedJob | None = None, *, over_time: bool = False) -> Iterator[Waiter]:
        """Yields the waiting jobs in the order in which they would start if no more arrived: users
        of equal standing take turns with fair shares, and arrays always do. Considers no more jobs,
        arrays and flows than are consumed. `new`: a job that arrives now, included with the id "".
        `over_time`: the line may change meanwhile; what comes may be missing."""
        if self._shares.targets.returning:
            self._return_arrays()
        self._drop_left()
        flows = self._in_turn_of_flows(new, over_time)
        if new is not None and not self._has(flow := self._shares.flow(new)):
            alone = (-flow.priority, 0, LAST), self._ranked(flow, [], new)
            flows = merge(flows, iter([alone]), key=itemgetter(0))
        return (waiter for _, waiter in merged(flows))

    def _has(self, flow: Flow) -> bool:
        return flow in self._flows and self._front(flow) is not None

    def _in_turn_of_flows(self, new: QueuedJob | None, over_time: bool) -> Iterator[Source[Waiter]]:
        """Yields the flows in the order of their first turns."""
        heaps = chain(self._turns.values(), self._resting.heaps())
        turns = (in_order(one[:] if over_time else one) for one in heaps)
        last: Turn | None = None
        for turn in merge(*turns):
            priority, place, flow = turn
            if turn != last and self._noted.get(flow) == turn:
                heap = self._flows[flow]
                yield (priority, 0, place), self._ranked(flow, heap[:] if over_time else heap, new)
            last = turn

    def _drop_left(self) -> None:
        """Removes the arrays without waiting jobs that were met, where they are half of a flow."""
        for flow, left in self._left.items():
            if (heap := self._flows.get(flow)) and 2 * left >= len(heap):
                heap[:] = [pair for pair in heap if self._is_there(flow, pair[1])]
                heapify(heap)
                self._front(flow)
        self._left.clear()

    def _is_there(self, flow: Flow, item: Entry | Group) -> bool:
        if isinstance(item, Entry):
            return item.line == self.line
        return not self._is_empty(flow, item)

    def puts_last(self, new: QueuedJob) -> bool:
        """Whether a new job is the last: no others have another rank, or take turns with it."""
        is_one_flow = not self._flows or self._flows.keys() == {self._shares.flow(new)}
        return is_one_flow and all(array == ALONE for _, array in self._groups)

    def _ranked(self, flow: Flow, heap: Heap, new: QueuedJob | None) -> Iterator[Ranked[Waiter]]:
        fair = bool(self._shares.rules.fair_share_s)
        items = self._items(flow, heap)
        if new is not None and self._shares.flow(new) == flow:
            rank, waiter = (0, LAST, LAST), Waiter(JobId(""), new.slots, new.needs)
            items = chain(items, [(rank, iter([(rank, waiter)]))])
        for place, ((lap, turn, n), waiter) in enumerate(merged(items)):
            yield (-flow.priority, place if fair else lap, turn, n), waiter

    def _items(self, flow: Flow, heap: Heap) -> Iterator[Source[Waiter]]:
        left = 0
        for turn, item in in_order(heap):
            if isinstance(item, Entry) and self._waits_at(turn, item):
                yield (0, turn), iter([((0, turn, item.number), waiter_of(item))])
            elif isinstance(item, Group) and item.front(self.line) is not None:
                stays = self._shares.targets.keeps_place(item.array)
                yield (0, turn), item.laps(turn, self.line, stays)
            else:
                left += 1
                self._left[flow] = left

    def _front(self, flow: Flow) -> Registered | None:
        heap = self._flows[flow]
        while heap:
            place, item = heap[0]
            if isinstance(item, Group):
                front = item.front(self.line)
                if front is None:
                    self._is_empty(flow, item)
                elif item.array != ALONE or front.number == place:
                    return front
                else:
                    item.place = front.number
                    heapreplace(heap, (front.number, item))
                    continue
            elif self._waits_at(place, item):
                return item
            heappop(heap)
        del self._flows[flow]
        self._resting.discard(flow)
        self._noted.pop(flow, None)
        self._passed.pop(flow, None)
        return None
