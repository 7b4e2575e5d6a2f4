"""The accounting record of an ended job, and the job of a record. Pure."""

from dataclasses import dataclass

from lbd.lbm.core.execution_events import Cause
from lbd.lbm.core.jobs import Job
from lbd.lbm.session.request import CPU_S_MAX
from lbd.model import ENDED_NAMES, HostId, JobId, JobState
from lbd.policy.invocation import key_of

TEXT_CHARACTERS = 255
WORDS_BYTES = 512  # of a command line, for `lbctl history`
CHECKPOINT = Cause.CHECKPOINT.value  # the state of an attempt that another one continues


@dataclass(frozen=True, slots=True)
class Usage:
    """One job; a row of the store. Times are UNIX seconds."""

    finished: float
    submitted: float
    waiting_s: float | None  # None: it never began
    response_s: float | None
    cpu_s: float | None  # None: not measured
    user: str
    command: str  # the name and the kind of invocation, no arguments
    origin: str
    host: str  # where it ran
    failed: bool
    moved: bool
    wrong: bool
    pinned: bool  # it could have run nowhere else
    state: str
    uid: int  # of `user` at the origin
    id: str = ""
    name: str = ""
    words: bytes = b""  # of the command line, as far as kept, separated by NULs
    exit_status: int | None = None
    reason: str = ""
    slots: int = 1  # that it held


def usage_of(job: Job) -> Usage:
    """Returns the record. Raises nothing: a clock that was set back causes no negative times."""
    finished = job.finished if job.finished is not None else job.submitted
    began = job.started is not None
    is_known = began and job.finished is not None  # whether its duration is known
    origin = job.queued_at or job.origin
    host = str(job.host) if began else ""
    return Usage(
        finished=finished,
        submitted=job.submitted,
        waiting_s=max(0.0, job.started - job.submitted) if job.started is not None else None,
        response_s=max(0.0, finished - job.submitted) if is_known else None,
        # another host reports it
        cpu_s=job.cpu_s if 0.0 <= (job.cpu_s or 0.0) <= CPU_S_MAX else None,
        user=job.user[:TEXT_CHARACTERS],
        command=key_of(job.command)[:TEXT_CHARACTERS],
        origin=str(origin)[:TEXT_CHARACTERS],
        host=host[:TEXT_CHARACTERS],
        failed=job.state not in (JobState.DONE, JobState.UNKNOWN) and not job.is_continued,
        moved=began and job.host != origin,
        wrong=began and job.wrong,
        pinned=job.pinned or bool(job.queued_at),
        id=job.queued_as or str(job.id),  # not the attempt's id
        name=job.name[:TEXT_CHARACTERS],
        words=b"\0".join(job.command)[:WORDS_BYTES],
        state=CHECKPOINT if job.is_continued else job.state.value,
        exit_status=job.exit_status,
        reason=job.reason[:TEXT_CHARACTERS],
        uid=job.uid,
        slots=job.slots,
    )


def job_of(usage: Usage) -> Job | None:
    """Returns a plain command as it was when it had ended; None for a job of the queue."""
    if usage.state not in ENDED_NAMES or not usage.id.startswith(f"{usage.origin}-"):
        return None
    state = JobState(usage.state)
    is_open = state is JobState.UNKNOWN and usage.response_s is None
    return Job(
        JobId(usage.id),
        tuple(usage.words.split(b"\0")),
        usage.user,
        HostId(usage.origin),
        HostId(usage.host),
        usage.submitted,
        name=usage.name,
        state=state,
        started=None if usage.waiting_s is None else usage.submitted + usage.waiting_s,
        finished=None if is_open else usage.finished,
        cpu_s=usage.cpu_s,
        exit_status=usage.exit_status,
        reason=usage.reason,
        uid=usage.uid,
        slots=usage.slots,
    )
