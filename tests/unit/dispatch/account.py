"""A simple model of every attempt of gangs and single jobs, for random histories.

It has a row for each job. It says what must become of an attempt, of the others of its gang and of
its host. It does not say which job starts where, only that no job starts that must not, that a gang
starts as a whole, and that no job waits for slots that are free.

One file because it is one model, whose parts all depend on each other.
"""

import math
from collections import Counter
from dataclasses import dataclass, field

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.lifecycle import BRIEF_S
from lbd.dispatch.core.records import Begin, Cause, Changed, Fate, Signal, StopAsked
from lbd.model import CANCEL, DISBAND, REGROUP, REQUEUE, HostId, JobId, JobState

TERMS = Terms(
    lease_s=6.0, crash_limit=3, host_failures=3, aside_s=4.0, aside_max_s=10.0, gang_drain_s=0.0,
    begin_timeout_s=10_000.0,
)  # fmt: skip
HOSTS, SLOTS = tuple(HostId(f"h{n}") for n in range(1, 5)), 2
NEVER_READY = ("slot", "drained", "files", "stage", "request")
WRONG_JOB = ("exec", "chdir", "stage", "request")  # it cannot start on that host
HOSTS_FAULT = ("spawn", "keeper")
FULL = ("slot", "drained", "late", "keeper")  # the host gets nothing more until its next heartbeat
AWAY_S, AWAY_S_MAX = 4.0, 10.0  # as in the terms


@dataclass
class Row:
    """What is known of a job."""

    job: QueuedJob
    attempt: int = 0
    host: HostId | None = None  # where an attempt is alive, or may be
    until_s: float = math.inf  # when that is certainly over
    sent_s: float = 0.0
    ready: bool = False
    released: bool = False
    begun: bool = False
    told_to_end_s: float = math.inf  # when its host was told to end it
    told: bool = False  # the dispatcher knows that it has begun
    stop: str = ""  # the stop reason that its host was given
    ran: bool = False  # some attempt of it has started
    crashes: int = 0
    lost_on: list[HostId] = field(default_factory=list)  # where these were
    evicted: int = 0  # of a gang: how many of its starts
    evicted_last: int = 0  # the last such attempt
    held: str = ""
    paused: list[float] = field(default_factory=list)  # the end of each pause
    pauses: int = 0  # so far, its own and those in which its gang was barred from a host
    over: bool = False


@dataclass
class Gang:
    rows: list[Row]
    released: bool = False
    may_run: bool = False  # a former dispatcher may have released it
    shown: bool = False
    moves: dict[JobId, str] = field(default_factory=dict)
    hold_until_s: float = math.inf
    late: set[JobId] = field(default_factory=set)
    bars: dict[HostId, float] = field(default_factory=dict)  # until when it does not go there

    @property
    def left(self):
        return [row for row in self.rows if not row.over]

    @property
    def is_whole(self):
        return len(self.left) == len(self.rows)

    @property
    def may_move(self):
        may = self.is_whole and self.released and not self.shown
        return may and self.rows[0].job.may_restart


@dataclass
class Place:
    """A host."""

    open: int = 0  # free slots
    is_here: bool = False  # in contact
    is_known: bool = False
    failures: "Complaints" = field(default_factory=lambda: Complaints())
    failed_s: float = -math.inf  # or returned
    aside_s: float = 0.0
    aside_until_s: float = math.inf
    is_aside: bool = False
    in_vain: "Complaints" = field(default_factory=lambda: Complaints())  # who lost what it held


@dataclass
class Complaints:
    """Everything that happened on a host since the first thing that went wrong there."""

    events: list[tuple[str, bool]] = field(default_factory=list)  # of whom, and whether it was well

    def add(self, user):
        self.events.append((user, False))

    def served(self, user):
        rest = [(one, well) for one, well in self.events if one != user or well]
        bad = {one for one, well in rest if not well}
        good = {one for one, well in rest if well} | {user}
        if not bad or (len(bad) == 1 and len(good - bad) > 1):
            self.events = []
        else:
            self.events = [*rest, (user, True)]

    def users(self):
        return {one for one, well in self.events if not well}

    def count(self):
        return sum(not well for _, well in self.events)


