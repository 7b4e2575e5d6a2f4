"""Which dispatcher leads: with SQLite the one that has the file; for PostgreSQL see
postgres_leadership.py."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Protocol

from lbd.dispatch.core.ledger_rows import Deposed, LedgerTrouble
from lbd.dispatch.ledger.sqlite import SqliteLedger, why_not_opened
from lbd.dispatch.ledger.store import Store
from lbd.process.file_lock import lock_file
from lbd.process.whole_file import write_whole
from lbd.text.dispatcher_phrases import AWAY

NOTE_MODE = 0o600
RETRY_S = 2.0
NO_LOCK = -1


class Lead(Protocol):
    """A dispatcher's part in electing the leader."""

    async def first(self) -> None:
        """Raises LbdError if this store cannot be used."""
        ...

    async def lead(self, report_leader: Callable[[str], None]) -> Store:
        """Waits until we lead; calls `report_leader` with the current leader meanwhile."""
        ...

    def beside(self) -> dict[str, Coroutine[None, None, None]]:
        """Returns the tasks to run while we lead, by name; one raises Deposed when we no longer
        do."""
        ...

    def leads(self) -> bool:
        """Returns whether no other dispatcher can lead at this moment."""
        ...

    async def end(self) -> None:
        """Ends our term as leader."""
        ...

    async def close(self) -> None: ...


class OneFile:
    """Who holds the lock beside the file leads. Two hosts may see the file, and each be told that
    it has the queue."""

    def __init__(self, path: Path, note: Path) -> None:
        """`note`: records which file was used, as `dispatch.store` may change."""
        self._path, self._note = path, note
        self._ledger: SqliteLedger | None = None
        self._lock = NO_LOCK

    async def first(self) -> None:
        return

    async def lead(self, _report_leader: Callable[[str], None]) -> Store:
        last = last_file(self._note)
        if last == self._path and not self._path.exists():
            await asyncio.sleep(RETRY_S)
            raise LedgerTrouble(
                f"{self._path}{AWAY}; to begin with an empty queue, remove {self._note}",
                passes=True,
            )
        try:
            self._lock = await asyncio.to_thread(lock_beside, self._path)
            self._ledger = SqliteLedger(self._path)
        except LedgerTrouble:
            await self.end()
            await asyncio.sleep(RETRY_S)
            raise
        if last != self._path:  # only now: else a crash meanwhile would leave no ledger to find
            write_whole(self._note, os.fsencode(self._path), NOTE_MODE, is_durable=True)
        return self._ledger

    def beside(self) -> dict[str, Coroutine[None, None, None]]:
        return {"lock of the ledger": self._watch_lock()}

    async def _watch_lock(self) -> None:
        """Raises Deposed once the file at the lock's name is another one, which another could
        lock."""
        while True:
            if not await asyncio.to_thread(is_at, self._lock, lock_of(self._path)):
                raise Deposed(f"{lock_of(self._path)} has been removed or replaced")
            await asyncio.sleep(RETRY_S)

    def leads(self) -> bool:
        return self._lock != NO_LOCK

    async def end(self) -> None:
        if self._ledger is not None:
            await self._ledger.close()
            self._ledger = None
        if self._lock != NO_LOCK:
            os.close(self._lock)
            self._lock = NO_LOCK

    async def close(self) -> None:
        return


def is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False


def lock_of(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


def lock_beside(path: Path) -> int:
    """Returns a descriptor that holds the lock until it is closed. Raises LedgerTrouble if it is
    held elsewhere, ConfigError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return lock_file(lock_of(path), 0.0)
    except TimeoutError:
        raise LedgerTrouble(
            f"{path}: another dispatcher has it open; this one begins when that has ended",
            passes=True,
        ) from None
    except OSError as problem:
        raise why_not_opened(path, problem) from problem


def last_file(note: Path) -> Path | None:
    """Returns the SQLite file that was last used on this host."""
    try:
        return Path(os.fsdecode(note.read_bytes()))
    except OSError:
        return None
