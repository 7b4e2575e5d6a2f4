"""When a pending job will begin, as far as can be told. Pure.

Until the head of its line begins, Downey's prediction (`theory/queue_time.py`) from the ages of the
jobs that run; then what is before it in the line goes by at the rate at which all slots of that
line's hosts are worked off, each job for a mean lifetime. Nothing is known of jobs to come: under
priorities and fair shares they may go before, and then it takes longer.
"""

import copy
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from lbd.dispatch.books import Booked
from lbd.dispatch.discipline import Line, QueuedJob
from lbd.dispatch.queues import Queues
from lbd.model import JobId
from lbd.theory.queue_time import UniformLog, fit, wait_s

FEWEST = 5  # jobs that have ended, to say anything
FRESH_S = 1.0  # a look at all that waits serves for as long as this,
JOBS_PER_S = 5000  # or longer where so many wait that it takes its time
CUTOFFS_KNOWN = 100
FEW = 1000  # with no more than these another look costs nothing


class Place(NamedTuple):
    """In the line: jobs that go before, and their slots."""

    jobs: int
    slots: int


class Prediction(NamedTuple):
    wait_s: float | None  # None: nothing can be said
    how: str  # it was made, or why it was not


@dataclass(slots=True)
class Outlook:
    """Of one line, just now."""

    total: int  # slots open to the queue
    free: int
    first: int  # slots that the head needs; 0: nobody waits
    held: list[tuple[float, int]]
    lives: tuple[int, UniformLog, float] | None
    waits_s: dict[int, float] = field(default_factory=dict)  # until so many more are free

    def wait_s(self, needed: int) -> float:
        if needed not in self.waits_s:
            assert self.lives is not None
            there = sum(slots for _, slots in self.held)
            self.waits_s[needed] = wait_s(min(needed, there), self.held, self.lives[1])
        return self.waits_s[needed]


@dataclass(slots=True)
class Forecast:
    queues: Queues
    _outlooks: dict[Line, Outlook] = field(default_factory=dict)
    _events: int = -1  # before those outlooks,
    _seen_s: float = 0.0  # which are of then
    _made_s: float = float("-inf")
    _fresh_s: float = 0.0
    _places: dict[JobId, Place] = field(default_factory=dict)
    _sizes: dict[float | None, tuple[int, UniformLog, float]] = field(default_factory=dict)

    def place(self, booked: Booked, now_s: float) -> Place | None:
        """As of lately; None if it does not wait in a line."""
        if booked.line is None:
            return None
        job, head = booked.id, self.queues.head(booked.line)
        if head is not None and head.id == job:
            return Place(0, 0)
        is_new = job not in self._places and len(self._places) <= FEW
        if now_s - self._made_s > self._fresh_s or is_new:
            self._look(now_s)
        return self._places.get(job)

    def forget(self) -> None:
        """Until somebody asks again."""
        self._places, self._made_s, self._outlooks = {}, float("-inf"), {}

    def _look(self, now_s: float) -> None:
        self._places = {}
        for waiting in self.queues.lines.values():
            slots = 0
            for jobs, waiter in enumerate(waiting.order()):
                self._places[waiter.id] = Place(jobs, slots)
                slots += waiter.slots
        self._made_s, self._fresh_s = now_s, max(FRESH_S, len(self._places) / JOBS_PER_S)

    def of(self, booked: Booked, now_s: float) -> Prediction:
        kind = booked.kind
        if booked.line is None or self.queues.shares.obstacle(kind):
            return Prediction(None, "")
        place = self.place(booked, now_s)
        if place is None:
            return Prediction(None, "")
        return self._predict(booked.line, place, kind.slots, now_s)

    def of_another(self, slots: int, now_s: float) -> Prediction:
        """A job of so many slots that came now."""
        queues = self.queues
        guess = copy.copy(queues.discipline)  # that of ours does not count it
        line = guess.join(QueuedJob(JobId(""), slots), queues.hosts, now_s, Random(0))
        if not any(seat.slots >= slots for seat in queues.servers.get(line or "", ())):
            return Prediction(None, "no host that takes jobs now has as many slots")
        assert line is not None
        before = queues.lines[line].order() if line in queues.lines else []
        place = Place(len(before), sum(waiter.slots for waiter in before))
        return self._predict(line, place, slots, now_s)

    def _predict(self, line: Line, place: Place, need: int, now_s: float) -> Prediction:
        outlook = self._outlook(line, now_s)
        if not outlook.total:
            return Prediction(None, "no slot is open to the queue")
        first = outlook.first if place.jobs and outlook.first else need
        if outlook.free >= first and not place.jobs:
            return Prediction(0.0, "slots are free")
        if outlook.lives is None:
            return Prediction(None, f"no estimate before {FEWEST} jobs have ended")
        count, _, mean_s = outlook.lives
        until_s = outlook.wait_s(first - outlook.free) + place.slots * mean_s / outlook.total
        how = f"from {count} jobs that ended, {mean_s:.3g} s of a slot each on average"
        return Prediction(until_s, f"{how}; {place.jobs} go before it on {outlook.total} slots")

    def _outlook(self, line: Line, now_s: float) -> Outlook:
        """The same for all who ask between two events."""
        events = self.queues.shares.events
        if self._events != events or now_s - self._seen_s > FRESH_S:
            self._events, self._seen_s, self._outlooks = events, now_s, {}
        if line not in self._outlooks:
            queues = self.queues
            seats = [seat for seat in queues.servers.get(line, ()) if seat.host is not None]
            head = queues.head(line)
            self._outlooks[line] = Outlook(
                sum(max(seat.host.usable, 0) for seat in seats if seat.host is not None),
                sum(max(seat.free, 0) for seat in seats),
                head.kind.slots if head is not None else 0,
                [(now_s - one.started_s, one.slots) for s in seats for one in s.running.values()],
                self._lives(queues.discipline.cutoff_s(line)),
            )
        return self._outlooks[line]

    def _lives(self, cutoff_s: float | None) -> tuple[int, UniformLog, float] | None:
        """How many have ended, their distribution and mean, none longer than its cutoff."""
        ended = self.queues.lives
        if len(ended.recent_s) < FEWEST:
            return None
        known = self._sizes.get(cutoff_s)
        if known is None or known[0] != ended.count:
            lives_s = [min(life_s, cutoff_s or life_s) for life_s in ended.recent_s]
            known = ended.count, fit(lives_s), sum(lives_s) / len(lives_s)
            if len(self._sizes) >= CUTOFFS_KNOWN:
                self._sizes.clear()
            self._sizes[cutoff_s] = known
        return len(ended.recent_s), known[1], known[2]
