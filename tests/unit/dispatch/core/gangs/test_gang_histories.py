"""Random histories of a lifecycle with gangs and single jobs, compared with a simple model."""

import math
from dataclasses import replace
from random import Random

import pytest

from lbd.dispatch.core.discipline import HostSlots, QueuedJob
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.gangs.gang import STAYS
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.records import Cause, Ending, Fate, Live, Release, Settle, Signal
from lbd.errors import LbdError
from lbd.model import CANCEL, GANG_MOVES, GANG_SHOWN, REGROUP, REQUEUE, JobId, JobState
from tests.unit.dispatch.account import AWAY_S_MAX, HOSTS, SLOTS, TERMS, Account, Gang, Place, Row

CAUSES = (Cause.EXITED, Cause.SIGNALLED, Cause.LOST, Cause.CHECKPOINT, Cause.EVICTED)
PHASES = ("slot", "drained", "late", "keeper", "files", "exec", "chdir", "stage", "spawn")


class History(Account):
    def __init__(self, seed):
        self.rng = Random(seed)
        self.terms = replace(TERMS, gang_hold_s=(9.0, 3.0)[seed % 2])  # above a lease, and below
        super().__init__()
        self.take_over()

    # Events

    def take_over(self):
        """A new dispatcher takes over: it has the ledger and hears from the hosts."""
        self.life = Lifecycle(make("fcfs", ()), self.terms)
        self.places = {name: Place() for name in HOSTS}
        for gang in self.gangs.values():
            alive = [row for row in gang.left if row.host]
            gang.released = any(row.told for row in alive)
            gang.may_run, gang.shown = bool(alive), False
            hold_s = max(self.terms.gang_hold_s, self.terms.waited_s)
            gang.hold_until_s = self.now_s + hold_s if alive else math.inf
            gang.moves.clear()
            gang.late.clear()
        for gang in (*self.gangs.values(), *self.alone.values()):
            for one in gang.left:
                one.job = one.job._replace(barred=one.job.barred - frozenset(gang.bars))
            gang.bars.clear()
        for row in self.rows.values():
            if row.over:
                continue
            row.held = "" if row.held.startswith("held for a while") else row.held
            row.paused.clear()
            row.pauses = row.evicted = row.evicted_last = 0
            row.lost_on.clear()
            row.ready = False
            live = Live(row.job, row.attempt, row.crashes, row.held, stop_reason=row.stop)
            leased = (row.attempt, row.host, 1, row.told, 1, None) if row.host else None
            if row.host:
                row.until_s, row.sent_s = self.now_s + TERMS.waited_s, self.now_s
                row.told_to_end_s = math.inf
            assert self.life.restored(live, leased, *self.when) == [], "no host is there yet"

    @property
    def when(self):
        return self.now_s, self.rng

    def submit(self):
        size = self.rng.choice([1, 1, 2, 3, 4])
        first, may_restart = len(self.rows) + 1, self.rng.random() < 0.6
        user = self.rng.choice("abcd")
        of_gang = {"array": first, "gang": size} if size > 1 else {}
        jobs = [
            QueuedJob(
                JobId(str(first + n)), 1, may_restart, user=user, submission=first,
                array_index=n if size > 1 else None, **of_gang,
            )
            for n in range(size)
        ]  # fmt: skip
        rows = [Row(job) for job in jobs]
        self.rows |= {row.job.id: row for row in rows}
        if size > 1:
            self.gangs[first] = Gang(rows)
        self.told(self.life.submitted(jobs, *self.when))

    def beat(self, name=None):
        """A host in contact, or in contact again, sends a heartbeat with all that it holds."""
        name = name or self.rng.choice(HOSTS)
        place = self.places[name]
        place.open, place.is_here, place.is_known = SLOTS, True, True
        mine = [row for row in self.rows.values() if row.host == name]
        stale = [(row.job.id, row.attempt - 1) for row in mine if row.attempt > 1]
        self.told(self.life.host_is(HostSlots(name, SLOTS, load=self.rng.random()), *self.when))
        mine = [row for row in mine if row.host == name]
        held = [(row.job.id, row.attempt) for row in mine]
        renewed, actions = self.life.heartbeat(name, [*held, *stale], self.now_s)
        mine_renewed = [row for row in mine if not self.is_given_up(row)]
        assert renewed == [(row.job.id, row.attempt) for row in mine_renewed]
        assert actions == [Signal(*one, name, 9) for one in stale]
        for row in mine_renewed:
            row.until_s = self.now_s + TERMS.waited_s
        for row in mine:
            if row.begun:
                self.says_begun(row)
            elif row.ready:
                self.says_ready(row)

    def gone(self):
        name = self.rng.choice(HOSTS)
        self.places[name].is_here, self.places[name].is_known = False, True
        self.told(self.life.host_gone(name, *self.when))

    def ready(self):
        if row := self.pick(lambda row: row.job.gang and not row.begun):
            self.says_ready(row)

    def says_ready(self, row):
        gang = self.gang(row)
        if not gang or row.stop:
            expected = []
        else:
            row.ready = True
            at_once = gang.released or not gang.is_whole
            together = at_once or all(one.ready for one in gang.left)
            expected = [] if not together else [row] if at_once else gang.left
        self.releases(self.life.ready(row.host, row.job.id, row.attempt), gang, expected)

    def releases(self, actions, gang, rows):
        waiting = [row for row in rows if row.host and not row.told]
        orders = {Release(row.job.id, row.attempt, row.host) for row in waiting}
        assert (set(actions), len(actions)) == (orders, len(orders))
        for row in waiting:
            row.released |= self.places[row.host].is_here
        if rows:
            gang.released = True

    def begin(self, row=None):
        """A task starts, perhaps while its host is not in contact."""
        row = row or self.pick(lambda row: row.released or not row.job.gang, away=True)
        if row is not None and not row.begun:
            assert row.job.may_restart or not row.ran
            row.begun = row.ran = True
            if self.places[row.host].is_here:
                self.says_begun(row)

    def says_begun(self, row):
        actions = self.life.begun(row.host, row.job.id, row.attempt, 0.5)
        if row.told:
            assert actions == []
            return
        row.told = True
        self.places[row.host].in_vain.served(row.job.user)
        running, *released = actions
        assert (running.state, running.fate, running.begun_ago_s) == (
            JobState.RUNNING, Fate.RUNNING, 0.5)  # fmt: skip
        gang = self.gang(row)
        if gang and not gang.released:
            row.ready = True
            self.releases(released, gang, [one for one in gang.left if one.ready])
        else:
            assert released == []

    def still(self):
        """A task is suspended or resumed: its host's owner is back, or has left."""
        row = self.pick(lambda row: row.begun)
        if row is None:
            return
        stopped, wanted = self.rng.choice([(True, GANG_MOVES), (True, ""), (False, GANG_SHOWN)])
        said, gang = f"{row.host}'s owner is back; moves", self.gang(row)
        expected = said
        if gang:
            gang.shown |= wanted == GANG_SHOWN
            if not row.stop:
                gang.moves.pop(row.job.id, None)
            if wanted == GANG_MOVES and not row.stop:
                gang.moves[row.job.id] = said
                expected = said if gang.may_move else f"{row.host}'s owner is back; {STAYS}"
        where = row.host, row.job.id, row.attempt
        (changed,) = self.life.stopped(*where, stopped, self.now_s, said, wanted)
        state = JobState.SUSPENDED if stopped else JobState.RUNNING
        assert (changed.state, changed.reason) == (state, expected)

    def end(self):
        row = self.pick(lambda row: row.begun or (row.stop and not row.job.gang))
        if row is not None:
            cause = self.rng.choice(CAUSES)
            status = self.rng.choice([0, 3]) if cause is Cause.EXITED else None
            self.reported(row, Ending(cause, status, reason=self.rng.choice(["", "so it was"])))

    def reported(self, row, ending):
        where = row.job.id, row.attempt, row.host
        self.is_over(row, ending)
        *actions, settle = self.life.ended(where[2], *where[:2], ending, *self.when)
        assert settle == Settle(*where)
        self.told(actions)
        again = self.life.ended(where[2], *where[:2], ending, *self.when)
        assert again == [Settle(*where)], "of an attempt that is over nothing follows"

    def refuse(self, row=None, phase=""):
        row = row or self.pick(lambda row: not row.begun and not (row.job.gang and row.released))
        if row is None:
            return
        if not phase:
            late = row.stop and self.rng.random() < 0.8
            phase = "late" if late else self.rng.choice(PHASES)
        ending = Ending(Cause.LOST, 2, reason="no")
        where = row.job.id, row.attempt, row.host
        self.is_refused(row, phase)
        *actions, settle = self.life.refused(where[2], *where[:2], phase, ending, *self.when)
        assert settle == Settle(*where)
        self.told(actions)
        assert self.life.refused(where[2], *where[:2], phase, ending, *self.when) == [settle]

    def wait(self):
        self.now_s += self.rng.choice([0.5, 1.0, 2.0, 2.0, 4.0])
        before = self.usable()
        for row in [self.rows[job] for job in self.life.leased]:
            if row.stop:
                row.told_to_end_s = min(row.told_to_end_s, self.now_s)
            if self.now_s >= row.until_s:
                reason = f"contact with {row.host} was lost"
                if self.is_given_up(row):
                    reason = f"{row.host} did not say that it had called it off"
                self.is_over(row, Ending(Cause.LOST, reason=reason))
        self.bars_end()
        for row in self.rows.values():
            due = row.paused and self.now_s >= row.paused[-1]
            if due and row.held.startswith("held for a while") and not row.over:
                self.comes_again(row)
        for gang in self.gangs.values():
            if self.now_s >= gang.hold_until_s:
                gang.hold_until_s = math.inf
                alive = [row for row in gang.left if row.host]
                if alive and gang.is_whole and not gang.released:
                    gang.late = {row.job.id for row in alive if not row.ready}
                    self.stop(gang, REGROUP)
        for gang in self.gangs.values():
            if gang.moves and gang.may_move:
                self.stop(gang, REGROUP)
        for place in self.places.values():
            if place.is_aside and self.now_s >= place.aside_until_s:
                place.is_aside, place.failed_s = False, self.now_s
            elif not place.is_aside and self.now_s >= place.failed_s + AWAY_S_MAX:
                place.failures.events, place.aside_s = [], 0.0
        self.told(self.life.tick(*self.when), before)

    def kill(self, row=None):
        if row := row or self.pick(lambda row: True, waiting=True, away=True):
            for one in self.together(row):
                if one.host:
                    self.stops_one(one, CANCEL)
                    one.told_to_end_s = min(one.told_to_end_s, self.now_s)
                else:
                    self.finally_(one, JobState.CANCELLED, None)
            self.told(self.life.kill(row.job.id, self.rng.choice([0, 9, 15]), *self.when))

    def requeue(self):
        row = self.pick(lambda row: True, waiting=True, away=True)
        if row is None:
            return
        alive, gang = [one for one in self.together(row) if one.host], self.gang(row)
        if not alive or not row.job.may_restart or (gang and not gang.is_whole):
            with pytest.raises(LbdError):
                self.life.requeue(row.job.id)
            return
        for one in alive:
            self.stops_one(one, REQUEUE)
        self.told(self.life.requeue(row.job.id))

    def hold(self):
        row = self.pick(lambda row: True, waiting=True, away=True)
        if row is None:
            return
        together = self.together(row)
        if any(one.host for one in together):
            with pytest.raises(LbdError, match="only pending jobs can be held"):
                self.life.hold(row.job.id, "held by ann", *self.when)
            return
        for one in together:
            if not one.held or one.held.startswith("held for a while"):
                one.held = "held by ann"
                self.expected.append((one.job.id, JobState.PENDING, None))
        self.told(self.life.hold(row.job.id, "held by ann", *self.when))

    def release(self, row=None):
        row = row or self.pick(lambda row: True, waiting=True, away=True)
        if row is None:
            return
        held = [one for one in self.together(row) if one.held]
        if not held and any(one.host for one in self.together(row)):
            with pytest.raises(LbdError, match="only pending jobs can be released"):
                self.life.release(row.job.id, *self.when)
            return
        for one in self.together(row) if held else ():
            one.crashes = one.evicted = 0
            one.lost_on.clear()
        for one in held:
            self.comes_again(one)
        self.told(self.life.release(row.job.id, *self.when))

    def finish(self):
        """All faults are over, and every job must come to an end."""
        for _ in range(300):
            for name in HOSTS:
                self.beat(name)
            for row in self.rows.values():
                if not row.over:
                    self.goes_well(row)
            if not self.life.jobs:
                break
            self.wait()
        assert not self.life.jobs

    def goes_well(self, row):
        if row.held:
            self.release(row)
        elif not row.host:
            if row.job.barred:  # tasks of a gang may be barred from too many hosts
                self.kill(row)
        elif row.begun:
            self.reported(row, Ending(Cause.EXITED, 0))
        elif row.stop:
            self.refuse(row, "late")
        elif row.job.gang and not row.released:
            self.says_ready(row)
        else:
            self.begin(row)


WEIGHTS = {
    "submit": 8, "beat": 20, "gone": 2, "ready": 30, "begin": 30, "still": 4, "end": 14,
    "refuse": 8, "wait": 20, "kill": 1, "requeue": 2, "hold": 2, "release": 3, "take_over": 2,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(300))
def test_every_attempt_ends_as_promised(seed):
    history = History(seed)
    for _ in range(400):
        (name,) = history.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
        getattr(history, name)()
    history.finish()
