"""Where each pending job stands: how much is ahead of it in its line. Pure.

One look at all waiting jobs serves for a while. If no jobs take turns or need more than slots, a
line is two columns of numbers, searched by bisection; otherwise each job's place is stored. Of
hundreds of thousands that takes seconds, so it is done in pieces; the last look serves meanwhile.
"""

from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import NamedTuple

from lbd.dispatch.core.discipline import HostConnection, QueuedJob
from lbd.dispatch.core.outlook.allowance import FOUND_STEPS, Allowance
from lbd.dispatch.core.outlook.needs_outlook import Parts, parts_of
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.registry import Registered
from lbd.dispatch.core.shares import Flow
from lbd.model import JobId

FRESH_S = 1.0  # how long a look at all waiting jobs serves
JOBS_PER_S = 5000  # or longer, in proportion to the number of waiting jobs
IN_LINE_PER_S = 100_000  # where no jobs take turns
PIECE_JOBS, PIECE_EVERY_S = 2000, 0.1  # of a look; how often a question goes on with it
TURNS_MAX = 5000  # jobs considered before a new one
NEW_MAX = 64  # places of new jobs that are known
RECOUNTED_MAX = 200  # jobs ahead of one of which it is looked how many still wait
FEW = 1000  # up to this many, another look costs nothing


class Place(NamedTuple):
    """A job's position: the jobs ahead of it, and their slots."""

    jobs: int
    slots: int


class InLine(NamedTuple):
    """The waiting jobs of a line without turns, in 16 bytes each."""

    numbers: "array[int]"  # their places, ascending
    slots: "array[int]"  # cumulative, including the job itself

    @classmethod
    def of(cls, waiters: Iterable[tuple[int, int]]) -> "InLine":
        numbers, slots = array("q"), array("q")
        for number, wanted in waiters:
            numbers.append(number)
            slots.append(wanted)
        return cls(numbers, array("q", accumulate(slots)))

    def before(self, number: int) -> Place:
        count = bisect_left(self.numbers, number)
        return Place(count, self.slots[count - 1] if count else 0)


@dataclass(slots=True)
class Look:
    """What one look at all waiting jobs found."""

    made_s: float = float("-inf")
    fresh_s: float = 0.0
    places: dict[JobId, Place] = field(default_factory=dict)
    in_turn: dict[HostConnection, list[JobId]] = field(default_factory=dict)
    in_line: dict[HostConnection, InLine] = field(default_factory=dict)
    # for jobs with other needs
    ahead: dict[JobId, dict[Hashable, int]] = field(default_factory=dict)
    # taken by all jobs of each line
    of_lines: dict[HostConnection, Parts] = field(default_factory=dict)

    def over(self, queues: Queues) -> Iterator[None]:
        """Looks, a piece at each step. Jobs may come and leave between two."""
        counted = 0
        for line, waiting in list(queues.lines.items()):
            if (waiters := waiting.in_order_of_arrival()) is not None:
                self.in_line[line] = InLine.of(waiters)
                counted += len(waiters)
                continue
            slots, taken = 0, Parts()
            in_turn = self.in_turn[line] = list[JobId]()
            for waiter in waiting.in_turn(over_time=True):
                if waiter.id in self.places:
                    continue  # it came back meanwhile
                self.places[waiter.id] = Place(len(in_turn), slots)
                in_turn.append(waiter.id)
                slots += waiter.slots
                if waiter.needs:
                    own = parts_of(waiter.needs, waiter.slots)
                    self.ahead[waiter.id] = {part: taken[part] for part in own}
                    taken.update(own)
                if not len(self.places) % PIECE_JOBS:
                    yield
            self.of_lines[line] = taken
        self.fresh_s = max(FRESH_S, len(self.places) / JOBS_PER_S + counted / IN_LINE_PER_S)


