"""The words of `execution.py`: what it is asked for, what it hears, what it orders and reports, and
how it reports an end, from how its processes ended and why they were made to.

One file because it is one vocabulary: most of it is one small record after the other.
"""

import signal
from dataclasses import dataclass
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

CHECKPOINTED = 85  # exit status: as HTCondor has it
TIMED_OUT, LBRUN_FAILED = 124, 125
OUT_OF_LEASE = "its host could not renew its lease"
KEEPER_ENDED = "its host's keeper was stopped"
REQUEUED = "requeued"  # an attempt that was not its job's last


class Kind(Enum):
    """Who waits for a command's end. What else differs is in the other fields of its `Spec`."""

    # A user's lbrun on another host. It reads the outputs, so they are drained before the end is
    # reported. The end counts once the keeper is gone: nobody begins the command again.
    ATTACHED = "attached"
    # The dispatcher, by a lease. A lost attempt is begun again elsewhere, so its end counts only
    # once a new keeper has ended what the last one left; and an attempt that ended because its
    # keeper was stopped is lost, where an attached command is reported as signalled.
    QUEUED = "queued"


@dataclass(frozen=True, slots=True)
class Spec:
    """What a command needs, and what bounds it. Seconds; 0 = no bound, where not said otherwise."""

    id: JobId
    kind: Kind
    user: str
    kill_grace_s: float  # from TERM to KILL
    # Slots
    slots: tuple[int, int] = (1, 1)  # least and most
    may_exceed: bool = False  # the slots, at once, if the host bears it
    needs_no_slot: bool = False  # a program of ours, one a workdir: it runs whatever is free
    slot_patience_s: float | None = None  # wait so long for a free one; None: not at all
    slot_retry_s: float | None = None  # ask so often to exceed the slots meanwhile; None: never
    needs: Needs = NO_NEEDS
    # Bounds
    timeout_s: float = 0.0
    cutoff_s: float = 0.0  # CPU time of its tier, which the keeper measures
    # Habits
    brings_files: bool = False  # into a workdir of its own, and out of it
    takes_checkpoints: bool = False
    is_of_gang: bool = False  # it begins when it is released
    is_evictable: bool = False  # it may begin again on another host while it is untouched


class Cause(Enum):
    """Why a command ended, as users and dispatchers read it."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMEOUT = "timeout"
    KILLED = "killed"  # its user had enough of it
    EVICTED = "evicted"  # the owner of this host is back
    MEMORY = "memory"
    CUT = "cut"  # at its tier's CPU cutoff
    CHECKPOINT = "checkpoint"  # it stopped itself, to be continued
    LOST = "lost"  # with its client, lease, keeper or LBM


class Treatment(Enum):
    """What a host's owner who is back has done with a foreign command."""

    NONE = "none"
    NICE = "nice"
    STILL = "still"
    GO = "go"  # stand still, and leave if that can be

    @property
    def is_still(self) -> bool:
        return self in (Treatment.STILL, Treatment.GO)


class Limit(Enum):
    """What the keeper ended a command for."""

    NONE = ""
    LEASE = "lease"
    CPU = "cpu"
    KEEPER = "keeper"  # which was stopped


@quick_value
class Exit:
    """How the keeper says that a process tree ended. Nothing of it is left."""

    status: int  # the command's own, or 128 + signal
    signal: int = 0
    user_cpu_s: float = 0.0
    system_cpu_s: float = 0.0
    max_rss_bytes: int = 0
    out_of_memory: bool = False
    limit: Limit = Limit.NONE
    heard_signals: int | None = None  # while it ran, bit N for signal N; None: nobody knows


@quick_value
class Outcome:
    """The whole of a command's end."""

    state: JobState
    cause: Cause
    reason: str
    exit_status: int | None  # None: nobody knows
    signal: int
    cpu_s: float | None
    wall_s: float
    exit: Exit | None


@quick_value
class Process:
    """The leader of what was spawned."""

    pid: int
    group: str  # cgroup directory, "" without
    began_s: float


# What it hears


@quick_value
class Tick:
    """The moment `wake_at_s` has come."""


@quick_value
class Admitted:
    """The owner's rules let it in."""


