"""Since when a host's accounting is complete: since its file was made, or, where jobs have been
dropped from it for others, since the last of those ended.

It is kept in the file itself, so that it goes with a copy of it, and by SQLite, so that nothing
that drops jobs has to think of it.
"""

import sqlite3
import time

MADE = """
    BEGIN IMMEDIATE;
    CREATE TABLE IF NOT EXISTS kept (since);
    CREATE TRIGGER IF NOT EXISTS kept_less AFTER DELETE ON jobs
        WHEN OLD.finished > (SELECT since FROM kept)
        BEGIN UPDATE kept SET since = OLD.finished; END;
    INSERT INTO kept SELECT coalesce((SELECT min(finished) FROM jobs), {now})
        WHERE NOT EXISTS (SELECT 1 FROM kept);
    COMMIT;
"""


def begin(database: sqlite3.Connection) -> None:
    """Of a file that has been made just now; or by a release that did not note it: from its oldest
    job on, though of who had the most jobs some later ones may have been dropped."""
    (known,) = database.execute(
        "SELECT count(*) FROM sqlite_master WHERE name = 'kept_less'"
    ).fetchone()
    if not known:
        database.executescript(MADE.format(now=time.time()))


def kept_since(database: sqlite3.Connection) -> float:
    """UNIX seconds."""
    (since,) = database.execute("SELECT since FROM kept").fetchone()
    return float(since)
