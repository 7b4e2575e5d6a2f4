"""Hosts, a dispatcher and its ledger in virtual time, where everything can go wrong.

The deciding code of the dispatcher and of the hosts, and the ledger's statements, are the real
ones. What is not on disk when the dispatcher is killed is lost with it; what is in transit when a
connection breaks is lost; a host that crashes forgets everything, and its jobs die. While the disk
is full nothing is acknowledged, and what must not be lost is written as soon as possible.
"""

import heapq
import itertools
import sqlite3
from collections import Counter, deque
from dataclasses import replace
from random import Random

from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.ledger_rows import AttemptRow, Submission
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.records import (
    Begin,
    Cause,
    Changed,
    Ending,
    Record,
    Settle,
    Signal,
    StopAsked,
)
from lbd.dispatch.core.restore import live_job
from lbd.dispatch.core.shares import Rules
from lbd.dispatch.ledger import work
from lbd.dispatch.ledger.schema import STEPS
from lbd.dispatch.ledger.sqlite import carry_out
from lbd.lbm.core.execution_events import CHECKPOINTED, Exit, Limit
from lbd.model import CANCEL, ENDED_STATES, HostId
from lbd.sim.faults import messages as m
from lbd.sim.faults.host import Host, Settings

TERMS = Terms(lease_s=10.0, crash_limit=1000, host_failures=3, aside_s=2.0, aside_max_s=4.0)
ENDED = {state.value for state in ENDED_STATES}
SLOTS = 2


