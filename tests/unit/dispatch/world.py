"""Hosts, a dispatcher and its ledger in virtual time, where everything can go wrong.

The dispatcher's deciding code, the hosts' leases and the ledger's statements are the real ones.
What is not on disk when the dispatcher is killed is lost with it; what is under way when a line
breaks is lost; a host that crashes forgets everything, and what ran there dies.
"""

import sqlite3
from collections import deque
from random import Random

from lbd.dispatch.discipline import HostSlots
from lbd.dispatch.disciplines.registry import make
from lbd.dispatch.hosts import Terms
from lbd.dispatch.jobs import ENDED_STATES, Begin, Cause, Changed, Ending, Settle, Signal
from lbd.dispatch.ledger.rows import AttemptRow, Submission
from lbd.dispatch.ledger.schema import STEPS
from lbd.dispatch.ledger.sqlite import JOB_COLUMNS, apply_all, insert, jobs_of
from lbd.dispatch.lifecycle import Lifecycle
from lbd.dispatch.restore import live_job
from lbd.lbm.leases import Leases
from lbd.model import HostId

TERMS = Terms(lease_s=10.0, crash_limit=1000, host_failures=3, aside_s=2.0, aside_max_s=4.0)
ENDED = {state.value for state in ENDED_STATES}
SLOTS = 2


class FakeHost:
    """What an LBM with its keeper does. Its clock may be late by `skew` of the true pace."""

    def __init__(self, name, skew):
        self.name = HostId(name)
        self.skew = skew
        self.reset()

    def reset(self):
        self.leases = Leases()
        self.alive = {}  # key: cutoff
        self.ended = {}  # key: Ending, not settled
        self.up = deque()
        self.down = deque()
        self.connected = False
        self.last_beat = 0  # that the dispatcher has heard on this line

    def now_s(self, world):
        return world.now_s * self.skew

    def beat(self, world):
        number = self.leases.beat(self.now_s(world))
        held = [*self.alive, *self.ended]
        self.up.append(("beat", number, held))

    def hear(self, world, message):
        kind, *rest = message
        if kind == "start":
            key, anchor, cutoff_s = rest
            if key in self.alive or key in self.ended:
                return
            if not self.leases.take(key, anchor, TERMS.lease_s, self.now_s(world)):
                self.up.append(("refused", key, "late"))
            elif len(self.alive) >= SLOTS:
                self.leases.drop(key)
                self.up.append(("refused", key, "slot"))
            else:
                self.alive[key] = cutoff_s
                world.began(self, key)
                self.up.append(("begun", key))
        elif kind == "renewed":
            number, keys = rest
            self.leases.renew(number, keys, TERMS.lease_s)
        elif kind == "signal" and rest[0] in self.alive:
            self.over(rest[0], Ending(Cause.SIGNALLED, 143, 15))
        elif kind == "settled":
            self.ended.pop(rest[0], None)

    def over(self, key, ending):
        self.alive.pop(key)
        self.leases.drop(key)
        self.ended[key] = ending
        self.up.append(("ended", key, ending))

    def let_go(self, world):
        for key in self.leases.over(self.now_s(world)):
            if key in self.alive:
                self.over(key, Ending(Cause.LOST, reason="no lease"))
            self.leases.drop(key)


class World:
    def __init__(self, mode, seed, hosts=3):
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
        self.restart()

    # The dispatcher

    def restart(self):
        self.life = Lifecycle(make(self.mode, (1.0, 5.0)), TERMS)
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
        return jobs_of(self.db.execute(f"SELECT {JOB_COLUMNS} WHERE {where}"))

    def carry(self, actions):
        if actions:
            self.batches.append(actions)

    def commit(self):
        """Write the oldest batch, and do what follows from it."""
        if not self.batches:
            return
        actions = self.batches.popleft()
        records = [action for action in actions if isinstance(action, Begin | Changed)]
        apply_all(self.db, records, self.now_s)
        for action in actions:
            self.follow(action)

    def follow(self, action):
        if isinstance(action, Changed):
            return
        host = self.hosts[action.host]
        key = action.job, action.attempt
        if isinstance(action, Begin):
            if not self.life.sending(action.job, action.attempt, self.now_s) or not host.connected:
                late = Ending(Cause.LOST, reason="late")
                self.carry(self.life.refused(
                    action.host, *key, "late", late, self.now_s, self.dice))  # fmt: skip
            else:
                host.down.append(("start", key, host.last_beat, action.cutoff_s))
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
            self.carry(life.host_is(HostSlots(host.name, SLOTS, tiers=(1, 2, 3)), *now))
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
        sent = Submission("u", "h1", "", b"true", b"", may_restart=may_restart, count=count)
        accepted = insert(self.db, sent, self.now_s)  # the caller is answered after this
        jobs = [sent.job(accepted.first + n) for n in range(count)]
        for job in jobs:
            self.acknowledged[job.id] = may_restart
        self.carry(self.life.submitted(jobs, self.now_s, self.dice))

    def connect(self, host):
        if not host.connected:
            host.connected = True
            host.up.clear()
            host.down.clear()
            host.beat(self)
            host.up.extend(("begun", key) for key in host.alive)
            host.up.extend(("ended", key, ending) for key, ending in host.ended.items())

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
            host.over(key, ending)

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
        numbers.append(attempt)
        self.check()

    def check(self):
        alive = [job for host in self.hosts.values() for job, _ in host.alive]
        assert len(alive) == len(set(alive)), f"two attempts of a job are alive: {alive}"
        assert len(self.life.queues.entries) + sum(
            bool(live.held) and live.lease is None for live in self.life.jobs.values()
        ) == len(self.life.jobs)

    def finish(self):
        """All heals, and everything must come to its end."""
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