@quick_value
class Denied:
    """They do not, or the request is not valid."""

    reason: str
    phase: str
    try_another: bool = True
    wait_s: float = 0.0  # until the rules may allow it; 0: not known


@quick_value
class SlotGranted:
    pass


@quick_value
class SlotAwaited:
    """None is free; it stands in the line."""


@quick_value
class SlotRefused:
    """The answer to AskSlot or ExceedSlots. `full`: another host may have one."""

    reason: str
    full: bool = True


@quick_value
class FilesReady:
    pass


@quick_value
class FilesFailed:
    reason: str
    phase: str


@quick_value
class Released:
    """All of its gang are ready."""


@quick_value
class Started:
    process: Process


@quick_value
class NotStarted:
    """Nothing ran, or would, of one that is held. `number`: the errno behind it."""

    reason: str
    phase: str
    number: int = 0


@quick_value
class Stopped:
    """The keeper saw the leader stop, or go on."""

    stopped: bool


@quick_value
class Exited:
    exit: Exit


@quick_value
class FilesCollected:
    """`complaint`: why what it was to bring home cannot be had, "" = it can."""

    complaint: str = ""


@quick_value
class OutputsDrained:
    pass


@quick_value
class KeeperLost:
    reason: str


@quick_value
class KeeperReady:
    """Another keeper is there, and has ended what the last one left."""


@quick_value
class Renewed:
    """Its dispatcher knows it alive until then."""

    lease_until_s: float


@quick_value
class Signalled:
    """Its user sends it a signal."""

    number: int


@quick_value
class EndWanted:
    """Its dispatcher wants its end, by that signal; 0 = TERM, then KILL."""

    number: int
    stop_reason: str = ""  # to be reported with its end


@quick_value
class KillWanted:
    """Its user has had enough of it, or it does not obey the protocol."""


@quick_value
class GivenUp:
    """Nobody waits for it any more: its client is gone, or its LBM ends. `number`: of the signal
    by which its user has ended the wait for its beginning; 0 = TERM."""

    reason: str
    number: int = 0


@quick_value
class OwnerWants:
    """What the owner's rules say now. `untouched`: nothing has come in or gone out that counts."""

    treatment: Treatment
    untouched: bool = False
    reason: str = ""  # for its user, while it stands still


@quick_value
class Resumed:
    """A new LBM has loaded it. What the last one had not been answered is asked again, or over."""


Event = (
    Tick | Admitted | Denied | SlotGranted | SlotAwaited | SlotRefused | FilesReady | FilesFailed
    | Released | Started | NotStarted | Stopped | Exited | FilesCollected | OutputsDrained
    | KeeperLost | KeeperReady | Renewed | Signalled | EndWanted | KillWanted | GivenUp | OwnerWants
    | Resumed
)  # fmt: skip


# What it orders


@quick_value
class AskSlot:
    """By its Spec; answered by SlotGranted, SlotAwaited or SlotRefused."""


@quick_value
class ExceedSlots:
    """May one that waits run beyond the slots? Answered by SlotGranted or SlotRefused."""


@quick_value
class FreeSlot:
    """The slot, or its place in the line."""


@quick_value
class PrepareFiles:
    """A workdir with what it brings; answered by FilesReady or FilesFailed."""


@quick_value
class CollectFiles:
    """What it is to bring home; answered by FilesCollected."""


@quick_value
class StopFiles:
    """What PrepareFiles or CollectFiles has begun is to end now; that is answered all the same."""


@quick_value
class DropFiles:
    """The workdir."""


@quick_value
class Spawn:
    """Answered by Started or NotStarted, then Exited; or by KeeperLost. None: no lease."""

    lease_s: float | None


@quick_value
class LimitLease:
    """The keeper ends it after so long, should we not be there."""

    lease_s: float


@quick_value
class Signal:
    number: int


@quick_value
class EndTree:
    """Kill every process of it, and whatever they start, until none is left."""


@quick_value
class KillDirectly:
    """The keeper has not ended its tree: kill the processes ourselves."""


@quick_value
class Treat:
    treatment: Treatment


