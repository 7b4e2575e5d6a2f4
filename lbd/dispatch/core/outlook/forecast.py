"""When a pending job will begin, as far as can be told. Pure.

Until the head of its line begins, Downey's prediction (`theory/queue_time.py`) from the ages of the
jobs that run; then what is before it in the line goes by at the rate at which all slots of that
line's hosts are worked off, each job for a mean lifetime. A job that needs more than slots waits
for that, too (`needs_outlook.py`), and so does who stands behind it. Nothing is known of jobs to
come: under priorities and fair shares they may go before, and then it takes longer.
"""

import copy
import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from operator import itemgetter
from random import Random
from typing import NamedTuple

from lbd.dispatch.core.discipline import HostConnection, QueuedJob
from lbd.dispatch.core.malleable.heads import NOTHING_KNOWN, ROOMS, room_of
from lbd.dispatch.core.malleable.prospects import CALIBRATED, Situation
from lbd.dispatch.core.malleable.slot_times import FEWEST, ResourceTimes
from lbd.dispatch.core.outlook.needs_outlook import (
    Known,
    NeedsOutlook,
    NeedsOutlooks,
    parts_of,
    releases_of,
)
from lbd.dispatch.core.outlook.places import FRESH_S, Place, Places
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.registry import Registered
from lbd.dispatch.core.servers import Server
from lbd.model import NO_NEEDS, JobId, Needs
from lbd.theory.calibration import Correction
from lbd.theory.queue_time import Releases, UniformLog, fit_in_two, wait_s

ARRIVALS_S = 0.5  # for which submissions are predicted by one look at the hosts
CUTOFFS_KNOWN = 100
ARRIVALS_MAX = 256  # kinds of jobs
FREE = "slots are free"
TOO_FEW_ENDED = f"no estimate until {FEWEST} jobs with the same needs have ended"


Held = list[tuple[float, int]]  # for how long, and how many slots
Missing = tuple[int, Held]  # so many more slots, of those that are held so


class Prediction(NamedTuple):
    wait_s: float | None  # None: nothing can be said
    how: str  # it was made, or why it was not


@dataclass(slots=True)
class QueueOutlook:
    """The current prospects of one queue."""

    total: int  # slots open to the queue
    free: int
    first: int  # slots that the head needs; 0: nobody waits
    held: Held
    hosts: list[tuple[int, Held]]  # of each, its free slots and the others
    slot_times: tuple[int, UniformLog, float] | None
    head: NeedsOutlook | None = None  # of the head, if it needs more than slots
    waits_s: dict[int, float] = field(default_factory=dict)  # until a job of so many has them

    @classmethod
    def of(
        cls, servers: Iterable[Server], first: int,
        slot_times: tuple[int, UniformLog, float] | None, head: NeedsOutlook | None, now_s: float,
    ) -> "QueueOutlook":  # fmt: skip
        there = [server for server in servers if server.host is not None]
        usable = [server.host.usable for server in there if server.host is not None]
        hosts = [
            (max(s.free, 0), [(one.ran_s(now_s), one.slots) for one in s.running.values()])
            for s in there
        ]
        held = [one for _, of_host in hosts for one in of_host]
        total, free = sum(max(count, 0) for count in usable), sum(count for count, _ in hosts)
        return cls(total, free, first, held, hosts, slot_times, head)

    @property
    def held_up(self) -> str:
        """Why nobody knows when the head will begin; "" if it is known."""
        if self.head is None or self.head.wait_s is not None:
            return ""
        return f"{self.head.why}; the next job waits for that"

    def has(self, slots: int) -> bool:
        """Has a host as many free?"""
        return any(free >= slots for free, _ in self.hosts)

    def missing(self, slots: int) -> Missing:
        """What must be free before a job of so many begins.

        Where all hosts together have enough, but none of them by itself: on the one that will be
        the first, of those that lack fewest.
        """
        if slots > self.free or self.has(slots):
            return max(0, slots - self.free), self.held
        able = [
            (slots - free, held)
            for free, held in self.hosts
            if free + sum(count for _, count in held) >= slots
        ]
        lack_fewest = nsmallest(ROOMS, able, key=itemgetter(0))
        return min(lack_fewest, key=self._comes_s, default=(slots, self.held))

    def _comes_s(self, missing: Missing) -> float:
        assert self.slot_times is not None
        needed, held = missing
        return wait_s(min(needed, sum(count for _, count in held)), held, self.slot_times[1])

    def head_s(self, slots: int) -> float:
        """Until the head begins, which needs so many slots."""
        needs_s = self.head.wait_s if self.head is not None else 0.0
        return max(self.wait_s(slots), needs_s or 0.0)

    def wait_s(self, slots: int) -> float:
        """Until a job has so many."""
        if slots not in self.waits_s:
            self.waits_s[slots] = self._comes_s(self.missing(slots))
        return self.waits_s[slots]


