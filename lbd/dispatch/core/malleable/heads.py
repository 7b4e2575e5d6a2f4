"""Heads of lines that can run on fewer or more slots: what they do, and when to decide again. Pure.

`decision.py` makes the decision; this file prepares its inputs and remembers what is needed between
decisions. A decision stands until slots of any host change or its time is up. It does not depend on
later jobs, since they do not pass it. A decision takes milliseconds, and slots change often where
many jobs run. So a head decides again at most every `AGAIN_SHARE` of the time that it expects to
wait, within `AGAIN_S` to `AGAIN_S_MAX`, unless one host has all that it can use; and among many
hosts only the `ROOMS` with most free slots are considered.

With the default strategy `free`, nothing here is used.

None of this is recorded. After a restart a head that held out starts counting again; A and σ are
learnt again from the ledger's last jobs; the bias of predictions, for the strategy `bias`, starts
from nothing.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lbd.config.dispatch import Strategy
from lbd.dispatch.core.discipline import HostConnection, QueuedJob
from lbd.dispatch.core.ledger_rows import JobRow, command_of, share_of
from lbd.dispatch.core.malleable.decision import (
    BeginOn,
    FreeSlots,
    Head,
    Hold,
    KnownSpeedup,
    Rule,
    Speedups,
    decide,
    expected_wait,
)
from lbd.dispatch.core.malleable.slot_times import SlotTimes
from lbd.dispatch.core.registry import Entry
from lbd.dispatch.core.run_times import name_hash
from lbd.dispatch.core.servers import Server
from lbd.model import JobId
from lbd.theory.allocation import Malleable
from lbd.theory.calibration import Bias
from lbd.theory.lifetimes import UniformLog
from lbd.theory.queue_time import Releases

FREE = Rule("free")
AGAIN_S, AGAIN_SHARE, AGAIN_S_MAX = 0.1, 0.05, 2.0
ROOMS = 8
WORTH_S = 0.5  # no job holds out for a smaller possible saving
WATCHED = 200  # predictions whose outcomes are awaited
Start = tuple[Server | None, int]
NOT_NOW: Start = None, 0
NOTHING_KNOWN = UniformLog(1.0, 86_400.0), 60.0  # default lifetimes, and their mean


@dataclass(slots=True)
class Asked:
    """The head of a line that holds out."""

    job: JobId
    hold: Hold
    changes: int  # number of slot changes when it was last considered
    stands_until_s: float  # whatever changes
    again_s: float  # when it decides again
    enough: int  # slots on one host with which it starts at once
    left: float  # what its user might still have


@dataclass(slots=True, eq=False)
class Expected:
    """A prediction of when `missing` slots of the jobs `of` will be free."""

    missing: int
    of: dict[JobId, int]
    raw_s: float
    since_s: float


@dataclass(slots=True)
class MalleableHeads:
    slot_times: SlotTimes
    rule: Rule = FREE
    speedups: Speedups = field(default_factory=Speedups)
    bias: Bias = field(default_factory=Bias)
    asked: dict[HostConnection, Asked] = field(default_factory=dict)
    held_out: int = 0  # number of jobs that ever held out
    _heads: dict[JobId, Head] = field(default_factory=dict)
    _changes: int = 0
    _expected: list[Expected] = field(default_factory=list)

    def decides(self, job: QueuedJob) -> bool:
        return self.rule.strategy != "free" and job.slots_most > job.slots

    def may_hold_out(self, job: QueuedJob) -> bool:
        """Whether it may wait for more slots although it could start."""
        return self.decides(job) and self.rule.strategy != "avg"

    def holds_out(
        self, line: HostConnection, name: JobId, most_free: int, left: float, now_s: float
    ) -> bool:
        """Whether the head's decision to wait stands, with no host having enough to change it at
        once."""
        asked = self.asked.get(line)
        if asked is None or asked.job != name or most_free <= 0 or left != asked.left:
            return False
        return min(most_free, left) < asked.enough and self._stands(asked, now_s)

    def at_once(
        self,
        line: HostConnection,
        name: JobId,
        job: QueuedJob,
        offered: int,
        left: float,
        now_s: float,
    ) -> int | None:
        """Returns the slots that the head of a line starts with at once, 0 if it does not; None if
        that needs a decision.

        `offered`: the most free slots of any host where it could start, 0 if there is none. `left`:
        what its user may still have.
        """  # fmt: skip
        if offered <= 0:
            self.asked.pop(line, None)
            return 0
        shape = self._shape(name, job, left)
        most = min(offered, shape.useful)
        if most >= enough(shape):
            self.asked.pop(line, None)
            return most
        before = self.asked.get(line)
        stands = before is not None and before.job == name and self._stands(before, now_s)
        return 0 if stands else None

    def choose(
        self,
        line: HostConnection,
        name: JobId,
        job: QueuedJob,
        servers: Sequence[Server],
        left: float,
        now_s: float,
    ) -> Start:
        """Decides, considering `servers`."""
        self.asked.pop(line, None)
        shape = self._shape(name, job, left)
        lifetimes, _ = self._lives
        named = self.rule.strategy == "bias"
        rooms = [room_of(one, left, now_s, lifetimes, named=named) for one in servers]
        answer = self._decide(name, shape, rooms, now_s)
        if isinstance(answer, BeginOn):
            on = (one for one in servers if one.host and one.host.name == answer.host)
            return next(on), answer.slots
        self.held_out += name not in self._heads
        self._heads[name] = answer.head
        wait_s = answer.ask_at_s - now_s
        pause_s = min(max(AGAIN_S, AGAIN_SHARE * wait_s), AGAIN_S_MAX)
        shape = self._shape(name, job, left)  # under lock-in it has just named its slots
        self.asked[line] = Asked(
            name, answer, self._changes, answer.ask_at_s, now_s + pause_s, enough(shape), left
        )
        return NOT_NOW

    def _shape(self, name: JobId, job: QueuedJob, left: float) -> Malleable:
        shape = self.shape_of(job, left)
        head = self._heads.get(name)
        return shape if head is None or head.locked is None else shape.locked(head.locked)

    def _stands(self, before: Asked, now_s: float) -> bool:
        if before.changes != self._changes:
            before.changes = self._changes
            before.again_s = min(before.again_s, before.stands_until_s)
        return now_s < before.again_s

    def _decide(
        self, job: JobId, shape: Malleable, rooms: list[FreeSlots], now_s: float
    ) -> BeginOn | Hold:
        rule, head = self.rule_of(self.rule.strategy), self._heads.get(job, Head())
        if rule.strategy == "bias" and head.since_s is None:
            self._expect(shape, rooms[0], rule, now_s)
        return decide(shape, rooms, rule, head, now_s)

    def rule_of(self, strategy: Strategy) -> Rule:
        """Returns the rule as it would be with that strategy."""
        if strategy in ("pred", "bias") and self.slot_times.lifetimes() is None:
            strategy = "avg"
        correction = self.bias.correction() if strategy == "bias" else self.rule.correction
        return replace(self.rule, strategy=strategy, correction=correction)

    def shape_of(self, job: QueuedJob, left: float = math.inf) -> Malleable:
        most = int(max(job.slots, min(job.slots_most, left)))
        known = self.known(job)
        return Malleable(job.slots, most, known.speedup, known.work_s)

    def known(self, job: QueuedJob) -> KnownSpeedup:
        most = max(job.slots, job.slots_most)
        return self.speedups.of(
            job.user, job.command, most, self._lives[1], job.speedup, job.work_s
        )

    @property
    def _lives(self) -> tuple[UniformLog, float]:
        return self.slot_times.lifetimes() or NOTHING_KNOWN

    # What happens meanwhile

    def slots_changed(self) -> None:
        self._changes += 1

    def gone(self, job: JobId, line: HostConnection) -> None:
        """The job has left its line."""
        self._heads.pop(job, None)
        if (asked := self.asked.get(line)) is not None and asked.job == job:
            del self.asked[line]

    def due(self, now_s: float) -> list[HostConnection]:
        """Returns the lines whose heads must decide again."""
        return [line for line, one in self.asked.items() if now_s >= one.again_s]

    def holding(self, line: HostConnection, job: JobId) -> Hold | None:
        asked = self.asked.get(line)
        return asked.hold if asked is not None and asked.job == job else None

    def learn(self, entry: Entry, now_s: float) -> None:
        """Learns from a job that has just succeeded."""
        if entry.job.command:
            run_s = entry.ran_s(now_s)
            self.speedups.ended(entry.job.user, entry.job.command, entry.slots, run_s)

    def learn_from(self, row: JobRow, *, by_uid: bool) -> None:
        """Learns from a job of the previous dispatcher."""
        if (run_s := row.run_s) is None:
            return
        slots = row.slots_held or row.slots
        self.slot_times.ended(run_s * slots)
        if row.state == "done":
            user = share_of(row.user, row.uid, by_uid=by_uid)
            self.speedups.ended(user, name_hash(command_of(row.command)), slots, run_s)

    # The bias of predictions

    def _expect(self, shape: Malleable, room: FreeSlots, rule: Rule, now_s: float) -> None:
        """Records a prediction. What is free on a host, and when, depends only on what runs there
        now, so the outcome is observed whatever the job does."""
        found = expected_wait(shape, room.free, room.releases, rule.correction)
        if found is not None and len(self._expected) < WATCHED:
            wanted, raw_s = found
            self._expected.append(Expected(wanted - room.free, dict(room.jobs), raw_s, now_s))

    def released(self, job: JobId, now_s: float) -> None:
        """The job's slots are free again."""
        self._changes += 1
        came_true = []
        for one in self._expected:
            one.missing -= one.of.pop(job, 0)
            if one.missing <= 0:
                came_true.append(one)
        for one in came_true:
            self._expected.remove(one)
            self.bias.learn(one.raw_s, now_s - one.since_s)