@quick_value
class Drain:
    """Read its outputs to their end; answered by OutputsDrained."""


@quick_value
class AwaitKeeper:
    """Answered by KeeperReady."""


@quick_value
class Record:
    """Into this host's history of jobs."""

    outcome: Outcome


# What it reports: to its user's host, or to the dispatcher


@quick_value
class ReportQueued:
    """It waits for a slot."""


@quick_value
class ReportRefused:
    """Nothing has run, and will."""

    reason: str
    phase: str
    number: int = 0  # the errno behind it
    try_another: bool = True
    full: bool = False  # another host may have a slot
    wait_s: float = 0.0  # then it may begin here; 0: not known


@quick_value
class ReportReady:
    """One of a gang has its slot and its files, and waits to be released."""


@quick_value
class ReportBegun:
    pass


@quick_value
class ReportStopped:
    stopped: bool


@quick_value
class ReportStill:
    """The owner's rules let it stand still, and why; or go on."""

    still: bool
    reason: str = ""


@quick_value
class ReportExited:
    """The command has ended, while its output is still on its way."""

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
    """Nobody knows how it ended."""
    return Outcome(JobState.LOST, Cause.LOST, reason, None, 0, None, wall_s, None)


def outcome_of(
    spec: Spec, ended_for: Cause | None, reason: str, how: Exit, wall_s: float, complaint: str
) -> Outcome:
    """`ended_for`: why we have ended it; `complaint`: why its files cannot be had."""
    cause, reason = cause_of(spec, ended_for, reason, how)
    status, number, cpu_s = how.status, how.signal, how.user_cpu_s + how.system_cpu_s
    if cause is Cause.EXITED:
        status = LBRUN_FAILED if complaint else status
        state = JobState.FAILED if status else JobState.DONE
        return Outcome(state, cause, reason or complaint, status, number, cpu_s, wall_s, how)
    if cause is Cause.TIMEOUT:
        status = TIMED_OUT
    elif cause is Cause.MEMORY:  # what was killed for it may be a child
        status, number = 128 + signal.SIGKILL, int(signal.SIGKILL)
    elif cause is Cause.CUT:  # the rest was used by children that nobody has waited for
        cpu_s = max(cpu_s, spec.cutoff_s)
    state = JobState.CANCELLED if cause in NOT_ITS_OWN else JobState.FAILED
    return Outcome(state, cause, reason or complaint, status, number, cpu_s, wall_s, how)


def cause_of(spec: Spec, ended_for: Cause | None, reason: str, how: Exit) -> tuple[Cause, str]:
    """The keeper's limits come first: it may have ended the command before we had a reason to."""
    if how.limit is Limit.CPU:
        return Cause.CUT, f"used {spec.cutoff_s:g} s of CPU, the cutoff of its tier"
    if how.limit is Limit.LEASE:
        return Cause.LOST, OUT_OF_LEASE
    if ended_for is not None:
        return ended_for, reason
    if how.limit is Limit.KEEPER and how.status and spec.kind is Kind.QUEUED:
        return Cause.LOST, KEEPER_ENDED
    if how.out_of_memory:
        return Cause.MEMORY, ""
    if spec.takes_checkpoints and how.status == CHECKPOINTED:
        return Cause.CHECKPOINT, "it stopped at a checkpoint"
    return (Cause.SIGNALLED if how.signal else Cause.EXITED), ""


def recorded(spec: Spec, outcome: Outcome, stop_reason: str) -> tuple[JobState, str]:
    """State and note for this host's history of jobs: what becomes of one that was ended for its
    dispatcher is what that makes of it. Whose caller has seen it end by itself needs no note."""
    if stop_reason == REGROUP or (stop_reason == REQUEUE and outcome.state is not JobState.DONE):
        return JobState.CANCELLED, REQUEUED
    if stop_reason in (CANCEL, DISBAND) and outcome.state is not JobState.DONE:
        return JobState.CANCELLED, JobState.CANCELLED.value
    by_itself = outcome.cause in (Cause.EXITED, Cause.SIGNALLED)
    return outcome.state, "" if by_itself and spec.kind is Kind.ATTACHED else outcome.cause.value