@dataclass(slots=True)
class Places:
    queues: Queues
    allowance: Allowance = field(default_factory=Allowance)
    _last: Look = field(default_factory=Look)
    _next: Look = field(default_factory=Look)
    _pieces: Iterator[None] | None = None  # of the next look
    _piece_s: float = float("-inf")  # when the last of them was made
    _new: dict[tuple[HostConnection, Flow], tuple[int, Place]] = field(default_factory=dict)

    def of(self, registered: Registered, now_s: float) -> Place | None:
        """Returns the latest position; None if the job does not wait in a queue, or came after the
        last look, and the next one takes long."""
        if registered.line is None:
            return None
        job, head = registered.id, self.queues.head(registered.line)
        if head is not None and head.id == job:
            return Place(0, 0)
        known = registered.line in self._last.in_line or job in self._last.places
        if not self._is_fresh(now_s) or not (known or len(self._last.places) > FEW):
            self._go_on(now_s)
        in_line = self._last.in_line.get(registered.line)
        if in_line is not None:
            return in_line.before(registered.number)
        place = self._last.places.get(job)
        return self._now(place, registered.line) if place is not None else None

    def _now(self, place: Place, line: HostConnection) -> Place:
        """Leaves out the jobs that have started since the last look: of arrays of short tasks very
        many, and each next one had a place further behind."""
        if place.jobs > RECOUNTED_MAX:
            return place
        ahead = map(self.queues.registry.find, self._last.in_turn[line][: place.jobs])
        slots = [one.kind.slots for one in ahead if one is not None and one.line == line]
        return Place(len(slots), sum(slots))

    def end_of(self, line: HostConnection) -> Place:
        waiting = self.queues.lines.get(line)
        return Place(waiting.jobs, waiting.slots) if waiting is not None else Place(0, 0)

    def of_new(self, line: HostConnection, job: QueuedJob, now_s: float) -> Place:
        """Returns the place of a job arriving now. Where others take turns, up to `TURNS_MAX` of
        them are considered. When its user's part of the time is used up, the last such place is
        used, or the end."""
        waiting = self.queues.lines.get(line)
        if waiting is None or waiting.puts_last(job):
            return self.end_of(line)
        events, key = self.queues.shares.events, (line, self.queues.shares.flow(job))
        seen, place = self._new.get(key, (-1, self.end_of(line)))
        if seen == events or not self.allowance.has(job.user, now_s):
            return place
        jobs = slots = 0
        for waiter in islice(waiting.in_turn(job), TURNS_MAX):
            if not waiter.id:
                place = Place(jobs, slots)
                break
            jobs, slots = jobs + 1, slots + waiter.slots
        else:
            place = self.end_of(line)
        self.allowance.took(FOUND_STEPS * jobs, job.user, now_s)
        self._new.pop(key, None)
        if len(self._new) >= NEW_MAX:
            del self._new[next(iter(self._new))]  # the oldest
        self._new[key] = events, place
        return place

    def taken_ahead(self, job: JobId) -> Mapping[Hashable, int]:
        """Returns what the jobs ahead take of this job's needs besides slots, as of the last
        look."""
        return self._last.ahead.get(job, {})

    def taken_in(self, line: HostConnection, now_s: float) -> Mapping[Hashable, int]:
        """Returns what all waiting jobs of a line take of needs besides slots."""
        if not self._is_fresh(now_s):
            self._go_on(now_s)
        return self._last.of_lines.get(line, {})

    def look(self, now_s: float) -> bool:
        """Goes on with a look by a piece unless the last one is fresh; returns whether it is."""
        if not self._is_fresh(now_s):
            self._make_piece(now_s)
        return self._is_fresh(now_s)

    def forget(self) -> None:
        """Discards what was found; the next question looks again."""
        self._last, self._pieces = Look(), None
        self._new.clear()

    def _is_fresh(self, now_s: float) -> bool:
        return now_s - self._last.made_s <= self._last.fresh_s

    def _go_on(self, now_s: float) -> None:
        """There may be hundreds of questions in one turn of the event loop."""
        if self._pieces is None or now_s - self._piece_s >= PIECE_EVERY_S:
            self._make_piece(now_s)

    def _make_piece(self, now_s: float) -> None:
        if self._pieces is None:
            self._next = Look()
            self._pieces = self._next.over(self.queues)
        self._piece_s = now_s
        if next(self._pieces, self) is self:
            self._next.made_s = now_s
            self._last, self._next, self._pieces = self._next, Look(), None
