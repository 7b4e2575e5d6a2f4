"""The lines of waiting jobs and the hosts that serve them, driven by any discipline.

Events go in, `Start`s come out; the daemon and the simulator drive this same code. Its rules:

- Order in a line is strict: no job passes the head, even where the head needs several slots and a
  job behind it only one. (`waiting_line.py` decides which job is the head.) A job too large for
  every host that serves its line, or that may go to none of them, steps aside until hosts change.
  Where very many jobs move as hosts change, they do so in several turns (`_look_on`).
- A host that serves several lines keeps its slots for the head of the earlier one, if that fits it.
- A job without an estimate counts as the mean of the jobs that came with one.
- A lost attempt's job returns to its old place; a job that was cut off joins the end of the next
  tier.
- A job with needs besides slots waits like one that needs several slots: at the head of its line,
  until a host that can have what it needs has it free.
- Where several hosts could start a job, the one with the lowest load does, at random among equals;
  jobs started since that load was reported count as well.
- Where `dispatch.backfill` is on, a job behind a waiting head may start if that does not delay the
  head (`backfill/reservation.py`).
- A gang starts when all its tasks can, at once; `gang_room.py` says how slots are kept for it.
- A host that allows it may be given short jobs ahead of its free slots, if no other has a free one.
- Where commands of one user hold all slots of a host, it has a few more for the queue's jobs of
  other users, of one slot each (`_beside_hog`).
- A drained or lost host (`host_gone`) gets nothing more, and jobs that waited for it alone join
  another line. What runs there stays in the registry until `ended`, `lost` or `cut_off` reports its
  fate: so a job is never started while an attempt of it may be alive.
- A head that can use several slots may wait for more (`malleable/heads.py`): it stays the head, and
  the slots it waits for are kept for it as for a job that needs as many.

One file because these rules hold between all of its tables.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice, takewhile
from operator import attrgetter
from random import Random

from lbd.dispatch.core.backfill.reservation import Backfill
from lbd.dispatch.core.discipline import (
    ONLY_LINE,
    Discipline,
    HostConnection,
    HostSlots,
    QueuedJob,
    Start,
)
from lbd.dispatch.core.disciplines.fcfs import Fcfs
from lbd.dispatch.core.gangs.gang_room import GangRoom, Plan
from lbd.dispatch.core.malleable.decision import Rule
from lbd.dispatch.core.malleable.heads import FREE, NOT_NOW, ROOMS, MalleableHeads
from lbd.dispatch.core.malleable.slot_times import ResourceTimes, SlotTimes
from lbd.dispatch.core.registry import Alike, Entry, Registered, Registry, Shapes
from lbd.dispatch.core.run_times import RunTimes, kind_of
from lbd.dispatch.core.servers import LineServers, Server, is_plain, room
from lbd.dispatch.core.shares import Flow, Rules, Shares
from lbd.dispatch.core.targets.arrays import Targets
from lbd.dispatch.core.waiting_line import Waiting
from lbd.model import Facts, HostId, JobId
from lbd.policy.needs import offer

LOOKED_AT = 100  # jobs of a line that are checked for passing while slots are kept for a gang
STARTS_MAX = 1000  # jobs that may start in one turn, 25 ms; a gang starts as a whole
# At users, and at what is passed over, for all that starts in one turn. They take 0.1 to 0.2 s.
LOOKS_MAX = 50_000
# As hosts change, it is asked so often in one turn whether a host suits a job, which takes 40 ms;
# to begin with the jobs of one shape and to move a job count as so many. The rest is for later
# turns.
CHECKS_MAX, SHAPE_CHECKS, MOVE_CHECKS = 20_000, 16, 2
LOOKS_AT_ONCE = 4
NAMES_A_CHECK = 8  # to ask whether a job may go to so many hosts takes as long
MOVED_AT_ONCE = 500  # jobs of one shape
ARRAYS_KNOWN = 4  # arrays that take turns on a host


class Queues:
    """The waiting jobs and the hosts that serve them; every change returns what to start now.

    One class because a job's coming and going and a host's heartbeat change the same few tables,
    and what may start depends on all of them.
    """

    def __init__(
        self,
        discipline: Discipline,
        rules: Rules | None = None,
        *,
        keeps_backlog: bool = True,
        malleable: Rule = FREE,
    ) -> None:
        """`keeps_backlog=False` makes the same decisions, faster, in ten times the memory."""
        self.discipline = discipline
        self._keeps_backlog = keeps_backlog
        self.servers_by_host: dict[HostId, Server] = {}
        there = partial(room, self.servers_by_host.values())
        self.targets = Targets(there, is_held=isinstance(discipline, Fcfs))
        self.shares = Shares(rules or Rules(), self.targets)
        self.slot_times, self.resource_times = SlotTimes(), ResourceTimes()
        self.heads = MalleableHeads(self.slot_times, malleable)
        self.registry = Registry()
        self.run_times = RunTimes()
        self.gangs = GangRoom(self.shares, run_times=self.run_times)
        given = self.shares.rules
        self.backfill = Backfill(given.backfill, given.backfill_risk, self.run_times)
        self.aside: dict[JobId, Entry] = {}
        self.shapes_aside = Shapes(self.registry.backlog, self._is_aside)
        self.hosts: dict[HostId, Server] = {}  # servers whose hosts take jobs
        self._roomy = self.hosts  # those with room for what jobs print
        self.lines: dict[HostConnection, Waiting] = {}
        self.servers: dict[HostConnection, list[Server]] = {}
        self.hogged: dict[HostId, Server] = {}  # where one user's commands hold all slots
        # Lines with no job for these hosts, until that may have changed; whose jobs were passed.
        self._none_beside_hog: dict[HostConnection, set[str]] = {}
        self._open: dict[HostConnection, LineServers] = {}  # for lines with several servers
        # What determines which jobs each host could ever take from which lines.
        self._offers: dict[HostId, tuple[object, ...]] = {}
        # Hosts that do so no more, and hosts that do now, since the jobs were last looked at.
        self._lost: set[HostId] = set()
        self._come: set[HostId] = set()
        self._all_move = False
        self._looks: deque[Iterator[list[Registered]]] = deque()  # under way, in turn
        self._checks = 0  # whether a host suits a job, and what takes as long
        self._equals: dict[HostConnection, list[list[Server]]] = {}  # of a line, by what they offer
        self._numbers = 0
        self._wide_waiting = 0  # jobs in lines that need more than one slot
        self._kept_for_wide = False  # slots may be kept for a wide job, or were until just now
        self._are_shared = False  # some host serves several lines
        self.is_cut_short = False  # more might start, in later turns
        self.begins_none = False  # nothing starts now, whatever is free
        self._asks_all = False  # consider all lines, as hosts differ in which comes first
        self._estimates = 0
        self._estimated_s = 0.0  # their sum

    # Jobs

    def arrived(self, job: QueuedJob, now_s: float, rng: Random) -> list[Start]:
        """A new job joins the queue."""
        return self._join((self._register(job, may_be_row=not job.gang),), now_s, rng)

    def returned(self, job: QueuedJob, now_s: float, rng: Random) -> list[Start]:
        """A job that was held, or had ended, joins the queue again."""
        return self._join((self._register(job),), now_s, rng)

    def all_arrived(self, jobs: Iterable[QueuedJob], now_s: float, rng: Random) -> list[Start]:
        """New jobs join the queue, all of them before any may start: a look for what may start can
        take milliseconds."""
        return self._join(
            (self._register(job, may_be_row=not job.gang) for job in jobs), now_s, rng
        )

    def all_returned(self, jobs: Iterable[QueuedJob], now_s: float, rng: Random) -> list[Start]:
        """The same for jobs that were held, or had ended."""
        return self._join(map(self._register, jobs), now_s, rng)

    def _join(self, jobs: Iterable[Registered], now_s: float, rng: Random) -> list[Start]:
        self.shares.at(now_s)
        joined = dict.fromkeys(self._put(one, now_s, rng) for one in jobs)
        return self._fill([line for line in joined if line is not None], now_s, rng)

    def found_running(self, job: QueuedJob, host: HostId, now_s: float, slots: int = 1) -> None:
        """A new dispatcher learns of an attempt of the previous one, begun by `now_s`."""
        self.shares.at(now_s)
        entry = self.registry.entry(self._register(job))
        entry.started_s = now_s
        self._sit(entry, self._server(host), host, slots)
        self.targets.found_running(job)

    def ran_before(self, job: JobId, age_s: float) -> None:
        """A job that was found running had already run for that long."""
        entry = self.registry.entries.get(job)
        if entry is not None and entry.host is not None and age_s > 0:
            entry.started_s -= age_s
            self.targets.ran_before(entry.job, age_s)

    def ended(self, job: JobId, now_s: float, rng: Random, *, whole: bool = True) -> list[Start]:
        """The job ran to its end (`whole`), or was cancelled or held: it leaves the queues."""
        self.shares.at(now_s)
        registered = self.registry.find(job)
        return self._left(registered, now_s, rng, whole) if registered else []

    def changed(self, job: QueuedJob, now_s: float, rng: Random) -> list[Start]:
        """A waiting job gets new values for what its user may change; it keeps its place."""
        self.shares.at(now_s)
        registered = self.registry.find(job.id)
        if registered is None or registered.host is not None:
            return []
        line, number, work_s = registered.line, registered.number, registered.work_s
        if line is not None:
            self._unput(registered)
        else:
            self._leaves_aside(registered)
        self.registry.remove(registered)
        joined = self._put(self.registry.add(job, number, work_s), now_s, rng)
        return self._fill({one for one in (line, joined) if one is not None}, now_s, rng)

    def cut_off(self, job: JobId, now_s: float, rng: Random) -> list[Start]:
        """The job was killed at its cutoff: it starts from scratch, at the end of the next tier."""
        self.shares.at(now_s)
        entry = self.registry.entries.get(job)
        if entry is None or entry.host is None:
            return []
        entry.job = entry.job._replace(tier=entry.tier + 1)
        return self._again(entry, self._number(), now_s, rng)

    def lost(self, job: JobId, now_s: float, rng: Random) -> list[Start]:
        """Its attempt is certainly over but the job has not ended: it returns to its place."""
        self.shares.at(now_s)
        entry = self.registry.entries.get(job)
        if entry is None or entry.host is None:
            return []
        return self._again(entry, entry.number, now_s, rng)

    def asked_again(self, now_s: float, rng: Random) -> list[Start]:
        """Reconsiders the heads that hold out for more slots, and whose time is up."""
        due = self.heads.due(now_s)
        if not due:
            return []
        self.shares.at(now_s)
        return self._fill(due, now_s, rng)

    def tick(self, now_s: float, rng: Random) -> list[Start]:
        """Time alone can change whether slots are kept for a gang. Also starts, and moves, what had
        to be left for a later turn."""
        if self.is_cut_short or self.is_moving:
            self.is_cut_short, self._kept_for_wide = False, True
            self.shares.at(now_s)
            self._look_on(now_s, rng)
            return self._fill(self.servers, now_s, rng)
        if not self.gangs.parked:
            return []
        self.shares.at(now_s)
        self._none_beside_hog.clear()
        return self._fill(self.servers, now_s, rng) if self.gangs.passed(now_s) else []

    def is_suspended(self, job: JobId, suspended: bool, now_s: float) -> None:
        """Suspended time is not run time: nothing that is learnt or predicted counts it."""
        entry = self.registry.entries.get(job)
        if entry is None or entry.host is None or suspended == (entry.suspended_s is not None):
            return
        if suspended:
            entry.suspended_s = now_s
        else:
            self.targets.was_suspended(entry.job, entry.goes_on(now_s), now_s)

    def bar(self, job: JobId, barred: frozenset[HostId]) -> None:
        """Sets the hosts from which the job is barred, since it cannot start on one more of them;
        `lost` follows."""
        if (entry := self.registry.entries.get(job)) is not None:
            entry.job = entry.job._replace(barred=barred)

    def unbar(
        self, job: JobId, barred: frozenset[HostId], now_s: float, rng: Random
    ) -> list[Start]:
        """Lets the job go to all hosts except these."""
        if (entry := self.registry.entries.get(job)) is None:
            return []
        freed = entry.job._replace(barred=barred)
        if entry.host is None:
            return self.changed(freed, now_s, rng)
        entry.job = freed
        return []

    def unbar_gang(
        self, barred: Mapping[JobId, frozenset[HostId]], now_s: float, rng: Random
    ) -> list[Start]:
        """The same for all jobs of a gang that have not ended."""
        entries = [one for job in barred if (one := self.registry.entries.get(job)) is not None]
        leader = self.gangs.leader(entries[0].job) if entries else None
        if leader is not None:
            if leader.line is not None:
                self._unput(leader)
            else:
                self._leaves_aside(leader)
            self.gangs.unpark(leader.job.array)
        for entry in entries:
            entry.job = entry.job._replace(barred=barred[entry.id])
        if leader is None:
            return []
        self.shares.at(now_s)
        self._put(leader, now_s, rng)
        return self._fill(self.servers, now_s, rng)

    # Hosts

    def host_is(self, host: HostSlots, now_s: float, rng: Random) -> list[Start]:
        """A host joined, is back, or has changed."""
        self.shares.at(now_s)
        server, is_other = self._host_is(host)
        if is_other:
            return self._hosts_changed(now_s, rng)
        self._rank(server)
        return self._fill(server.lines, now_s, rng) if server.is_open else []

    def hosts_are(self, hosts: Iterable[HostSlots], now_s: float, rng: Random) -> list[Start]:
        """Adds several hosts at once, so that service is recomputed only once."""
        self.shares.at(now_s)
        for host in hosts:
            self._host_is(host)
        return self._hosts_changed(now_s, rng)

    def host_gone(self, name: HostId, now_s: float, rng: Random) -> list[Start]:
        """A drained, lost or departed host gets nothing new."""
        self.shares.at(now_s)
        server = self.hosts.pop(name, None)
        if server is None:
            return []
        self._is_hogged(name, None)
        server.is_of(None)
        if not server.running:
            del self.servers_by_host[name]
        return self._hosts_changed(now_s, rng)

    def rules_changed(
        self, tiers: Callable[[HostId], tuple[int, ...]], now_s: float, rng: Random
    ) -> list[Start]:
        """The discipline's cutoffs have changed, and so which hosts serve which lines. Running jobs
        keep theirs. All waiting jobs join again, as a tier without a cutoff may have one now, and
        not all jobs may be cut off."""
        self.shares.at(now_s)
        for name, server in self.hosts.items():
            assert server.host is not None
            server.is_of(replace(server.host, tiers=tiers(name)))
        self._all_move = True
        return self._hosts_changed(now_s, rng)

    # Internals

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _register(self, job: QueuedJob, *, may_be_row: bool = False) -> Registered:
        if self.registry.find(job.id):
            raise ValueError(f"job {job.id} is in the registry already")
        self.targets.came(job)
        if job.estimate_s is not None:
            self._estimates += 1
            self._estimated_s += job.estimate_s
            work_s = job.estimate_s
        else:
            work_s = self._estimated_s / self._estimates if self._estimates else 0.0
        number, work_s = self._number(), work_s * job.slots
        if may_be_row and self._keeps_backlog and self.registry.backlog.takes(job):
            return self.registry.backlog.add(job, number, work_s)
        return self.registry.add(job, number, work_s)

    def _server(self, name: HostId) -> Server:
        if name not in self.servers_by_host:
            self.servers_by_host[name] = Server(None, self._line(name))
        return self.servers_by_host[name]

    def _host_is(self, host: HostSlots) -> tuple[Server, bool]:
        """Also returns whether the host may serve other queues than before."""
        server = self._server(host.name)
        self.gangs.changed(host.name)
        before, server.started = server.host, 0
        server.is_of(host)
        if before is None or before.usable != host.usable:
            self.heads.slots_changed()
        self.hosts.setdefault(host.name, server)
        self._is_hogged(host.name, server if host.beside_hog else None)
        return server, before is None or serves(before) != serves(host)

    def _is_hogged(self, name: HostId, server: Server | None) -> None:
        if server is not None:
            self.hogged[name] = server
        elif self.hogged.pop(name, None) is None:
            return
        self._none_beside_hog.clear()

    def _line(self, line: HostConnection) -> Waiting:
        if line not in self.lines:
            self.lines[line] = Waiting(line, self.shares, self.registry.backlog)
        return self.lines[line]

    def _put(self, registered: Registered, now_s: float, rng: Random) -> HostConnection | None:
        if registered.kind.gang:
            leader = self.gangs.came(self.registry.entry(registered))
            if leader is None or not isinstance(self.discipline, Fcfs):
                return None
            registered = leader
            leader.begun = True  # its place is its own
        kind = registered.kind
        hosts = self._roomy if kind.spooled else self.hosts
        line = self.discipline.join(kind, hosts, now_s, rng)
        server = self._suiting(kind, line) if line is not None else None
        if line is None or server is None:
            self._goes_aside(registered)
            return None
        takers = self.hogged.values() if line in self._none_beside_hog else ()
        if takers and any(one.takes_beside_hog(kind) for one in takers):
            del self._none_beside_hog[line]
        waiting = self._line(line)
        registered.line = line
        waiting.add(registered)
        waiting.shapes.add(registered, server.name)
        waiting.jobs += 1
        waiting.slots += kind.slots
        waiting.work_s += registered.work_s
        if kind.is_wide:
            self._wide_waiting += 1
            self._kept_for_wide = True
        return line

    def _suiting(self, job: QueuedJob, line: HostConnection) -> Server | None:
        """Returns a host of that line that suits the job, if possible the one that is known to suit
        such jobs; for a gang any, if all of them together have room for it."""
        if job.gang:
            self._checks += len(self.hosts)
            return self.servers[line][0] if self.room_for(job) >= job.gang else None
        if (waiting := self.lines.get(line)) is not None:
            known = self.hosts.get(waiting.shapes.host_for(job) or HostId(""))
            if known is not None and line in known.lines and known.suits(job):
                return known
        return self._first_suiting(job, self._equals.get(line, ()))

    def _first_suiting(self, job: QueuedJob, equals: Iterable[list[Server]]) -> Server | None:
        for servers in equals:
            self._checks += 1
            if servers[0].is_enough(job):
                for asked, server in enumerate(servers):
                    if server.host is not None and job.may_go_to(server.host.name):
                        self._checks += asked // NAMES_A_CHECK
                        return server
                self._checks += len(servers) // NAMES_A_CHECK
        return None

    def _by_offer(self, servers: Iterable[Server]) -> list[list[Server]]:
        """Returns together those that answer alike to any job that may go to them."""
        found: dict[object, list[Server]] = {}
        for server in servers:
            if server.host is not None:
                found.setdefault(self._offers[server.host.name], []).append(server)
        return list(found.values())

    def room_for(self, job: QueuedJob) -> int:
        """Returns for how many such jobs the hosts have slots, if nothing else ran there."""
        servers = self.servers.get(ONLY_LINE, ())
        return sum(server.at_once(job, server.slots) for server in servers if server.suits(job))

    def _goes_aside(self, registered: Registered) -> None:
        if isinstance(registered, Entry):
            self.aside[registered.id] = registered
        self.shapes_aside.add(registered)

    def _leaves_aside(self, registered: Registered) -> None:
        """A job that is in no line leaves, if it has stepped aside and does not wait with its
        gang."""
        if not isinstance(registered, Entry) or self.aside.pop(registered.id, None) is not None:
            self.shapes_aside.left(registered.kind)

    def _is_aside(self, registered: Registered) -> bool:
        if isinstance(registered, Entry):
            return self.aside.get(registered.id) is registered
        return registered.line is None

    def _unput(self, registered: Registered) -> None:
        """Takes a job out of its queue."""
        line, kind = registered.line, registered.kind
        assert line is not None
        waiting = self.lines[line]
        waiting.shapes.left(kind)
        self.heads.gone(registered.id, line)
        if kind.user not in self._none_beside_hog.get(line, ()):
            self._none_beside_hog.pop(line, None)
        registered.line = None
        waiting.jobs -= 1
        waiting.slots -= kind.slots
        # Float sums drift; an empty line restarts at 0.
        waiting.work_s = waiting.work_s - registered.work_s if waiting.jobs else 0.0
        self._wide_waiting -= kind.is_wide

    def head(self, line: HostConnection) -> Registered | None:
        waiting = self.lines.get(line)
        return waiting.head() if waiting is not None else None

    def _sit(self, entry: Entry, server: Server, name: HostId, slots: int) -> None:
        entry.host, entry.slots = name, slots
        server.sits(entry)
        server.started += slots
        if name in self.hogged:
            self._none_beside_hog.clear()
        self.heads.slots_changed()
        self._rank(server)
        self.gangs.changed(name)
        self.shares.took(entry.job, slots)

    def _rise(self, entry: Entry) -> Server:
        assert entry.host is not None
        name, entry.host, entry.suspended_s = entry.host, None, None
        server = self.servers_by_host[name]
        server.rises(entry, self.shares.now_s)
        if name in self.hogged or self.shares.passes_over:
            self._none_beside_hog.clear()
        self.heads.released(entry.job.id, self.shares.now_s)
        self._rank(server)
        self.gangs.changed(name)
        self.shares.gave(entry.job, entry.slots)
        if server.host is None and not server.running:
            del self.servers_by_host[name]
        return server

    def _left(self, registered: Registered, now_s: float, rng: Random, whole: bool) -> list[Start]:
        self.is_suspended(registered.id, False, now_s)
        self.targets.left(registered.id, registered.kind, now_s, whole=whole)
        if isinstance(registered, Entry) and registered.host is not None:
            self.registry.remove(registered)
            ran_s = registered.ran_s(now_s)
            self.slot_times.ended(ran_s * registered.slots)
            kind = kind_of(registered.job)
            self.resource_times.ended(registered.job.needs, ran_s, kind)
            if whole:
                self.run_times.ended(registered.job, ran_s)
            server = self._rise(registered)
            if (array := registered.job.array) and server.arrays[:1] != (array,):
                others = [other for other in server.arrays if other != array]
                server.arrays = (array, *others)[:ARRAYS_KNOWN]
            return self._fill(server.lines, now_s, rng)
        if isinstance(registered, Entry) and registered.job.gang:
            return self._gang_left(registered, now_s, rng)
        line = registered.line
        if line is not None:
            self._unput(registered)
        else:
            self._leaves_aside(registered)
        self.registry.remove(registered)
        return self._fill((line,), now_s, rng) if line is not None else []

    def _gang_left(self, entry: Entry, now_s: float, rng: Random) -> list[Start]:
        """A gang leaves its line when one of its jobs no longer waits."""
        leader = self.gangs.leader(entry.job)
        if leader is not None and leader.line is not None:
            self._unput(leader)
        elif leader is not None:
            self._leaves_aside(leader)
        self.gangs.left(entry)
        self.registry.remove(entry)
        # Without a leader it was in no line, or left it with another of its jobs.
        return self._fill(self.servers, now_s, rng) if leader is not None else []

    def _again(self, entry: Entry, number: int, now_s: float, rng: Random) -> list[Start]:
        self.is_suspended(entry.id, False, now_s)
        lines = self._rise(entry).lines
        self.targets.lost(entry.job, now_s)
        entry.number = number
        joined = self._put(entry, now_s, rng)
        return self._fill((*lines, joined) if joined is not None else lines, now_s, rng)

    def _hosts_changed(self, now_s: float, rng: Random) -> list[Start]:
        """Recomputes which hosts serve which line; jobs that cannot be served where they wait
        move."""
        self.heads.slots_changed()
        self._none_beside_hog.clear()
        present = [server.host for server in self.hosts.values() if server.host]
        self._roomy = self.hosts
        if any(host.no_room for host in present):
            roomy = [host.name for host in present if not host.no_room]
            self._roomy = {name: self.hosts[name] for name in roomy}
        self.servers = {}
        for server in self.hosts.values():
            assert server.host is not None
            server.lines, server.beside = self.discipline.serves(server.host, present), ()
            for line in server.lines:
                self.servers.setdefault(line, []).append(server)
        self._are_shared = any(len(server.lines) > 1 for server in self.hosts.values())
        self._open = {
            line: LineServers(servers_by_host)
            for line, servers_by_host in self.servers.items()
            if len(servers_by_host) > 1
        }
        for line, line_servers in self._open.items():
            for number, server in enumerate(self.servers[line]):
                server.beside += ((line_servers, number, server.lines.index(line)),)
        for server in self.hosts.values():
            self._rank(server)
        self.gangs.changed()
        self._note_offers()
        if not self._looks:  # else it is for the next turn, at no cost to this host
            self._look_on(now_s, rng)
        return self._fill(self.servers, now_s, rng)

    def _note_offers(self) -> None:
        before, self._offers = self._offers, {}
        for name, server in self.hosts.items():
            if server.host is not None:
                self._offers[name] = server.lines, serves(server.host)
        both = before.items() & self._offers.items()
        self._lost |= {name for name, _ in before.items() - both}
        self._come |= {name for name, _ in self._offers.items() - both}
        if self._all_move:
            self._come.update(self._offers)
        self._equals = {line: self._by_offer(servers) for line, servers in self.servers.items()}

    @property
    def is_moving(self) -> bool:
        """Whether jobs are yet to be looked at, or moved, as hosts have changed."""
        return bool(self._looks or self._lost or self._come)

    def _look_on(self, now_s: float, rng: Random) -> None:
        """Moves the jobs that can no longer be served where they wait, and those in no line that
        now can. A look at very many goes on in later turns, in which those after later changes have
        their turn beside it: until then some wait where they did."""
        most, to_join = self._checks + CHECKS_MAX, list[Registered]()
        while self._checks < most and self.is_moving:
            if (self._lost or self._come) and len(self._looks) < LOOKS_AT_ONCE:
                self._looks.appendleft(self._look())
            if (jobs := next(self._looks[0], None)) is None:
                self._looks.popleft()
            else:
                to_join += jobs
                self._looks.rotate(-1)
        unfit = set[int]()  # kinds that join no line: a million jobs may wait of one kind
        for registered in sorted(to_join, key=attrgetter("number")):
            if id(registered.kind) in unfit:
                self._goes_aside(registered)
            elif self._put(registered, now_s, rng) is None:
                unfit.add(id(registered.kind))
        if not self._looks:  # else one may yet come to a line that nobody waits in any more
            self._forget_lines()

    def _look(self) -> Iterator[list[Registered]]:
        """Takes jobs from where they wait; yields those that may now wait elsewhere, a few at a
        time, and none where it has looked in vain."""
        lost, come, all_move = self._lost, self._come, self._all_move
        self._lost, self._come, self._all_move = set(), set(), False
        for line, waiting in list(self.lines.items()) if lost or all_move else ():
            for alike in list(waiting.shapes):
                self._checks += 1
                if all_move or alike.kind.gang or alike.host in lost:
                    yield from self._look_at(alike, line, all_move=all_move)
                else:
                    yield []
        for leader in self.gangs.leaders() if lost else ():  # after those still in line
            job = leader.job
            waits = self.gangs.find(job.array) or self.gangs.is_behind(job.array)
            if waits and self.gangs.leader(job) is leader and self._suiting(job, ONLY_LINE) is None:
                self.gangs.unpark(job.array)
                self._goes_aside(leader)
            yield []
        offers, equals = None, list[list[Server]]()
        for alike in list(self.shapes_aside) if come else ():
            if offers is not self._offers:  # hosts have changed meanwhile
                offers = self._offers
                equals = self._by_offer(self.hosts[name] for name in come if name in self.hosts)
            if self._first_suiting(alike.kind, equals) is not None:
                for jobs in self._taken(self.shapes_aside, alike, self._leaves_aside):
                    yield self._joining(jobs, alike.kind)
            else:
                yield []

    def _look_at(
        self, alike: Alike, line: HostConnection, *, all_move: bool
    ) -> Iterator[list[Registered]]:
        """Does so with jobs of one line for which no host of it may be left."""
        kind, waiting = alike.kind, self.lines[line]
        if not all_move and (server := self._suiting(kind, line)) is not None:
            alike.host = server.name
            yield []
            return
        offers, may_join = None, False
        for jobs in self._taken(waiting.shapes, alike, self._unput):
            if offers is not self._offers:  # hosts have changed meanwhile
                offers = self._offers
                may_join = any(self._suiting(kind, other) for other in self.servers)
            for one in jobs:
                waiting.stepped_aside(one)
                if not may_join:
                    self._goes_aside(one)
            yield self._joining(jobs, kind) if may_join else []

    def _taken(
        self, shapes: Shapes, alike: Alike, leaves: Callable[[Registered], None]
    ) -> Iterator[list[Registered]]:
        """Takes the jobs out of their place, some at a time. Until the next step they are in
        none."""
        self._checks += SHAPE_CHECKS
        for _ in range(0, alike.listed, MOVED_AT_ONCE):
            jobs = shapes.take(alike, MOVED_AT_ONCE)
            for one in jobs:
                leaves(one)
            self._checks += MOVE_CHECKS * len(jobs)
            yield jobs

    def _joining(self, jobs: list[Registered], kind: QueuedJob) -> list[Registered]:
        """Counts what it takes to choose their line."""
        if kind.gang or not isinstance(self.discipline, Fcfs):  # all hosts may be compared
            hosts = len(self.hosts)
            self._checks += len(jobs) * (hosts if kind.gang or kind.needs else hosts // 4)
        return jobs

    def _rank(self, server: Server) -> None:
        """Ranks a host again after its slots, jobs or load have changed."""
        if server.host is not None:
            for line_servers, number, which in server.beside:
                line_servers.rank(number, which)

    def _forget_lines(self) -> None:
        for line in [line for line in self.lines if line not in self.servers]:
            if line not in self.servers_by_host and not self.lines[line].jobs:
                del self.lines[line]

    def _fill(self, lines: Iterable[HostConnection], now_s: float, rng: Random) -> list[Start]:
        """Starts what these lines' heads allow. If slots were kept for a wide job, others may get
        them once it starts or leaves: then all lines are considered until nothing starts. A host
        may say that it has very many slots, so the most are left for later turns: until `tick` one
        starts at a time, as one ends. While none begins, all are left for the turn after that."""
        starts: list[Start] = []
        if self.begins_none:
            self.is_cut_short = True
            return starts
        most = 1 if self.is_cut_short else STARTS_MAX
        most_looks = self.shares.looks + LOOKS_MAX
        if self.shares.limits or self.shares.freed:
            # An ended job may make room elsewhere, for others of the same user or array.
            lines, freed = self.servers, self.shares.freed
            for waiting in self.lines.values() if freed else ():
                waiting.wake(freed)
            freed.clear()
        if lines is self.servers and self._are_shared:
            self._asks_all = self._kept_for_wide = True
        if self.gangs.parked:
            self._start_gangs(starts, most, now_s)
        for line in lines:
            self._fill_line(line, starts, most, most_looks, now_s, rng)
        others = self.servers if len(self.servers) > 1 else ()  # from which slots may be kept
        while self._kept_for_wide:
            before = len(starts)
            for line in others:
                self._fill_line(line, starts, most, most_looks, now_s, rng)
            if len(starts) == before:
                self._asks_all = False
                self._kept_for_wide = self._keeps
                break
        return starts

    def _fill_line(
        self, line: HostConnection, starts: list[Start], most_starts: int, most_looks: int,
        now_s: float, rng: Random,
    ) -> None:  # fmt: skip
        waiting, behind = self.lines.get(line), list[JobId]()
        if waiting is None:
            return
        while True:
            if (starts and self.shares.looks > most_looks) or len(starts) >= most_starts:
                self.is_cut_short |= bool(waiting.jobs)
                return
            if (front := waiting.head()) is None:
                break
            if front.kind.gang:
                self._unput(front)
                if self.gangs.park(self.registry.entry(front)):
                    self._start_gangs(starts, most_starts, now_s)
                continue
            server, most = self._place_for(front, line, now_s, rng)
            following = front
            if server is None and self.hogged and line not in self.heads.asked:
                following, server = self._beside_hog(front, waiting, behind)
                most = 1
            if server is None or server.host is None:
                break
            self._unput(following)
            entry = self.registry.entry(following)
            if following is front:
                waiting.take(entry, self._number)
            else:
                entry.begun = True
                waiting.passed(entry.job)
            starts.append(self._start(entry, server, line, now_s, most))
        if self.gangs.parked and self._plan(line) is not None:
            self._fill_beside(line, starts, now_s)
        elif front is not None and self.backfill.rule != "off":
            self._fill_behind(front, line, starts, now_s)

    def _beside_hog(
        self, head: Registered, waiting: Waiting, behind: list[JobId]
    ) -> tuple[Registered, Server | None]:
        """Returns a job that starts on a host although commands of one user hold all its slots, and
        the host: the head of the line, or else the first job behind it that is of another user than
        those, since the hog's own jobs at the head would keep all others from that host. Looks at
        few jobs, and in vain only once until something of that has changed: a million may wait.
        `behind`: those that are looked at in this turn, found once: a host may claim any room."""
        line, plan = waiting.line, self._plan(waiting.line)
        if line in self._none_beside_hog:
            return head, None
        kept = plan.kept if plan is not None else ()
        able = [
            one for name, one in self.hogged.items()
            if one.host and one.used < one.host.beside_hog
            and line in one.lines and name not in kept and not self._kept(one, line)
        ]  # fmt: skip
        hogs = {one.host.hog for one in able if one.host}
        passed: set[Flow | str] = set()  # flows that a limit bars, and hogs
        is_fresh = not behind
        if is_fresh and head.kind.user in hogs:
            behind += [one.id for one in islice(waiting.in_turn(), LOOKED_AT)]
        for registered in (head, *map(self.registry.find, behind)):
            if registered is None or registered.line != line:
                continue  # it has started
            kind = registered.kind
            flow = self.shares.flow(kind)
            if kind.user in passed or flow in passed:
                continue
            if registered is not head and self.shares.bars(kind):
                passed.add(flow)
            elif takers := [one for one in able if one.takes_beside_hog(kind)]:
                return registered, min(takers, key=attrgetter("load"))
            elif kind.user in hogs:
                passed.add(kind.user)
            else:
                break
        if is_fresh and plan is None and not self._may_keep:
            self._none_beside_hog[line] = hogs
        return head, None

    def _fill_behind(
        self, front: Registered, line: HostConnection, starts: list[Start], now_s: float
    ) -> None:
        """Starts jobs behind the head that do not delay it."""
        servers, head = self.servers.get(line, ()), front.kind
        if not any(server.free > 0 for server in servers):
            return
        reserved = self.backfill.reservation(head, servers, now_s)
        for job_id in [one.id for one in self.lines[line].first(LOOKED_AT) if one.id != front.id]:
            registered = self.registry[job_id]
            kind = registered.kind
            if kind.gang or self.shares.obstacle(kind) or self.shares.would_bar(kind, head):
                continue
            job = registered.job  # whose command decides how long it runs
            able = [
                one for one in servers
                if one.suits(job) and one.free >= job.slots and one.has_for(job)
            ]  # fmt: skip
            able = [
                server for server in able
                if self.backfill.passes(job, server, head, reserved, now_s)
            ]  # fmt: skip
            if able:
                self._unput(registered)
                entry = self.registry.entry(registered)
                entry.begun = True
                self.lines[line].passed(entry.job)
                server = min(able, key=lambda one: one.load)
                starts.append(self._start(entry, server, line, now_s, job.slots))
                reserved = self.backfill.after(job, starts[-1].host, reserved, now_s)

    def _start(
        self, entry: Entry, server: Server, line: HostConnection, now_s: float, most: int
    ) -> Start:
        assert server.host is not None
        entry.started_s, name, slots = now_s, server.host.name, max(entry.job.slots, most)
        if server.free < slots and server.used >= server.host.beside_hog:
            server.ahead[entry.job.id] = entry
        self._sit(entry, server, name, slots)
        entry.tier = line if isinstance(line, int) else 1
        return Start(entry.job, name, entry.tier, self.discipline.cutoff_s(line), slots)

    def _most(self, job: QueuedJob, server: Server, plan: Plan | None) -> int:
        """Returns the most slots the job gets on that host."""
        if job.slots_most <= job.slots:
            return job.slots
        now_s = self.shares.now_s
        room = server.free if plan is None else self.gangs.room(plan, server, job, now_s)
        return int(min(job.slots_most, room, self.shares.slots_left(job.user)))

    # Gangs, which only the single line of fcfs has

    @property
    def plan(self) -> Plan | None:
        return self._plan(ONLY_LINE)

    def _plan(self, line: HostConnection) -> Plan | None:
        """Returns which slots are kept for a gang; None if none are."""
        if not self.gangs.parked:
            return None
        return self.gangs.plan(self.servers.get(line, ()), self.shares.now_s)

    def _start_gangs(self, starts: list[Start], most_starts: int, now_s: float) -> None:
        following = list(self.gangs.parked)
        while following:
            parked = following.pop(0)
            found = self.gangs.servers_for(parked, self.servers.get(ONLY_LINE, ()), now_s)
            if found is None:
                continue
            if len(starts) >= most_starts:
                self.is_cut_short = True
                return
            tasks = self.gangs.tasks.pop(parked.array)
            self.gangs.begins(parked.array, now_s)
            for job, server in found.items():
                starts.append(self._start_task(tasks[job], server, now_s))
            following = list(self.gangs.parked)  # another may have taken its place

    def _start_task(self, entry: Entry, server: Server, now_s: float) -> Start:
        assert server.host is not None
        entry.started_s, slots = now_s, entry.job.slots
        self._sit(entry, server, server.host.name, slots)
        return Start(entry.job, server.host.name, 1, None, slots)

    def _fill_beside(self, line: HostConnection, starts: list[Start], now_s: float) -> None:
        """Starts jobs behind a waiting head on slots that are kept for a gang, if they release them
        in time: the head would have needed them for longer."""
        if not any(one.free > 0 for one in self.servers.get(line, ())):
            return
        for registered in self.lines[line].first(LOOKED_AT) if line in self.lines else ():
            kind, plan = registered.kind, self._plan(line)
            if plan is None or kind.gang or self.shares.obstacle(kind):
                continue
            job = registered.job
            if not self.gangs.is_short(plan, job, now_s):
                continue
            servers = [s for s in self.servers[line] if s.suits(job) and s.free >= job.slots]
            servers = [s for s in servers if s.has_for(job)]
            if servers := [server for server in servers if server.name in plan.kept]:
                self._unput(registered)
                entry = self.registry.entry(registered)
                entry.begun = True
                self.lines[line].passed(entry.job)
                server = min(servers, key=lambda one: one.load)
                starts.append(
                    self._start(entry, server, line, now_s, self._most(job, server, plan))
                )

    def _place_for(
        self, front: Registered, line: HostConnection, now_s: float, rng: Random
    ) -> tuple[Server | None, int]:
        """Returns where the head of a line starts now, and the most slots it gets there."""
        job, plan = front.kind, self._plan(line) if self.gangs.parked else None
        decides = job.slots_most > job.slots and self.heads.decides(job)
        if plan is not None or decides:
            job = front.job  # its command decides, too
        if not decides or plan is not None:  # it does not hold out for more
            self.heads.asked.pop(line, None)
            server = self._server_for(job, line, plan, rng)
            return server, self._most(job, server, plan) if server else 0
        left = self.shares.slots_left(job.user)
        if self.heads.holds_out(line, front.id, self._most_free(line), left, now_s):
            self._kept_for_wide = True
            return NOT_NOW
        able = (one for one in self._by_room(line, rng) if self._may_have(job, one, line))
        widest = next(able, None)
        offered = int(min(widest.free, left)) if widest and widest.free >= job.slots else 0
        slots = self.heads.at_once(line, front.id, job, offered, left, now_s)
        if slots is None:
            assert widest is not None
            rooms = [widest, *islice(able, ROOMS - 1)]
            found = self.heads.choose(line, front.id, job, rooms, left, now_s)
        else:
            found = (self._with_most(job, slots, line, rng) if slots else None), slots
        self._kept_for_wide = self._kept_for_wide or bool(self.heads.asked)
        return found

    def _with_most(self, job: QueuedJob, slots: int, line: HostConnection, rng: Random) -> Server:
        """Returns the server to give it that many slots: one that serves this line first, of the
        lowest load."""
        able = [one for one in self._with_room(line, slots) if self._may_have(job, one, line)]
        return min(able, key=lambda one: (one.lines.index(line), one.load, rng.random()))

    def _with_room(self, line: HostConnection, slots: int) -> list[Server]:
        if (found := self._open.get(line)) is not None:
            return found.with_room(slots)
        return [server for server in self.servers.get(line, ()) if server.free >= slots]

    def _most_free(self, line: HostConnection) -> int:
        if (found := self._open.get(line)) is not None:
            return found.most_free
        return max((server.free for server in self.servers.get(line, ())), default=0)

    def _by_room(self, line: HostConnection, rng: Random) -> Iterator[Server]:
        """Returns the servers of a line, those with most free slots first."""
        if (found := self._open.get(line)) is not None:
            return found.by_room(rng)
        return iter(self.servers.get(line, ()))  # at most one

    def _may_have(self, job: QueuedJob, server: Server, line: HostConnection) -> bool:
        if not (server.suits(job) and server.has_for(job)):
            return False
        return not self._kept(server, line)

    @property
    def _keeps(self) -> bool:
        """Whether slots may be kept for the head of an earlier line, for longer than a moment."""
        return self._wide_waiting > 0 or bool(self.heads.asked)

    @property
    def _may_keep(self) -> bool:
        return self._keeps or self._asks_all

    def _server_for(
        self, job: QueuedJob, line: HostConnection, plan: Plan | None, rng: Random
    ) -> Server | None:
        if plan is not None and self.gangs.passes(plan, job, self.shares.now_s):
            plan = None
        have_room, keeps = self._roomy is self.hosts, self._keeps
        may_keep = keeps or self._asks_all
        if have_room and plan is None and not may_keep and line in self._open and is_plain(job):
            return self._open[line].best(rng)
        need = job.slots
        if job.array and not keeps:  # it may be given ahead of free slots
            servers_by_host = [one for one in self.servers.get(line, ()) if one.takes(job)]
        else:
            servers_by_host = self._with_room(line, need)
        if job.only or job.barred or not have_room:
            servers_by_host = [server for server in servers_by_host if server.suits(job)]
        if job.needs:
            servers_by_host = [server for server in servers_by_host if server.has_for(job)]
        if plan is not None:
            now_s = self.shares.now_s
            servers_by_host = [
                server
                for server in servers_by_host
                if self.gangs.room(plan, server, job, now_s) >= need
            ]
        if may_keep:
            servers_by_host = [one for one in servers_by_host if not self._kept(one, line)]
        if len(servers_by_host) < 2:
            return servers_by_host[0] if servers_by_host else None
        # Servers that serve this line first leave the others to both lines. A job that can use more
        # slots than it needs goes where it gets most of them.
        most = job.slots_most
        ranks = [
            (server.free < need, server.lines.index(line), -min(server.free, most), server.load)
            for server in servers_by_host
        ]
        best = min(ranks)
        servers_by_host = [
            server for server, rank in zip(servers_by_host, ranks, strict=True) if rank == best
        ]
        return servers_by_host[0] if len(servers_by_host) == 1 else rng.choice(servers_by_host)

    def _kept(self, server: Server, line: HostConnection) -> bool:
        """Whether its slots are kept for the head of a line that it serves before this one."""
        if not self._may_keep:
            return False
        earlier = takewhile(lambda one: one != line, server.lines)
        heads = (head for one in earlier if (head := self.head(one)) is not None)
        return any(server.suits(head.kind) for head in heads)


def serves(host: HostSlots) -> tuple[int, tuple[int, ...], Facts, bool]:
    """Returns what determines which jobs the host could ever take."""
    return host.slots, host.tiers, offer(host.facts), not host.no_room
