"""Since when a host's accounting is complete.

It is complete since its file was made or, if jobs have been dropped from it, since the last of
those ended. The date is kept in the file itself, so that a copy has it too, and by a trigger of
SQLite, so that no code that drops jobs has to maintain it.
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
    """Starts the record for a new file. A file of a release without it counts as complete from its
    oldest job on, though some later jobs of the user with most jobs may have been dropped."""
    (known,) = database.execute(
        "SELECT count(*) FROM sqlite_master WHERE name = 'kept_less'"
    ).fetchone()
    if not known:
        database.executescript(MADE.format(now=time.time()))


def kept_since(database: sqlite3.Connection) -> float:
    """Returns UNIX seconds."""
    (since,) = database.execute("SELECT since FROM kept").fetchone()
    return float(since)
