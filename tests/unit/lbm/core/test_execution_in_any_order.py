"""A command on this host under any events in any order: invariants of all its actions."""

# ruff: noqa: I001  # one name a line would fill the first page

import enum
import types
import typing
from collections import Counter
from dataclasses import fields, is_dataclass
from functools import cache
from random import Random

import pytest

from lbd.lbm.core.execution import Asked, Execution, Phase
from lbd.lbm.core.execution_events import (
    Admitted, AskSlot, AwaitKeeper, CollectFiles, Denied, Drain, DropFiles, EndTree,
    EndWanted, ExceedSlots, Exit, Exited, FilesCollected, FilesFailed, FilesReady, FreeSlot,
    GivenUp, KeeperLost, KeeperReady, KillDirectly, KillWanted, Kind, Limit, LimitLease, NotStarted,
    OutputsDrained, OwnerWants, PrepareFiles, Process, Record, Renewed, ReportBegun,
    ReportEnded, ReportRefused, ReportStopped, Resumed, Signal,
    Signalled, SlotAwaited, SlotGranted, SlotRefused, Spawn, Spec, Started, Stopped, Tick, Treat,
)  # fmt: skip
from lbd.lbm.core.execution_events import CHECKPOINTED
from lbd.lbm.core.execution_events import Treatment
from lbd.model import JobId

TERM, KILL, USR1 = 15, 9, 10
GRACE_S, LEASE_UNTIL_S = 5.0, 10.0
KILLED = Exit(128 + KILL, KILL)


def new(spec):
    return Execution.leased(spec, LEASE_UNTIL_S) if spec.kind is Kind.QUEUED else Execution(spec)


FINAL = (ReportRefused, ReportEnded)
NEEDS_LIFE = (Signal, EndTree, KillDirectly, LimitLease, Treat, ReportStopped)


hints_of = cache(typing.get_type_hints)


