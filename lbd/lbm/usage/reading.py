"""The accounting on a full disk, for questions.

Before SQLite reads a file with a write-ahead log, it makes the index of that log: 32 KiB beside it.
On a full disk there is no room for that, so that nothing could be read because nothing could be
written. With a lock that keeps everybody else out, the index is in memory instead.
"""

import math
import sqlite3
from pathlib import Path

BUSY_S = 0.5
FULL = "its disk is full"


def open_to_read(path: Path) -> sqlite3.Connection:
    """Opens a file that exists. Nobody else can use it until it is closed. Raises sqlite3.Error."""
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", BUSY_S, isolation_level=None, uri=True
    )
    try:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA query_only = ON")
        database.execute("SELECT count(*) FROM kept").fetchone()  # takes the lock
        with_logarithm(database)
    except BaseException:
        database.close()
        raise
    return database


def with_logarithm(database: sqlite3.Connection) -> None:
    """Adds ln(): not every SQLite is built with mathematical functions."""
    try:
        database.execute("SELECT ln(1.0)")
    except sqlite3.OperationalError:
        database.create_function(
            "ln", 1, lambda value: None if value is None else math.log(value), deterministic=True
        )
