"""Room in the accounting's file, and which jobs make room."""

import sqlite3
from collections.abc import Sequence

from lbd.lbm.usage.backlog import bytes_of
from lbd.lbm.usage.record import Usage
from lbd.policy.even_share import even_share

PAGE_BYTES = 4096
ROOM, PAGES_SPARE = 3, 64  # for rows at the most: bytes in the file for each of theirs, and pages


def drop_oldest(database: sqlite3.Connection) -> int:
    """Drops a tenth of the jobs, the oldest. Returns how many."""
    (count,) = database.execute("SELECT count(*) FROM jobs").fetchone()
    return keep_shares(database, count - count // 10 - 1)


def keep_shares(database: sqlite3.Connection, most: int) -> int:
    """Drops the oldest jobs of users with more than an even share of `most` jobs, so that nobody's
    jobs push those of others off the record. Returns how many."""
    counts = dict(database.execute("SELECT user, count(*) FROM jobs GROUP BY user").fetchall())
    share = even_share(counts.values(), max(0, most))
    if share is None:
        return 0
    over = [(user, count - share) for user, count in counts.items() if count > share]
    return database.executemany(
        "DELETE FROM jobs WHERE number IN"
        " (SELECT number FROM jobs WHERE user IS ? ORDER BY finished, number LIMIT ?)",
        over,
    ).rowcount


def is_own_limit(database: sqlite3.Connection, usages: Sequence[Usage]) -> bool:
    """Whether it is the limit of the configuration that leaves no room for them, not the disk: then
    dropping others would help nobody. SQLite reports the same for both."""
    (most,) = database.execute("PRAGMA max_page_count").fetchone()
    (free,) = database.execute("PRAGMA freelist_count").fetchone()
    needed = PAGES_SPARE + ROOM * sum(map(bytes_of, usages)) // PAGE_BYTES
    return bool(most - pages_of(database) + free < needed)


def pages_of(database: sqlite3.Connection) -> int:
    (pages,) = database.execute("PRAGMA page_count").fetchone()
    return int(pages)
