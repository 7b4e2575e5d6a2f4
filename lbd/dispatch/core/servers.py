"""Where jobs run: each host's place in the registry, and the best server of a line with room.

A cluster of a thousand hosts starts each job at one of them. Ranking all of them for each job would
make its queue slow just when it is long. Pure.
"""

from bisect import bisect_left, insort
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from random import Random

from lbd.dispatch.core.discipline import HostConnection, HostSlots, QueuedJob
from lbd.dispatch.core.registry import Entry
from lbd.dispatch.core.waiting_line import Waiting
from lbd.model import NO_FACTS, NO_NEEDS, Facts, HostId, JobId, Needs
from lbd.policy.needs import Unmet, jobs_at_once, jobs_now, joined, unmet

Rank = tuple[float, ...]  # the lowest is best
SPARE_RANKS = 64  # stale ranks allowed in the heap


@dataclass(slots=True)
class Server:
    """A host's place in the registry; `host` is None while only what still runs there is known."""

    host: HostSlots | None
    own_line: Waiting  # jobs that wait for this host alone, if the discipline has such lines
    lines: tuple[HostConnection, ...] = ()
    # For shared lines: the line's servers, its place among them, and the line's index here.
    beside: tuple[tuple["LineServers", int, int], ...] = ()
    running: dict[JobId, Entry] = field(default_factory=dict)
    # of these, those whose slots are not yet free; ordered, to take the first in no time
    ahead: OrderedDict[JobId, Entry] = field(default_factory=OrderedDict)
    used: int = 0  # slots used
    started: int = 0  # slots, since its load was reported
    arrays: tuple[int, ...] = ()  # of the jobs that ended here last
    slots: int = 0  # of `host`; disciplines read it of every host with every job
    usable: int = 0  # of `slots`
    given: Counter[str] = field(default_factory=Counter)  # to running jobs, by resource
    memory_given: int = 0  # to running jobs
    _facts: Facts | None = None

    def __post_init__(self) -> None:
        self.is_of(self.host)

    def is_of(self, host: HostSlots | None) -> None:
        self.host = host
        self.slots, self.usable = (host.slots, host.usable) if host else (0, 0)
        self._facts = None

    @property
    def name(self) -> HostId | None:
        return self.host.name if self.host is not None else None

    def sits(self, entry: Entry) -> None:
        self.running[entry.job.id] = entry
        self.used += entry.slots
        self._give(entry.job.needs, 1)

    def rises(self, entry: Entry, now_s: float) -> None:
        del self.running[entry.job.id]
        self.used -= entry.slots
        self._give(entry.job.needs, -1)
        if self.ahead.pop(entry.job.id, None) is not None:
            return
        for _ in range(min(entry.slots, len(self.ahead))):
            self.ahead.popitem(last=False)[1].started_s = now_s

    def _give(self, needs: Needs, times: int) -> None:
        if not needs:
            return
        for name, amount in needs.resources:
            self.given[name] += times * amount
            if not self.given[name]:
                del self.given[name]
        self.memory_given += times * needs.memory_bytes
        self._facts = None

    def facts(self) -> Facts:
        """Returns the host's current facts."""
        if self._facts is None:
            known = self.host.facts if self.host is not None else NO_FACTS
            self._facts = joined(known, self.given, self.memory_given)
        return self._facts

    def lacks(self, job: QueuedJob) -> Unmet | None:
        """Returns what the host now lacks of the job's needs."""
        return unmet(job.needs, self.facts()) if job.needs else None

    def could_have(self, job: QueuedJob) -> bool:
        lack = self.lacks(job)
        return lack is None or lack.later

    @property
    def free(self) -> int:
        return self.usable - self.used if self.host is not None else 0

    def takes(self, job: QueuedJob) -> bool:
        """Whether it takes the job now or in a moment, as others of the same array are short
        there."""
        free = self.free
        if free >= job.slots:
            return self.has_for(job)
        ahead = self.host.ahead if self.host and job.array in self.arrays else 0
        is_small = job.slots == 1 and job.slots_most <= 1
        return free + ahead > 0 and is_small and job.may_restart and not job.needs

    @property
    def is_open(self) -> bool:
        """Whether it has room for some job now."""
        host = self.host
        return host is not None and (self.free + host.ahead > 0 or self.used < host.beside_hog)

    def takes_beside_hog(self, job: QueuedJob) -> bool:
        """Whether it takes the job although one user's commands hold all its slots: the job is
        another user's and small, and it has what the job needs."""
        host = self.host
        if host is None or self.used >= host.beside_hog or job.user in ("", host.hog):
            return False
        return job.slots == 1 and not job.gang and self.suits(job) and self.has_for(job)

    def suits(self, job: QueuedJob) -> bool:
        """Whether the job could run on this host, once others have ended."""
        return self.host is not None and job.may_go_to(self.host.name) and self.is_enough(job)

    def is_enough(self, job: QueuedJob) -> bool:
        """The same but for which hosts the job may go to: all of equal `serves` answer alike."""
        if self.host is None or self.slots < job.slots:
            return False
        if job.spooled and self.host.no_room:
            return False
        return not job.needs or self.could_have(job)

    def has_for(self, job: QueuedJob) -> bool:
        """Whether the host has the job's needs free now; the job must suit it."""
        return not job.needs or self.lacks(job) is None

    def at_once(self, job: QueuedJob, slots: int) -> int:
        """Returns how many such jobs it can hold on that many slots."""
        count = max(0, slots) // job.slots
        most = jobs_at_once(job.needs, self.facts()) if job.needs else None
        return count if most is None else min(count, most)

    def now(self, job: QueuedJob, slots: int, facts: Facts | None = None) -> int:
        """Returns how many such jobs, which must suit it, can start now on that many slots; with
        `facts`, at that point."""
        count = max(0, slots) // job.slots
        if not job.needs:
            return count
        most = jobs_now(job.needs, self.facts() if facts is None else facts)
        return count if most is None else min(count, most)

    def facts_when(self, ended: Iterable[Needs], begun: Needs = NO_NEEDS, times: int = 0) -> Facts:
        """Returns the facts once jobs with these needs have ended here, and `times` jobs with needs
        `begun` have begun."""
        known = self.host.facts if self.host is not None else NO_FACTS
        given, memory_given = Counter(self.given), self.memory_given
        for needs, sign in (*((one, -1) for one in ended), (begun, times)):
            for name, amount in needs.resources:
                given[name] += sign * amount
            memory_given += sign * needs.memory_bytes
        return joined(known, given, memory_given)

    def facts_at_ends(self, ended: Iterable[Needs], needs: Needs) -> Iterator[Facts]:
        """Yields the facts once the first of these jobs has ended here, once the first two have,
        and so on; of its resources only what such `needs` ask for, as there may be many of each."""
        known, names = self.host.facts if self.host is not None else NO_FACTS, dict(needs.resources)
        known = replace(known, resources=tuple(r for r in known.resources if r[0] in names))
        given, memory_given = {name: self.given[name] for name in names}, self.memory_given
        facts = joined(known, given, memory_given)
        for one in ended:
            back = [(name, amount) for name, amount in one.resources if name in names]
            for name, amount in back:
                given[name] -= amount
            memory_given -= one.memory_bytes
            if back or one.memory_bytes:
                facts = joined(known, given, memory_given)
            yield facts

    @property
    def load(self) -> float:
        return self.host.load + self.started / self.host.slots if self.host else 0.0

    @property
    def jobs(self) -> int:
        return self.own_line.jobs + len(self.running)

    def work_left_s(self, now_s: float) -> float:
        left_s = self.own_line.work_s
        for entry in self.running.values():
            left_s += max(0.0, entry.work_s - entry.ran_s(now_s) * entry.slots)
        return left_s / max(1, self.slots)