def saved(value):
    """Saves it as a codec for plain records would."""
    if is_dataclass(value):
        return {f.name: saved(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return [[saved(key), saved(item)] for key, item in value.items()]
    if isinstance(value, tuple):
        return [saved(item) for item in value]
    if isinstance(value, enum.Enum):
        return value.value
    assert value is None or type(value) in (bool, int, float, str), f"{value!r} is no plain value"
    return value


def loaded(kind, data):
    """Loads it by the types of the fields alone."""
    kind = getattr(kind, "__supertype__", kind)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return None if data is None else loaded(args[0], data)
    if origin is dict:
        return {loaded(args[0], key): loaded(args[1], item) for key, item in data}
    if origin is tuple and args[1:] == (...,):
        return tuple(loaded(args[0], item) for item in data)
    if origin is tuple:
        return tuple(loaded(one, item) for one, item in zip(args, data, strict=True))
    if is_dataclass(kind):
        hints = hints_of(kind)
        return kind(**{name: loaded(hints[name], item) for name, item in data.items()})
    return kind(data)


def reloaded(execution):
    return loaded(Execution, saved(execution))


class Watched:
    """Checks, after each event, what must hold of an execution's actions so far."""

    def __init__(self, spec, rng):
        self.spec, self.rng = spec, rng
        self.execution = new(spec)
        self.ordered = Counter()
        self.lease_until_s = LEASE_UNTIL_S if spec.kind is Kind.QUEUED else float("inf")
        self.may_live = False
        self.seen = []

    def handle(self, event, now_s):
        was_over = self.execution.phase is Phase.OVER
        twin = reloaded(self.execution) if self.rng.random() < 0.25 else None
        actions = self.execution.handle(event, now_s)
        self.seen.append((now_s, event, actions))
        if twin is not None:
            assert twin.handle(event, now_s) == actions, "what was loaded behaves the same"
            assert twin == self.execution
            self.execution = twin  # and continues in its place
        assert not (was_over and actions), "after the end nothing is ordered"
        expires = self.expires(event, now_s)
        could_live = self.may_live
        for action in actions:
            self.check_order(event, action, now_s)
            self.ordered[type(action)] += 1
            if isinstance(action, Spawn):
                self.may_live = True
        if self.lets_go(event):
            self.may_live = False
        self.check_lease(event, actions, expires, could_live)
        self.check_sums(now_s)
        if event == Tick():
            assert self.execution.wake_at_s != now_s, "it would be woken again and again"
        return actions

    def lets_go(self, event):
        """Returns whether the keeper reports that nothing of it is left."""
        return isinstance(event, (Exited, KeeperLost)) or (
            isinstance(event, NotStarted) and not self.ordered[ReportBegun]
        )

    def expires(self, event, now_s):
        """Returns whether the lease has expired by then."""
        if isinstance(event, Renewed) and self.lease_until_s > float("-inf"):
            self.lease_until_s = max(self.lease_until_s, event.lease_until_s)
        expires = now_s >= self.lease_until_s > float("-inf")
        if expires:
            self.lease_until_s = float("-inf")
        return expires

    def check_order(self, event, action, now_s):
        assert not isinstance(action, NEEDS_LIFE) or self.may_live, action
        if isinstance(action, Spawn):
            assert (self.ordered[AskSlot], self.ordered[FreeSlot]) == (1, 0)
            assert self.ordered[PrepareFiles] == self.spec.brings_files
            assert now_s < self.lease_until_s, "not with an expired lease"
        if isinstance(action, FreeSlot):
            assert not self.may_live or self.lets_go(event), "it may be alive"
        if isinstance(action, FINAL):
            ends = isinstance(action, ReportEnded)
            assert ends or not self.ordered[ReportBegun], "what has begun is not refused"
            assert not ends or self.ordered[Spawn], "what was not spawned does not end"

    def check_lease(self, event, actions, expires, could_live):
        lives_on = could_live and self.may_live
        if lives_on and (expires or self.lease_until_s == float("-inf")):
            told = expires or isinstance(event, Started | Resumed)
            has_begun = not isinstance(event, Started) or ReportBegun() in actions
            if told and has_begun:
                assert EndTree() in actions, "it must not live on"
            assert self.execution.asked is Asked.KILL

    def check_sums(self, now_s):
        execution, ordered = self.execution, self.ordered
        for one in (AskSlot, FreeSlot, PrepareFiles, DropFiles, Spawn, ReportBegun, Record):
            assert ordered[one] <= 1, one
        assert ordered[ReportRefused] + ordered[ReportEnded] == execution.is_reported
        assert ordered[FreeSlot] <= ordered[AskSlot]
        assert ordered[DropFiles] <= ordered[PrepareFiles]
        assert ordered[ReportEnded] <= ordered[Record]
        assert execution.wake_at_s is None or execution.wake_at_s >= now_s
        assert self.may_live == (execution.phase in (Phase.SPAWNING, Phase.RUNNING, Phase.ENDING))
        if execution.phase in (Phase.CALLED_OFF, Phase.UNWATCHED, Phase.COLLECTING, Phase.OVER):
            assert execution.wake_at_s is None, "time changes nothing"
        if execution.phase is Phase.OVER:
            assert execution.is_reported
            assert ordered[FreeSlot] == ordered[AskSlot]
            assert ordered[DropFiles] == ordered[PrepareFiles]


def any_spec(rng):
    return Spec(
        JobId("7.1"),
        rng.choice(list(Kind)),
        "ann",
        rng.choice((0.0, 1.0, GRACE_S)),
        slot_patience_s=rng.choice((0.0, 0.25, 3.0)),
        slot_retry_s=rng.choice((None, 0.0, 1.0)),
        timeout_s=rng.choice((0.0, 2.0)),
        cutoff_s=rng.choice((0.0, 2.0)),
        brings_files=rng.random() < 0.5,
        takes_checkpoints=rng.random() < 0.5,
        is_evictable=rng.random() < 0.5,
    )


def any_exit(rng):
    status, number = rng.choice(((0, 0), (3, 0), (CHECKPOINTED, 0), (137, KILL)))
    return Exit(
        status, number, out_of_memory=rng.random() < 0.2, limit=rng.choice(list(Limit))
    )  # fmt: skip


def any_event(rng, now_s):
    return rng.choice((
        *(Tick(), Admitted(), Denied("no", "admission"), SlotGranted(), SlotAwaited()),
        SlotRefused("full", rng.random() < 0.5),
        *(FilesReady(), FilesFailed("away", "files"), FilesCollected(rng.choice(("", "no x")))),
        *(Started(Process(42, "", now_s)), NotStarted("no such file", "exec", 2)),
        *(Stopped(True), Stopped(False), Exited(any_exit(rng)), OutputsDrained()),
        *(KeeperLost("it went away"), KeeperReady(), Renewed(now_s + rng.uniform(-1.0, 5.0))),
        *(Signalled(2), EndWanted(rng.choice((0, TERM, KILL, USR1)), rng.choice(("", "cancel")))),
        *(KillWanted(), GivenUp("gone"), Resumed()),
        OwnerWants(rng.choice(list(Treatment)), rng.random() < 0.5),
    ))  # fmt: skip


@pytest.mark.parametrize("chunk", range(8))
def test_any_events_in_any_order(chunk):
    for seed in range(chunk * 100, (chunk + 1) * 100):
        rng = Random(seed)
        watched, now_s = Watched(any_spec(rng), rng), 0.0
        for _ in range(40):
            if rng.random() < 0.3:
                now_s += rng.choice((0.05, 0.3, 1.0, 4.0))
            try:
                watched.handle(any_event(rng, now_s), now_s)
            except AssertionError as problem:
                raise AssertionError(f"seed {seed}: {watched.seen}") from problem


def answer(rng, action, now_s):
    """Returns what a host may answer to an order; None for no answer, or none yet."""
    match action:
        case AskSlot():
            return rng.choice((SlotGranted(), SlotGranted(), SlotAwaited(), SlotRefused("full")))
        case ExceedSlots():
            return rng.choice((SlotGranted(), SlotRefused("full")))
        case PrepareFiles():
            return rng.choice((FilesReady(), FilesReady(), FilesFailed("away", "files")))
        case CollectFiles():
            return FilesCollected(rng.choice(("", "no x")))
        case Spawn():
            started = Started(Process(42, "", now_s))
            return rng.choice((started, started, started, NotStarted("none", "exec", 2)))
        case EndTree() | KillDirectly():
            return Exited(KILLED)
        case Drain():
            return OutputsDrained()
        case AwaitKeeper():
            return KeeperReady()
    return None


UNASKED = (Tick, Stopped, Exited, KeeperLost, Renewed, Signalled, EndWanted, KillWanted, GivenUp,
           OwnerWants, Resumed)  # fmt: skip


@pytest.mark.parametrize("chunk", range(8))
def test_on_a_host_that_answers_every_command_ends(chunk):
    """Answers come in order, but late; the leader of a killed command may be gone long before."""
    for seed in range(chunk * 100, (chunk + 1) * 100):
        rng = Random(seed)
        watched, now_s, due = Watched(any_spec(rng), rng), 0.0, [(0.0, Admitted())]
        for step in range(400):
            if watched.execution.phase is Phase.OVER:
                break
            wake_at_s = watched.execution.wake_at_s
            now_s = max(now_s, min(
                [at_s for at_s, _ in due[:1]] + [wake_at_s] * (wake_at_s is not None)
                or [now_s + 1.0]))  # fmt: skip
            event = any_event(rng, now_s) if rng.random() < 0.2 and step < 30 else None
            if not isinstance(event, UNASKED):
                event = due.pop(0)[1] if due and due[0][0] <= now_s else Tick()
            if isinstance(event, Exited) and watched.execution.process is None:
                continue  # it has not started
            for action in watched.handle(event, now_s):
                replied = answer(rng, action, now_s)
                if replied is not None:
                    due.append((now_s + rng.choice((0.0, 0.0, 0.3, 2.0)), replied))
            if not due and watched.execution.phase in (Phase.RUNNING, Phase.ENDING):
                due.append((now_s + 1.0, Exited(any_exit(rng))))
        assert watched.execution.phase is Phase.OVER, f"seed {seed}: {watched.seen}"
