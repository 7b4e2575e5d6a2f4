"""What queued commands of this host take along, kept here until they have ended: files/NAME.pack.

There is one file for each submission, also for an array, packed by pack/pack.py; every attempt
unpacks the same bytes. Beside it NAME.note says which jobs it is for and where their outputs go.
The pack is on disk before the job is in the queue; the note follows when its number is known.

Once the jobs have ended, `lbctl requeue` can start them again with the pack, and their outputs come
by the note, which is not in memory meanwhile. Of one without outputs, only its user and its age
are kept. The age tells us when to remove both.
"""

import asyncio
import contextlib
import json
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, fields
from operator import attrgetter
from pathlib import Path

from lbd.process.whole_file import write_whole
from lbd.text.index_list import COUNT_MAX
from lbd.text.job_limits import REQUEST_BYTES_MAX
from lbd.text.one_line import one_line

log = logging.getLogger("lbd.lbm")

NAME = re.compile(r"[0-9a-f]{32}")
PACK, NOTE, UNFINISHED = ".pack", ".note", ".new"
NOTES_BYTES = 256 << 20  # of memory, for the notes of all users
NOTE_BYTES, POINTER_BYTES = 1000, 8  # of a note without paths, and for each of these
JSON_BYTES, ID_BYTES = 6, 16  # that a byte of a path and the id of a job take in a note, at most
NOTE_FILE_BYTES = JSON_BYTES * REQUEST_BYTES_MAX + ID_BYTES * COUNT_MAX + (1 << 20)  # at most
# A pack and its note count as no less: file systems often have an inode for each 16 KiB, and we
# have each pack's size in memory until it is removed.
FILES_BYTES = 32 << 10
DAY_S = 86400.0
Taken = tuple[str, int, int]  # what PackRoom.take is given
first_job = attrgetter("first")


@dataclass(slots=True)
class Note:
    """The note of one submission. Paths are kept as text, by os.fsdecode."""

    name: str
    ledger: str  # that has its jobs
    first: int  # id of its first job
    count: int
    uid: int
    umask: int
    directory: str
    send: list[str]
    fetch: list[str]
    waited_for: bool = False  # by an lbrun -q, which handles its outputs
    stamp: str = ""  # of the directory
    noted: str = ""  # of the places of its outputs (pack/places.py)
    # as stored: jobs that need nothing more; None: all
    over: list[int] | None = field(default_factory=list)
    # 1 for each of the others; 2 if it has ended, needs something, and begins again
    _left: bytearray = field(init=False, repr=False)
    _left_count: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Raises TypeError, ValueError if the fields are not those of a note."""
        numbers = self.first, self.count, self.uid, self.umask
        texts = self.name, self.ledger, self.directory, self.stamp, self.noted
        kinds = {*map(type, texts), *map(type, self.send), *map(type, self.fetch)}
        are_right = {*map(type, numbers)} == {int} and kinds == {str}
        if not are_right or not 0 <= self.count <= COUNT_MAX:
            raise ValueError("not the fields of a note")
        over, self.over = self.over, []
        if over is None:
            self._left, self._left_count = bytearray(self.count), 0
            return
        self._left, self._left_count = bytearray(b"\1" * self.count), self.count
        for job in over:
            self.end(job)

    def end(self, job: int) -> None:
        """Notes that the job needs nothing more. Must be cheap for each of an array's many jobs."""
        if self.is_left(job):
            self._left[job - self.first] -= 1
            self._left_count -= not self.is_left(job)

    def begin(self, job: int) -> None:
        """Notes that a job that had ended, and may still need something, is to end again."""
        if self.has_ended(job):
            self._left_count += 1
            self._left[job - self.first] = 1
        elif self.is_left(job):
            self._left[job - self.first] = 2

    def has_ended(self, job: int) -> bool:
        return self.first <= job < self.first + self.count and not self.is_left(job)

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
        if self.is_over and not self.fetch:
            return json.dumps({"uid": self.uid})
        stored = {one.name: getattr(self, one.name) for one in fields(self) if one.init}
        over = [self.first + at for at, left in enumerate(self._left) if not left]
        stored["over"] = None if self.is_over else over
        return json.dumps(stored)  # much faster than json.dump


class PackRoom:
    """The disk space that each user's packs and notes take. These are the daemons' files, so no
    quota counts them; and the same disk holds others' packs and outputs, and perhaps the queue
    itself. Pure."""

    def __init__(self) -> None:
        # by name, with NOTE for a note: the user, and the size or the most it may get
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
        for name in [name for name in self._packs if name.partition(".")[0] not in names]:
            self.drop(name)


class NoteMemory(PackRoom):
    """The memory that each user's notes take. Pure."""

    def has_room(self, uid: int, size: int) -> bool:
        return size <= self.left(uid, NOTES_BYTES - self._of_user.total())

    def has_room_for(self, note: Note) -> bool:
        return self.has_room(note.uid, size_of(note))

    def keep_note(self, note: Note) -> None:
        self.take(note.name, note.uid, size_of(note))


