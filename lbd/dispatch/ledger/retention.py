"""How long ended jobs are kept: so many days, and of each user so many that shares are even."""

import asyncio
import time

from lbd.config.dispatch import DispatchConfig
from lbd.dispatch.core.ledger_rows import Excess, Ledger
from lbd.dispatch.core.shares import even_share
from lbd.dispatch.ledger.work import VALUES_MAX, Ask, Many, Work, marks, whole

FORGET_AT_ONCE, FORGET_PAUSE_S = 1000, 0.2
DAY_S = 86400.0


async def clean_up(ledger: Ledger, own: DispatchConfig, *, by_uid: bool) -> None:
    """Deletes ended jobs after their retention time, and those above each user's share; in
    portions, with others' changes in between. Raises LedgerTrouble."""
    excess = await ledger.excess(own.jobs_keep, by_uid=by_uid)
    before_unix_s = time.time() - own.jobs_keep_days * DAY_S
    count = FORGET_AT_ONCE
    while count == FORGET_AT_ONCE:
        count = await ledger.forget(before_unix_s, excess, FORGET_AT_ONCE)
        await asyncio.sleep(FORGET_PAUSE_S)


def excess(keep: int, *, by_uid: bool) -> Work[Excess]:
    """If there are more jobs than `keep`: of each user with more than an even share of it, the
    first job that is kept. Whatever a user submits thus pushes out that user's own past alone.

    It goes by submissions, of which there are fewer: one that is forgotten in part, and jobs that
    have not ended, count in full. Jobs of a ledger that did not keep uids are nobody's.
    """
    who = "uid" if by_uid else '"user"'
    sizes = yield Ask(
        f"SELECT {who}, CAST(SUM(jobs) AS BIGINT) FROM submissions"  # noqa: S608  # a column
        f" WHERE {who} IS NOT NULL GROUP BY {who}"
    )
    share = even_share((whole(size) for _, size in sizes), keep)
    if share is None:
        return Excess(who)
    found: list[tuple[object, int]] = []
    over = [user for user, size in sizes if whole(size) > share]
    for at in range(0, len(over), VALUES_MAX):
        some = over[at : at + VALUES_MAX]
        rows = yield Ask(
            "SELECT who, CAST(MAX(first_job + upto - ?) AS BIGINT) FROM"  # noqa: S608  # a column
            f" (SELECT {who} AS who, first_job,"
            f" SUM(jobs) OVER (PARTITION BY {who} ORDER BY id DESC) AS upto"
            f" FROM submissions WHERE {who} IN ({marks(some)})) AS latest"
            " WHERE upto > ? GROUP BY who",
            (share, *some, share),
        )
        found += [(user, whole(first)) for user, first in rows]
    return Excess(who, tuple(found))


def forget(before_unix_s: float, excess: Excess, limit: int) -> Work[int]:
    """Jobs that ended before then, and those of the excess that have ended."""
    old = list(
        (
            yield Ask(
                "SELECT id, submission FROM jobs WHERE finished < ? ORDER BY finished LIMIT ?",
                (before_unix_s, limit),
            )
        )
    )
    for user, first in excess.first_kept:
        if len(old) >= limit:
            break
        old += yield Ask(
            "SELECT j.id, j.submission FROM submissions s JOIN jobs j ON j.submission = s.id"  # noqa: S608  # a column
            f" WHERE s.{excess.who} = ? AND s.first_job < ? AND j.id < ? AND j.finished >= ?"
            " ORDER BY s.id, j.id LIMIT ?",
            (user, first, first, before_unix_s, limit - len(old)),
        )
    yield Many("DELETE FROM attempts WHERE job = ?", [row[:1] for row in old])
    yield Many("DELETE FROM jobs WHERE id = ?", [row[:1] for row in old])
    yield Many(
        "DELETE FROM submissions WHERE id = ? AND NOT EXISTS"
        " (SELECT 1 FROM jobs WHERE submission = submissions.id)",
        [(submission,) for submission in sorted({whole(row[1]) for row in old})],
    )
    return len(old)
