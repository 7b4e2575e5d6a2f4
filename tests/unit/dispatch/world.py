"""Hosts, a dispatcher and its ledger in virtual time, where everything can go wrong.

The dispatcher's deciding code, the hosts' leases and the ledger's statements are the real ones.
What is not on disk when the dispatcher is killed is lost with it; what is under way when a line
breaks is lost; a host that crashes forgets everything, and what ran there dies. While the disk is
full nothing is acknowledged, and what must not be lost is written once it can be.
"""

import sqlite3
from collections import Counter, deque
from dataclasses import replace
from random import Random

from lbd.dispatch.discipline import HostSlots
from lbd.dispatch.disciplines.registry import make
from lbd.dispatch.hosts import Terms
from lbd.dispatch.jobs import (
    CANCEL,
    Begin,
    Cause,
    Changed,
    Ending,
    Record,
    Settle,
    Signal,
    Wished,
)
from lbd.dispatch.ledger import work
from lbd.dispatch.ledger.rows import AttemptRow, Submission
from lbd.dispatch.ledger.schema import STEPS
from lbd.dispatch.ledger.sqlite import carry_out
from lbd.dispatch.lifecycle import Lifecycle
from lbd.dispatch.restore import live_job
from lbd.dispatch.shares import Rules
from lbd.lbm.leases import Leases
from lbd.model import ENDED_STATES, HostId

TERMS = Terms(lease_s=10.0, crash_limit=1000, host_failures=3, aside_s=2.0, aside_max_s=4.0)
ENDED = {state.value for state in ENDED_STATES}
SLOTS, AHEAD = 2, 2


class FakeHost:
    """What an LBM with its keeper does. Its clock may be late by `skew` of the true pace."""

    def __init__(self, name, skew):
        self.name = HostId(name)
        self.skew = skew
        self.reset()

    def reset(self):
        self.leases = Leases()
        self.alive = {}  # key: cutoff
        self.slots = {}  # key: slots, of those alive
        self.waiting = {}  # key: cutoff, sent ahead of a free slot
        self.waiting_until_s = 0.0
        self.ended = {}  # key: Ending, not settled
        self.up = deque()
        self.down = deque()
        self.connected = False
        self.last_beat = 0  # that the dispatcher has heard on this line

    def now_s(self, world):
        return world.now_s * self.skew

    def beat(self, world):
        number = self.leases.beat(self.now_s(world))
        held = [*self.alive, *self.waiting, *self.ended]
        self.up.append(("beat", number, held))

    def hear(self, world, message):
        kind, *rest = message
        if kind == "start":
            key, anchor, cutoff_s, slots = rest
            if key in self.alive or key in self.waiting or key in self.ended:
                return
            if not self.leases.take(key, anchor, TERMS.lease_s, self.now_s(world)):
                self.up.append(("refused", key, "late"))
            elif sum(self.slots.values()) + slots <= SLOTS:
                self.begin(world, key, cutoff_s, slots)
            elif slots == 1:
                self.waiting[key] = cutoff_s
                self.waiting_until_s = world.now_s + 3.0
            else:
                self.leases.drop(key)
                self.up.append(("refused", key, "slot"))
        elif kind == "renewed":
            number, keys = rest
            self.leases.renew(number, keys, TERMS.lease_s)
        elif kind == "signal" and rest[0] in self.alive:
            self.over(world, rest[0], Ending(Cause.SIGNALLED, 143, 15))
        elif kind == "signal" and rest[0] in self.waiting:
            self.send_back(rest[0], "late")
        elif kind == "settled":
            self.ended.pop(rest[0], None)

    def begin(self, world, key, cutoff_s, slots):
        self.alive[key], self.slots[key] = cutoff_s, slots
        world.began(self, key)
        self.up.append(("begun", key))

    def send_back(self, key, stage):
        del self.waiting[key]
        self.leases.drop(key)
        self.ended[key] = stage
        self.up.append(("refused", key, stage))

    def over(self, world, key, ending):
        self.alive.pop(key)
        self.slots.pop(key)
        self.leases.drop(key)
        self.ended[key] = ending
        self.up.append(("ended", key, ending))
        while self.waiting and sum(self.slots.values()) < SLOTS:
            following = next(iter(self.waiting))
            self.begin(world, following, self.waiting.pop(following), 1)

    def let_go(self, world):
        for key in self.leases.over(self.now_s(world)):
            if key in self.alive:
                self.over(world, key, Ending(Cause.LOST, reason="no lease"))
            elif key in self.waiting:
                self.send_back(key, "late")
            self.leases.drop(key)
        if world.now_s >= self.waiting_until_s:
            for key in list(self.waiting):
                self.send_back(key, "slot")