class PackStore:
    def __init__(self, state_dir: str) -> None:
        self.root = Path(state_dir) / "files"
        self.room, self.memory = PackRoom(), NoteMemory()
        self.reopening = asyncio.Lock()  # of notes that are over; others may ask for many

    def free_bytes(self) -> int:
        """Raises OSError."""
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize

    def resumed(self) -> tuple[list[Note], list[Taken]]:
        """Returns the notes on disk that are not over, in the order of their jobs, and what the
        files take. Notes are read one by one: of others there may be very many."""
        notes, taken, damaged, example = list[Note](), list[Taken](), 0, ""
        for path in self.files():
            if path.suffix != NOTE:
                continue
            try:
                note = read_note(path)
            except (OSError, ValueError, TypeError, RecursionError) as problem:
                damaged, example = damaged + 1, example or f"{path}: {problem}"
                continue
            uid = note.uid if isinstance(note, Note) else note
            with contextlib.suppress(OSError):
                pack_bytes = self.path(path.stem).stat().st_size
                taken.append((path.stem, uid, FILES_BYTES + pack_bytes))
            if isinstance(note, Note):
                taken.append((path.name, uid, path.stat().st_size))
                if not note.is_over:
                    notes.append(note)
        if damaged:
            log.warning(
                "cannot read the notes of %d submissions (files/*.note), whose outputs stay on the "
                "hosts where they ran; for example %s", damaged, one_line(example)
            )  # fmt: skip
        return sorted(notes, key=first_job), taken

    def closed(self, name: str) -> Note | None:
        """Returns a note that is over, if its jobs have outputs."""
        with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
            note = read_note(self.path(name).with_suffix(NOTE))
            return note if isinstance(note, Note) else None
        return None

    def hold(self, notes: Collection[Note], taken: Iterable[Taken]) -> dict[str, Note]:
        """Counts what these take. Returns the notes by name."""
        for one in taken:
            self.room.take(*one)
        for note in notes:
            self.memory.keep_note(note)
        return {note.name: note for note in notes}

    def keep(self, names: Collection[str]) -> None:
        """Forgets what all packs but these take."""
        self.room.keep(names)
        self.memory.keep(names)

    def files(self) -> Iterator[Path]:
        """Yields the files one by one, in no order: a list of all could be very long."""
        with contextlib.suppress(OSError), os.scandir(self.root) as entries:
            for entry in entries:
                yield Path(entry.path)

    def names(self) -> set[str]:
        return {path.name.partition(".")[0] for path in self.files()}

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
        while True:
            was_over = note.is_over
            data = note.stored().encode()
            write_whole(self.root / (note.name + NOTE), data, 0o600, is_durable=True)
            if note.is_over == was_over:
                return  # else another thread may have written its end before this

    def ended(self, note: Note) -> None:
        """Forgets what the note takes no more; its pack stays."""
        self.memory.drop(note.name)
        if not note.fetch:
            self.room.drop(note.name + NOTE)

    def drop(self, name: str) -> None:
        self.memory.drop(name)
        self.room.drop(name)
        self.room.drop(name + NOTE)
        for suffix in (PACK, NOTE, PACK + UNFINISHED):
            with contextlib.suppress(OSError):
                (self.root / (name + suffix)).unlink(missing_ok=True)


def read_note(path: Path) -> Note | int:
    """Returns the note, as if nobody waited, or of one that is over, and without outputs, its user.
    Raises OSError, ValueError, TypeError, RecursionError."""
    if path.stat().st_size > NOTE_FILE_BYTES:
        raise ValueError("larger than any note")
    match json.loads(path.read_text()):
        case {"uid": int(uid), **others} if not others:
            return uid
        case stored:
            note = Note(**stored)
            note.waited_for = False  # a client that waited is gone
    if note.name != path.stem or not NAME.fullmatch(note.name):
        raise ValueError("not the note of its name")
    return note


def size_of(note: Note) -> int:
    """Returns about how much memory the note takes."""
    texts = *note.send, *note.fetch, note.ledger, note.directory, note.stamp, note.noted
    return memory_bytes(texts) + note.count


def memory_bytes(texts: Iterable[bytes | str]) -> int:
    """Returns about how much memory a note takes at first, with these paths and its other texts."""
    return NOTE_BYTES + sum(sys.getsizeof(os.fsdecode(text)) + POINTER_BYTES for text in texts)


def disk_bytes(paths: Iterable[bytes], said_bytes: int) -> int:
    """Returns how much disk a note with these paths and places takes at first, at most."""
    return NOTE_BYTES + JSON_BYTES * (sum(map(len, paths)) + said_bytes)


def sync(directory: Path) -> None:
    """Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
