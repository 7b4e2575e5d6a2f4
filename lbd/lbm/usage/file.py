"""Is the accounting's file still the one that was opened?

SQLite itself does not check: it continues with the pages that it has read, writes to a file that
nobody can open any more, or puts its pages into a file that somebody copied there. A check costs
three system calls: is this inode still at the path, and does the file begin as we found it? For
that each file has a number of its own, in the place which SQLite leaves to applications; so an
older copy of the same file passes the check.
"""

import contextlib
import os
import secrets
import sqlite3
from pathlib import Path

HEAD_BYTES = 72
MARK_MAX = (1 << 31) - 1
MAGIC, MARK = slice(0, 16), slice(68, 72)  # of the head; the part between them changes


class UsageFile:
    def __init__(self, path: Path) -> None:
        """Opens the file, for its owner only: it says what people ran. Raises OSError.

        To be closed after SQLite has closed it, because the first close gives up the locks of both.
        """
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._head: tuple[bytes, bytes] | None = None  # None: the mark may not be on disk yet

    def mark(self, database: sqlite3.Connection) -> None:
        """Marks the file, once for ever: while one LBM makes way for the next, both have it open.
        Raises sqlite3.Error, OSError."""
        with contextlib.suppress(sqlite3.OperationalError):  # full disk: try the next time
            if not mark_of(database):
                database.execute(f"PRAGMA application_id = {secrets.randbelow(MARK_MAX) + 1}")
            database.execute("PRAGMA wal_checkpoint(FULL)")  # into the file, which we read
        head = self._read_head()
        if head[1] == mark_of(database).to_bytes(4, "big"):
            self._head = head

    def changed(self) -> str:
        """Returns what others have done to the file, "" if nothing."""
        try:
            found = os.stat(self._path)
        except OSError:
            return "removed"
        if not os.path.samestat(found, os.fstat(self._descriptor)):
            return "replaced"
        return "" if self._head in (None, self._read_head()) else "overwritten"

    def _read_head(self) -> tuple[bytes, bytes]:
        head = os.pread(self._descriptor, HEAD_BYTES, 0)
        return head[MAGIC], head[MARK]

    def close(self) -> None:
        os.close(self._descriptor)


def mark_of(database: sqlite3.Connection) -> int:
    (mark,) = database.execute("PRAGMA application_id").fetchone()
    return int(mark)
