"""The lines of waiting jobs and the hosts that serve them, driven by any discipline.

Events go in, `Start`s come out; the daemon and the simulator drive this same code. Its rules:

- Order in a line is strict: nobody passes the head, also where the head needs several slots and a
  job behind it only one. (Who is head, `waiting.py` says.) A job too large for every host that
  serves its line, or that may go to none of them, steps aside instead, until hosts change.
- A host that serves several lines keeps its slots for the head of the earlier one, if that fits it.
- A job without an estimate counts as the mean of those that came with one.
- A lost attempt's job returns to its old place; one that was cut off joins the next tier's end.
- Where several hosts could start a job, that of the lowest load does, by lot among equals; what was
  started since that load was told counts as well.
- A host that says so may be given short jobs ahead of its free slots, where no other has one free.
- A host that is drained or lost (`host_gone`) takes nothing more, and who waited for it alone joins
  another line. What runs there stays on the books until `ended`, `lost` or `cut_off` tells its
  fate: so a job is never started while an attempt of it may be alive.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import merge
from operator import attrgetter
from random import Random

from lbd.dispatch.books import Booked, Books, Entry
from lbd.dispatch.discipline import Discipline, HostSlots, Line, QueuedJob, Start
from lbd.dispatch.lives import Lives
from lbd.dispatch.shares import Rules, Shares
from lbd.dispatch.waiting import Waiting
from lbd.model import HostId, JobId

ARRAYS_KNOWN = 4  # of those that take turns on a host


@dataclass(slots=True)
class Seat:
    """A host's place on the books; `host` is None while only what still runs there is known."""

    host: HostSlots | None
    own_line: Waiting  # those who wait for this host alone, if the discipline has such a line
    lines: tuple[Line, ...] = ()
    running: dict[JobId, Entry] = field(default_factory=dict)
    used: int = 0  # slots
    started: int = 0  # slots, since its load was told
    arrays: tuple[int, ...] = ()  # those of the jobs that ended here last

    @property
    def slots(self) -> int:
        return self.host.slots if self.host else 0

    @property
    def free(self) -> int:
        return self.host.usable - self.used if self.host else 0

    def takes(self, job: QueuedJob) -> bool:
        """Now, or in a moment: others of the same array are short there."""
        if self.free >= job.slots:
            return True
        ahead = self.host.ahead if self.host and job.array in self.arrays else 0
        return self.free + ahead > 0 and max(job.slots, job.slots_most) == 1 and job.may_restart

    def suits(self, job: QueuedJob) -> bool:
        """Could it ever run here?"""
        return self.host is not None and self.slots >= job.slots and job.may_go_to(self.host.name)

    @property
    def load(self) -> float:
        return self.host.load + self.started / self.host.slots if self.host else 0.0

    @property
    def jobs(self) -> int:
        return self.own_line.jobs + len(self.running)

    def work_left_s(self, now_s: float) -> float:
        left_s = self.own_line.work_s
        for entry in self.running.values():
            left_s += max(0.0, entry.work_s - (now_s - entry.started_s) * entry.slots)
        return left_s / max(1, self.slots)


