"""A job of the ledger, as the lifecycle of a new dispatcher takes it up. Pure."""

from lbd.dispatch.discipline import QueuedJob
from lbd.dispatch.jobs import Fate, Live
from lbd.dispatch.ledger.rows import AttemptRow, JobRow, share_of
from lbd.dispatch.pauses import HELD
from lbd.model import HostId, JobId

OPEN_FATES = {Fate.LEASED.value, Fate.RUNNING.value, Fate.SUSPENDED.value}
# number, host, tier, whether it has begun, slots, its cutoff
Leased = tuple[int, HostId, int, bool, int, float | None]


def queued_job(
    row: JobRow, estimate_s: float | None = None, *, anew: bool = False, by_uid: bool = False
) -> QueuedJob:
    """`anew`: from its first tier. `by_uid`: users are told apart by their numbers."""
    return QueuedJob(
        JobId(str(row.id)),
        row.slots,
        row.may_restart,
        1 if anew else row.tier,
        estimate_s,
        only=HostId(row.only) if row.only else None,
        barred=frozenset(map(HostId, row.barred)),
        slots_most=row.slots_most,
        user=share_of(row.user, row.uid, by_uid=by_uid),
        name=row.name,
        priority=row.priority,
        array=row.submission if row.array_index is not None else 0,
        submission=row.submission,
        array_index=row.array_index,
    )


def live_job(
    row: JobRow,
    last: AttemptRow | None,
    estimate_s: float | None = None,
    *,
    by_uid: bool = False,
) -> tuple[Live, Leased | None]:
    """`last`: its last attempt, which may be alive."""
    job = queued_job(row, estimate_s, by_uid=by_uid)
    live = Live(job, row.attempt, row.crashes, requeued=row.requeued)
    if row.reason.startswith("held") and not row.reason.startswith(HELD):
        live.held = row.reason
    if last is None or last.fate not in OPEN_FATES:
        return live, None
    live.wish, begun = last.wish, last.fate != Fate.LEASED.value
    number, host = last.number, HostId(last.host)
    return live, (number, host, last.tier, begun, last.slots, last.cutoff_s)