class OpenServers:
    """Servers by their places among all that serve the line, the best rank first."""

    def __init__(self) -> None:
        self._rank_of: dict[int, Rank] = {}
        self._places: dict[Rank, list[int]] = {}  # ascending
        self._heap: list[Rank] = []  # all current ranks, and some stale ones

    def __len__(self) -> int:
        """The number of ranks that are stored."""
        return len(self._heap)

    def put(self, place: int, rank: Rank | None) -> None:
        """Sets a server's rank; None means that it has no free slot."""
        before = self._rank_of.get(place)
        if before == rank:
            return
        if before is not None:
            del self._rank_of[place]
            places = self._places[before]
            del places[bisect_left(places, place)]
            if not places:
                del self._places[before]
        if rank is not None:
            self._rank_of[place] = rank
            if (equals := self._places.get(rank)) is not None:
                insort(equals, place)
            else:
                self._places[rank] = [place]
                self._add(rank)

    def best(self) -> list[int]:
        """Returns the positions of all servers of the best rank, ascending."""
        heap = self._heap
        while heap and heap[0] not in self._places:
            heappop(heap)
        return self._places[heap[0]] if heap else []

    def ranks(self) -> list[tuple[Rank, list[int]]]:
        """Returns all ranks, the best first, with the positions of their servers."""
        return sorted(self._places.items())

    def _add(self, rank: Rank) -> None:
        if len(self._heap) > 2 * len(self._places) + SPARE_RANKS:
            self._heap = list(self._places)
            heapify(self._heap)
        else:
            heappush(self._heap, rank)


