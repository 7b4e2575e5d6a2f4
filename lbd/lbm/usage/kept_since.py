"""Since when a host's accounting is complete.

It is complete since its file was made or, if jobs have been dropped from it, since the last of
those ended. The date is kept in the file itself, so that a copy has it too, and by a trigger of
SQLite, so that no code that drops jobs has to maintain it.
"""

import sqlite3
import time

SCHEMA = """
    CREATE TABLE IF NOT EXISTS kept (since);
    CREATE TRIGGER IF NOT EXISTS kept_less AFTER DELETE ON jobs
        WHEN OLD.finished > (SELECT since FROM kept)
        BEGIN UPDATE kept SET since = OLD.finished; END;
"""


def begin(database: sqlite3.Connection) -> None:
    database.executescript(SCHEMA)
    database.execute(
        "INSERT INTO kept SELECT ? WHERE NOT EXISTS (SELECT 1 FROM kept)", (time.time(),)
    )


def kept_since(database: sqlite3.Connection) -> float:
    """Returns UNIX seconds."""
    (since,) = database.execute("SELECT since FROM kept").fetchone()
    return float(since)
