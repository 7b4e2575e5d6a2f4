"""Restores a job from the ledger for a new dispatcher's lifecycle. Pure."""

from lbd.dispatch.core.dependencies.conditions import conditions_of
from lbd.dispatch.core.dependencies.dependents import Waits
from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.ledger_rows import (
    AttemptRow,
    JobRow,
    command_of,
    share_of,
    target_of,
)
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.records import Fate, Live
from lbd.dispatch.core.run_times import line_of, name_hash
from lbd.model import HostId, JobId
from lbd.text.job_phrases import is_held
from lbd.text.needs_words import read_needs_text

OPEN_FATES = {Fate.LEASED.value, Fate.RUNNING.value, Fate.SUSPENDED.value}
# number, host, tier, whether it has begun, slots, cutoff
Leased = tuple[int, HostId, int, bool, int, float | None]


def queued_job(
    row: JobRow, estimate_s: float | None = None, *, from_start: bool = False, by_uid: bool = False
) -> QueuedJob:
    """`from_start`: in its first tier. `by_uid`: users are identified by number."""
    return QueuedJob(
        JobId(str(row.id)),
        row.slots,
        row.may_restart,
        1 if from_start else row.tier,
        estimate_s,
        only=HostId(row.only) if row.only else None,
        barred=frozenset(map(HostId, row.barred)),
        slots_most=row.slots_most,
        user=share_of(row.user, row.uid, by_uid=by_uid),
        name=row.name,
        priority=row.priority,
        array=row.first if row.array_index is not None else 0,
        gang=row.gang,
        limit_s=row.limit_s,
        speedup=row.speedup,
        work_s=row.work_s,
        command=name_hash(command_of(row.command)),
        submission=row.submission,
        array_index=row.array_index,
        target=target_of(row.target, row.deadline),
        origin=row.origin,
        at_once=row.at_once,
        needs=read_needs_text(row.needs),
        command_line=line_of(row.command),
        spooled=row.spooled,
        takes_checkpoints=row.takes_checkpoints,
    )


def waits_of(row: JobRow) -> Waits | None:
    """Returns what the job waits for before it joins the queue, if anything."""
    has_begun = row.met or row.attempt > 0 or row.requeued is not None
    conditions = () if has_begun else conditions_of(row.after, row.array_index)
    return Waits(conditions, row.not_before) if conditions or row.not_before else None


def live_job(
    row: JobRow,
    last: AttemptRow | None,
    estimate_s: float | None = None,
    *,
    by_uid: bool = False,
) -> tuple[Live, Leased | None]:
    """Restores a job. `last` is its last attempt, which may be alive."""
    job = queued_job(row, estimate_s, by_uid=by_uid)
    live = Live(job, row.attempt, row.crashes, requeued=row.requeued)
    if is_held(row.reason):
        live.held = row.reason
    if last is not None:
        is_over = last.fate not in (*OPEN_FATES, Fate.REFUSED.value)
        live.over = (last.number, last.fate) if is_over else (last.number - 1, "")
    if last is None or last.fate not in OPEN_FATES:
        return live, None
    live.stop_reason, begun = last.stop_reason, last.fate != Fate.LEASED.value
    number, host = last.number, HostId(last.host)
    return live, (number, host, last.tier, begun, last.slots, last.cutoff_s)


def restore_times(
    queues: Queues, live: Live, row: JobRow, last: AttemptRow | None, now_s: float, unix_s: float
) -> None:
    """Restores when the open attempt was leased, and how long it has run."""
    if live.lease is None or last is None:
        return
    live.lease.granted_s = now_s - max(0.0, unix_s - last.leased)
    if (ran_s := row.ran_by(unix_s)) is not None:
        queues.ran_before(live.job.id, ran_s)
