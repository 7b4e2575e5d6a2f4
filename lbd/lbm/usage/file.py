"""Is the accounting's file still the one that was opened?

SQLite itself does not look: it goes on with the pages that it has read, writes to a file that
nobody can open any more, or puts its pages into what somebody copied there. A look costs three
system calls: is this inode still at the path, and does it begin as we found it? For that each file
has a number of its own, in the place which SQLite leaves to applications; so an older copy of the
same file passes for it.
"""

import contextlib
import os
import secrets
import sqlite3
from pathlib import Path

HEAD_BYTES = 72
MARK_MAX = (1 << 31) - 1
MAGIC, MARK = slice(0, 16), slice(68, 72)  # of the head; between them is what changes


class UsageFile:
    def __init__(self, path: Path) -> None:
        """For its owner alone: it says what people ran. Raises OSError.

        To be closed after SQLite has closed it: the first to do so gives up the locks of both."""
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._head: tuple[bytes, bytes] | None = None  # not known to be on disk yet

    def mark(self, database: sqlite3.Connection) -> None:
        """Once for ever: while one LBM makes way for the next, both have it open. Raises
        sqlite3.Error, OSError."""
        with contextlib.suppress(sqlite3.OperationalError):  # a full disk: the next time, then
            if not mark_of(database):
                database.execute(f"PRAGMA application_id = {secrets.randbelow(MARK_MAX) + 1}")
            database.execute("PRAGMA wal_checkpoint(FULL)")  # into the file, where we look
        head = self._read_head()
        if head[1] == mark_of(database).to_bytes(4, "big"):
            self._head = head

    def changed(self) -> str:
        """What others have done to it, "" if nothing."""
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
