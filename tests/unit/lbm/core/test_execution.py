"""The life of a command on this host: its steps, and how its end is reported.

It is one file because the table is one: each of its entries is a story of a few lines.
"""

# ruff: noqa: I001  # one name a line would fill the first page

from dataclasses import replace

import pytest

from lbd.lbm.core.execution import Execution, Phase, Timer
from lbd.lbm.core.execution_events import (
    Admitted, AskSlot, AwaitKeeper, Cause, CollectFiles, Denied, Drain, DropFiles, EndTree,
    EndWanted, ExceedSlots, Exit, Exited, FilesCollected, FilesFailed, FilesReady, FreeSlot,
    GivenUp, KeeperLost, KeeperReady, KillDirectly, KillWanted, Kind, Limit, LimitLease, NotStarted,
    Outcome, OutputsDrained, OwnerWants, PrepareFiles, Process, Record, Released, Renewed,
    ReportBegun, ReportEnded, ReportExited, ReportQueued, ReportReady, ReportRefused, ReportStill,
    ReportStopped, Resumed, Signal, Signalled, SlotAwaited, SlotGranted, SlotRefused, Spawn, Spec,
    Started, StopFiles, Stopped, Tick, Treat,
)  # fmt: skip
from lbd.lbm.core.execution_events import (
    CHECKPOINTED,
    OUT_OF_LEASE,
    REQUEUED,
    cause_of,
    outcome_of,
    recorded,
)
from lbd.lbm.core.execution_events import Treatment
from lbd.model import CANCEL, DISBAND, JobId, JobState, REGROUP, REQUEUE

TERM, CONT, KILL, USR1 = 15, 18, 9, 10
GRACE_S, LEASE_UNTIL_S = 5.0, 10.0
ATTACHED = Spec(JobId("h1-1"), Kind.ATTACHED, "ann", GRACE_S)
QUEUED = Spec(JobId("7.1"), Kind.QUEUED, "ann", GRACE_S, slot_patience_s=0.25)
WAITING = replace(ATTACHED, slot_patience_s=9.0, slot_retry_s=0.1)
STAGED = replace(QUEUED, brings_files=True)
FINAL = (ReportRefused, ReportEnded)
RUNS = Process(42, "/group", 1.0)
OK, FAILED, KILLED = Exit(0), Exit(3), Exit(128 + KILL, KILL)
GENTLY = [Signal(TERM), Signal(CONT)]
LATE = ReportRefused("it was asked to end", "late")
BEGUN = [
    (0, Admitted(), [AskSlot()]),
    (0, SlotGranted(), [Spawn(None)]),
    (1, Started(RUNS), [ReportBegun()]),
]
LEASED = [
    (0, Admitted(), [AskSlot()]),
    (0, SlotGranted(), [Spawn(10.0)]),
    (1, Started(RUNS), [ReportBegun()]),
]
WITH_FILES = [
    (0, Admitted(), [AskSlot()]),
    (0, SlotGranted(), [PrepareFiles()]),
    (1, FilesReady(), [Spawn(9.0)]),
    (1, Started(RUNS), [ReportBegun()]),
]


def over(cause, how, wall_s, state=None, reason="", status=None):
    """Returns the outcome of a command that ended this way."""
    if state is None:
        state = JobState.DONE if how.status == 0 else JobState.FAILED
    status = how.status if status is None else status
    return Outcome(state, cause, reason, status, how.signal, 0.0, wall_s, how)


def ended(*args, **kwargs):
    outcome = over(*args, **kwargs)
    return [Record(outcome), ReportEnded(outcome)]


def lost_with_lease(how, wall_s):
    return ended(Cause.LOST, how, wall_s, JobState.CANCELLED, OUT_OF_LEASE)


NOWHERE = Outcome(JobState.LOST, Cause.LOST, "it went away", None, 0, None, 3.0, None)
TIMED = "ended at its time limit of 3 s"

