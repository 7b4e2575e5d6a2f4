"""How a command's end is reported, from how its processes ended and why they were made to. Pure."""

import signal

from lbd.lbm.core.execution_events import Cause, Exit, Kind, Limit, Outcome, Spec
from lbd.model import CANCEL, DISBAND, REGROUP, REQUEUE, JobState

CHECKPOINTED = 85  # exit status: as HTCondor has it
TIMED_OUT, LBRUN_FAILED = 124, 125
OUT_OF_LEASE = "its host could not renew its lease"
KEEPER_ENDED = "its host's keeper was stopped"
REQUEUED = "requeued"  # an attempt that was not its job's last
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
