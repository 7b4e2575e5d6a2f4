"""What is accounted of a job that has ended. Pure."""

from dataclasses import dataclass

from lbd.lbm.request import CPU_S_MAX
from lbd.lbm.state import Job
from lbd.model import JobState
from lbd.policy.invocation import key_of

TEXT_CHARACTERS = 255


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


def usage_of(job: Job) -> Usage:
    """Raises nothing: a clock that was set back makes no negative times."""
    finished = job.finished if job.finished is not None else job.submitted
    began = job.started is not None
    origin = job.queued_at or job.origin
    host = str(job.host) if began else ""
    return Usage(
        finished=finished,
        submitted=job.submitted,
        waiting_s=max(0.0, job.started - job.submitted) if job.started is not None else None,
        response_s=max(0.0, finished - job.submitted) if began else None,
        cpu_s=job.cpu_s if 0.0 <= (job.cpu_s or 0.0) <= CPU_S_MAX else None,  # another host's word
        user=job.user[:TEXT_CHARACTERS],
        command=key_of(job.command)[:TEXT_CHARACTERS],
        origin=str(origin)[:TEXT_CHARACTERS],
        host=host[:TEXT_CHARACTERS],
        failed=job.state is not JobState.DONE,
        moved=began and job.host != origin,
        wrong=began and job.wrong,
        pinned=job.pinned or bool(job.queued_at),
    )