class Queues:
    def __init__(
        self, discipline: Discipline, rules: Rules | None = None, *, keeps_backlog: bool = True
    ) -> None:
        """Without a backlog it decides the same, sooner, in ten times the room."""
        self.discipline = discipline
        self._keeps_backlog = keeps_backlog
        self.shares = Shares(rules or Rules())
        self.lives = Lives()
        self.books = Books()
        self.aside: dict[JobId, Entry] = {}
        self.seats: dict[HostId, Seat] = {}
        self.hosts: dict[HostId, Seat] = {}  # those of the seats that take jobs
        self.lines: dict[Line, Waiting] = {}
        self.servers: dict[Line, list[Seat]] = {}
        self._numbers = 0
        self._wide_waiting = 0  # jobs in lines that need more than one slot
        self._kept_for_wide = False  # slots may be kept for one, or have been until just now
        self._estimates = 0
        self._estimated_s = 0.0  # all of them together

    # Jobs

    def arrived(self, job: QueuedJob, now_s: float, dice: Random) -> list[Start]:
        """For the first time."""
        return self._arrived(self._book(job, may_be_row=True), now_s, dice)

    def returned(self, job: QueuedJob, now_s: float, dice: Random) -> list[Start]:
        """It was held, or had ended."""
        return self._arrived(self._book(job), now_s, dice)

    def _arrived(self, booked: Booked, now_s: float, dice: Random) -> list[Start]:
        self.shares.at(now_s)
        line = self._put(booked, now_s, dice)
        return self._fill((line,), now_s, dice) if line is not None else []

    def found_running(self, job: QueuedJob, host: HostId, now_s: float, slots: int = 1) -> None:
        """A new dispatcher learns of an attempt of the last one's, begun `now_s` or before."""
        self.shares.at(now_s)
        entry = self.books.entry(self._book(job))
        entry.started_s = now_s
        self._sit(entry, self._seat(host), host, slots)

    def ended(self, job: JobId, now_s: float, dice: Random) -> list[Start]:
        """It ran to its end, or was cancelled or held: it neither runs nor waits any more."""
        self.shares.at(now_s)
        booked = self.books.find(job)
        return self._left(booked, now_s, dice) if booked else []

    def cut_off(self, job: JobId, now_s: float, dice: Random) -> list[Start]:
        """It reached the cutoff and was killed: from scratch, at the end of the next tier."""
        self.shares.at(now_s)
        entry = self.books.entries.get(job)
        if entry is None or entry.host is None:
            return []
        entry.job = replace(entry.job, tier=entry.tier + 1)
        return self._again(entry, self._number(), now_s, dice)

    def lost(self, job: JobId, now_s: float, dice: Random) -> list[Start]:
        """Its attempt is over for certain but the job did not end: back to where it was."""
        self.shares.at(now_s)
        entry = self.books.entries.get(job)
        if entry is None or entry.host is None:
            return []
        return self._again(entry, entry.number, now_s, dice)

    def bar(self, job: JobId, host: HostId) -> None:
        """It cannot begin there; `lost` follows."""
        if (entry := self.books.entries.get(job)) is not None:
            entry.job = replace(entry.job, barred=entry.job.barred | {host})

    # Hosts

    def host_is(self, host: HostSlots, now_s: float, dice: Random) -> list[Start]:
        """It joined, is back, or something of it changed."""
        self.shares.at(now_s)
        seat = self._seat(host.name)
        before, seat.host, seat.started = seat.host, host, 0
        if before is None or (before.slots, before.tiers) != (host.slots, host.tiers):
            self.hosts.setdefault(host.name, seat)
            return self._hosts_changed(now_s, dice)
        return self._fill(seat.lines, now_s, dice) if seat.free + host.ahead > 0 else []

    def host_gone(self, name: HostId, now_s: float, dice: Random) -> list[Start]:
        """Drained, lost or left: nothing new goes there."""
        self.shares.at(now_s)
        seat = self.hosts.pop(name, None)
        if seat is None:
            return []
        seat.host = None
        if not seat.running:
            del self.seats[name]
        return self._hosts_changed(now_s, dice)

    def rules_changed(
        self, tiers: Callable[[HostId], tuple[int, ...]], now_s: float, dice: Random
    ) -> list[Start]:
        """The discipline's cutoffs, and with them who serves what. Running jobs keep theirs; all
        who wait join anew, for a tier that had no cutoff may have one now, and some may not."""
        for name, seat in self.hosts.items():
            assert seat.host is not None
            seat.host = replace(seat.host, tiers=tiers(name))
        for waiting in self.lines.values():
            waiting.keep(lambda _: False, self._step_aside)
        return self._hosts_changed(now_s, dice)

    # Inside

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _book(self, job: QueuedJob, *, may_be_row: bool = False) -> Booked:
        if self.books.find(job.id):
            raise ValueError(f"job {job.id} is on the books already")
        if job.estimate_s is not None:
            self._estimates += 1
            self._estimated_s += job.estimate_s
            work_s = job.estimate_s
        else:
            work_s = self._estimated_s / self._estimates if self._estimates else 0.0
        number, work_s = self._number(), work_s * job.slots
        if may_be_row and self._keeps_backlog and self.books.backlog.takes(job):
            return self.books.backlog.add(job, number, work_s)
        return self.books.add(job, number, work_s)

    def _seat(self, name: HostId) -> Seat:
        if name not in self.seats:
            self.seats[name] = Seat(None, self._line(name))
        return self.seats[name]

    def _line(self, line: Line) -> Waiting:
        if line not in self.lines:
            self.lines[line] = Waiting(line, self.shares, self.books.backlog)
        return self.lines[line]

    def _put(self, booked: Booked, now_s: float, dice: Random) -> Line | None:
        kind = booked.kind
        line = self.discipline.join(kind, self.hosts, now_s, dice)
        if line is None or not self._fits(kind, line):
            if isinstance(booked, Entry):
                self.aside[booked.id] = booked
            return None
        waiting = self._line(line)
        booked.line = line
        waiting.add(booked)
        waiting.jobs += 1
        waiting.work_s += booked.work_s
        if kind.slots > 1:
            self._wide_waiting += 1
            self._kept_for_wide = True
        return line

    def _fits(self, job: QueuedJob, line: Line) -> bool:
        return any(seat.suits(job) for seat in self.servers.get(line, ()))

    def _step_aside(self, booked: Booked) -> None:
        self._unput(booked)
        if isinstance(booked, Entry):
            self.aside[booked.id] = booked

    def _unput(self, booked: Booked) -> None:
        """Out of its line."""
        assert booked.line is not None
        waiting = self.lines[booked.line]
        booked.line = None
        waiting.jobs -= 1
        # Sums of floats drift; an empty line starts afresh.
        waiting.work_s = waiting.work_s - booked.work_s if waiting.jobs else 0.0
        self._wide_waiting -= booked.kind.slots > 1

    def head(self, line: Line) -> Booked | None:
        return self.lines[line].head() if line in self.lines else None

    def _sit(self, entry: Entry, seat: Seat, name: HostId, slots: int) -> None:
        entry.host, entry.slots = name, slots
        seat.running[entry.job.id] = entry
        seat.used += slots
        seat.started += slots
        self.shares.took(entry.job, slots)

    def _rise(self, entry: Entry) -> Seat:
        assert entry.host is not None
        name, entry.host = entry.host, None
        seat = self.seats[name]
        del seat.running[entry.job.id]
        seat.used -= entry.slots
        self.shares.gave(entry.job, entry.slots)
        if seat.host is None and not seat.running:
            del self.seats[name]
        return seat

    def _left(self, booked: Booked, now_s: float, dice: Random) -> list[Start]:
        if isinstance(booked, Entry) and booked.host is not None:
            entry = booked
            self.books.remove(entry)
            self.lives.ended((now_s - entry.started_s) * entry.slots)
            seat = self._rise(entry)
            if (array := entry.job.array) and seat.arrays[:1] != (array,):
                others = [other for other in seat.arrays if other != array]
                seat.arrays = (array, *others)[:ARRAYS_KNOWN]
            return self._fill(seat.lines, now_s, dice)
        line = booked.line
        if line is not None:
            self._unput(booked)
        self.aside.pop(booked.id, None)
        self.books.remove(booked)
        return self._fill((line,), now_s, dice) if line is not None else []

    def _again(self, entry: Entry, number: int, now_s: float, dice: Random) -> list[Start]:
        lines = self._rise(entry).lines
        entry.number = number
        joined = self._put(entry, now_s, dice)
        return self._fill((*lines, joined) if joined is not None else lines, now_s, dice)

    def _hosts_changed(self, now_s: float, dice: Random) -> list[Start]:
        """Who serves which line is worked out anew; who cannot be served where he waits moves."""
        present = [seat.host for seat in self.hosts.values() if seat.host]
        self.servers = {}
        for seat in self.hosts.values():
            assert seat.host is not None
            seat.lines = self.discipline.serves(seat.host, present)
            for line in seat.lines:
                self.servers.setdefault(line, []).append(seat)
        for line, waiting in self.lines.items():
            waiting.keep(partial(self._fits, line=line), self._step_aside)
        place: Callable[[Booked], int] = attrgetter("number")
        stranded: list[Booked] = sorted(self.aside.values(), key=place)
        self.aside.clear()
        for booked in merge(stranded, self.books.backlog.aside(), key=place):
            self._put(booked, now_s, dice)
        self._forget_lines()
        return self._fill(tuple(self.servers), now_s, dice)

    def _forget_lines(self) -> None:
        for line in [line for line in self.lines if line not in self.servers]:
            if line not in self.seats and not self.lines[line].jobs:
                del self.lines[line]

    def _fill(self, lines: Iterable[Line], now_s: float, dice: Random) -> list[Start]:
        """Start whom these lines' heads may start. Where slots were kept for a wide job, others may
        have them once it starts or leaves: then all lines are looked at until nothing starts."""
        starts: list[Start] = []
        if self.shares.limits:  # whoever ends may make room for others of the same user elsewhere
            lines = tuple(self.servers)
        for line in lines:
            self._fill_line(line, starts, now_s, dice)
        while self._kept_for_wide:
            before = len(starts)
            for line in self.servers:
                self._fill_line(line, starts, now_s, dice)
            if len(starts) == before:
                self._kept_for_wide = self._wide_waiting > 0
                break
        return starts

    def _fill_line(self, line: Line, starts: list[Start], now_s: float, dice: Random) -> None:
        while (front := self.head(line)) is not None:
            seat = self._seat_for(front.kind, line, dice)
            if seat is None or seat.host is None:
                return
            self._unput(front)
            head = self.books.entry(front)
            self.lines[line].take(head, self._number)
            head.started_s = now_s
            left = min(seat.free, self.shares.slots_left(head.job.user))
            slots = max(head.job.slots, int(min(head.job.slots_most, left)))
            self._sit(head, seat, seat.host.name, slots)
            head.tier = line if isinstance(line, int) else 1
            cutoff_s = self.discipline.cutoff_s(line)
            starts.append(Start(head.job, seat.host.name, head.tier, cutoff_s, slots))

    def _seat_for(self, job: QueuedJob, line: Line, dice: Random) -> Seat | None:
        need = job.slots
        ahead = not self._wide_waiting
        seats = [
            seat
            for seat in self.servers.get(line, ())
            if seat.free >= need or (ahead and seat.takes(job))
        ]
        if job.only or job.barred:
            seats = [seat for seat in seats if seat.suits(job)]
        if self._wide_waiting:
            seats = [seat for seat in seats if not self._kept(seat, line)]
        if len(seats) < 2:
            return seats[0] if seats else None
        # Who serves this line before others leaves the rest to those who serve both.
        # One that can use more slots than it needs goes where it gets most of them.
        most = job.slots_most
        ranks = [
            (seat.free < need, seat.lines.index(line), -min(seat.free, most), seat.load)
            for seat in seats
        ]
        best = min(ranks)
        seats = [seat for seat, rank in zip(seats, ranks, strict=True) if rank == best]
        return seats[0] if len(seats) == 1 else dice.choice(seats)

    def _kept(self, seat: Seat, line: Line) -> bool:
        """Whether its slots are kept for the head of a line that it serves before this one."""
        for earlier in seat.lines:
            if earlier == line:
                return False
            head = self.head(earlier)
            if head is not None and seat.suits(head.kind):
                return True
        return False