SCENARIOS = {
    # Starting
    "the owner lets nobody in": (ATTACHED, [
        (0, Denied("drained", "admission"), [ReportRefused("drained", "admission")]),
    ]),
    "the owner's word holds for all hosts": (ATTACHED, [
        (0, Denied("no", "user", False), [ReportRefused("no", "user", try_another=False)]),
    ]),
    "there is no slot": (ATTACHED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotRefused("none"), [ReportRefused("none", "slot", full=True), FreeSlot()]),
    ]),
    "there never will be one": (ATTACHED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotRefused("few", full=False), [ReportRefused("few", "admission"), FreeSlot()]),
    ]),
    "its dispatcher believes in what is not there": (QUEUED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotRefused("no tape", full=False), [ReportRefused("no tape", "not-yet"), FreeSlot()]),
    ]),
    "an attempt waits a moment for its turn": (QUEUED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotAwaited(), [ReportQueued()]),
        (0.2, Tick(), []),
        (0.25, Tick(), [ReportRefused("no free slot", "slot", full=True), FreeSlot()]),
        (0.25, SlotGranted(), []),
    ]),
    "one that waits gets a slot": (QUEUED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotAwaited(), [ReportQueued()]),
        (0.2, SlotGranted(), [Spawn(9.8)]),
        (0.5, Tick(), []),
    ]),
    "one that waits goes beyond the slots": (WAITING, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotAwaited(), [ReportQueued()]),
        (0.1, Tick(), [ExceedSlots()]),
        (0.1, SlotRefused("all taken"), []),
        (0.5, Tick(), []),
        (0.6, Tick(), [ExceedSlots()]),
        (0.6, SlotGranted(), [Spawn(None)]),
        (9, Tick(), []),
    ]),
    "one that waits gives up after one more try": (replace(WAITING, slot_retry_s=5.0), [
        (0, Admitted(), [AskSlot()]),
        (0, SlotAwaited(), [ReportQueued()]),
        (5, Tick(), [ExceedSlots()]),
        (5, SlotRefused("all taken"), []),
        (9, Tick(), [ExceedSlots()]),
        (9, SlotRefused("all taken"), [ReportRefused("all taken", "slot", full=True), FreeSlot()]),
    ]),
    "one of a gang begins when it is released": (replace(STAGED, is_of_gang=True), [
        (0, Admitted(), [AskSlot()]),
        (0, Released(), []),
        (0, SlotGranted(), [PrepareFiles()]),
        (1, FilesReady(), [ReportReady()]),
        (2, Renewed(20.0), []),
        (12, Released(), [Spawn(8.0)]),
        (12, Released(), []),
    ]),
    "one of a gang gives all back when it is to end": (replace(STAGED, is_of_gang=True), [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [PrepareFiles()]),
        (1, FilesReady(), [ReportReady()]),
        (2, EndWanted(0, "regroup"), [LATE, FreeSlot(), DropFiles()]),
        (3, Released(), []),
    ]),
    "one of a gang that its host's rules forbid": (replace(STAGED, is_of_gang=True), [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [PrepareFiles()]),
        (1, FilesReady(), [ReportReady()]),
        (1, NotStarted("no", "admission.programs", 13),
         [ReportRefused("no", "admission.programs", 13), FreeSlot(), DropFiles()]),
        (2, Released(), []),
    ]),
    "one of a gang is held no longer than its lease": (replace(QUEUED, is_of_gang=True), [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [ReportReady()]),
        (10, Tick(), [ReportRefused(OUT_OF_LEASE, "late"), FreeSlot()]),
    ]),
    "one of a gang whose LBM is restarted": (replace(QUEUED, is_of_gang=True), [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [ReportReady()]),
        (1, Resumed(), [ReportRefused("its host's LBM was restarted", "late"), FreeSlot()]),
    ]),
    "its files cannot be had": (STAGED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [PrepareFiles()]),
        (1, FilesFailed("h1 is away", "files"),
         [ReportRefused("h1 is away", "files"), FreeSlot(), DropFiles()]),
    ]),
    "the program does not exist": (ATTACHED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [Spawn(None)]),
        (1, NotStarted("no such file", "exec", 2),
         [ReportRefused("no such file", "exec", 2), FreeSlot()]),
    ]),
    # Ending by itself
    "an attached command ends": (ATTACHED, [
        *BEGUN,
        (4, Exited(OK), [FreeSlot(), Record(over(Cause.EXITED, OK, 3.0)), Drain()]),
        (4.1, OutputsDrained(), [ReportEnded(over(Cause.EXITED, OK, 3.0))]),
        (9, Tick(), []),
    ]),
    "somebody reads its output slowly": (ATTACHED, [
        *BEGUN,
        (4, Exited(KILLED), [FreeSlot(), Record(over(Cause.SIGNALLED, KILLED, 3.0)), Drain()]),
        (4.2, Tick(), [ReportExited(KILL)]),
        (8, OutputsDrained(), [ReportEnded(over(Cause.SIGNALLED, KILLED, 3.0))]),
    ]),
    "nobody reads its output any more": (ATTACHED, [
        *BEGUN,
        (4, Exited(OK), [FreeSlot(), Record(over(Cause.EXITED, OK, 3.0)), Drain()]),
        (4.1, GivenUp("gone"), [ReportEnded(over(Cause.EXITED, OK, 3.0))]),
        (8, OutputsDrained(), []),
    ]),
    "an attempt ends": (QUEUED, [
        *LEASED,
        (4, Exited(FAILED), [FreeSlot(), *ended(Cause.EXITED, FAILED, 3.0)]),
    ]),
    "an attempt brings files home": (STAGED, [
        *WITH_FILES,
        (4, Exited(OK), [FreeSlot(), CollectFiles()]),
        (20, FilesCollected(), [DropFiles(), *ended(Cause.EXITED, OK, 3.0)]),
    ]),
    "it is to end while its files are packed": (STAGED, [
        *WITH_FILES,
        (4, Exited(OK), [FreeSlot(), CollectFiles()]),
        (9, EndWanted(0, CANCEL), [StopFiles()]),
        (9, FilesCollected("stopped"), [
            DropFiles(), *ended(Cause.EXITED, OK, 3.0, JobState.FAILED, "stopped", 125)]),
    ]),
    "what it was to bring home is not there": (STAGED, [
        *WITH_FILES,
        (4, Exited(OK), [FreeSlot(), CollectFiles()]),
        (5, FilesCollected("no x"), [
            DropFiles(), *ended(Cause.EXITED, OK, 3.0, JobState.FAILED, "no x", 125)]),
    ]),
    "what was cut off brings nothing home": (replace(STAGED, cutoff_s=2.0), [
        *WITH_FILES,
        (4, Exited(replace(KILLED, limit=Limit.LEASE)), [
            FreeSlot(), DropFiles(),
            *lost_with_lease(replace(KILLED, limit=Limit.LEASE), 3.0)]),
    ]),
    # The lease
    "its lease is renewed": (QUEUED, [
        *LEASED,
        (5, Renewed(14.0), [LimitLease(9.0)]),
        (6, Renewed(13.0), [LimitLease(8.0)]),
        (13.9, Tick(), []),
        (14, Tick(), [EndTree()]),
    ]),
    "a renewal comes late, but was granted in time": (QUEUED, [
        *LEASED,
        (12, Renewed(14.0), [LimitLease(2.0)]),
        (13, Tick(), []),
    ]),
    "a renewal comes too late": (QUEUED, [
        *LEASED,
        (12, Renewed(11.0), [LimitLease(0.0), EndTree()]),
        (13, Renewed(20.0), [KillDirectly()]),
    ]),
    "it ended before we saw that its lease was over": (QUEUED, [
        *LEASED,
        (12, Exited(OK), [FreeSlot(), *ended(Cause.EXITED, OK, 11.0)]),
    ]),
    "its lease expires, and the keeper ends it": (QUEUED, [
        *LEASED,
        (10, Tick(), [EndTree()]),
        (10, Renewed(20.0), []),
        (10.1, Exited(KILLED), [FreeSlot(), *lost_with_lease(KILLED, 9.1)]),
        (11, Tick(), []),
    ]),
    "its lease expires, and the keeper sleeps": (QUEUED, [
        *LEASED,
        (10, Tick(), [EndTree()]),
        (10.2, Tick(), []),
        (10.3, Tick(), [KillDirectly()]),
        (11, Tick(), []),
    ]),
    "its lease expires while it waits": (replace(QUEUED, slot_patience_s=20.0), [
        (0, Admitted(), [AskSlot()]),
        (0, SlotAwaited(), [ReportQueued()]),
        (10, SlotGranted(), [ReportRefused(OUT_OF_LEASE, "late"), FreeSlot()]),
    ]),
    "its lease expires before its files have come": (STAGED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [PrepareFiles()]),
        (11, Tick(), [ReportRefused(OUT_OF_LEASE, "late"), StopFiles()]),
        (12, FilesReady(), [FreeSlot(), DropFiles()]),
    ]),
    "its lease expires just as they have come": (STAGED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [PrepareFiles()]),
        (10, FilesReady(),
         [ReportRefused(OUT_OF_LEASE, "late"), StopFiles(), FreeSlot(), DropFiles()]),
    ]),
    "its lease expires while it is being started": (QUEUED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [Spawn(10.0)]),
        (10, Tick(), [EndTree()]),
        (11, Started(RUNS), [ReportBegun(), EndTree()]),
        (11.3, Tick(), [KillDirectly()]),
        (12, Exited(KILLED), [FreeSlot(), *lost_with_lease(KILLED, 11.0)]),
    ]),
    "its lease expires while it is asked to end": (QUEUED, [
        *LEASED,
        (9, EndWanted(0), GENTLY),
        (10, Tick(), [EndTree()]),
        (10.1, Exited(KILLED), [FreeSlot(), *lost_with_lease(KILLED, 9.1)]),
    ]),
    # The time limit
    "its time is over": (replace(ATTACHED, timeout_s=3.0), [
        *BEGUN,
        (3.9, Tick(), []),
        (4, Tick(), GENTLY),
        (9, Tick(), [EndTree()]),
        (9, Exited(KILLED), [
            FreeSlot(),
            Record(over(Cause.TIMEOUT, KILLED, 8.0, JobState.FAILED, TIMED, 124)),
            Drain()]),
    ]),
    "who was stopped has no time limit": (replace(ATTACHED, timeout_s=3.0), [
        *BEGUN,
        (3, GivenUp("gone"), GENTLY),
        (4, Tick(), []),
        (8, Tick(), [EndTree()]),
    ]),
    "who was sent a TERM has one": (replace(QUEUED, timeout_s=3.0), [
        *LEASED,
        (3, EndWanted(TERM), [Signal(TERM)]),
        (4, Tick(), GENTLY),
        (8, Tick(), []),
        (9, Tick(), [EndTree()]),
    ]),
    # Who wants it to end
    "the dispatcher wants its end": (QUEUED, [
        *LEASED,
        (2, EndWanted(0, "cancel"), GENTLY),
        (3, Exited(Exit(143, TERM)), [
            FreeSlot(), *ended(Cause.SIGNALLED, Exit(143, TERM), 2.0)]),
    ]),
    "an interrupt that ends it is passed on once it has begun": (QUEUED, [
        *LEASED,
        (2, EndWanted(2, "cancel"), [Signal(2)]),
    ]),
    "and calls it off before that": (STAGED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [PrepareFiles()]),
        (1, EndWanted(2, "cancel"), [LATE, StopFiles()]),
    ]),
    "one that is just being spawned is ended by it": (QUEUED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [Spawn(10.0)]),
        (1, EndWanted(2, "cancel"), []),
        (1, Started(RUNS), [ReportBegun(), Signal(2), Signal(CONT)]),
        (6, Tick(), [EndTree()]),
    ]),
    "signals while it is spawned are for when it has begun": (ATTACHED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [Spawn(None)]),
        (0, Signalled(2), []),
        (0, Signalled(USR1), []),
        (0, Signalled(2), []),
        (1, Started(RUNS), [ReportBegun(), Signal(USR1), Signal(2)]),
        (2, Signalled(2), [Signal(2)]),
    ]),
    "its user interrupts it and goes while it is spawned": (ATTACHED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [Spawn(None)]),
        (0, GivenUp("gone", 2), []),
        (1, Started(RUNS), [ReportBegun(), Signal(2), Signal(CONT)]),
        (5, Tick(), [EndTree()]),
    ]),
    "or when it has just begun": (ATTACHED, [
        *BEGUN,
        (2, GivenUp("gone", 2), [Signal(2), Signal(CONT)]),
        (7, Tick(), [EndTree()]),
    ]),
    "or before it is spawned": (ATTACHED, [
        (0, Admitted(), [AskSlot()]),
        (0, GivenUp("gone", 2), [ReportRefused("gone", "late"), FreeSlot()]),
    ]),
    "another signal that is to end nothing finds nobody before it has begun": (QUEUED, [
        (0, Admitted(), [AskSlot()]),
        (1, EndWanted(2), []),
    ]),
    "it does not end, and is killed": (QUEUED, [
        *LEASED,
        (2, EndWanted(0), GENTLY),
        (3, EndWanted(0), GENTLY),
        (7, Tick(), [EndTree()]),
        (8, EndWanted(0), []),
        (8, EndWanted(KILL), [EndTree()]),
    ]),
    "the dispatcher wants its end at once": (QUEUED, [
        *LEASED,
        (2, EndWanted(0), GENTLY),
        (3, EndWanted(KILL), [EndTree()]),
        (7, Tick(), []),
    ]),
    "the dispatcher sends it another signal": (QUEUED, [
        (0, EndWanted(USR1), []),
        *LEASED,
        (2, EndWanted(USR1), [Signal(USR1)]),
    ]),
    "it is to end before it is let in": (QUEUED, [
        (0, EndWanted(0), [LATE]),
        (1, Admitted(), []),
    ]),
    "it is to end while it waits": (QUEUED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotAwaited(), [ReportQueued()]),
        (0.1, EndWanted(TERM), [LATE, FreeSlot()]),
    ]),
    "it is to end while its files come": (STAGED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [PrepareFiles()]),
        (1, EndWanted(KILL), [LATE, StopFiles()]),
        (2, EndWanted(KILL), []),
        (3, FilesFailed("away", "files"), [FreeSlot(), DropFiles()]),
    ]),
    "it is to end while it is being started": (QUEUED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [Spawn(10.0)]),
        (0.5, EndWanted(0), []),
        (1, Started(RUNS), [ReportBegun(), *GENTLY]),
        (5.5, Tick(), [EndTree()]),
    ]),
    "it is to end before it has started, which is no matter of time": (
        replace(QUEUED, timeout_s=3.0), [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [Spawn(10.0)]),
        (0.5, EndWanted(0), []),
        (1, Started(RUNS), [ReportBegun(), *GENTLY]),
        (4, Tick(), []),
        (5.5, Tick(), [EndTree()]),
    ]),
    "it is sent a TERM while it is being started": (replace(QUEUED, timeout_s=3.0), [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [Spawn(10.0)]),
        (0.5, EndWanted(TERM), []),
        (1, Started(RUNS), [ReportBegun(), Signal(TERM)]),
        (4, Tick(), GENTLY),
    ]),
    "its grace is over before it has started": (QUEUED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [Spawn(10.0)]),
        (0.5, EndWanted(0), []),
        (5.5, Tick(), [EndTree()]),
        (6, Started(RUNS), [ReportBegun(), EndTree()]),
        (7, Tick(), []),
    ]),
    "its client is gone before it has begun": (ATTACHED, [
        (0, Admitted(), [AskSlot()]),
        (0, GivenUp("gone"), [ReportRefused("gone", "late"), FreeSlot()]),
    ]),
    "its client is gone": (ATTACHED, [
        *BEGUN,
        (2, GivenUp("gone"), GENTLY),
        (3, Exited(OK), [
            FreeSlot(), Record(over(Cause.LOST, OK, 2.0, JobState.CANCELLED, "gone")), Drain()]),
    ]),
    "its user kills it": (ATTACHED, [
        *BEGUN,
        (2, Signalled(2), [Signal(2)]),
        (3, KillWanted(), [EndTree()]),
        (3, Exited(KILLED), [
            FreeSlot(), Record(over(Cause.KILLED, KILLED, 2.0, JobState.CANCELLED)), Drain()]),
        (3, Signalled(2), []),
    ]),
    "the LBM ends": (QUEUED, [
        *LEASED,
        (2, GivenUp("h1 was stopped"), GENTLY),
        (3, Exited(KILLED), [
            FreeSlot(),
            *ended(Cause.LOST, KILLED, 2.0, JobState.CANCELLED, "h1 was stopped")]),
    ]),
    # The owner of the host
    "the owner is back for a while": (ATTACHED, [
        *BEGUN,
        (2, OwnerWants(Treatment.NONE), []),
        (3, OwnerWants(Treatment.STILL), [Treat(Treatment.STILL), ReportStill(True)]),
        (4, OwnerWants(Treatment.STILL, untouched=True), []),
        (5, OwnerWants(Treatment.NONE), [Treat(Treatment.NONE), ReportStill(False)]),
        (6, OwnerWants(Treatment.NICE, reason="they are back"), [Treat(Treatment.NICE)]),
    ]),
    "why it stands still changes": (ATTACHED, [
        *BEGUN,
        (3, OwnerWants(Treatment.STILL, reason="until 14:26"), [
            Treat(Treatment.STILL), ReportStill(True, "until 14:26")]),
        (4, OwnerWants(Treatment.STILL, reason="until 14:26"), []),
        (5, OwnerWants(Treatment.STILL, reason="until 15:00"), [
            ReportStill(True, "until 15:00")]),
        (6, OwnerWants(Treatment.GO, reason="until 15:00"), [Treat(Treatment.GO)]),
        (7, OwnerWants(Treatment.NONE, reason="gone"), [
            Treat(Treatment.NONE), ReportStill(False)]),
    ]),
    "a queued one is moved": (replace(QUEUED, is_evictable=True), [
        *LEASED,
        (3, OwnerWants(Treatment.STILL, True, "waits"), [
            Treat(Treatment.STILL), ReportStill(True, "waits")]),
        (4, OwnerWants(Treatment.GO, True, "moves"), [
            Treat(Treatment.GO), ReportStill(True, "moves")]),
        (5, OwnerWants(Treatment.GO, True, "moves"), [EndTree()]),
        (5, Exited(KILLED), [
            FreeSlot(),
            *ended(Cause.EVICTED, KILLED, 4.0, JobState.CANCELLED, "moves")]),
    ]),
    "the owner is back, so it goes": (replace(ATTACHED, is_evictable=True), [
        *BEGUN,
        (3, OwnerWants(Treatment.GO, untouched=True), [Treat(Treatment.GO), ReportStill(True)]),
        (4, OwnerWants(Treatment.GO, untouched=True), [EndTree()]),
        (5, OwnerWants(Treatment.GO, untouched=True), []),
        (5, Exited(KILLED), [
            FreeSlot(), Record(over(Cause.EVICTED, KILLED, 4.0, JobState.CANCELLED)), Drain()]),
    ]),
    "it would have to go, were the owner to stay": (replace(ATTACHED, is_evictable=True), [
        *BEGUN,
        (3, OwnerWants(Treatment.STILL, untouched=True), [
            Treat(Treatment.STILL), ReportStill(True)]),
        (4, OwnerWants(Treatment.STILL, untouched=True), []),
    ]),
    "it has printed, so it stands still": (replace(ATTACHED, is_evictable=True), [
        *BEGUN,
        (3, OwnerWants(Treatment.GO), [Treat(Treatment.GO), ReportStill(True)]),
        (4, OwnerWants(Treatment.GO), []),
    ]),
    "it may not restart, so it stands still": (ATTACHED, [
        *BEGUN,
        (3, OwnerWants(Treatment.GO, untouched=True), [Treat(Treatment.GO), ReportStill(True)]),
        (4, OwnerWants(Treatment.GO, untouched=True), []),
    ]),
    "another LBM takes over, and begins with what the owner's rules want": (QUEUED, [
        *LEASED,
        (2, OwnerWants(Treatment.STILL, reason="waits"), [
            Treat(Treatment.STILL), ReportStill(True, "waits")]),
        (3, Resumed(), []),
        (3, OwnerWants(Treatment.STILL, reason="waits"), [
            Treat(Treatment.STILL), ReportStill(True, "waits")]),
        (4, OwnerWants(Treatment.STILL, reason="waits"), []),
        (5, OwnerWants(Treatment.NONE), [Treat(Treatment.NONE), ReportStill(False)]),
        (6, Resumed(), []),
        (6, OwnerWants(Treatment.NONE), [Treat(Treatment.NONE)]),
    ]),
    # Stops
    "it is stopped and goes on": (QUEUED, [
        *LEASED,
        (2, Stopped(True), [ReportStopped(True)]),
        (3, Stopped(False), [ReportStopped(False)]),
    ]),
    "it has stopped before it is known to have begun": (QUEUED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [Spawn(10.0)]),
        (1, Stopped(True), []),
        (1, Started(RUNS), [ReportBegun(), ReportStopped(True)]),
    ]),
    # The keeper
    "an attached command loses its keeper": (ATTACHED, [
        *BEGUN,
        (4, KeeperLost("it went away"), [FreeSlot(), Record(NOWHERE), ReportEnded(NOWHERE)]),
    ]),
    "an attempt loses its keeper": (STAGED, [
        *WITH_FILES,
        (4, KeeperLost("it went away"), [FreeSlot(), AwaitKeeper()]),
        (20, Tick(), []),
        (20, KeeperReady(), [DropFiles(), Record(NOWHERE), ReportEnded(NOWHERE)]),
    ]),
    "it loses its keeper before it is known to have begun": (ATTACHED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [Spawn(None)]),
        (4, KeeperLost("it went away"), [
            FreeSlot(), Record(replace(NOWHERE, wall_s=0.0)),
            ReportEnded(replace(NOWHERE, wall_s=0.0))]),
    ]),
    # Another LBM takes over
    "another LBM takes over what waits": (QUEUED, [
        (0, Admitted(), [AskSlot()]),
        (1, Resumed(),
         [ReportRefused("its host's LBM was restarted", "late"), FreeSlot()]),
    ]),
    "another LBM takes over what was called off": (STAGED, [
        (0, Admitted(), [AskSlot()]),
        (0, SlotGranted(), [PrepareFiles()]),
        (1, EndWanted(0), [LATE, StopFiles()]),
        (2, Resumed(), [FreeSlot(), DropFiles()]),
    ]),
    "another LBM takes over what runs": (QUEUED, [
        *LEASED,
        (2, Resumed(), []),
        (3, EndWanted(0), GENTLY),
        (4, Resumed(), []),
        (8, Resumed(), [EndTree(), EndTree()]),
        (9, Resumed(), [EndTree()]),
    ]),
    "another LBM takes over what was killed and is over": (QUEUED, [
        *LEASED,
        (3, EndWanted(0), GENTLY),
        (8, Tick(), [EndTree()]),
        (8, Exited(KILLED), [
            FreeSlot(), *ended(Cause.SIGNALLED, KILLED, 7.0)]),
        (9, Resumed(), []),
    ]),
    "another LBM takes over what drains": (ATTACHED, [
        *BEGUN,
        (4, Exited(OK), [FreeSlot(), Record(over(Cause.EXITED, OK, 3.0)), Drain()]),
        (4.1, Resumed(), [Drain()]),
        (4.1, OutputsDrained(), [ReportEnded(over(Cause.EXITED, OK, 3.0))]),
        (5, Resumed(), []),
    ]),
    "another LBM takes over among the files": (STAGED, [
        *WITH_FILES,
        (4, Exited(OK), [FreeSlot(), CollectFiles()]),
        (5, Resumed(), [
            DropFiles(),
            *ended(Cause.LOST, OK, 3.0, JobState.CANCELLED, "its host's LBM was restarted")]),
    ]),
    "another LBM takes over what has no keeper": (QUEUED, [
        *LEASED,
        (4, KeeperLost("it went away"), [FreeSlot(), AwaitKeeper()]),
        (5, Resumed(), [AwaitKeeper()]),
        (5, KeeperReady(), [Record(NOWHERE), ReportEnded(NOWHERE)]),
    ]),
}  # fmt: skip