@dataclass(slots=True)
class Forecast:
    queues: Queues
    places: Places = field(init=False)
    _outlooks: dict[HostConnection, QueueOutlook] = field(default_factory=dict)
    _events: int = -1  # before those outlooks,
    _seen_s: float = 0.0  # which are of then
    _needs: NeedsOutlooks = field(default_factory=NeedsOutlooks)
    _arrivals: dict[
        tuple[int, Needs], tuple[HostConnection | None, QueueOutlook | None, QueuedJob]
    ] = field(default_factory=dict)
    _arrivals_s: float = float("-inf")
    _sizes: dict[float | None, tuple[int, UniformLog, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.places = Places(self.queues)

    def forget(self) -> None:
        """Discards what was computed; the next question computes it again."""
        self._outlooks = {}
        self.places.forget()
        self._needs.forget()

    def of(self, registered: Registered, now_s: float) -> Prediction:
        kind = registered.kind
        if registered.line is None or kind.gang or self.queues.shares.obstacle(kind):
            return Prediction(None, "")
        place = self.places.of(registered, now_s)
        if place is None:
            return Prediction(None, "")
        ahead = self.places.taken_ahead(registered.id) if place.jobs else {}
        return self._predict(registered.line, place, kind, ahead, now_s)

    def ahead_of(self, registered: Registered, now_s: float) -> tuple[int, Releases, int] | None:
        """The slots that must come back before it begins, the jobs that hold them, and how many
        jobs go before it; None where too little is known for an interval."""
        known = self.queues.slot_times.lifetimes()
        place = self.places.of(registered, now_s)
        if registered.line is None or place is None or known is None:
            return None
        kind = registered.kind
        needs = self._needs_outlook(registered.line, kind, now_s) if kind.needs else None
        if (kind.needs and place.jobs) or not self._has_intervals(needs):
            return None
        if needs is not None and not needs.is_there:
            back = releases_of(needs, self._known_of(registered.line))
            return (*back, 0) if back else None
        outlook = self._outlook(registered.line, now_s)
        first = outlook.first or kind.slots
        missing, held = outlook.missing(first)
        if place.jobs:
            missing, held = max(0, first - outlook.free) + place.slots, outlook.held
        return missing, Releases.of(held, known[0]), place.jobs

    def of_another(self, slots: int, now_s: float, needs: Needs = NO_NEEDS) -> Prediction:
        """Predicts the wait of a job of so many slots that arrives now."""
        queues = self.queues
        guess = copy.copy(queues.discipline)  # that of ours does not count it
        job = QueuedJob(JobId(""), slots, needs=needs)
        line = guess.join(job, queues.hosts, now_s, Random(0))
        if line is None or not any(one.suits(job) for one in queues.servers.get(line, ())):
            return Prediction(None, "no host that accepts jobs now " + nobody_has(job))
        return self._predict(
            line, self.places.end_of(line), job, self.places.taken_in(line, now_s), now_s
        )

    def of_arrival(
        self, slots: int, now_s: float, needs: Needs = NO_NEEDS
    ) -> tuple[float, float] | None:
        """Predicts the wait of a job that comes now, and how much longer each after it waits.

        Cheap, since every submission asks: for a moment the hosts are taken to be as they were.
        """
        queues = self.queues
        if now_s - self._arrivals_s > ARRIVALS_S:
            self._arrivals, self._arrivals_s = {}, now_s
        if (found := self._arrivals.get((slots, needs))) is None:
            guess, job = copy.copy(queues.discipline), QueuedJob(JobId(""), slots, needs=needs)
            line = guess.join(job, queues.hosts, now_s, Random(0))
            found = line, self._outlook(line, now_s) if line is not None else None, job
            if len(self._arrivals) < ARRIVALS_MAX:
                self._arrivals[slots, needs] = found
        line, outlook, job = found
        if line is None or outlook is None or not outlook.total:
            return None
        place = self.places.end_of(line)
        mean_s = outlook.slot_times[2] if outlook.slot_times is not None else None
        step_s = mean_s * slots / outlook.total if mean_s is not None else None
        if needs:
            return self._of_arrival_with_needs(line, place, job, now_s)
        servers = queues.servers.get(line, ())
        if not place.jobs and any(server.free >= slots for server in servers):
            return 0.0, step_s or 0.0
        if mean_s is None or step_s is None or (place.jobs and outlook.held_up):
            return None
        first = outlook.first if place.jobs and outlook.first else slots
        until_s = outlook.head_s(first) if place.jobs else outlook.wait_s(first)
        return until_s + place.slots * mean_s / outlook.total, step_s

    def _of_arrival_with_needs(
        self, line: HostConnection, place: Place, job: QueuedJob, now_s: float
    ) -> tuple[float, float] | None:
        needs = self._needs_outlook(line, job, now_s)
        taken = self.places.taken_in(line, now_s) if place.jobs else {}
        found = self._predict(line, place, job, taken, now_s)
        if found.wait_s is None or needs is None:
            return None
        step_s = needs.behind_s(parts_of(job.needs, job.slots), self._known_of(line))
        return found.wait_s, step_s or 0.0

    def situation(
        self, job: QueuedJob, correction: Correction, now_s: float
    ) -> tuple[Situation, str]:
        """What one that comes now could expect, to be asked elsewhere; and how that is known."""
        queues = self.queues
        guess = copy.copy(queues.discipline)
        line = guess.join(job, queues.hosts, now_s, Random(0))
        servers = [one for one in queues.servers.get(line or "", ()) if one.suits(job)]
        if line is None or not servers:
            nowhere = Situation((), 0, None, 0.0, None, 0, correction)
            return nowhere, "no host that accepts jobs now " + nobody_has(job)
        place, outlook = self.places.end_of(line), self._outlook(line, now_s)
        taken = self.places.taken_in(line, now_s) if job.needs and place.jobs else {}
        prediction = self._predict(line, place, job, taken, now_s)
        known = queues.slot_times.lifetimes()
        lifetimes = known[0] if known is not None else NOTHING_KNOWN[0]
        best = sorted(servers, key=lambda one: (not one.has_for(job), -one.free))[:ROOMS]
        rooms = [
            room_of(one, math.inf if one.has_for(job) else 0, now_s, lifetimes) for one in best
        ]
        first = outlook.first if place.jobs and outlook.first else job.slots
        slot_s = known[1] / outlook.total if known is not None and outlook.total else 0.0
        held = Releases.of(outlook.held, lifetimes) if known is not None else None
        if job.needs and place.jobs:  # others are ahead for other reasons
            held = None
        ahead = max(0, first - outlook.free) + place.slots
        base_s = prediction.wait_s
        needs = self._needs_outlook(line, job, now_s) if job.needs else None
        lacks_needs = bool(job.needs) and (needs is None or not needs.is_there)
        if not place.jobs and needs and (back := releases_of(needs, self._known_of(line))):
            ahead, held = back
        now = Situation(
            tuple(rooms), place.jobs, base_s, slot_s, held, ahead,
            Correction() if job.needs else correction,  # learnt of waits for slots
            lacks_needs, self._has_intervals(needs),
        )  # fmt: skip
        how = prediction.how
        if how == FREE and min(job.slots_most, now.most) > now.free and outlook.slot_times:
            how += f"; more than {now.free}: {made_from(outlook.slot_times)}"
        return now, how

    def _has_intervals(self, needs: NeedsOutlook | None) -> bool:
        """Have enough ended of the jobs by which it is predicted?"""
        part = needs.shortage.part if needs is not None and needs.shortage is not None else None
        if isinstance(part, str):
            return self.queues.resource_times.count(part) >= CALIBRATED
        return len(self.queues.slot_times.recent_s) >= CALIBRATED

    def _needs_outlook(
        self, line: HostConnection, job: QueuedJob, now_s: float
    ) -> NeedsOutlook | None:
        """None: too many kinds of jobs have been looked into just now."""
        servers = self.queues.servers.get(line, ())
        return self._needs.of(line, job, servers, self._known_of(line), now_s)

    def _known_of(self, line: HostConnection) -> Known:
        def known(part: Hashable) -> tuple[UniformLog, float] | None:
            if isinstance(part, str):
                return self.queues.resource_times.lifetimes(part)
            found = self._slot_times(self.queues.discipline.cutoff_s(line))
            return found[1:] if found is not None else None

        return known

    def _predict(
        self, line: HostConnection, place: Place, job: QueuedJob,
        taken: Mapping[Hashable, int], now_s: float,
    ) -> Prediction:  # fmt: skip
        """`taken`: by those ahead, of what it needs besides slots."""
        outlook = self._outlook(line, now_s)
        if not outlook.total:
            return Prediction(None, "no slot is available to the queue")
        if self.queues.plan is not None:
            return Prediction(None, "no estimate while slots are reserved for a gang")
        needs = self._needs_outlook(line, job, now_s) if job.needs else None
        if job.needs and needs is None:
            return Prediction(None, "")
        first = outlook.first if place.jobs and outlook.first else job.slots
        is_there = needs.is_there if needs is not None else outlook.has(first)
        if is_there and not place.jobs:
            return Prediction(0.0, FREE)
        if outlook.slot_times is None:
            return Prediction(None, f"no estimate until {FEWEST} jobs have ended")
        if needs is not None and needs.wait_s is None:
            return Prediction(None, needs.why)
        if place.jobs and outlook.held_up:
            return Prediction(None, outlook.held_up)
        mean_s = outlook.slot_times[2]
        until_s = outlook.wait_s(first)
        if place.jobs:
            until_s = outlook.head_s(first) + place.slots * mean_s / outlook.total
        ahead = f"; {place.jobs} ahead of it on {outlook.total} slots"
        how = made_from(outlook.slot_times) + ahead
        if needs is None or needs.wait_s is None:
            return Prediction(until_s, how)
        own = {part: taken.get(part, 0) for part in parts_of(job.needs, job.slots)}
        behind_s = needs.behind_s(own, self._known_of(line))
        if behind_s is None:
            return Prediction(None, TOO_FEW_ENDED)
        own_s = needs.wait_s + behind_s
        if own_s >= until_s or not place.jobs:
            of_needs = made_from_those_with(needs, self.queues.resource_times)
            how = (of_needs or made_from(outlook.slot_times)) + ahead
            return Prediction(own_s, f"{how}; it is waiting for what it needs")
        return Prediction(until_s, how)

    def _outlook(self, line: HostConnection, now_s: float) -> QueueOutlook:
        """Caches the outlook between two events."""
        events = self.queues.shares.events
        if self._events != events or now_s - self._seen_s > FRESH_S:
            self._events, self._seen_s, self._outlooks = events, now_s, {}
        if line not in self._outlooks:
            head = self.queues.head(line)
            needs = head.kind if head is not None and head.kind.needs else None
            self._outlooks[line] = QueueOutlook.of(
                self.queues.servers.get(line, ()),
                head.kind.slots if head is not None else 0,
                self._slot_times(self.queues.discipline.cutoff_s(line)),
                self._needs_outlook(line, needs, now_s) if needs is not None else None,
                now_s,
            )
        return self._outlooks[line]

    def _slot_times(self, cutoff_s: float | None) -> tuple[int, UniformLog, float] | None:
        """How many have ended, their distribution and mean, none longer than its cutoff."""
        ended = self.queues.slot_times
        if len(ended.recent_s) < FEWEST:
            return None
        known = self._sizes.get(cutoff_s)
        if known is None or known[0] != ended.count:
            lives_s = [min(life_s, cutoff_s or life_s) for life_s in ended.recent_s]
            known = ended.count, fit_in_two(lives_s), sum(lives_s) / len(lives_s)
            if len(self._sizes) >= CUTOFFS_KNOWN:
                self._sizes.clear()
            self._sizes[cutoff_s] = known
        return len(ended.recent_s), known[1], known[2]


def made_from(slot_times: tuple[int, UniformLog, float]) -> str:
    count, _, mean_s = slot_times
    return f"from {count} ended jobs, {mean_s:.3g} slot-seconds on average"


def made_from_those_with(needs: NeedsOutlook, ended: ResourceTimes) -> str:
    """ "" if it is not a resource that is waited for."""
    part = needs.shortage.part if needs.shortage is not None else None
    if not isinstance(part, str) or not (found := ended.lifetimes(part)):
        return ""
    return f"from {ended.count(part)} ended jobs that had {part}, {found[1]:.3g} s on average"


def nobody_has(job: QueuedJob) -> str:
    return "has what it needs" if job.needs else f"has {job.slots} slot{'s' * (job.slots > 1)}"