class World:
    def __init__(self, mode, seed, hosts=3, rules=None, crash_limit=1000, widest=2):
        self.rules = rules or Rules()
        self.terms = replace(TERMS, crash_limit=crash_limit)
        self.widest = widest
        self.disk_full = False
        self.over = {}  # id: its row on the ledger, of those that have ended
        self.dice = Random(seed)
        self.mode = mode
        self.now_s = 1000.0
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        for step in STEPS:
            self.db.executescript(step)
        skews = (1.0, 1.02, 0.98)
        self.hosts = {f"h{n}": FakeHost(f"h{n}", skews[n % 3]) for n in range(1, hosts + 1)}
        self.acknowledged = {}  # id: may_restart
        self.started = {}  # id: attempts that ever began
        self.wishes = {}  # id: what its user was told will be done
        self.users = {}  # id: whose
        self.restart()

    # The dispatcher

    def restart(self):
        self.life = Lifecycle(make(self.mode, (1.0, 5.0)), self.terms, self.rules)
        self.batches = deque()
        for host in self.hosts.values():
            self.cut(host)
        rows = self.rows("j.finished IS NULL ORDER BY j.id")
        for row in rows:
            attempts = [AttemptRow(*one) for one in self.db.execute(
                "SELECT * FROM attempts WHERE job = ? ORDER BY number", (row.id,))]  # fmt: skip
            live, leased = live_job(row, attempts[-1] if attempts else None)
            self.carry(self.life.restored(live, leased, self.now_s, self.dice))

    def rows(self, where):
        return work.jobs_of(self.db.execute(f"SELECT {work.JOB_COLUMNS} WHERE {where}"))

    def carry(self, actions):
        if actions:
            self.batches.append(actions)

    def commit(self):
        """Write the oldest batch, and do what follows from it."""
        if not self.batches or self.disk_full:
            return
        actions = self.batches.popleft()
        self.write(actions)
        for action in actions:
            self.follow(action)

    def write(self, actions):
        records = [action for action in actions if isinstance(action, Record)]
        carry_out(self.db, work.apply_all([(record, self.now_s) for record in records]))
        for record in records:
            (row,) = self.rows(f"j.id = {record.job}")
            assert self.over.get(record.job, row) == row, "what has ended is never changed"
            if row.state in ENDED:
                self.over[record.job] = row
            if isinstance(record, Wished):
                self.wishes[record.job] = record

    def torn(self):
        """The dispatcher dies while it writes: of a transaction there is all or nothing."""
        if self.batches:
            over, wishes = dict(self.over), dict(self.wishes)
            self.db.execute("BEGIN")
            self.write(self.batches[0])
            self.db.execute("ROLLBACK")
            self.over, self.wishes = over, wishes
        self.restart()

    def follow(self, action):
        if isinstance(action, Changed | Wished):
            return
        host = self.hosts[action.host]
        key = action.job, action.attempt
        if isinstance(action, Begin):
            if not self.life.sending(action.job, action.attempt, self.now_s) or not host.connected:
                late = Ending(Cause.LOST, reason="late")
                self.carry(self.life.refused(
                    action.host, *key, "late", late, self.now_s, self.dice))  # fmt: skip
            else:
                host.down.append(("start", key, host.last_beat, action.cutoff_s, action.slots))
        elif host.connected and isinstance(action, Signal):
            host.down.append(("signal", key))
        elif host.connected and isinstance(action, Settle):
            host.down.append(("settled", key))

    def hear(self, host, message):
        kind, *rest = message
        now, life = (self.now_s, self.dice), self.life
        if kind == "beat":
            number, held = rest
            host.last_beat = number
            told = HostSlots(host.name, SLOTS, tiers=(1, 2, 3), ahead=AHEAD)
            self.carry(life.host_is(told, *now))
            renewed, actions = life.beat(host.name, held, self.now_s)
            self.carry(actions)
            host.down.append(("renewed", number, renewed))
        elif kind == "begun":
            self.carry(life.begun(host.name, *rest[0]))
        elif kind == "ended":
            key, ending = rest
            self.carry(life.ended(host.name, *key, ending, *now))
        elif kind == "refused":
            key, stage = rest
            self.carry(life.refused(
                host.name, *key, stage, Ending(Cause.LOST, reason=stage), *now))  # fmt: skip

    # What may happen

    def submit(self, may_restart, count=1):
        if self.disk_full:
            return  # and the caller is told so
        slots, index = self.dice.choice((1, 1, 1, self.widest)), 1 if count > 1 else None
        sent = Submission(
            self.dice.choice(("ann", "bob")), "h1", "", b"true", b"", slots, may_restart,
            slots_most=self.dice.choice((slots, self.widest)), first_index=index, count=count,
            priority=self.dice.randint(-1, 1),
        )  # fmt: skip
        # The caller is answered after this.
        accepted = carry_out(self.db, work.insert(sent, self.now_s))
        jobs = list(sent.jobs(accepted))
        for job in jobs:
            self.acknowledged[job.id] = may_restart
            self.users[job.id] = job.user
        self.carry(self.life.submitted(jobs, self.now_s, self.dice))

    def connect(self, host):
        if not host.connected:
            host.connected = True
            host.up.clear()
            host.down.clear()
            host.beat(self)
            host.up.extend(("begun", key) for key in host.alive)
            for key, ending in host.ended.items():
                kind = "refused" if isinstance(ending, str) else "ended"
                host.up.append((kind, key, ending))

    def cut(self, host):
        if host.connected:
            host.connected = False
            host.up.clear()
            host.down.clear()
            self.carry(self.life.host_gone(host.name, self.now_s, self.dice))

    def crash(self, host):
        self.cut(host)
        host.reset()

    def deliver(self, host, upwards):
        queue = host.up if upwards else host.down
        for _ in range(self.dice.randint(1, 4)):
            if not (host.connected and queue):
                return
            message = queue.popleft()
            if upwards:
                self.hear(host, message)
            else:
                host.hear(self, message)

    def end_one(self, host, status):
        if host.alive:
            key = self.dice.choice(sorted(host.alive))
            cut = host.alive[key] is not None and self.dice.random() < 0.5
            ending = Ending(Cause.CUT, 137, 9) if cut else Ending(Cause.EXITED, status)
            if not cut and self.acknowledged[key[0]] and self.dice.random() < 0.1:
                ending = Ending(Cause.CHECKPOINT, 85)
            host.over(self, key, ending)

    def act(self, verb):
        if self.life.jobs:
            job = self.dice.choice(sorted(self.life.jobs))
            live = self.life.jobs[job]
            now = self.now_s, self.dice
            if verb == "kill":
                self.carry(self.life.kill(job, 0, *now))
            elif verb == "hold" and live.lease is None:
                self.carry(self.life.hold(job, "held by u", *now))
            elif verb == "release" and live.held:
                self.carry(self.life.release(job, *now))
            elif verb == "requeue" and live.lease is not None and live.job.may_restart:
                self.carry(self.life.requeue(job, self.now_s))

    def stall(self, seconds):
        """The dispatcher is stopped; the hosts go on."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s = min(until_s, self.now_s + 0.5)
            for host in self.hosts.values():
                host.let_go(self)
            self.check()

    def wait(self, seconds):
        """In steps that no lease can hide in."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s = min(until_s, self.now_s + 0.5)
            for host in self.hosts.values():
                host.let_go(self)
            self.carry(self.life.tick(self.now_s, self.dice))
            self.check()

    # What must hold

    def began(self, host, key):
        job, attempt = key
        numbers = self.started.setdefault(job, [])
        assert attempt not in numbers, "no attempt begins twice"
        assert self.acknowledged[job] or not numbers, "it may not restart"
        wish = self.wishes.get(job)
        assert wish is None or wish.wish != CANCEL or attempt <= wish.attempt, "it was cancelled"
        numbers.append(attempt)
        on_disk = self.db.execute(
            "SELECT fate, host FROM attempts WHERE job = ? AND number = ?", (int(job), attempt)
        ).fetchall()
        assert len(on_disk) == 1, "it is on disk before it begins"
        self.check()

    def check(self):
        alive = [job for host in self.hosts.values() for job, _ in host.alive]
        assert len(alive) == len(set(alive)), f"two attempts of a job are alive: {alive}"
        held = Counter()
        for host in self.hosts.values():
            assert sum(host.slots.values()) <= SLOTS
            for (job, _), slots in host.slots.items():
                held[self.users[job]] += slots
        if self.rules.user_slots:
            assert max(held.values(), default=0) <= self.rules.user_slots, held
        assert len(self.life.queues.books) + sum(
            bool(live.held) and live.lease is None for live in self.life.jobs.values()
        ) == len(self.life.jobs)
        aside = set(self.life.hosts.aside())
        assert not aside & self.life.queues.hosts.keys(), "a host set aside gets nothing"
        limit = self.terms.crash_limit
        assert all(live.crashes < limit or live.held for live in self.life.jobs.values())

    def finish(self):
        """All heals, and everything must come to its end."""
        self.disk_full = False
        for _ in range(400):
            for host in self.hosts.values():
                self.connect(host)
                host.beat(self)
                self.end_one(host, 0)
                while host.up or host.down:
                    self.deliver(host, upwards=True)
                    self.deliver(host, upwards=False)
            while self.batches:
                self.commit()
            for live in list(self.life.jobs.values()):
                if live.held:
                    self.carry(self.life.release(live.job.id, self.now_s, self.dice))
            self.wait(1.0)
            if not self.life.jobs and not self.batches:
                break
        rows = {str(row.id): row for row in self.rows("1")}
        assert rows.keys() == self.acknowledged.keys(), "none is forgotten"
        assert {row.state for row in rows.values()} <= ENDED
        for job, row in rows.items():
            if row.state == "lost":
                assert not self.acknowledged[job]