class LineServers:
    """The servers of a shared line, indexed by what is free there.

    There are two indexes: for jobs of one slot, the best of those that have any; for wider jobs,
    those that have most, ranked only on demand. Between two queries what is free rarely changes for
    more than one or two servers.
    """

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers
        self._open = OpenServers()
        self._by_room = OpenServers()
        self._changed: dict[int, int] = {}  # since the last query: places, and `which` of each

    def rank(self, place: int, which: int) -> None:
        """Ranks a server again; this line is number `which` of those that it serves."""
        server = self._servers[place]
        self._open.put(place, (which, server.load) if server.free > 0 else None)
        self._changed[place] = which

    def _ranked_by_room(self) -> OpenServers:
        for place, which in self._changed.items():
            server = self._servers[place]
            free = server.free
            self._by_room.put(place, (-free, which, server.load) if free > 0 else None)
        self._changed.clear()
        return self._by_room

    @property
    def most_free(self) -> int:
        """The most free slots of any server."""
        best = self._ranked_by_room().best()
        return self._servers[best[0]].free if best else 0

    def best(self, rng: Random) -> Server | None:
        """Returns a server with a free slot, of the lowest load, at random among equals."""
        places = self._open.best()
        if not places:
            return None
        return self._servers[places[0] if len(places) == 1 else rng.choice(places)]

    def with_room(self, slots: int) -> list[Server]:
        """Returns all servers with at least that many free slots, in the order of their places.
        `slots` is at least 1."""
        found: list[int] = []
        for rank, places in self._ranked_by_room().ranks():
            if -rank[0] < slots:
                break
            found += places
        return [self._servers[place] for place in sorted(found)]

    def by_room(self, rng: Random) -> Iterator[Server]:
        """Yields all servers: most free slots first, then lowest load, equals at random."""
        by_room = self._ranked_by_room()
        for place in at_random(by_room.best(), rng):
            yield self._servers[place]
        for _, places in by_room.ranks()[1:]:
            for place in at_random(places, rng):
                yield self._servers[place]
        for server in self._servers:
            if server.free <= 0:
                yield server


def at_random(places: Sequence[int], rng: Random) -> Iterator[int]:
    left = list(places)
    while len(left) > 1:
        at = rng.randrange(len(left))
        left[at], left[-1] = left[-1], left[at]
        yield left.pop()
    yield from left


def room(servers: Iterable[Server], job: QueuedJob) -> int:
    """Returns how many such jobs all their slots together hold, in use or not."""
    count = 0
    for server in servers:
        if server.host is None:  # not heard of yet, or gone, but its jobs run on
            count += server.used // job.slots
        elif server.suits(job):
            count += server.at_once(job, server.host.usable)
    return count


def is_plain(job: QueuedJob) -> bool:
    """Whether any host with a free slot would do."""
    is_one = job.slots == 1 and job.slots_most <= 1
    return is_one and not (job.array or job.only or job.barred or job.needs)