def new(spec):
    return Execution.leased(spec, LEASE_UNTIL_S) if spec.kind is Kind.QUEUED else Execution(spec)


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(name):
    spec, steps = SCENARIOS[name]
    execution = new(spec)
    for number, (now_s, event, expected) in enumerate(steps):
        assert execution.handle(event, now_s) == expected, f"step {number}: {event} at {now_s}"
    reported = [a for *_, actions in steps for a in actions if isinstance(a, FINAL)]
    assert execution.is_reported == bool(reported)


def test_it_asks_to_be_woken_only_for_its_next_timer():
    execution = new(replace(QUEUED, timeout_s=3.0))
    assert execution.wake_at_s == 10.0
    execution.handle(Admitted(), 0.0)
    execution.handle(SlotAwaited(), 0.0)
    assert execution.wake_at_s == 0.25
    execution.handle(SlotGranted(), 0.1)
    assert execution.wake_at_s == 10.0
    execution.handle(Started(RUNS), 1.0)
    assert execution.wake_at_s == 4.0
    execution.handle(Tick(), 4.0)
    assert execution.wake_at_s == 4.0 + GRACE_S
    execution.handle(Exited(OK), 5.0)
    assert execution.wake_at_s is None


def test_suspended_time_is_not_run_time():
    execution = new(ATTACHED)
    assert execution.ran_s(0.5) == 0.0
    for now_s, event in (
        *((0.0, Admitted()), (0.0, SlotGranted()), (1.0, Started(RUNS))),
        *((3.0, OwnerWants(Treatment.STILL, reason="a")),),
        *((4.0, OwnerWants(Treatment.STILL, reason="b")),),
        *((8.0, OwnerWants(Treatment.NONE)), (9.0, OwnerWants(Treatment.NONE))),
    ):
        execution.handle(event, now_s)
        if now_s == 4.0:
            assert execution.ran_s(6.0) == 2.0
    assert execution.ran_s(10.0) == 4.0