class Account:
    def __init__(self):
        self.now_s = 100.0
        self.rows, self.gangs, self.places = {}, {}, {}
        self.alone = {}  # jobs without a gang that were barred from a host, as gangs of one
        # the changes of jobs that must be reported, and the signals to hosts
        self.expected, self.stops = [], []

    def is_given_up(self, row):
        return not row.told and self.now_s >= row.told_to_end_s + 2 * TERMS.lease_s

    def is_over(self, row, ending):
        """The attempt has ended, or its state is unknown and its time is over."""
        given_up = self.is_given_up(row) and row.host
        lost = ending.cause is Cause.LOST
        lost |= ending.cause is Cause.EVICTED and not row.job.may_restart
        if lost:
            if given_up:
                self.places[row.host].in_vain.add(row.job.user)
                if row.stop not in (CANCEL, DISBAND):
                    self.bars(row, row.host)
            if not given_up or len(self.places[row.host].in_vain.users()) > 1:
                self.fails(row.host, row)
        elif ending.exit_status == 0:
            place = self.places[row.host]
            place.is_known = True
            place.failures.served(row.job.user)
            if not place.failures.events:
                place.aside_s = 0.0
        name, gang, stop = row.host, self.gang(row), self.freed(row)
        well = (ending.cause, ending.exit_status) == (Cause.EXITED, 0)
        if stop in (CANCEL, DISBAND) and not well:
            self.finally_(row, JobState.CANCELLED, Fate.CANCELLED)
        elif stop == REGROUP:
            fate = Fate.EVICTED if row.job.id in gang.moves else Fate.CANCELLED
            self.given_back(row, gang, name, fate)
        elif stop == REQUEUE:
            self.waits(row, Fate.DONE if well else Fate.CANCELLED)
        elif lost or (gang and ending.cause in (Cause.CHECKPOINT, Cause.EVICTED)):
            self.is_lost(row, gang, name)
        elif ending.cause in (Cause.CHECKPOINT, Cause.EVICTED):
            # it continues from the checkpoint
            row.ran = row.ran and ending.cause is not Cause.CHECKPOINT
            if ending.cause is Cause.EVICTED or self.now_s - row.sent_s < BRIEF_S:
                self.is_evicted(row, name)
            self.waits(row, Fate(ending.cause.value))
        elif well:
            self.finally_(row, JobState.DONE, Fate.DONE)
        else:
            self.finally_(row, JobState.FAILED, Fate.FAILED)

    def is_evicted(self, row, name):
        """Also counts the start of its gang."""
        one = min(self.together(row), key=lambda one: one.job.id)
        one.evicted += row.attempt > one.evicted_last
        one.evicted_last = row.attempt
        if one.evicted > TERMS.crash_limit:
            self.kept_from(row, name)

    def is_lost(self, row, gang, name):
        if gang and gang.is_whole and not (gang.released or gang.may_run):
            self.kept_from(row, name)
            self.waits(row, Fate.LOST)
        elif not row.job.may_restart or (gang and not gang.is_whole):
            self.finally_(row, JobState.LOST, Fate.LOST)
        else:
            row.crashes += 1
            row.lost_on.append(name)
            often = {one for one in row.lost_on if row.lost_on.count(one) >= 2}
            if row.crashes == TERMS.crash_limit:
                row.held = "held: its attempts were lost"
            elif self.may_start_without({name, *often}, row, now=True):
                self.kept_from(row, name, 3600.0 if name in often else 0.0)
            self.waits(row, Fate.LOST)
        self.others_follow(gang)

    def others_follow(self, gang):
        if gang and gang.is_whole:
            self.stop(gang, REGROUP)
        elif gang:
            self.stop(gang, DISBAND)
            for one in gang.left:
                if not one.host:
                    self.finally_(one, JobState.CANCELLED, None)

    def is_refused(self, row, phase):
        name, gang = row.host, self.gang(row)
        stop = self.freed(row)
        if gang and phase in NEVER_READY:
            gang.may_run = False
        if phase in HOSTS_FAULT and not stop:
            self.fails(name, row, may_be_users=phase == "spawn")
        place = self.places[name]
        if stop in (CANCEL, DISBAND):
            self.finally_(row, JobState.CANCELLED, Fate.REFUSED)
        elif gang and stop:
            self.given_back(row, gang, name, Fate.REFUSED)
        elif gang and not (
            gang.is_whole and (row.job.may_restart or not (gang.released or gang.may_run))
        ):
            state = JobState.FAILED if phase in WRONG_JOB else JobState.LOST
            self.finally_(row, state, Fate.REFUSED)
        elif phase in FULL:
            if not place.is_aside and place.is_here:
                place.open = self.used(name)
            self.waits(row, Fate.REFUSED)
        elif phase == "files":
            self.pauses(row)
            self.waits(row, Fate.REFUSED)
        elif self.barred_now(row) or self.may_start_without({name}, row):
            row.job = row.job._replace(barred=row.job.barred | {name})
            self.waits(row, Fate.REFUSED)
        else:
            self.finally_(row, JobState.FAILED, Fate.REFUSED)
        self.others_follow(gang)

    def may_start_without(self, names, row, *, now=False):
        """Not counting that it is kept from some hosts for a while."""
        gang = self.gang(row) or self.alone.get(row.job.id)
        barred = row.job.barred.difference(gang.bars if gang else ()).union(names)
        others = [one for name, one in self.places.items() if one.is_known and name not in barred]
        if now:
            others = [one for one in others if one.is_here and not one.is_aside]
        elif any(one.is_aside or not one.is_here for one in others):
            return True
        return len(others) * SLOTS >= (row.job.gang or 1)

    def given_back(self, row, gang, name, fate):
        if fate is Fate.EVICTED:
            self.is_evicted(row, name)
        if row.job.id in gang.late:
            self.kept_from(row, name)
            self.places[name].in_vain.add(row.job.user)
            if len(self.places[name].in_vain.users()) > 1:
                self.fails(name, row)
        gang.late.discard(row.job.id)
        self.waits(row, fate)

    def barred_now(self, row):
        gang = self.gang(row) or self.alone.get(row.job.id)
        return bool(gang and gang.bars)

    def kept_from(self, row, name, least_s=0.0):
        gang = self.gang(row) or self.alone.get(row.job.id)
        if not gang or name not in gang.bars:
            self.bars(row, name, least_s)

    def bars(self, row, name, least_s=0.0):
        """Its gang does not go to that host for a while, or the job alone."""
        gang = self.gang(row) or self.alone.setdefault(row.job.id, Gang([row]))
        pause_s = self.pause_s(min(gang.left, key=lambda one: one.job.id))
        held_s = self.now_s - row.sent_s if row.host else 0.0
        gang.bars[name] = self.now_s + max(pause_s, held_s, least_s)
        for one in gang.left:
            one.job = one.job._replace(barred=one.job.barred | {name})

    def bars_end(self):
        for gang in (*self.gangs.values(), *self.alone.values()):
            for name in [name for name, at_s in gang.bars.items() if self.now_s >= at_s]:
                del gang.bars[name]
                for one in gang.left:
                    one.job = one.job._replace(barred=one.job.barred - {name})

    def pauses(self, row):
        row.held = "held for a while"
        row.paused.append(self.now_s + self.pause_s(row))

    def pause_s(self, row):
        row.pauses += 1
        return min(AWAY_S * 2 ** (row.pauses - 1), AWAY_S_MAX)

    def comes_again(self, row):
        row.held = ""
        self.waits(row, None)

    def waits(self, row, fate):
        self.expected.append((row.job.id, JobState.PENDING, fate))

    def finally_(self, row, state, fate):
        row.over, row.held = True, ""
        if gang := self.gang(row):
            gang.released = True
        self.expected.append((row.job.id, state, fate))

    def freed(self, row):
        """Frees the host of the row and returns the stop reason."""
        stop, row.stop, row.host = row.stop, "", None
        row.told_to_end_s = math.inf
        row.ready = row.released = row.begun = row.told = False
        return stop

    def fails(self, name, row, may_be_users=False):
        place = self.places[name]
        place.is_known, place.failed_s = True, self.now_s
        place.failures.add(row.job.user)
        if may_be_users and len(place.failures.users()) < 2:
            return
        if place.failures.count() >= TERMS.host_failures and not place.is_aside:
            place.is_aside = True
            place.aside_s = min(2 * place.aside_s or AWAY_S, AWAY_S_MAX)
            place.aside_until_s = self.now_s + place.aside_s

    def stop(self, gang, why):
        for row in gang.left:
            if row.host and (not row.stop or (row.stop, why) == (REGROUP, DISBAND)):
                self.stops_one(row, why)

    def stops_one(self, row, why):
        if row.stop != why:
            self.stops.append(StopAsked(row.job.id, row.attempt, why))
        self.stops.append((row.job.id, row.attempt, row.host, why))
        row.stop = why

    # Checks of the answers

    def told(self, actions, before=None):
        said = [one for one in actions if isinstance(one, Changed)]
        assert sorted(map(str, self.expected)) == sorted(
            str((one.job, one.state, one.fate)) for one in said
        )
        for one in said:
            row = self.rows[one.job]
            assert one.crashes == row.crashes
            assert one.reason.startswith(row.held)
        stops = [one for one in actions if isinstance(one, StopAsked)]
        stops += [
            (one.job, one.attempt, one.host, one.stop_reason)
            for one in actions if isinstance(one, Signal)
        ]  # fmt: skip
        assert sorted(map(str, stops)) == sorted(map(str, self.stops))
        self.expected.clear()
        self.stops.clear()
        begins = [one for one in actions if isinstance(one, Begin)]
        assert len(said) + len(stops) + len(begins) == len(actions)
        self.begins(begins, before or {})
        self.check()

    def begins(self, begins, before):
        usable = self.usable()
        for one in begins:
            row = self.rows[one.job]
            assert not (row.over)
            assert not (row.held)
            assert row.host is None
            assert one.attempt == row.attempt + 1
            assert row.job.may_go_to(one.host)
            assert row.job.may_restart or not row.ran
            row.attempt, row.host = one.attempt, one.host
            row.until_s, row.sent_s = self.now_s + TERMS.waited_s, self.now_s
            assert self.life.sending(one.job, one.attempt, self.now_s)
            assert self.used(one.host) <= max(usable[one.host], before.get(one.host, 0))
            assert bool(one.gang_hosts) == bool(row.job.gang)
        for array in {self.rows[one.job].job.array for one in begins} - {0}:
            gang = self.gangs[array]
            hosts = tuple(row.host for row in gang.rows)
            mine = [one for one in begins if one.array == array]
            assert {one.job for one in mine} == {row.job.id for row in gang.rows}
            assert {one.gang_hosts for one in mine} == {hosts}
            gang.released = gang.may_run = gang.shown = False
            gang.moves.clear()
            gang.late.clear()
            gang.hold_until_s = self.now_s + self.life.terms.gang_hold_s

    def check(self):
        left = {job: row for job, row in self.rows.items() if not row.over}
        assert self.life.jobs.keys() == left.keys()
        assert self.life.leased.keys() == {job for job, row in left.items() if row.host}
        leases = [live.lease for live in self.life.leased.values()]
        assert self.life.running == sum(lease is not None and lease.begun for lease in leases)
        for job, row in left.items():
            live = self.life.jobs[job]
            assert (live.stop_reason, bool(live.held)) == (row.stop, bool(row.held))
        aside = {name for name, place in self.places.items() if place.is_aside}
        assert set(self.life.hosts.aside()) == aside
        # No job waits for slots that are free
        waiting = [row for row in left.values() if not row.host and not row.held]
        free = sum(max(0, most - self.used(name)) for name, most in self.usable().items())
        singles = [row for row in waiting if not row.job.gang]
        if singles and not any(row.job.barred for row in singles):
            assert not free
        gangs = Counter(row.job.array for row in waiting if row.job.gang)
        whole = [one for one, count in gangs.items() if count == len(self.gangs[one].rows)]
        if not singles and len(whole) < 4 and not any(row.job.barred for row in waiting):
            assert all(gangs[one] > free for one in whole)

    # Choosing jobs

    def usable(self):
        return {
            name: one.open if one.is_here and not one.is_aside else 0
            for name, one in self.places.items()
        }

    def used(self, name):
        return sum(row.host == name for row in self.rows.values())

    def gang(self, row):
        return self.gangs.get(row.job.array)

    def together(self, row):
        gang = self.gang(row)
        return gang.left if gang else [row]

    def pick(self, may, *, waiting=False, away=False):
        """Picks any job, including those that wait or whose host is not in contact."""
        rows = [row for row in self.rows.values() if not row.over and (waiting or row.host)]
        rows = [row for row in rows if away or self.places[row.host].is_here]
        rows = [row for row in rows if may(row)]
        return self.rng.choice(rows) if rows else None
