"""How long ended jobs are kept: a number of days, and an even share for each host that submits,
within which each of its users has one: a host can make up users."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Sequence

from lbd.config.dispatch import DispatchConfig
from lbd.dispatch.core.ledger_room import Excess, OnRecord, Weight
from lbd.dispatch.core.ledger_rows import Ledger
from lbd.dispatch.ledger.work import VALUES_MAX, Ask, Many, Work, marks, whole
from lbd.local.rate_limit import Rates
from lbd.policy.even_share import even_share
from lbd.text.units import show_size

log = logging.getLogger("lbd.dispatch")

DROPPED = "dropped %d ended jobs early: there is room for %s of them; lbctl history has them"
DROPPED_LINES = Rates(1 / 3600.0, 1.0)  # one an hour
FORGET_AT_ONCE, FORGET_PAUSE_S = 1000, 0.2
DAY_S = 86400.0
# What a submission counts, and the first job kept where the sum `upto` exceeds the share.
WEIGHTS: dict[Weight, tuple[str, str]] = {
    "jobs": ("jobs", "first_job + upto - {share}"),
    "bytes": ("size_bytes", "first_job + jobs"),
}


async def clean_up(ledger: Ledger, own: DispatchConfig, *, by_uid: bool) -> None:
    """Deletes ended jobs after their retention time, and those above each user's share; in
    portions, so that other changes get in between. Raises LedgerTrouble."""
    found = await ledger.on_record(by_uid=by_uid)
    ledger.room.counted(found)
    ended_bytes = ledger.room.ended_bytes(own.ledger_bytes, ledger.disk())
    keep: dict[Weight, int] = {"jobs": own.jobs_keep, "bytes": ended_bytes}
    for weight, most in keep.items():
        excess = await ledger.excess(found, weight, most, by_uid=by_uid)
        before_unix_s = time.time() - own.jobs_keep_days * DAY_S
        dropped, count = 0, FORGET_AT_ONCE
        while count == FORGET_AT_ONCE:
            count = await ledger.forget(before_unix_s, excess, FORGET_AT_ONCE)
            dropped += count
            await asyncio.sleep(FORGET_PAUSE_S)
        is_early = dropped and weight == "bytes" and excess.first_kept
        if is_early and DROPPED_LINES.turn_s(DROPPED, time.monotonic(), 0.0) is not None:
            log.warning(DROPPED, dropped, show_size(ended_bytes))


def on_record(*, by_uid: bool) -> Work[list[OnRecord]]:
    who = column(by_uid=by_uid)
    rows = yield Ask(
        f"SELECT {who}, origin, CAST(SUM(jobs) AS BIGINT), CAST(SUM(size_bytes) AS BIGINT)"  # noqa: S608  # a column
        f" FROM submissions GROUP BY {who}, origin"
    )
    return [
        OnRecord(key, f"uid {key}" if by_uid else str(key), str(origin), whole(jobs), whole(size))
        for key, origin, jobs, size in rows
    ]


def excess(found: Sequence[OnRecord], weight: Weight, keep: int, *, by_uid: bool) -> Work[Excess]:
    """Returns the users with more than their share of `keep`; none if there is no more than `keep`
    in total. So a user's submissions displace only that user's own past jobs, and a host's only
    those of its users.

    Counts by submission, of which there are fewer: partly deleted ones, and jobs that have not
    ended, count in full.
    """
    who, hosts = column(by_uid=by_uid), dict[str, Counter[object]]()
    for one in found:
        users = hosts.setdefault(one.origin, Counter())
        users[one.who] += one.jobs if weight == "jobs" else one.size_bytes
    most = even_share((users.total() for users in hosts.values()), keep)
    if most is None:
        return Excess(who)
    amount, first_kept = WEIGHTS[weight]
    kept: list[tuple[object, str, int]] = []
    for origin, users in hosts.items():
        if (share := even_share(users.values(), most)) is None:
            continue
        over = [user for user, size in users.items() if size > share]
        for at in range(0, len(over), VALUES_MAX):
            some = over[at : at + VALUES_MAX]
            rows = yield Ask(
                f"SELECT who, CAST(MAX({first_kept.format(share=share)}) AS BIGINT) FROM"  # noqa: S608  # columns
                f" (SELECT {who} AS who, first_job, jobs,"
                f" SUM({amount}) OVER (PARTITION BY {who} ORDER BY id DESC) AS upto"
                f" FROM submissions WHERE {who} IN ({marks(some)}) AND origin = ?) AS latest"
                f" WHERE upto > {share} GROUP BY who",
                (*some, origin),
            )
            kept += [(user, origin, whole(first)) for user, first in rows]
    return Excess(who, tuple(kept))


def column(*, by_uid: bool) -> str:
    """Returns the column that identifies users."""
    return "uid" if by_uid else '"user"'


def forget(before_unix_s: float, excess: Excess, limit: int) -> Work[int]:
    """Deletes jobs that ended before then, and ended jobs of the excess. Returns how many."""
    old = list(
        (
            yield Ask(
                "SELECT id, submission FROM jobs WHERE finished < ? ORDER BY finished LIMIT ?",
                (before_unix_s, limit),
            )
        )
    )
    for user, origin, first in excess.first_kept:
        if len(old) >= limit:
            break
        old += yield Ask(
            "SELECT j.id, j.submission FROM submissions s JOIN jobs j ON j.submission = s.id"  # noqa: S608  # a column
            f" WHERE s.{excess.who} = ? AND s.origin = ? AND s.first_job < ? AND j.id < ?"
            " AND j.finished >= ? ORDER BY s.id, j.id LIMIT ?",
            (user, origin, first, first, before_unix_s, limit - len(old)),
        )
    yield Many("DELETE FROM attempts WHERE job = ?", [row[:1] for row in old])
    yield Many("DELETE FROM jobs WHERE id = ?", [row[:1] for row in old])
    yield Many(
        "DELETE FROM submissions WHERE id = ? AND NOT EXISTS"
        " (SELECT 1 FROM jobs WHERE submission = submissions.id)",
        [(submission,) for submission in sorted({whole(row[1]) for row in old})],
    )
    return len(old)
