"""What is known of this host's owner, on disk."""

import asyncio
import json
import logging
import time
from pathlib import Path

from lbd.lbm.core.owner_book import OwnerBook
from lbd.load.procfs import read_small
from lbd.process.whole_file import write_whole

log = logging.getLogger("lbd.lbm")

SAVE_EVERY_S = 300.0
FILE_BYTES_MAX = 1 << 18


class BookFile:
    """The book, kept over restarts. A damaged file is reported once and begun again."""

    def __init__(self, path: Path, book: OwnerBook) -> None:
        self._path, self._book = path, book
        self._saved_s: float | None = None
        self._trouble = ""
        try:
            data = read_small(str(path), FILE_BYTES_MAX)
            book.read(json.loads(data), time.time())
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError) as problem:
            log.warning("%s: %s; starting again with an empty record", path, str(problem)[:200])

    async def save(self, now_s: float) -> None:
        """Now and then."""
        if self._saved_s is None:
            self._saved_s = now_s
        if not 0 <= now_s - self._saved_s < SAVE_EVERY_S and self._book.is_here is not None:
            self._saved_s = now_s
            await asyncio.to_thread(self._write, self._data(now_s))

    def write(self, now_s: float) -> None:
        if self._book.is_here is not None:
            self._write(self._data(now_s))

    def _data(self, now_s: float) -> bytes:
        return json.dumps(self._book.to_json(now_s), separators=(",", ":")).encode()

    def _write(self, data: bytes) -> None:
        """Whole or not at all. For its daemon alone: it says when a person is there."""
        try:
            write_whole(self._path, data, 0o600)
            self._trouble = ""
        except OSError as problem:
            if (text := str(problem)) != self._trouble:
                log.warning("cannot save the owner's record: %s", text)
            self._trouble = text