def now_chosen(job: Malleable, rooms: Sequence[FreeSlots], rule: Rule) -> int:
    """Returns the slots that a job takes, or waits for, which has just become the head of its line
    and could start."""
    most = min(job.useful, max(room.free for room in rooms))
    return most if most >= enough(job) else decide(job, rooms, rule, Head(), 0.0).slots


def enough(job: Malleable) -> int:
    """Returns the fewest slots with which it starts at once, since more would save almost
    nothing."""
    within_s = job.run_s(job.useful) + WORTH_S
    return bisect_left(range(job.useful), -within_s, job.least, key=lambda n: -job.run_s(n))


def room_of(
    server: Server, left: float, now_s: float, lifetimes: UniformLog, *, named: bool = False
) -> FreeSlots:
    """Returns a host's slots, and if `named` the jobs that hold them. It may now have fewer slots
    than are in use: then the oldest jobs are not counted."""
    assert server.host is not None
    free, entries = server.free, list(server.running.values())
    slots = [entry.slots for entry in entries]
    if free < 0:
        entries.sort(key=lambda entry: entry.started_s)
        slots = without([entry.slots for entry in entries], -free)
    held = [
        (max(0.0, entry.ran_s(now_s)), count)
        for entry, count in zip(entries, slots, strict=True)
        if count
    ]
    jobs = {entry.id: n for entry, n in zip(entries, slots, strict=True) if n} if named else {}
    offered = int(max(0, min(free, left)))
    return FreeSlots(server.host.name, offered, Releases.of(held, lifetimes), jobs)


def without(slots: Sequence[int], missing: int) -> list[int]:
    """Returns what is left of each count when `missing` are taken away, starting with the first."""
    left = []
    for count in slots:
        left.append(max(0, count - missing))
        missing = max(0, missing - count)
    return left
