"""A simulated dispatcher: the production lifecycle, its ledger and its connections.

The consequences of a change (a start, permission for a host to forget) wait until the change is on
disk. A dispatcher that is killed loses everything but its ledger.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from lbd.config.dispatch import Mode
from lbd.dispatch.core.dependencies.conditions import conditions_of
from lbd.dispatch.core.dependencies.dependents import Waits
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.ledger_rows import LedgerTrouble, Submission
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.malleable.decision import Rule
from lbd.dispatch.core.malleable.heads import FREE
from lbd.dispatch.core.records import (
    Action,
    Begin,
    Cause,
    Changed,
    Ending,
    Met,
    Release,
    Settle,
    Signal,
    StopAsked,
)
from lbd.dispatch.core.restore import live_job, waits_of
from lbd.errors import LbdError
from lbd.model import HostId, JobId
from lbd.sim.faults import messages as m
from lbd.sim.faults.ledger import Ledger
from lbd.text.needs_words import read_needs_text

CUTOFFS_S = (1.0, 5.0)
Send = Callable[[HostId, m.Downward], None]


class Dispatcher:
    """`send` reaches a connected host; for other hosts it does nothing."""

    def __init__(
        self, mode: Mode, terms: Terms, rng: Random, send: Send, malleable: Rule = FREE
    ) -> None:
        self.malleable = malleable
        self.held_out = 0  # jobs that waited for more slots, under earlier dispatchers
        self.mode, self.terms, self.rng, self._send = mode, terms, rng, send
        self.ledger = Ledger()
        self.connected: dict[HostId, int] = {}  # the latest heartbeat received on the connection
        self.batches: deque[Sequence[Action]] = deque()  # not on disk yet
        self.life = self._new_life()

    def _new_life(self) -> Lifecycle:
        return Lifecycle(make(self.mode, CUTOFFS_S), self.terms, malleable=self.malleable)

    # Life cycle

    def start(self, now_s: float) -> None:
        """Starts from the ledger."""
        inherited_s = self.ledger.longest_lease_s
        self.ledger.longest_lease_s = max(inherited_s, self.terms.lease_s)
        self.terms = replace(self.terms, inherited_s=inherited_s)
        self.held_out += self.life.queues.heads.held_out
        self.life = self._new_life()
        for row in self.ledger.ended():
            self.life.queues.heads.learn_from(row, by_uid=False)
        self.batches.clear()
        self.connected.clear()
        for row in self.ledger.live():
            live, leased = live_job(row, self.ledger.last_attempt(row))
            self._carry_out(self.life.restored(live, leased, now_s, self.rng, waits_of(row)))

    def tick(self, now_s: float) -> None:
        self._carry_out(self.life.tick(now_s, self.rng))
        if not self.life.has_longer_leases(now_s):
            self.ledger.longest_lease_s = self.terms.lease_s
        self._count(now_s)

    def _count(self, now_s: float) -> None:
        """Counts what waiting jobs depend on, once all ended jobs are on disk."""
        if self.batches:
            return
        for span in self.life.dependents.uncounted():
            on_record, bad = self.ledger.ended_otherwise(*span)
            self._carry_out(self.life.counted(span, on_record, now_s, self.rng, bad=bad))

    def commit(self, now_s: float, unix_s: float) -> None:
        """Writes pending changes, then carries out what follows from them."""
        while self.batches:
            actions = self.batches[0]
            records = [a for a in actions if isinstance(a, Begin | Changed | StopAsked | Met)]
            try:
                self.ledger.record(records, unix_s)
            except LedgerTrouble:
                return  # until there is room on the disk
            self.batches.popleft()
            for action in actions:
                self._follow(action, now_s)

    def _carry_out(self, actions: Sequence[Action]) -> None:
        if actions:
            self.batches.append(actions)

    def _follow(self, action: Action, now_s: float) -> None:
        match action:
            case Begin(job, attempt, host, _, cutoff_s, slots, gang_hosts=gang_hosts):
                key = job, attempt
                if self.life.sending(*key, now_s) and host in self.connected:
                    anchor, movable = self.connected[host], self.life.may_move(job)
                    row = self.ledger.jobs[int(job)]
                    needs, user = read_needs_text(row.needs), row.user
                    start = m.StartAttempt(
                        key, anchor, self.terms.lease_s, cutoff_s, slots, movable, gang_hosts,
                        needs, user,
                    )  # fmt: skip
                    return self._send(host, start)
                late = Ending(Cause.LOST, reason="late")
                refused = self.life.refused(host, *key, "late", late, now_s, self.rng)
                self._carry_out(refused)
            case Signal(job, attempt, host, number, stop_reason) if host in self.connected:
                self._send(host, m.EndAttempt((job, attempt), number, stop_reason))
            case Release(job, attempt, host) if host in self.connected:
                self._send(host, m.ReleaseAttempt((job, attempt)))
            case Settle(job, attempt, host) if host in self.connected:
                self._send(host, m.ForgetAttempt((job, attempt)))

    # Hosts

    def connect(self, host: HostId, now_s: float) -> None:
        """Replaces an earlier connection of the host, if there was one."""
        self.disconnect(host, now_s)
        self.connected[host] = 0

    def disconnect(self, host: HostId, now_s: float) -> None:
        if self.connected.pop(host, None) is not None:
            self._carry_out(self.life.host_gone(host, now_s, self.rng))

    def hear(self, host: HostId, message: m.Upward, now_s: float) -> None:
        life, rng = self.life, self.rng
        match message:
            case m.Heartbeat(number, held, slots, keeper, said_s, left_s):
                if is_first := not self.connected[host]:
                    self._carry_out(life.stops_to_repeat(host, held))
                self.connected[host] = number
                if slots.closed:  # drained, or its owner is back
                    self._carry_out(life.host_gone(host, now_s, rng))
                else:
                    self._carry_out(life.host_is(slots, now_s, rng))
                keys = [(job, attempt) for job, attempt, _ in held]
                renewed, orders = life.heartbeat(host, keys, now_s, left_s)
                self._carry_out(orders)
                proof = host, keys, keeper, said_s, now_s, rng
                self._carry_out(life.no_longer_held(*proof, is_first=is_first))
                self._send(host, m.LeasesRenewed(number, self.terms.lease_s, tuple(renewed)))
            case m.AttemptReady(key):
                self._carry_out(life.ready(host, *key))
            case m.AttemptBegun(key):
                self._carry_out(life.begun(host, *key))
            case m.AttemptStopped(key, stopped, reason, wanted):
                self._carry_out(life.stopped(host, *key, stopped, now_s, reason, wanted))
            case m.AttemptEnded(key, ending):
                self._carry_out(life.ended(host, *key, ending, now_s, rng))
            case m.AttemptRefused(key, phase, ending):
                self._carry_out(life.refused(host, *key, phase, ending, now_s, rng))

    # Users

    def submit(self, sent: Submission, now_s: float, unix_s: float) -> list[JobId]:
        """Submits and so acknowledges the jobs. Raises LedgerTrouble."""
        jobs = list(sent.jobs(self.ledger.submit(sent, unix_s)))
        if sent.after or sent.not_before:
            early = [
                (job, Waits(conditions_of(sent.after, job.array_index), sent.not_before))
                for job in jobs
            ]
            self._carry_out(self.life.submitted_early(early, now_s, self.rng))
        else:
            self._carry_out(self.life.submitted(jobs, now_s, self.rng))
        return [job.id for job in jobs]

    def act(self, verb: str, job: JobId, now_s: float) -> None:
        """Carries out a user's action, which may no longer be possible."""
        try:
            match verb:
                case "kill":
                    self._carry_out(self.life.kill(job, 0, now_s, self.rng))
                case "requeue":
                    self._carry_out(self.life.requeue(job))
                case "hold":
                    self._carry_out(self.life.hold(job, "held by its user", now_s, self.rng))
                case "release":
                    self._carry_out(self.life.release(job, now_s, self.rng))
        except LbdError:
            pass
