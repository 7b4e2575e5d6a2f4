"""Where each pending job stands: how much is ahead of it in its line. Pure.

One look at all waiting jobs serves for a while. If no jobs take turns or need more than slots, a
line is two columns of numbers, searched by bisection; otherwise each job's place is stored.
"""

from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import NamedTuple

from lbd.dispatch.core.discipline import HostConnection, QueuedJob
from lbd.dispatch.core.outlook.needs_outlook import Parts, parts_of
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.registry import Registered
from lbd.model import JobId

FRESH_S = 1.0  # how long a look at all waiting jobs serves
JOBS_PER_S = 5000  # or longer, in proportion to the number of waiting jobs
IN_LINE_PER_S = 100_000  # where no jobs take turns
TURNS_MAX = 5000  # jobs considered before a new one
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
class Places:
    queues: Queues
    _made_s: float = float("-inf")
    _fresh_s: float = 0.0
    _places: dict[JobId, Place] = field(default_factory=dict)
    _in_turn: dict[HostConnection, list[JobId]] = field(default_factory=dict)
    _in_line: dict[HostConnection, InLine] = field(default_factory=dict)
    # for jobs with other needs
    _ahead: dict[JobId, dict[Hashable, int]] = field(default_factory=dict)
    # taken by all jobs of each line
    _of_lines: dict[HostConnection, Parts] = field(default_factory=dict)

    def of(self, registered: Registered, now_s: float) -> Place | None:
        """Returns the latest position; None if the job does not wait in a queue."""
        if registered.line is None:
            return None
        job, head = registered.id, self.queues.head(registered.line)
        if head is not None and head.id == job:
            return Place(0, 0)
        known = registered.line in self._in_line or job in self._places
        if now_s - self._made_s > self._fresh_s or not (known or len(self._places) > FEW):
            self._look(now_s)
        in_line = self._in_line.get(registered.line)
        if in_line is not None:
            return in_line.before(registered.number)
        place = self._places.get(job)
        return self._now(place, registered.line) if place is not None else None

    def _now(self, place: Place, line: HostConnection) -> Place:
        """Leaves out the jobs that have started since the last look: of arrays of short tasks very
        many, and each next one had a place further behind."""
        if place.jobs > RECOUNTED_MAX:
            return place
        ahead = map(self.queues.registry.find, self._in_turn[line][: place.jobs])
        slots = [one.kind.slots for one in ahead if one is not None and one.line == line]
        return Place(len(slots), sum(slots))

    def end_of(self, line: HostConnection) -> Place:
        waiting = self.queues.lines.get(line)
        return Place(waiting.jobs, waiting.slots) if waiting is not None else Place(0, 0)

    def of_new(self, line: HostConnection, job: QueuedJob) -> Place:
        """Returns the place of a job arriving now. Where others take turns, up to `TURNS_MAX` of
        them are considered."""
        waiting = self.queues.lines.get(line)
        if waiting is None or waiting.puts_last(job):
            return self.end_of(line)
        slots = 0
        for jobs, waiter in enumerate(islice(waiting.in_turn(job), TURNS_MAX)):
            if not waiter.id:
                return Place(jobs, slots)
            slots += waiter.slots
        return self.end_of(line)

    def taken_ahead(self, job: JobId) -> Mapping[Hashable, int]:
        """Returns what the jobs ahead take of this job's needs besides slots, as of the last
        look."""
        return self._ahead.get(job, {})

    def taken_in(self, line: HostConnection, now_s: float) -> Mapping[Hashable, int]:
        """Returns what all waiting jobs of a line take of needs besides slots."""
        if now_s - self._made_s > self._fresh_s:
            self._look(now_s)
        return self._of_lines.get(line, {})

    def forget(self) -> None:
        """Discards what was found; the next question looks again."""
        self._made_s = float("-inf")
        self._places, self._in_turn, self._in_line = {}, {}, {}
        self._ahead, self._of_lines = {}, {}

    def _look(self, now_s: float) -> None:
        self.forget()
        counted = 0
        for line, waiting in self.queues.lines.items():
            if (waiters := waiting.in_order_of_arrival()) is not None:
                self._in_line[line] = InLine.of(waiters)
                counted += len(waiters)
                continue
            slots, taken = 0, Parts()
            in_turn = self._in_turn[line] = list[JobId]()
            for jobs, waiter in enumerate(waiting.order()):
                self._places[waiter.id] = Place(jobs, slots)
                in_turn.append(waiter.id)
                slots += waiter.slots
                if waiter.needs:
                    own = parts_of(waiter.needs, waiter.slots)
                    self._ahead[waiter.id] = {part: taken[part] for part in own}
                    taken.update(own)
            self._of_lines[line] = taken
        took_s = len(self._places) / JOBS_PER_S + counted / IN_LINE_PER_S
        self._made_s, self._fresh_s = now_s, max(FRESH_S, took_s)