def test_it_moves_from_phase_to_phase():
    execution, phases = new(STAGED), []
    for event in (
        *(Admitted(), SlotAwaited(), SlotGranted(), FilesReady(), EndWanted(TERM), Started(RUNS)),
        *(EndWanted(0), Exited(OK), FilesCollected(), Tick()),
    ):
        execution.handle(event, 1.0)
        phases.append(execution.phase.value)
    assert phases == [
        *("slot", "slot", "files", "spawning", "spawning", "running"),
        *("ending", "collecting", "over", "over"),
    ]


def test_a_request_to_end_during_the_start_makes_it_end_at_once():
    execution = new(ATTACHED)
    for event in (Admitted(), SlotGranted(), GivenUp("gone"), Started(RUNS)):
        execution.handle(event, 1.0)
    assert execution.phase is Phase.ENDING


def test_its_job_is_shown_in_its_state():
    execution, shown = new(ATTACHED), []
    for event in (
        *(Admitted(), SlotGranted(), Started(RUNS), Stopped(True), Stopped(False)),
        *(OwnerWants(Treatment.NICE), OwnerWants(Treatment.GO), OwnerWants(Treatment.NONE)),
    ):
        execution.handle(event, 1.0)
        shown.append(execution.job_state.value)
    assert shown == [
        *("pending", "pending", "running", "suspended", "running", "running", "suspended"),
        "running",
    ]


