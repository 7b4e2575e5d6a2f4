"""What ended attempts have left in the spool, and who can still write to it."""

import contextlib
import os
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from lbd.lbm.queue.output_file import (
    BLOCK_BYTES,
    attempt_of,
    empty,
    is_open_to_write,
    owner_of,
)
from lbd.lbm.queue.spool import STREAMS

MORE_BYTES = 1 << 16  # growth since the attempt ended that shows another writer
TAKEN_BYTES = 1 << 21  # the same on disk; file systems allocate a little more than is written


@dataclass(frozen=True, slots=True)
class Kept:
    path: str
    uid: int
    size_bytes: int  # on the disk
    is_output: bool  # otherwise a pack

    @property
    def attempt(self) -> str:
        """Its name. The next attempt of a job does not need an ended one."""
        return attempt_of(os.path.basename(self.path))


def drop(kept: Kept, left: dict[str, int], lately_s: float, *, by_file: bool) -> bool:
    """Drops a file. Returns whether somebody has written more than the attempt had `left`, or can
    write to it and has done so within `lately_s`.

    An output stays, empty and marked as cut short, because a process that has kept a descriptor of
    it may write on, and that must be noticed. Nobody opens it again. Raises OSError.
    """
    was_written = has_more = False
    if by_file or not kept.is_output:
        os.unlink(kept.path)
    else:
        found = os.stat(kept.path)
        was_written = time.time() - found.st_mtime < lately_s
        left_bytes = left.get(kept.path, max(found.st_size, kept.size_bytes))
        has_more = (
            found.st_size > left_bytes + MORE_BYTES or kept.size_bytes > left_bytes + TAKEN_BYTES
        )
        empty(kept.path, kept.uid)
        left[kept.path] = 0
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{kept.path}.cut")
    return has_more or (was_written and is_open_to_write(kept.path))


def held_by_somebody(root: Path, uid: int, running: Collection[str]) -> list[str]:
    """Outputs that attempts of that user have left, and to which somebody can write."""
    found = list[str]()
    for kept in kept_in(root):
        if kept.uid == uid and kept.is_output and kept.attempt not in running:
            with contextlib.suppress(OSError):
                if is_open_to_write(kept.path):
                    found.append(kept.path)
    return found


def kept_in(root: Path) -> Iterator[Kept]:
    """Outputs and packs, those of the oldest jobs first."""
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(root), key=thousand_of):
            with contextlib.suppress(OSError), os.scandir(root / name) as entries:
                for entry in sorted(entries, key=age_of):
                    kind = entry.name.rpartition(".")[2]
                    if kind not in (*STREAMS, "pack"):
                        continue
                    with contextlib.suppress(OSError):
                        found = entry.stat(follow_symlinks=False)
                        size_bytes = found.st_blocks * BLOCK_BYTES
                        yield Kept(entry.path, owner_of(entry.path), size_bytes, kind in STREAMS)


def thousand_of(directory: str) -> int:
    """Which thousand jobs have their outputs there."""
    thousand = directory.rpartition("-")[2]
    return int(thousand) if thousand.isdecimal() else 0


def age_of(entry: os.DirEntry[str]) -> int:
    """The job number: jobs are numbered in the order in which they came."""
    job = entry.name.partition(".")[0]
    return int(job) if job.isdecimal() else 0
