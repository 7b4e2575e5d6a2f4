"""Room for a gang: jobs of an array that start together or not at all. Pure.

Its tasks wait as one: once all have arrived, the first stands in the line for all of them. When
their turn comes and there is no room for all, the gang leaves the line and drains hosts:

- The slots that will be free first, as many as it needs, are kept for it. Other jobs may have the
  rest, and those kept slots that they release in time: before the gang can start, and before its
  drain ends. The longest a job can take is known from its time limit or from similar jobs: the
  shorter time counts, until a run exceeds it.
- **No deadlock**: nothing is taken bit by bit. All tasks start by one decision, and slots are kept
  for one gang at a time, the one whose turn came first. Gangs behind it start if they fit beside
  it.
- **No starvation.** A drain lasts for `drain_s`, then others pass for as long; the next drain lasts
  twice as long, and so does the passing after it. So eventually a drain outlasts the longest job,
  and slots are kept for at most half of the time, even for a gang that never starts.
- A drain belongs to its user: if they give up a gang and submit another, it continues there. Once
  a gang begins, others pass for as long as slots were kept before its user's next drain.
- A higher priority passes, where priorities count.
- What its tasks need besides slots (`--need`, memory) is counted with the slots: a host counts for
  as many tasks as it has both for, and both are kept there.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from itertools import repeat
from operator import itemgetter
from typing import NamedTuple

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.gangs.drains import DRAIN_S, Drain, Drains
from lbd.dispatch.core.registry import Entry
from lbd.dispatch.core.run_times import RunTimes
from lbd.dispatch.core.servers import Server
from lbd.dispatch.core.shares import Shares
from lbd.model import Facts, HostId, JobId
from lbd.policy.needs import jobs_now

# Gangs considered at every change of a slot: limited, so that no user's thousands slow that down.
PARKED_OF_USER, PARKED_OF_HOST = 4, 64
LAST_RUNS, FEWEST_RUNS = 10, 3
MARGIN = 1.5  # a job takes at most that times the longest of similar runs


@dataclass(slots=True)
class Parked:
    """A gang whose turn has come, and for which there is no room yet."""

    leader: Entry
    turn: int  # order in which turns came
    drain: Drain | None = None

    @property
    def array(self) -> int:
        return self.leader.job.array

    @property
    def owners(self) -> tuple[tuple[str, str], ...]:
        return ("user", self.leader.job.user), ("host", self.leader.job.origin)


@dataclass(frozen=True, slots=True)
class Plan:
    """Which slots are kept for the gang whose turn it is."""

    priority: int
    ends_s: float  # others may use them until then
    kept: Mapping[HostId, int]
    left: Mapping[HostId, int]  # free slots of each host then, besides the kept ones
    left_facts: Mapping[HostId, Facts]  # likewise, if it needs more than slots


class HostRoom(NamedTuple):
    """One host's room for the tasks of one gang."""

    ends: list[tuple[float, Entry]]  # jobs with their latest ends
    # When there is room for one task, for two, and so on, with the host's place; -inf: now; inf:
    # unknown.
    places: list[tuple[float, int]]
    expires_s: float


