"""What is dropped from too large an output: a hole in its file, and a note of where it is."""

import errno
import os
from collections.abc import Callable
from enum import Enum
from pathlib import Path

from lbd.lbm.queue.output_file import punch_hole, sizes_of
from lbd.load.procfs import read_small

AHEAD_BYTES = 1 << 20  # file systems allocate ahead: up to the same again, and a little


class TooMuch(Enum):
    PRINTED = "printed"
    TAKEN = "taken"  # disk space beyond what was printed


class Holes:
    def __init__(
        self, limit_bytes: int, punch_hole: Callable[[int, int, int], None] = punch_hole
    ) -> None:
        """`limit_bytes`: for one file."""
        self.limit_bytes = limit_bytes
        self.punch_hole = punch_hole
        self._keeps_all = False  # because no hole can be punched there

    def of(self, path: str) -> tuple[int, int]:
        try:
            first, last = read_small(path + ".cut").split()
            return int(first), int(last)
        except (OSError, ValueError):
            return 0, 0

    def too_much(self, path: str, limit_bytes: int | None) -> TooMuch | None:
        limit_bytes = limit_bytes or self.limit_bytes
        size, taken_bytes = sizes_of(path)
        if self._keeps_all or max(size, taken_bytes) <= limit_bytes:
            return None
        first, last = self.of(path)
        if size - (last - first) > limit_bytes:
            return TooMuch.PRINTED
        return TooMuch.TAKEN if taken_bytes > 2 * limit_bytes + AHEAD_BYTES else None

    def give_back(self, path: str, first: int, last: int) -> None:
        """Frees what is in the hole again, and what lies beyond the end. Raises OSError."""
        with open(path, "rb+", buffering=0) as file:
            if last > first:
                self.punch_hole(file.fileno(), first, last - first)
            file.truncate(os.fstat(file.fileno()).st_size)

    def punch(self, path: str, first: int, last: int) -> None:
        """Punches a hole. The note is written first, because a hole reads like output. But on a
        full disk there is room for the note only after the hole. Raises OSError."""
        before = self.of(path)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            try:
                self._note(path, first, last)
            except OSError as problem:
                if problem.errno != errno.ENOSPC:
                    raise
                self.punch_hole(descriptor, first, last - first)
                self._note(path, first, last)
            try:
                self.punch_hole(descriptor, first, last - first)
            except OSError:
                self._keeps_all = True  # else the note would be wrong for a moment again and again
                self._note(path, *before)
                raise
        finally:
            os.close(descriptor)

    def _note(self, path: str, first: int, last: int) -> None:
        """Raises OSError."""
        note = Path(path + ".cut")
        fresh = note.with_suffix(".new")
        fresh.write_text(f"{first} {last}\n")
        fresh.rename(note)
