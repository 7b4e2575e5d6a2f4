"""Which algorithm has placed commands, and since when, as reported by this host's LIM.

It is kept beside the jobs, to show which of them ran before a change. Only the latest are kept.
"""

import sqlite3

KEPT = 1000


def begin(database: sqlite3.Connection) -> None:
    database.execute("CREATE TABLE IF NOT EXISTS algorithms (since, name)")


def note(database: sqlite3.Connection, name: str, unix_s: float) -> None:
    """Notes that this algorithm is in force now."""
    if name in [known for _, known in latest(database, 1)]:
        return
    database.execute("INSERT INTO algorithms VALUES (?, ?)", (unix_s, name))
    database.execute(
        "DELETE FROM algorithms WHERE rowid <= (SELECT max(rowid) FROM algorithms) - ?", (KEPT,)
    )


def latest(database: sqlite3.Connection, limit: int) -> list[tuple[float, str]]:
    """Returns since when (UNIX seconds) and which, the oldest first."""
    found = database.execute(
        "SELECT since, name FROM algorithms ORDER BY rowid DESC LIMIT ?", (limit,)
    ).fetchall()
    return found[::-1]