def test_the_last_stop_reason_is_kept_even_for_an_ended_command():
    execution = new(QUEUED)
    execution.handle(EndWanted(0, "cancel"), 0.0)
    assert execution.stop_reason == "cancel"
    execution.handle(EndWanted(0), 1.0)
    execution.handle(EndWanted(0, "requeue"), 1.0)
    assert execution.stop_reason == "requeue"


CUT = replace(KILLED, limit=Limit.CPU, user_cpu_s=1.0)
OUTCOMES = [
    # spec, why we ended it, how it ended, complaint: cause, status, signal, cpu_s, state
    (QUEUED, None, OK, "", Cause.EXITED, 0, 0, 0.0, "done"),
    (QUEUED, None, FAILED, "", Cause.EXITED, 3, 0, 0.0, "failed"),
    (QUEUED, None, KILLED, "", Cause.SIGNALLED, 137, 9, 0.0, "failed"),
    (QUEUED, None, OK, "no x", Cause.EXITED, 125, 0, 0.0, "failed"),
    (QUEUED, None, KILLED, "no x", Cause.SIGNALLED, 137, 9, 0.0, "failed"),
    (QUEUED, Cause.TIMEOUT, OK, "", Cause.TIMEOUT, 124, 0, 0.0, "failed"),
    (QUEUED, Cause.LOST, OK, "", Cause.LOST, 0, 0, 0.0, "cancelled"),
    (ATTACHED, Cause.KILLED, KILLED, "", Cause.KILLED, 137, 9, 0.0, "cancelled"),
    (ATTACHED, Cause.EVICTED, KILLED, "", Cause.EVICTED, 137, 9, 0.0, "cancelled"),
    (replace(QUEUED, cutoff_s=5.0), None, CUT, "", Cause.CUT, 137, 9, 5.0, "failed"),
    (replace(QUEUED, cutoff_s=0.5), None, CUT, "", Cause.CUT, 137, 9, 1.0, "failed"),
    (QUEUED, Cause.TIMEOUT, CUT, "", Cause.CUT, 137, 9, 1.0, "failed"),
    (QUEUED, None, replace(KILLED, limit=Limit.LEASE), "", Cause.LOST, 137, 9, 0.0, "cancelled"),
    (QUEUED, None, replace(KILLED, limit=Limit.KEEPER), "", Cause.LOST, 137, 9, 0.0, "cancelled"),
    (QUEUED, None, replace(OK, limit=Limit.KEEPER), "", Cause.EXITED, 0, 0, 0.0, "done"),
    (ATTACHED, None, replace(KILLED, limit=Limit.KEEPER), "", Cause.SIGNALLED, 137, 9, 0.0,
     "failed"),
    (QUEUED, None, replace(FAILED, out_of_memory=True), "", Cause.MEMORY, 137, 9, 0.0, "failed"),
    (QUEUED, None, replace(OK, out_of_memory=True), "", Cause.EXITED, 0, 0, 0.0, "done"),
    (QUEUED, Cause.TIMEOUT, replace(FAILED, out_of_memory=True), "", Cause.TIMEOUT, 124, 0, 0.0,
     "failed"),
    (QUEUED, None, Exit(CHECKPOINTED), "", Cause.EXITED, 85, 0, 0.0, "failed"),
    (replace(QUEUED, takes_checkpoints=True), None, Exit(CHECKPOINTED), "", Cause.CHECKPOINT, 85, 0,
     0.0, "failed"),
    (replace(QUEUED, takes_checkpoints=True), None, FAILED, "", Cause.EXITED, 3, 0, 0.0, "failed"),
    (QUEUED, None, Exit(0, user_cpu_s=1.5, system_cpu_s=0.5), "", Cause.EXITED, 0, 0, 2.0, "done"),
]  # fmt: skip


