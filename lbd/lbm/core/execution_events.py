"""The events and actions of `execution.py`: what an execution is given, what it is told, what it
orders and reports. Also how its end is described, from how its processes ended and why they were
ended.

One file because it is one vocabulary: most of it is one small record after the other.
"""

import signal
from enum import Enum

from lbd.model import (
    CANCEL,
    DISBAND,
    NO_NEEDS,
    REGROUP,
    REQUEUE,
    JobId,
    JobState,
    Needs,
    quick_value,
)

CHECKPOINTED = 85  # exit status, as in HTCondor
TIMED_OUT, LBRUN_FAILED = 124, 125
OUT_OF_LEASE = "its host could not renew its lease"
KEEPER_ENDED = "its host's keeper was stopped"
REQUEUED = "requeued"  # an attempt that was not the last one of its job


class Kind(Enum):
    """Who waits for a command's end. All other differences are in the other fields of its
    `Spec`.
    """

    # A user's lbrun on another host. It reads the outputs, so they are drained before the end is
    # reported. If the keeper is lost, the command has ended: nobody starts it again.
    ATTACHED = "attached"
    # The dispatcher, by a lease. A lost attempt is started again elsewhere, so it only counts as
    # ended once a new keeper has ended what the last one left. An attempt that ended because its
    # keeper was stopped is lost, whereas an attached command is reported as signalled.
    QUEUED = "queued"


@quick_value
class Spec:
    """What a command needs, and its limits. Times are in seconds; 0 = no limit, unless stated
    otherwise."""

    id: JobId
    kind: Kind
    user: str
    kill_grace_s: float  # from TERM to KILL
    # Slots
    slots: tuple[int, int] = (1, 1)  # minimum and maximum
    may_exceed: bool = False  # start at once beyond the slots, if the host can bear it
    # one of our own programs, one per workdir, that runs whether a slot is free or not
    needs_no_slot: bool = False
    slot_patience_s: float | None = None  # how long to wait for a free slot; None: not at all
    # how often to ask meanwhile whether it may exceed the slots; None: never
    slot_retry_s: float | None = None
    needs: Needs = NO_NEEDS
    # Limits
    timeout_s: float = 0.0
    cutoff_s: float = 0.0  # CPU time of its tier, measured by the keeper
    # Behaviour
    brings_files: bool = False  # into a workdir of its own, and results out of it
    takes_checkpoints: bool = False
    is_of_gang: bool = False  # it begins when it is released
    is_evictable: bool = False  # it may start again on another host while it is untouched


class Cause(Enum):
    """Why a command ended, for users and dispatchers."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMEOUT = "timeout"
    KILLED = "killed"  # at its user's request
    EVICTED = "evicted"  # the owner of this host is back
    MEMORY = "memory"
    CUT = "cut"  # at its tier's CPU cutoff
    CHECKPOINT = "checkpoint"  # it stopped itself, to be continued later
    LOST = "lost"  # with its client, lease, keeper or LBM


class Treatment(Enum):
    """What happens to a foreign command when the host's owner is back."""

    NONE = "none"
    NICE = "nice"
    STILL = "still"
    GO = "go"  # suspend it, and move it away if possible

    @property
    def is_still(self) -> bool:
        return self in (Treatment.STILL, Treatment.GO)


class Limit(Enum):
    """The limit for which the keeper ended a command."""

    NONE = ""
    LEASE = "lease"
    CPU = "cpu"
    KEEPER = "keeper"  # the keeper was stopped


@quick_value
class Exit:
    """The keeper's report of how a process tree ended. No process of the tree is left."""

    status: int  # of the command itself, or 128 + signal
    signal: int = 0
    user_cpu_s: float = 0.0
    system_cpu_s: float = 0.0
    max_rss_bytes: int = 0
    out_of_memory: bool = False
    limit: Limit = Limit.NONE
    heard_signals: int | None = None  # signals it handled, bit N for signal N; None: unknown


@quick_value
class Outcome:
    """Everything about a command's end."""

    state: JobState
    cause: Cause
    reason: str
    exit_status: int | None  # None: unknown
    signal: int
    cpu_s: float | None
    wall_s: float
    exit: Exit | None


@quick_value
class Process:
    """The leader of the process tree."""

    pid: int
    group: str  # cgroup directory; "" = none
    began_s: float


# Events


@quick_value
class Tick:
    """The time `wake_at_s` has come."""


@quick_value
class Admitted:
    """The owner's rules admit it."""


