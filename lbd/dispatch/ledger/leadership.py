"""Who leads: with SQLite who has the file; with PostgreSQL see postgres_leadership.py."""

import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Protocol

from lbd.dispatch.ledger.sqlite import SqliteLedger
from lbd.dispatch.ledger.store import Store
from lbd.process.whole_file import write_whole

NOTE_MODE = 0o600


class Lead(Protocol):
    """A dispatcher's part in the election of the leader."""

    async def first(self) -> None:
        """Raises LbdError if there is nothing to be had from this store."""
        ...

    async def lead(self, report_leader: Callable[[str], None]) -> Store:
        """As soon as we lead; `told` hears who does so far."""
        ...

    def beside(self) -> dict[str, Coroutine[None, None, None]]:
        """To be done as long as we lead, by name; one raises Deposed if we do not any more."""
        ...

    def leads(self) -> bool:
        """Returns whether no other dispatcher can lead at this moment."""
        ...

    async def end(self) -> None:
        """Ends our term as leader."""
        ...

    async def close(self) -> None: ...


class OneFile:
    """The daemon's lock sees to it that nobody else of this host opens it."""

    def __init__(self, path: Path, note: Path) -> None:
        """`note`: says which file it was, once `dispatch.store` may say another."""
        self._path, self._note = path, note
        self._ledger: SqliteLedger | None = None

    async def first(self) -> None:
        return

    async def lead(self, _report_leader: Callable[[str], None]) -> Store:
        if last_file(self._note) != self._path:
            write_whole(self._note, os.fsencode(self._path), NOTE_MODE, is_durable=True)
        self._ledger = SqliteLedger(self._path)
        return self._ledger

    def beside(self) -> dict[str, Coroutine[None, None, None]]:
        return {}

    def leads(self) -> bool:
        return True

    async def end(self) -> None:
        if self._ledger is not None:
            await self._ledger.close()
            self._ledger = None

    async def close(self) -> None:
        return


def last_file(note: Path) -> Path | None:
    """The SQLite file that was in use last on this host."""
    try:
        return Path(os.fsdecode(note.read_bytes()))
    except OSError:
        return None