@pytest.mark.parametrize("row", OUTCOMES, ids=lambda row: f"{row[4].value}-{row[5]}")
def test_outcome(row):
    spec, ended_for, how, complaint, *expected = row
    outcome = outcome_of(spec, ended_for, "why", how, 2.0, complaint)
    shown = [outcome.cause, outcome.exit_status, outcome.signal, outcome.cpu_s, outcome.state.value]
    assert shown == expected
    assert (outcome.wall_s, outcome.exit) == (2.0, how)
    if complaint:
        assert outcome.reason == complaint


@pytest.mark.parametrize(
    ("how", "stop_reason", "expected"),
    [
        (OK, "", ("done", "exited")),
        (KILLED, "", ("failed", "signalled")),
        (KILLED, CANCEL, ("cancelled", "cancelled")),
        (FAILED, CANCEL, ("cancelled", "cancelled")),
        (replace(KILLED, limit=Limit.LEASE), CANCEL, ("cancelled", "cancelled")),
        (OK, CANCEL, ("cancelled", "cancelled")),
        (OK, DISBAND, ("done", "exited")),
        (KILLED, DISBAND, ("cancelled", "cancelled")),
        (KILLED, REQUEUE, ("cancelled", REQUEUED)),
        (OK, REQUEUE, ("cancelled", REQUEUED)),
        (OK, REGROUP, ("cancelled", REQUEUED)),
    ],
)
def test_a_command_ended_for_its_dispatcher_is_recorded_as_the_dispatcher_records_it(
    how, stop_reason, expected
):
    """A job that was killed was cancelled, but `lbctl history` said that it failed."""
    outcome = outcome_of(QUEUED, None, "", how, 2.0, "")
    state, note = recorded(QUEUED, outcome, stop_reason, must_end=True)
    assert (state.value, note) == expected


