"""What queued commands of this host take along, kept here until they have ended: files/NAME.pack.

There is one file for each submission, also for an array, packed by pack/pack.py; every attempt
unpacks the same bytes. Beside it NAME.note says which jobs it is for and where their outputs go.
The pack is on disk before the job is in the queue; the note follows when its number is known.
"""

import contextlib
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, fields
from operator import attrgetter
from pathlib import Path

NAME = re.compile(r"[0-9a-f]{32}")
PACK, NOTE, UNFINISHED = ".pack", ".note", ".new"
NOTES_BYTES = 256 << 20  # of memory, for the notes of all users
NOTE_BYTES, POINTER_BYTES = 1000, 8  # of a note without paths, and for each of these
DAY_S = 86400.0
Pack = tuple[str, int, int]  # its name, user and size
first_job = attrgetter("first")


@dataclass(slots=True)
class Note:
    """The note of one submission. Paths are kept as text, by os.fsdecode."""

    name: str
    first: int  # id of its first job
    count: int
    uid: int
    umask: int
    directory: str
    send: list[str]
    fetch: list[str]
    waited_for: bool = False  # by an lbrun -q, which handles its outputs
    stamp: str = ""  # of the directory; "": not known, as in an earlier release
    noted: str = ""  # of the places of its outputs (pack/places.py); "" as with `stamp`
    over: list[int] = field(default_factory=list)  # as stored: jobs that need nothing more
    _left: bytearray = field(init=False, repr=False)  # 1 for each of the others
    _left_count: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raises TypeError, ValueError if the fields are not those of a note."""
        over, self.over = self.over, []
        self._left, self._left_count = bytearray(b"\1" * self.count), self.count
        for job in over:
            self.end(job)

    def end(self, job: int) -> None:
        """Notes that the job needs nothing more. Must be cheap for each of an array's many jobs."""
        if self.is_left(job):
            self._left[job - self.first] = 0
            self._left_count -= 1

    def is_left(self, job: int) -> bool:
        return self.first <= job < self.first + self.count and bool(self._left[job - self.first])

    @property
    def is_over(self) -> bool:
        return not self._left_count

    @property
    def left(self) -> Iterator[int]:
        """The jobs that still need something, in order."""
        at = self._left.find(1)
        while at >= 0:
            yield self.first + at
            at = self._left.find(1, at + 1)

    def stored(self) -> str:
        stored = {one.name: getattr(self, one.name) for one in fields(self) if one.init}
        stored["over"] = [self.first + at for at, left in enumerate(self._left) if not left]
        return json.dumps(stored)  # much faster than json.dump


class PackRoom:
    """The disk space that each user's packs take. Packs are the daemons' files, so no quota counts
    them; and the same disk holds others' packs and outputs, and perhaps the queue itself. Pure."""

    def __init__(self) -> None:
        # by name: the user, and the size or the most it may get
        self._packs: dict[str, tuple[int, int]] = {}
        self._of_user: Counter[int] = Counter()

    def left(self, uid: int, free: int) -> int:
        """How much more the user may take: in total half of what is free or the user's, so that
        others have as much left."""
        return max(0, (free - self._of_user[uid]) // 2)

    def take(self, name: str, uid: int, size: int) -> None:
        """Notes a pack, also one that is known already and whose size is final now."""
        self.drop(name)
        self._packs[name] = uid, size
        self._of_user[uid] += size

    def drop(self, name: str) -> None:
        uid, size = self._packs.pop(name, (0, 0))
        self._of_user[uid] -= size
        if self._of_user[uid] <= 0:
            del self._of_user[uid]

    def keep(self, names: Collection[str]) -> None:
        """Forgets all packs but these."""
        for name in [name for name in self._packs if name not in names]:
            self.drop(name)


class NoteMemory(PackRoom):
    """The memory that each user's notes take. Pure."""

    def has_room(self, uid: int, size: int) -> bool:
        return size <= self.left(uid, NOTES_BYTES - self._of_user.total())

    def keep_note(self, note: Note) -> None:
        size = memory_bytes(note.send, note.fetch) + sys.getsizeof(note.noted) + note.count
        self.take(note.name, note.uid, size)


class PackStore:
    def __init__(self, state_dir: str) -> None:
        self.root = Path(state_dir) / "files"
        self.room, self.memory = PackRoom(), NoteMemory()

    def free_bytes(self) -> int:
        """Raises OSError."""
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize

    def resumed(self) -> tuple[list[Note], list[Pack]]:
        """Returns the notes on disk, in the order of their jobs, and the packs."""
        notes, packs = sorted(self.notes(), key=first_job), list[Pack]()
        for note in notes:
            with contextlib.suppress(OSError):
                packs.append((note.name, note.uid, self.path(note.name).stat().st_size))
        return notes, packs

    def hold(self, notes: Iterable[Note], packs: Iterable[Pack]) -> None:
        """Counts what these take."""
        for pack in packs:
            self.room.take(*pack)
        for note in notes:
            if not note.is_over:
                self.memory.keep_note(note)

    def keep(self, names: Collection[str]) -> None:
        """Forgets what all packs but these take."""
        self.room.keep(names)
        self.memory.keep(names)

    def names(self) -> set[str]:
        with contextlib.suppress(OSError):
            return {path.name.partition(".")[0] for path in self.root.iterdir()}
        return set()

    def create(self) -> tuple[str, int]:
        """Returns the name of a new pack, and a descriptor to write it. Raises OSError."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = os.urandom(16).hex()
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return name, os.open(self.root / (name + PACK + UNFINISHED), flags, 0o600)

    def finish(self, name: str, descriptor: int) -> None:
        """Finishes a written pack: once we return it survives everything. Raises OSError."""
        os.fsync(descriptor)
        (self.root / (name + PACK + UNFINISHED)).rename(self.root / (name + PACK))
        sync(self.root)

    def path(self, name: str) -> Path:
        """Raises FileNotFoundError for an invalid name."""
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
        """Yields all notes that can be read."""
        for path in self.root.glob("*" + NOTE):
            with contextlib.suppress(OSError, ValueError, TypeError):
                yield Note(**json.loads(path.read_text()))

    def drop(self, name: str) -> None:
        self.room.drop(name)
        self.memory.drop(name)
        for suffix in (PACK, NOTE, PACK + UNFINISHED):
            with contextlib.suppress(OSError):
                (self.root / (name + suffix)).unlink(missing_ok=True)

    def sweep(self, ended_days: float, unknown_days: float, open_names: set[str]) -> None:
        """Removes packs and notes of jobs that ended so long ago (a note is written when its last
        job ends), and those of no known job."""
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


def memory_bytes(send: Collection[bytes | str], fetch: Collection[bytes | str]) -> int:
    """Returns about how much memory a note with these paths takes at first."""
    return NOTE_BYTES + sum(
        sys.getsizeof(os.fsdecode(path)) + POINTER_BYTES for path in (*send, *fetch)
    )


def sync(directory: Path) -> None:
    """Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
