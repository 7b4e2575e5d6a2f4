"""A job of the ledger, as the lifecycle of a new dispatcher takes it up. Pure."""

from lbd.dispatch.discipline import QueuedJob
from lbd.dispatch.jobs import Fate, Live
from lbd.dispatch.ledger.rows import AttemptRow, JobRow
from lbd.model import HostId, JobId

OPEN_FATES = {Fate.LEASED.value, Fate.RUNNING.value, Fate.SUSPENDED.value}
Leased = tuple[int, HostId, int, bool]  # number, host, tier, whether it has begun


def queued_job(row: JobRow, *, anew: bool = False) -> QueuedJob:
    """`anew`: from its first tier."""
    return QueuedJob(
        JobId(str(row.id)),
        row.slots,
        row.may_restart,
        1 if anew else row.tier,
        only=HostId(row.only) if row.only else None,
        barred=frozenset(map(HostId, row.barred)),
    )


def live_job(row: JobRow, last: AttemptRow | None) -> tuple[Live, Leased | None]:
    """`last`: its last attempt, which may be alive."""
    live = Live(queued_job(row), row.attempt, row.crashes)
    if row.reason.startswith("held"):
        live.held = row.reason
    if last is None or last.fate not in OPEN_FATES:
        return live, None
    return live, (last.number, HostId(last.host), last.tier, last.fate != Fate.LEASED.value)
