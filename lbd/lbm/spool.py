"""Where the output of the queue's attempts is kept: spool/THOUSAND/JOB.ATTEMPT.out and .err,
and .pack for what is fetched.

A directory for each job would take longer to make than a short job runs: file systems spread
directories over the disk, so a thousand jobs share one.

The command writes into the file itself, so output outlives whatever happens to us. A file that
grows too large loses its middle (a hole is punched into it, so that the disk has it back): the
beginning and the end are what people look for. `.cut` beside it says what is missing.
"""

import contextlib
import ctypes
import os
import time
from dataclasses import dataclass
from pathlib import Path

FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2
PIECE_BYTES = 256 << 10
DAY_S = 86400.0
FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Piece:
    data: bytes
    next_at: int
    dropped_bytes: int = 0  # just before `data`


class Spool:
    def __init__(self, state_dir: str, limit_bytes: int) -> None:
        self.root = Path(state_dir) / "spool"
        self._limit_bytes = limit_bytes
        self._libc = ctypes.CDLL(None, use_errno=True)

    def open(self, job: str, attempt: int, name: str) -> int:
        """For the command to write to. Nobody else gets here, so that mode lets only those reopen
        it who have it already. Raises OSError."""
        path = self._path(job, attempt, name)
        try:
            descriptor = os.open(path, FLAGS, 0o600)
        except FileNotFoundError:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(path, FLAGS, 0o600)
        os.fchmod(descriptor, 0o666)
        return descriptor

    def _path(self, job: str, attempt: int, name: str) -> Path:
        thousand = int(job) // 1000 if job.isdecimal() else 0
        return Path(f"{self.root}/{thousand}/{job}.{attempt}.{name}")

    def pack(self, job: str, attempt: int) -> Path:
        """What it has made for --fetch, if anything."""
        return self._path(job, attempt, "pack")

    def exists(self, job: str, attempt: int) -> bool:
        return self._path(job, attempt, "out").exists()

    def read(self, job: str, attempt: int, name: str, at: int) -> Piece:
        """What there is from `at` on, up to a piece; of none, no bytes. Raises OSError."""
        path = self._path(job, attempt, name)
        first, last = self._hole(path)
        dropped = 0
        if first <= at < last:
            dropped, at = last - at, last
        size = PIECE_BYTES if at >= last else min(PIECE_BYTES, first - at)
        with path.open("rb") as file:
            file.seek(at)
            data = file.read(size)
        return Piece(data, at + len(data), dropped)

    def _hole(self, path: Path) -> tuple[int, int]:
        try:
            first, last = path.with_suffix(path.suffix + ".cut").read_text().split()
            return int(first), int(last)
        except (OSError, ValueError):
            return 0, 0

    def trim(self, job: str, attempt: int) -> None:
        """Drop the middle of what is too large."""
        for name in ("out", "err"):
            path = self._path(job, attempt, name)
            with contextlib.suppress(OSError):
                size = path.stat().st_size
                first, last = self._hole(path)
                if size - (last - first) > self._limit_bytes:
                    self._punch(path, self._limit_bytes // 4, size - self._limit_bytes // 2)

    def _punch(self, path: Path, first: int, last: int) -> None:
        """Raises OSError."""
        note = path.with_suffix(path.suffix + ".cut")
        fresh = note.with_suffix(".new")
        fresh.write_text(f"{first} {last}\n")
        fresh.rename(note)
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._libc.fallocate(
                descriptor,
                FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                ctypes.c_longlong(first),
                ctypes.c_longlong(last - first),
            )
        finally:
            os.close(descriptor)

    def sweep(self, keep_days: float, running: set[str]) -> None:
        """Remove what is older."""
        before_s = time.time() - keep_days * DAY_S
        with contextlib.suppress(OSError):
            for directory in self.root.iterdir():
                with contextlib.suppress(OSError):
                    for path in directory.iterdir():
                        is_old = path.stat().st_mtime < before_s
                        if is_old and path.name.partition(".")[0] not in running:
                            path.unlink(missing_ok=True)
                    directory.rmdir()  # unless there is something in it
