"""What queued commands of this host take along, kept here until they have ended: files/NAME.pack.

One file for each submission, also for an array, packed as pack/pack.py does; every attempt unpacks
the same bytes. Beside it NAME.note says which jobs it is for and where their outputs go. The pack
is on disk before the job is in the queue; the note follows when its number is known.
"""

import contextlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, fields
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
    _left: bytearray = field(init=False, repr=False, compare=False)  # 1 for each of the others
    _left_count: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raises TypeError, ValueError if what was read is no note."""
        over, self.over = self.over, []
        self._left, self._left_count = bytearray(b"\1" * self.count), self.count
        for job in over:
            self.end(job)

    def end(self, job: int) -> None:
        """Nothing more is to be done with that one. An array has many: none may cost as much as
        all of them."""
        if self.is_left(job):
            self._left[job - self.first] = 0
            self._left_count -= 1
            self.over.append(job)

    def is_left(self, job: int) -> bool:
        return self.first <= job < self.first + self.count and bool(self._left[job - self.first])

    @property
    def is_over(self) -> bool:
        return not self._left_count

    @property
    def left(self) -> Iterator[int]:
        """The jobs with which something is to be done yet, in order."""
        at = self._left.find(1)
        while at >= 0:
            yield self.first + at
            at = self._left.find(1, at + 1)

    def stored(self) -> str:
        stored = {one.name: getattr(self, one.name) for one in fields(self) if one.init}
        return json.dumps(stored)  # much faster than to a file


class PackRoom:
    """What the packs of each user take of the disk. They are the daemons' files, so no quota counts
    them; and on that disk are others' packs and outputs, and perhaps the queue itself. Pure."""

    def __init__(self) -> None:
        self._packs: dict[str, tuple[int, int]] = {}  # by name: whose, and its size or what it may
        self._of_user: Counter[int] = Counter()

    def left(self, uid: int, free: int) -> int:
        """Half of what is free and what is theirs: as much is left for others, however often they
        ask."""
        return max(0, (free - self._of_user[uid]) // 2)

    def take(self, name: str, uid: int, size: int) -> None:
        """Also for one that is there, whose size is known by now."""
        self.drop(name)
        self._packs[name] = uid, size
        self._of_user[uid] += size

    def drop(self, name: str) -> None:
        uid, size = self._packs.pop(name, (0, 0))
        self._of_user[uid] -= size
        if self._of_user[uid] <= 0:
            del self._of_user[uid]

    def keep(self, names: Collection[str]) -> None:
        """No others are there any more."""
        for name in [name for name in self._packs if name not in names]:
            self.drop(name)


class PackStore:
    def __init__(self, state_dir: str) -> None:
        self.root = Path(state_dir) / "files"
        self.room = PackRoom()

    def free_bytes(self) -> int:
        """Raises OSError."""
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize

    def sizes(self, notes: Iterable[Note]) -> list[tuple[str, int, int]]:
        """Name, user and size of each pack that is there."""
        found = []
        for note in notes:
            with contextlib.suppress(OSError):
                found.append((note.name, note.uid, self.path(note.name).stat().st_size))
        return found

    def names(self) -> set[str]:
        with contextlib.suppress(OSError):
            return {path.name.partition(".")[0] for path in self.root.iterdir()}
        return set()

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
            file.write(note.stored())
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
        self.room.drop(name)
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