@quick_value
class Denied:
    """The owner's rules do not admit it, or the request is not valid."""

    reason: str
    phase: str
    try_another: bool = True
    wait_s: float = 0.0  # until the rules may allow it; 0: not known


@quick_value
class SlotGranted:
    pass


@quick_value
class SlotAwaited:
    """No slot is free; it waits in line."""


@quick_value
class SlotRefused:
    """The answer to AskSlot or ExceedSlots. `full`: another host may have a free slot."""

    reason: str
    full: bool = True


@quick_value
class FilesReady:
    pass


@quick_value
class FilesFailed:
    reason: str
    phase: str
    number: int = 0  # the errno behind it


@quick_value
class Released:
    """All of its gang are ready."""


@quick_value
class Started:
    process: Process


@quick_value
class NotStarted:
    """Nothing has run, or would run, if it is a held command. `number`: the errno behind it."""

    reason: str
    phase: str
    number: int = 0


@quick_value
class Stopped:
    """The keeper saw the leader stop, or continue."""

    stopped: bool


@quick_value
class Exited:
    exit: Exit


@quick_value
class FilesCollected:
    """`complaint`: why its output files are not available; "" = they are."""

    complaint: str = ""


@quick_value
class OutputsDrained:
    pass


@quick_value
class KeeperLost:
    reason: str


@quick_value
class KeeperReady:
    """Another keeper has connected, and has ended what the last one left."""


@quick_value
class Renewed:
    """Its dispatcher has extended the lease."""

    lease_until_s: float


@quick_value
class Signalled:
    """Its user sends it a signal."""

    number: int


@quick_value
class EndWanted:
    """Its dispatcher wants it to end, by that signal; 0 = TERM, then KILL."""

    number: int
    stop_reason: str = ""  # reported with its end


@quick_value
class KillWanted:
    """Its user has asked to kill it, or its client violates the protocol."""


@quick_value
class GivenUp:
    """Nobody waits for it any more: its client is gone, or its LBM ends. `number`: the signal by
    which its user gave up before it began; 0 = TERM."""

    reason: str
    number: int = 0


@quick_value
class OwnerWants:
    """What the owner's rules demand now. `untouched`: it has neither read nor written anything that
    counts."""

    treatment: Treatment
    untouched: bool = False
    reason: str = ""  # for its user, while it is suspended


@quick_value
class Resumed:
    """A new LBM has loaded it. Requests that were still unanswered are repeated or given up."""


Event = (
    Tick | Admitted | Denied | SlotGranted | SlotAwaited | SlotRefused | FilesReady | FilesFailed
    | Released | Started | NotStarted | Stopped | Exited | FilesCollected | OutputsDrained
    | KeeperLost | KeeperReady | Renewed | Signalled | EndWanted | KillWanted | GivenUp | OwnerWants
    | Resumed
)  # fmt: skip


# Actions


@quick_value
class AskSlot:
    """Asks for slots as in its Spec. Answered by SlotGranted, SlotAwaited or SlotRefused."""


@quick_value
class ExceedSlots:
    """Asks whether a waiting command may run beyond the slots. Answered by SlotGranted or
    SlotRefused."""


@quick_value
class FreeSlot:
    """Gives up its slot, or its place in line."""


@quick_value
class PrepareFiles:
    """Makes a workdir with the files that it brings. Answered by FilesReady or FilesFailed."""


@quick_value
class CollectFiles:
    """Packs the files that go home. Answered by FilesCollected."""


@quick_value
class StopFiles:
    """Stops what PrepareFiles or CollectFiles has started; that is still answered."""


@quick_value
class DropFiles:
    """Removes the workdir."""


@quick_value
class Spawn:
    """Starts the command. Answered by Started or NotStarted, then Exited; or by KeeperLost. None:
    no lease."""

    lease_s: float | None


@quick_value
class LimitLease:
    """Has the keeper end it after so long, in case this LBM is gone by then."""

    lease_s: float


@quick_value
class Signal:
    number: int


@quick_value
class EndTree:
    """Kills every process of its tree, and whatever they start, until none is left."""


@quick_value
class KillDirectly:
    """Kills the processes without the keeper, which has not ended the tree."""


@quick_value
class Treat:
    treatment: Treatment


@quick_value
class Drain:
    """Reads its outputs to their end. Answered by OutputsDrained."""


@quick_value
class AwaitKeeper:
    """Waits for another keeper. Answered by KeeperReady."""


@quick_value
class Record:
    """Records the end in this host's history of jobs."""

    outcome: Outcome


# Reports to its user's host, or to the dispatcher


@quick_value
class ReportQueued:
    """It waits for a slot."""