@dataclass(slots=True)
class GangRoom:
    shares: Shares
    drain_s: float = DRAIN_S
    run_times: RunTimes = field(default_factory=RunTimes)
    tasks: dict[int, dict[JobId, Entry]] = field(default_factory=dict)  # that wait, by gang
    parked: list[Parked] = field(default_factory=list)  # in order
    # further gangs of the same users, in order
    _behind: dict[int, Parked] = field(default_factory=dict)
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)  # of parked gangs, by owner
    _turns: int = 0
    _drains: Drains = field(default_factory=Drains)
    _plan: Plan | None = None
    _changes: int = 0
    _planned_for: int = 0
    _planned: tuple[int, int] = (-1, -1)  # numbers of events and changes then
    _rooms: dict[HostId, HostRoom] = field(default_factory=dict)  # for the tasks of the front gang

    def longest_s(self, job: QueuedJob) -> float:
        """Returns how long the job can take; infinite if unknown."""
        runs_s = self.run_times.of(job, FEWEST_RUNS)[-LAST_RUNS:]
        learnt_s = MARGIN * max(runs_s) if runs_s else math.inf
        return min(learnt_s, job.limit_s or math.inf)

    def ends_s(self, entry: Entry, now_s: float) -> float:
        """Returns when a running job has ended at the latest: by its limit, if it has run longer
        than similar jobs did."""
        ends_s = entry.started_s + self.longest_s(entry.job)
        return ends_s if ends_s > now_s else entry.started_s + (entry.job.limit_s or math.inf)

    # Waiting gangs

    def came(self, entry: Entry) -> Entry | None:
        """Returns the gang's leader, which stands in the line for it, once all of it waits."""
        job = entry.job
        tasks = self.tasks.setdefault(job.array, {})
        tasks[job.id] = entry
        return self.leader(job)

    def leader(self, job: QueuedJob) -> Entry | None:
        """Returns None until all of the gang wait."""
        tasks = self.tasks.get(job.array, {})
        if not tasks or len(tasks) < job.gang:
            return None
        return min(tasks.values(), key=lambda one: one.number)

    def left(self, entry: Entry) -> None:
        """The task no longer waits: it is held or has ended."""
        array = entry.job.array
        self.unpark(array)
        if (tasks := self.tasks.get(array)) is not None:
            tasks.pop(entry.id, None)
            if not tasks:
                del self.tasks[array]

    def park(self, leader: Entry) -> bool:
        """Its turn has come. Returns whether it may start now, as far as its user's other gangs
        allow."""
        self._turns += 1
        one = Parked(leader, self._turns)
        if not self._has_place(one):
            self._behind[one.array] = one
            return False
        self._add(one)
        return True

    def begins(self, array: int, now_s: float) -> None:
        if (one := self.find(array)) is not None and one.drain is not None:
            one.drain.gang_begins(now_s, self.drain_s)
        self.unpark(array)

    def unpark(self, array: int) -> None:
        """It no longer waits."""
        if self._behind.pop(array, None) is not None or (one := self.find(array)) is None:
            return
        self.parked.remove(one)
        self._counts.subtract(one.owners)
        self._counts += Counter()  # drops zero counts
        following = next((other for other in self._behind.values() if self._has_place(other)), None)
        if following is not None:
            del self._behind[following.array]
            self._add(following)
        self.changed()

    def _has_place(self, one: Parked) -> bool:
        user, host = one.owners
        return self._counts[user] < PARKED_OF_USER and self._counts[host] < PARKED_OF_HOST

    def _add(self, one: Parked) -> None:
        self.parked.append(one)
        self.parked.sort(key=lambda other: other.turn)
        self._counts.update(one.owners)
        self.changed()

    def is_behind(self, array: int) -> bool:
        """Whether other gangs of its user go first."""
        return array in self._behind

    def leaders(self) -> list[Entry]:
        """Returns the leaders of all gangs whose turn has come."""
        return [one.leader for one in (*self.parked, *self._behind.values())]

    def find(self, array: int) -> Parked | None:
        return next((one for one in self.parked if one.array == array), None)

    # Kept slots

    def changed(self, host: HostId | None = None) -> None:
        """Slots of that host were taken or released, or hosts or gangs have changed."""
        self._changes += 1
        if host is None:
            self._rooms.clear()
        else:
            self._rooms.pop(host, None)

    def passed(self, now_s: float) -> bool:
        """Returns whether slots are now kept that were not, or no longer."""
        drains = [one.drain for one in self.parked if one.drain is not None]
        return bool([drain for drain in drains if drain.pass_to(now_s)])

    def plan(self, servers: Sequence[Server], now_s: float) -> Plan | None:
        """Returns the current plan; None if nothing is kept."""
        if not self.parked:
            return None
        planned = self.shares.events, self._changes
        if self._planned != planned:
            self._planned, self._plan = planned, self._make_plan(servers, now_s)
        return self._plan

    def _make_plan(self, servers: Sequence[Server], now_s: float) -> Plan | None:
        front = self.front
        if front is None or not self.drain_s:
            return None
        if front.drain is None:
            front.drain = self._drains.of(front.leader.job.user, now_s, self.drain_s)
        self._drains.turn_to(front.drain, now_s)
        if not front.drain.keeps:
            return None
        if self._planned_for != front.array:
            self._planned_for = front.array
            self._rooms.clear()
        job, until_s = front.leader.job, front.drain.until_s
        places: list[tuple[float, int]] = []
        for order, server in enumerate(servers):
            assert server.host is not None
            room = self._rooms.get(server.host.name)
            if room is None or room.expires_s <= now_s:
                room = self._rooms[server.host.name] = self._room(server, order, job, now_s)
            places += room.places
        chosen = sorted(places)[: job.gang]
        ready_s = max(now_s, chosen[-1][0]) if len(chosen) == job.gang else math.inf
        ends_s = min(ready_s, until_s)
        kept: dict[HostId, int] = {}
        left: dict[HostId, int] = {}
        left_facts: dict[HostId, Facts] = {}
        for order, count in Counter(order for _, order in chosen).items():
            server = servers[order]
            assert server.host is not None
            kept[server.host.name] = count * job.slots
            ends = self._rooms[server.host.name].ends
            ended = [entry for at_s, entry in ends if at_s <= ends_s]
            back = sum(entry.slots for entry in ended)
            left[server.host.name] = server.free + back - count * job.slots
            if job.needs:
                needs = [entry.job.needs for entry in ended]
                left_facts[server.host.name] = server.facts_when(needs, job.needs, count)
        return Plan(job.priority, ends_s, kept, left, left_facts)

    def _room(self, server: Server, order: int, job: QueuedJob, now_s: float) -> HostRoom:
        if not server.suits(job):
            return HostRoom([], [], math.inf)
        bounds = ((self.ends_s(entry, now_s), entry) for entry in server.running.values())
        ends = sorted(
            ((at_s, entry) for at_s, entry in bounds if now_s < at_s < math.inf), key=itemgetter(0)
        )
        free = server.free
        # A host may claim any room, but the gang needs no more of it than for all of its tasks.
        places = [(-math.inf, order)] * min(job.gang, server.now(job, free))
        then: Iterator[Facts | None] = repeat(None)
        if job.needs:
            then = server.facts_at_ends((entry.job.needs for _, entry in ends), job.needs)
        for (at_s, entry), facts in zip(ends, then, strict=False):
            free += entry.slots
            if len(places) >= job.gang:
                break
            now = min(job.gang, server.now(job, free, facts))
            places += [(at_s, order)] * (now - len(places))
        most = min(job.gang, server.at_once(job, server.free + server.used))
        places += [(math.inf, order)] * (most - len(places))
        return HostRoom(ends, places, ends[0][0] if ends else math.inf)

    def room(self, plan: Plan, server: Server, job: QueuedJob, now_s: float) -> int:
        """Returns how many slots of this host the job may get."""
        name = server.host.name if server.host is not None else HostId("")
        if name not in plan.kept or self.passes(plan, job, now_s):
            return server.free
        slots = min(server.free, plan.left[name])
        if not job.needs or name not in plan.left_facts:
            return slots
        most = jobs_now(job.needs, plan.left_facts[name])
        return slots if most is None else min(slots, most * max(job.slots, job.slots_most))

    def is_short(self, plan: Plan, job: QueuedJob, now_s: float) -> bool:
        """Whether it will have ended before the gang can start."""
        return now_s + self.longest_s(job) <= plan.ends_s

    def passes(self, plan: Plan, job: QueuedJob, now_s: float) -> bool:
        """Whether it may have what is kept."""
        if self.shares.rules.priorities and job.priority > plan.priority:
            return True
        return self.is_short(plan, job, now_s)

    # Starting

    def obstacle(self, job: QueuedJob) -> str:
        return self.shares.obstacle(job, job.gang)

    @property
    def front(self) -> Parked | None:
        """The gang that slots are kept for, now or later again; gangs at a limit are skipped."""
        return next((one for one in self.parked if not self.obstacle(one.leader.job)), None)

    def servers_for(
        self, parked: Parked, servers: Sequence[Server], now_s: float
    ) -> Mapping[JobId, Server] | None:
        """Returns where each of its tasks starts, if all can now."""
        job = parked.leader.job
        count = sum(max(0, one.free) // job.slots for one in servers)
        if count < job.gang or self.obstacle(job):
            return None
        # What is kept for the front one is its own.
        plan = self.plan(servers, now_s) if parked is not self.front else None
        suitable = (server for server in servers if server.suits(job))
        free = [
            (
                server,
                server.now(
                    job, server.free if plan is None else self.room(plan, server, job, now_s)
                ),
            )
            for server in suitable
        ]
        return assigned(list(self.tasks[parked.array].values()), free)


def assigned(
    tasks: Sequence[Entry], free: Sequence[tuple[Server, int]]
) -> Mapping[JobId, Server] | None:
    """Assigns the tasks to these servers, each with its room for tasks: one to each, lowest load
    first, then a second one. None if there is no room for all. A host may claim any room, so its
    places are counted, not written down."""
    counts = [min(count, len(tasks)) for _, count in free]
    if sum(counts) < len(tasks):
        return None
    tasks = sorted(tasks, key=lambda one: (one.job.array_index or 0, one.number))
    # By kind of task, the hosts that can start it: not all can, where tasks differ.
    kinds = {(one.job.only, one.job.barred): one.job for one in tasks}
    able = {
        kind: [
            n for n, (server, _) in enumerate(free)
            if counts[n] and (len(kinds) == 1 or server.suits(job))
        ]
        for kind, job in kinds.items()
    }  # fmt: skip
    choice = {kind: sum(counts[n] for n in hosts) for kind, hosts in able.items()}
    turns = [0] * len(free)  # tasks that each has got
    ahead = {kind: [(0, free[n][0].load, n) for n in hosts] for kind, hosts in able.items()}
    for heap in ahead.values():
        heapify(heap)
    found: dict[JobId, Server] = {}
    # The task with the least choice goes first.
    for one in sorted(tasks, key=lambda one: choice[one.job.only, one.job.barred]):
        heap = ahead[one.job.only, one.job.barred]
        while heap and heap[0][0] < turns[n := heap[0][2]]:  # others have got that turn
            if turns[n] < counts[n]:
                heapreplace(heap, (turns[n], free[n][0].load, n))
            else:
                heappop(heap)
        if not heap:
            return None
        n = heap[0][2]
        turns[n] += 1
        found[one.id] = free[n][0]
    return found