class World:
    def __init__(self, mode, seed, hosts=3, rules=None, crash_limit=1000, widest=2):
        self.rules = rules or Rules()
        self.terms = replace(TERMS, crash_limit=crash_limit)
        self.widest = widest
        self.disk_full = False
        self.calls, self.order = [], itertools.count()
        self.over = {}  # rows of ended jobs in the ledger, by id
        self.rng = Random(seed)
        self.mode = mode
        self.now_s = 1000.0
        self.db = sqlite3.connect(":memory:", isolation_level=None)
        for step in STEPS:
            self.db.executescript(step)
        skews = (1.0, 1.02, 0.98)
        names = [(f"h{n}", skews[n % 3]) for n in range(1, hosts + 1)]
        settings_ = Settings(SLOTS)
        self.hosts = {name: Host(HostId(name), self, settings_, skew) for name, skew in names}
        # the last heartbeat of each host that the dispatcher has heard on this connection
        self.last_heartbeat = Counter()
        self.down = {name: deque() for name in self.hosts}
        self.slots_asked = set()  # (host, attempt) pairs that hold a slot or wait for one
        self.acknowledged = {}  # may_restart by id
        self.started = {}  # attempts that ever started, by id
        self.stop_reasons = {}  # what its user was told will happen, by id
        self.users = {}  # users by id
        self.restart()

    # The world of its hosts

    def at(self, delay_s, body):
        heapq.heappush(self.calls, (self.now_s + delay_s, next(self.order), body))

    def pass_to(self, moment_s):
        while self.calls and self.calls[0][0] <= moment_s:
            self.now_s, _, body = heapq.heappop(self.calls)
            body()
        self.now_s = moment_s

    def slot_asked(self, host, job):
        self.slots_asked.add((host, job))

    def slot_freed(self, host, job):
        self.slots_asked.remove((host, job))  # once
        keeper = self.hosts[host].keeper
        assert keeper.is_dead or job not in keeper.alive

    def begins(self, host, tree):
        self.began(m.key_of(tree.spec.id))

    def ends(self, host, tree):
        pass

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
            self.carry(self.life.restored(live, leased, self.now_s, self.rng))

    def rows(self, where):
        def found():
            rows, known = (yield work.Ask(f"SELECT {work.JOB_COLUMNS} WHERE {where}")), {}
            yield from work.learn(known, rows)
            commands = {}
            yield from work.learn_commands(commands, rows)
            return work.jobs_of(rows, known, commands)

        return carry_out(self.db, found())

    def carry(self, actions):
        if actions:
            self.batches.append(actions)

    def commit(self):
        """Writes the oldest batch, and does what follows from it."""
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
            if isinstance(record, StopAsked):
                self.stop_reasons[record.job] = record

    def torn(self):
        """The dispatcher dies while it writes: a transaction is written fully or not at all."""
        if self.batches:
            over, stop_reasons = dict(self.over), dict(self.stop_reasons)
            self.db.execute("BEGIN")
            self.write(self.batches[0])
            self.db.execute("ROLLBACK")
            self.over, self.stop_reasons = over, stop_reasons
        self.restart()

    def follow(self, action):
        if isinstance(action, Changed | StopAsked):
            return
        host = self.hosts[action.host]
        key = action.job, action.attempt
        if isinstance(action, Begin):
            if not self.life.sending(action.job, action.attempt, self.now_s) or not host.connected:
                late = Ending(Cause.LOST, reason="late")
                self.carry(self.life.refused(
                    action.host, *key, "late", late, self.now_s, self.rng))  # fmt: skip
            else:
                start = m.StartAttempt(
                    key, self.last_heartbeat[host.name], TERMS.lease_s, action.cutoff_s,
                    action.slots,
                )  # fmt: skip
                self.down[host.name].append(start)
        elif host.connected and isinstance(action, Signal):
            self.down[host.name].append(m.EndAttempt(key, action.number, action.stop_reason))
        elif host.connected and isinstance(action, Settle):
            self.down[host.name].append(m.ForgetAttempt(key))

    def hear(self, host, message):
        now, life = (self.now_s, self.rng), self.life
        match message:
            case m.Heartbeat(number, held, slots, left_s=left_s):
                self.last_heartbeat[host.name] = number
                self.carry(life.host_is(slots, *now))
                keys = [(job, attempt) for job, attempt, _ in held]
                renewed, actions = life.heartbeat(host.name, keys, self.now_s, left_s)
                self.carry(actions)
                answer = m.LeasesRenewed(number, TERMS.lease_s, tuple(renewed))
                self.down[host.name].append(answer)
            case m.AttemptBegun(key):
                self.carry(life.begun(host.name, *key))
            case m.AttemptEnded(key, ending):
                self.carry(life.ended(host.name, *key, ending, *now))
            case m.AttemptRefused(key, phase, ending):
                self.carry(life.refused(host.name, *key, phase, ending, *now))

    # Events

    def submit(self, may_restart, count=1):
        if self.disk_full:
            return  # and the caller is told so
        slots, index = self.rng.choice((1, 1, 1, self.widest)), 1 if count > 1 else None
        sent = Submission(
            self.rng.choice(("ann", "bob")), 1000, "h1", "", b"true", b"", slots, may_restart,
            slots_most=self.rng.choice((slots, self.widest)), first_index=index, count=count,
            priority=self.rng.randint(-1, 1),
        )  # fmt: skip
        # The caller is answered after this.
        accepted = carry_out(self.db, work.insert(sent, self.now_s))
        jobs = list(sent.jobs(accepted))
        for job in jobs:
            self.acknowledged[job.id] = may_restart
            self.users[job.id] = job.user
        self.carry(self.life.submitted(jobs, self.now_s, self.rng))

    def connect(self, host):
        if not host.connected:
            self.down[host.name].clear()
            host.reconnected()

    def cut(self, host):
        if host.connected:
            host.connected = False
            host.up.clear()
            self.down[host.name].clear()
            self.carry(self.life.host_gone(host.name, self.now_s, self.rng))

    def crash(self, host):
        """A whole host crashes."""
        self.cut(host)
        host.lose_lbm()
        host.keeper.end_all()
        host.start_afresh()
        self.slots_asked = {asked for asked in self.slots_asked if asked[0] != host.name}

    def restart_lbm(self, host):
        self.cut(host)
        host.pause()
        host.resume()

    def lose_keeper(self, host):
        host.lose_keeper()

    def deliver(self, host, upwards):
        queue = host.up if upwards else self.down[host.name]
        for _ in range(self.rng.randint(1, 4)):
            if not (host.connected and queue):
                return
            message = queue.popleft()
            if upwards:
                self.hear(host, message)
            else:
                host.hear(message)

    def end_one(self, host, status):
        if host.keeper.alive:
            tree = host.keeper.alive[self.rng.choice(sorted(host.keeper.alive))]
            job, _ = m.key_of(tree.spec.id)
            cut = tree.spec.cutoff_s and self.rng.random() < 0.5
            how = Exit(137, 9, limit=Limit.CPU) if cut else Exit(status)
            if not cut and self.acknowledged[job] and self.rng.random() < 0.1:
                how = Exit(CHECKPOINTED)
            host.keeper.exits(tree, how)

    def act(self, verb):
        if self.life.jobs:
            job = self.rng.choice(sorted(self.life.jobs))
            live = self.life.jobs[job]
            now = self.now_s, self.rng
            if verb == "kill":
                self.carry(self.life.kill(job, 0, *now))
            elif verb == "hold" and live.lease is None:
                self.carry(self.life.hold(job, "held by u", *now))
            elif verb == "release" and live.held:
                self.carry(self.life.release(job, *now))
            elif verb == "requeue" and live.lease is not None and live.job.may_restart:
                self.carry(self.life.requeue(job))

    def stall(self, seconds):
        """The dispatcher is stopped while the hosts continue."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.pass_to(min(until_s, self.now_s + 0.5))
            self.check()

    def wait(self, seconds):
        """Waits in steps that are too short to hide a lease."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.pass_to(min(until_s, self.now_s + 0.5))
            self.carry(self.life.tick(self.now_s, self.rng))
            self.check()

    # Invariants

    def began(self, key):
        job, attempt = key
        numbers = self.started.setdefault(job, [])
        assert attempt not in numbers, "no attempt begins twice"
        assert self.acknowledged[job] or not numbers, "it may not restart"
        stop_reason = self.stop_reasons.get(job)
        assert (
            stop_reason is None
            or stop_reason.stop_reason != CANCEL
            or attempt <= stop_reason.attempt
        ), "it was cancelled"
        numbers.append(attempt)
        on_disk = self.db.execute(
            "SELECT fate, host FROM attempts WHERE job = ? AND number = ?", (int(job), attempt)
        ).fetchall()
        assert len(on_disk) == 1, "it is on disk before it begins"
        self.check()

    def check(self):
        trees = [tree for host in self.hosts.values() for tree in host.keeper.alive.values()]
        alive = [m.key_of(tree.spec.id)[0] for tree in trees]
        assert len(alive) == len(set(alive)), f"two attempts of a job are alive: {alive}"
        held = Counter()
        for host in self.hosts.values():
            assert host.lbm.line.slots.used <= SLOTS
        for tree in trees:
            held[self.users[m.key_of(tree.spec.id)[0]]] += tree.spec.slots[0]
        if self.rules.user_slots:
            assert max(held.values(), default=0) <= self.rules.user_slots, held
        assert len(self.life.queues.registry) + sum(
            bool(live.held) and live.lease is None for live in self.life.jobs.values()
        ) == len(self.life.jobs)
        aside = set(self.life.hosts.aside())
        assert not aside & self.life.queues.hosts.keys(), "a host set aside gets nothing"
        limit = self.terms.crash_limit
        assert all(live.crashes < limit or live.held for live in self.life.jobs.values())

    def finish(self):
        """All faults are over, and every job must come to its end."""
        self.disk_full = False
        for _ in range(2000):  # hundreds of jobs may wait for one user's two slots
            for host in self.hosts.values():
                self.connect(host)
                host.heartbeat()
                self.end_one(host, 0)
                while host.up or self.down[host.name]:
                    self.deliver(host, upwards=True)
                    self.deliver(host, upwards=False)
            while self.batches:
                self.commit()
            for live in list(self.life.jobs.values()):
                if live.held:
                    self.carry(self.life.release(live.job.id, self.now_s, self.rng))
            self.wait(1.0)
            if not self.life.jobs and not self.batches:
                break
        for host in self.hosts.values():
            assert host.lbm.line.slots.used == 0, "all slots are free"
        assert not self.slots_asked
        rows = {str(row.id): row for row in self.rows("1")}
        assert rows.keys() == self.acknowledged.keys(), "none is forgotten"
        assert {row.state for row in rows.values()} <= ENDED
        for job, row in rows.items():
            if row.state == "lost":
                assert not self.acknowledged[job]
