"""Jobs as clients are told of them: rows of the ledger to messages."""

from collections.abc import Sequence

from lbd.dispatch.forecast import Prediction
from lbd.dispatch.ledger.rows import AttemptRow, JobRow
from lbd.model import ENDED_NAMES
from lbd.rpc.gen import dispatch_pb2 as pb

NOTHING = Prediction(None, "")
FRAME_BYTES = 6  # before each job in a message


def without_reason(row: JobRow, unrecorded: str = "") -> pb.JobTold:
    return job_told(row, unrecorded, is_final=row.state in ENDED_NAMES)


def job_told(
    row: JobRow, reason: str, is_final: bool, prediction: Prediction = NOTHING
) -> pb.JobTold:
    """`reason`: why it waits, if it does; `prediction`: and how long."""
    held = row.slots_held if row.state != "pending" else None
    told = pb.JobTold(
        id=row.id,
        name=row.name,
        command=row.command.split(b"\0"),
        user=row.user,
        origin=row.origin,
        host=row.host,
        state=row.state,
        attempt=row.attempt,
        tier=row.tier,
        submitted=row.submitted,
        started=row.started or 0.0,
        finished=row.finished or 0.0,
        slots=held or row.slots,
        slots_most=row.slots_most,
        priority=row.priority,
        reason=reason or row.reason,
        signal=row.signal,
        cause=row.cause,
        is_final=is_final,
        predicted_wait_s=prediction.wait_s,
        predicted_by=prediction.how,
        uid=row.uid,
    )
    if row.exit_status is not None:
        told.exit_status = row.exit_status
    if row.cpu_s is not None:
        told.cpu_s = row.cpu_s
    if row.array_index is not None:
        told.array_index = row.array_index
    return told


def in_pieces(jobs: Sequence[pb.JobTold], bytes_max: int) -> list[list[pb.JobTold]]:
    """Each of so many bytes, unless a single job has more; one of none if there are none."""
    pieces: list[list[pb.JobTold]] = [[]]
    size = 0
    for job in jobs:
        own = job.ByteSize() + FRAME_BYTES
        if pieces[-1] and size + own > bytes_max:
            pieces.append([])
            size = 0
        pieces[-1].append(job)
        size += own
    return pieces


def add_attempts(jobs: Sequence[pb.JobTold], rows: Sequence[AttemptRow]) -> None:
    by_id = {job.id: job for job in jobs}
    for row in rows:
        told = by_id[row.job].attempts.add(
            number=row.number,
            host=row.host,
            tier=row.tier,
            state=row.fate,
            cutoff_s=row.cutoff_s or 0.0,
            started=row.started or 0.0,
            finished=row.finished or 0.0,
            reason=row.reason,
            slots=row.slots,
        )
        if row.exit_status is not None:
            told.exit_status = row.exit_status
        if row.cpu_s is not None:
            told.cpu_s = row.cpu_s