def test_what_goes_on_after_a_term_of_its_user_and_succeeds_is_recorded_as_done():
    outcome = outcome_of(QUEUED, None, "", OK, 2.0, "")
    assert recorded(QUEUED, outcome, CANCEL, must_end=False) == (JobState.DONE, "exited")


@pytest.mark.parametrize(
    ("spec", "ended_for", "note"),
    [(ATTACHED, None, ""), (ATTACHED, Cause.TIMEOUT, "timeout"), (QUEUED, None, "signalled")],
)
def test_an_end_that_its_client_has_seen_needs_no_note(spec, ended_for, note):
    outcome = outcome_of(spec, ended_for, "why", KILLED, 2.0, "")
    assert recorded(spec, outcome, "", must_end=False) == (JobState.FAILED, note)


@pytest.mark.parametrize(
    ("spec", "ended_for", "how", "reason"),
    [
        (replace(QUEUED, cutoff_s=2.5), None, CUT, "used 2.5 s of CPU, the cutoff of its tier"),
        (QUEUED, None, replace(KILLED, limit=Limit.LEASE), OUT_OF_LEASE),
        (QUEUED, Cause.TIMEOUT, KILLED, "why"),
        (
            QUEUED,
            None,
            replace(KILLED, limit=Limit.KEEPER),
            "its host's keeper was stopped",
        ),
        (
            replace(QUEUED, takes_checkpoints=True),
            None,
            Exit(CHECKPOINTED),
            "it stopped at a checkpoint",
        ),
        (QUEUED, None, FAILED, ""),
    ],
)
def test_reason(spec, ended_for, how, reason):
    assert cause_of(spec, ended_for, "why", how)[1] == reason


def test_every_timer_is_tested():
    seen = set()
    for spec, steps in SCENARIOS.values():
        execution = new(spec)
        for now_s, event, _ in steps:
            execution.handle(event, now_s)
            seen |= execution.timers.keys()
    assert seen == set(Timer)
