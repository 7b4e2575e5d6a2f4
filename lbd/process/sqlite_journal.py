"""How SQLite keeps what a transaction changes: in a write-ahead log, where that is safe.

The index of such a log is memory mapped from a file. SQLite makes sure that there is room for it by
writing a byte to each 4 KiB. Where a file system's blocks are smaller, as of an ext4 below 512 MB,
the rest of these 4 KiB are holes: on a full disk the first access to one ends the process with
SIGBUS. So there the old pages are in a rollback journal, which is mapped by nobody, and a reader
and a writer wait for each other.
"""

import os
import sqlite3
from pathlib import Path

STEP_BYTES = 4096  # of the index, as SQLite writes to it
# Ends of the names of files beside a database, which SQLite would apply to whatever file it finds.
BESIDE = "-wal", "-shm", "-journal"


def set_journal(database: sqlite3.Connection, path: Path) -> None:
    """Must be called before anything is read. Raises sqlite3.Error, OSError."""
    if os.statvfs(path).f_bsize >= STEP_BYTES:
        database.execute("PRAGMA journal_mode = WAL")
        return
    # A file from elsewhere may have a log: without others, its index is not mapped.
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    database.execute("PRAGMA journal_mode = TRUNCATE")
    database.execute("PRAGMA locking_mode = NORMAL")
    database.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # lets others use it