@quick_value
class ReportRefused:
    """Nothing has run, and nothing will."""

    reason: str
    phase: str
    number: int = 0  # the errno behind it
    try_another: bool = True
    full: bool = False  # another host may have a free slot
    wait_s: float = 0.0  # until it may begin here; 0: not known


@quick_value
class ReportReady:
    """A command of a gang has its slot and its files, and waits to be released."""


@quick_value
class ReportBegun:
    pass


@quick_value
class ReportStopped:
    stopped: bool


@quick_value
class ReportStill:
    """The owner's rules suspend it, with the reason; or let it continue."""

    still: bool
    reason: str = ""


@quick_value
class ReportExited:
    """The command has ended, but its output is still on its way."""

    signal: int


@quick_value
class ReportEnded:
    outcome: Outcome


Action = (
    AskSlot | ExceedSlots | FreeSlot | PrepareFiles | CollectFiles | StopFiles | DropFiles | Spawn
    | LimitLease | Signal | EndTree | KillDirectly | Treat | Drain | AwaitKeeper | Record
    | ReportQueued | ReportRefused | ReportReady | ReportBegun | ReportStopped | ReportStill
    | ReportExited | ReportEnded
)  # fmt: skip


NOT_ITS_OWN = (Cause.LOST, Cause.KILLED, Cause.EVICTED)


def lost(reason: str, wall_s: float) -> Outcome:
    """The outcome of a command whose end is unknown."""
    return Outcome(JobState.LOST, Cause.LOST, reason, None, 0, None, wall_s, None)


def outcome_of(
    spec: Spec, ended_for: Cause | None, reason: str, how: Exit, wall_s: float, complaint: str
) -> Outcome:
    """`ended_for`: why this LBM ended it; `complaint`: why its files are not available."""
    cause, reason = cause_of(spec, ended_for, reason, how)
    status, number, cpu_s = how.status, how.signal, how.user_cpu_s + how.system_cpu_s
    if cause is Cause.EXITED:
        status = LBRUN_FAILED if complaint else status
        state = JobState.FAILED if status else JobState.DONE
        return Outcome(state, cause, reason or complaint, status, number, cpu_s, wall_s, how)
    if cause is Cause.TIMEOUT:
        status = TIMED_OUT
    elif cause is Cause.MEMORY:  # the process killed for it may be a child
        status, number = 128 + signal.SIGKILL, int(signal.SIGKILL)
    elif cause is Cause.CUT:  # children that nobody waited for used the rest
        cpu_s = max(cpu_s, spec.cutoff_s)
    state = JobState.CANCELLED if cause in NOT_ITS_OWN else JobState.FAILED
    return Outcome(state, cause, reason or complaint, status, number, cpu_s, wall_s, how)


def cause_of(spec: Spec, ended_for: Cause | None, reason: str, how: Exit) -> tuple[Cause, str]:
    """The keeper's limits come first: it may have ended the command before this LBM had a reason
    to."""
    if how.limit is Limit.CPU:
        return Cause.CUT, f"used {spec.cutoff_s:g} s of CPU, the cutoff of its tier"
    if how.limit is Limit.LEASE:
        return Cause.LOST, OUT_OF_LEASE
    if ended_for is not None:
        return ended_for, reason
    if how.limit is Limit.KEEPER and how.status and spec.kind is Kind.QUEUED:
        return Cause.LOST, KEEPER_ENDED
    if how.out_of_memory and (how.status or how.signal):
        return Cause.MEMORY, ""
    if spec.takes_checkpoints and how.status == CHECKPOINTED:
        return Cause.CHECKPOINT, "it stopped at a checkpoint"
    return (Cause.SIGNALLED if how.signal else Cause.EXITED), ""


def recorded(
    spec: Spec, outcome: Outcome, stop_reason: str, must_end: bool
) -> tuple[JobState, str]:
    """State and note for this host's history of jobs. An attempt that was ended for its dispatcher
    is recorded as what the dispatcher makes of it. A command needs no note if its caller has seen
    it end by itself. `must_end`: it was to end, and not only to get a signal."""
    if stop_reason in (REGROUP, REQUEUE):
        return JobState.CANCELLED, REQUEUED
    if stop_reason in (CANCEL, DISBAND) and (
        outcome.state is not JobState.DONE or (stop_reason == CANCEL and must_end)
    ):
        return JobState.CANCELLED, JobState.CANCELLED.value
    by_itself = outcome.cause in (Cause.EXITED, Cause.SIGNALLED)
    return outcome.state, "" if by_itself and spec.kind is Kind.ATTACHED else outcome.cause.value
