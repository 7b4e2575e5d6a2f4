"""What queued commands of this host take along, kept here until they have ended: files/NAME.pack.

One file for each submission, also for an array, packed as packing.py does; every attempt unpacks
the same bytes. Beside it NAME.note says which jobs it is for and where their outputs go. The pack
is on disk before the job is in the queue; the note follows when its number is known.
"""

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

NAME = re.compile(r"[0-9a-f]{32}")
PACK, NOTE, UNFINISHED = ".pack", ".note", ".new"
DAY_S = 86400.0


@dataclass(slots=True)
class Note:
    """Of one submission. Paths are kept as text, by os.fsdecode."""

    name: str
    first: int  # id of its first job
    count: int
    uid: int
    umask: int
    directory: str
    send: list[str]
    fetch: list[str]
    waited_for: bool = False  # by an lbrun -q, which sees to its outputs
    over: list[int] = field(default_factory=list)  # jobs with which nothing more is to be done

    @property
    def left(self) -> set[int]:
        return set(range(self.first, self.first + self.count)) - set(self.over)


class StageStore:
    def __init__(self, state_dir: str) -> None:
        self.root = Path(state_dir) / "files"

    def create(self) -> tuple[str, int]:
        """The name of a pack to be written, and a descriptor for that. Raises OSError."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = os.urandom(16).hex()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return name, os.open(self.root / (name + PACK + UNFINISHED), flags, 0o600)

    def finish(self, name: str, descriptor: int) -> None:
        """All of it is written: once we return it outlives whatever happens. Raises OSError."""
        os.fsync(descriptor)
        (self.root / (name + PACK + UNFINISHED)).rename(self.root / (name + PACK))
        sync(self.root)

    def path(self, name: str) -> Path:
        """Raises FileNotFoundError for what is no name at all."""
        if not NAME.fullmatch(name):
            raise FileNotFoundError(2, "no such pack", name)
        return self.root / (name + PACK)

    def write(self, note: Note) -> None:
        """Raises OSError."""
        fresh = self.root / (note.name + NOTE + UNFINISHED)
        with fresh.open("w") as file:
            json.dump(asdict(note), file)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(self.root / (note.name + NOTE))
        sync(self.root)

    def notes(self) -> Iterator[Note]:
        """All that can be read."""
        for path in self.root.glob("*" + NOTE):
            with contextlib.suppress(OSError, ValueError, TypeError):
                yield Note(**json.loads(path.read_text()))

    def drop(self, name: str) -> None:
        for suffix in (PACK, NOTE, PACK + UNFINISHED):
            with contextlib.suppress(OSError):
                (self.root / (name + suffix)).unlink(missing_ok=True)

    def sweep(self, ended_days: float, unknown_days: float, open_names: set[str]) -> None:
        """Remove what is of jobs that have been over for so long (a note is written when its last
        job is), and what no job is known of."""
        with contextlib.suppress(OSError):
            for path in sorted(self.root.iterdir(), reverse=True):  # a pack before its note
                name = path.name.partition(".")[0]
                if name in open_names:
                    continue
                note = self.root / (name + NOTE)
                with contextlib.suppress(OSError):
                    days = ended_days if note.exists() else unknown_days
                    written_s = (note if note.exists() else path).stat().st_mtime
                    if written_s < time.time() - days * DAY_S:
                        path.unlink(missing_ok=True)


def sync(directory: Path) -> None:
    """Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
