"""Where the output of the queue's attempts is kept: spool/THOUSAND/JOB.ATTEMPT.out and .err,
and .pack for what is fetched.

A directory for each job would take longer to make than a short job runs: file systems spread
directories over the disk, so a thousand jobs share one.

The command writes into the file itself, so output outlives whatever happens to us. A file that
grows too large loses its middle (a hole is punched into it, so that the disk has it back): the
beginning and the end are what people look for. `.cut` beside it says what is missing.

Of an account whose jobs have just filled the disk (spool_room.py) nothing is kept for a while: its
commands get /dev/null, and their files are marked as cut short.

What a command could not write because the disk was full it alone has seen. So all that run while it
is full are marked: theirs may be cut short. The mark is the sticky bit of their files, which means
nothing for a file otherwise and takes no room on that disk.

Short jobs mostly print nothing, and a new file can take longer to make than they run: ext4 goes
through all inodes that were freed within the last minutes. So a file that an attempt has left empty
becomes that of a later one of the same account, if nobody has it open any more; `silent` lists
whose are gone so. No file ever passes from one account to another, for a process can keep a
descriptor of it of which no lease knows (O_PATH).

Whoever writes to a file has its lock, for as long as they make that write last: by gigabytes at a
time, or by a page of their own file system that is never answered. What needs that lock (to punch a
hole, truncate, change the mode, rename, remove) is not for the event loop, but for a thread of that
user's: `is_over` says whether there is anything to do.

All files are ours, with mode 0600: a job has descriptors, and cannot take away our right to read
its file and to bound it, as an owner could. So that it can open its own output again (/dev/stdout)
the access control list names its account, where the file system has such lists.
"""

import asyncio
import contextlib
import fcntl
import os
import stat
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from lbd.lbm.link.user_threads import HUNG_S, Call, UserThreads
from lbd.lbm.paths import spool_root
from lbd.lbm.queue.holes import Holes, TooMuch
from lbd.lbm.queue.output_file import (
    ACCESS_LIST,
    BLOCK_BYTES,
    OWNER,
    access_list,
    attempt_of,
    is_marked,
    leased,
    owner_of,
    printed_in,
    punch_hole,
    read_at_once,
    sizes_of,
)
from lbd.process.boot_clock import clock_s

PIECE_BYTES = 256 << 10
DAY_S = 86400.0
AGAIN = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
FLAGS = AGAIN | os.O_CREAT | os.O_TRUNC
MODE = 0o600
STREAMS = ("out", "err")
SILENT = "silent"
OWNERS_MAX = 100_000  # attempts under way whose account is remembered
LEFT_MAX = 100_000  # files of attempts that have ended whose size is remembered
BLANKS = 16  # empty files that are remembered for others
FULL_BYTES = 64 << 10  # with less a disk counts as full
FULL_WHY = "its output may be incomplete: its host's disk was full"
QUICK_WHY = "it printed more than fits: its host's disk was full"
Done = TypeVar("Done")


class UserCalls:
    """Calls that may wait for the lock of a file, in threads of the user whose file it is: one at a
    time for each thing that there is to do."""

    def __init__(self) -> None:
        self.threads = UserThreads()
        self._under_way: dict[tuple[int, Hashable], Call] = {}

    def start(self, uid: int, what: Hashable, call: Callable[[], object]) -> Call:
        """Not as long as one for the same is under way; that one is returned then."""
        known = self._under_way.get((uid, what))
        if known is None:
            known = self._under_way[uid, what] = self.threads.of(uid).start(call)
            known.done.add_done_callback(lambda _: self._under_way.pop((uid, what), None))
        return known

    def is_under_way(self, uid: int, what: Hashable, longer_than_s: float = 0.0) -> bool:
        known = self._under_way.get((uid, what))
        began_s = known.began_s if known is not None else 0.0
        return known is not None and (
            not longer_than_s or 0.0 < began_s < time.monotonic() - longer_than_s
        )

    async def run(self, uid: int, what: Hashable, call: Callable[[], Done]) -> Done | None:
        """Likewise; None if it has not been made within a moment: it goes on. Raises what it
        raises."""
        done = self.start(uid, what, call).done
        await asyncio.wait((done,), timeout=HUNG_S)
        return done.result() if done.done() else None  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Piece:
    data: bytes
    next_at: int
    dropped_bytes: int = 0  # just before `data`
    cut: bool = False  # there may have been more


@dataclass(slots=True)
class Quick:
    """Who prints more than there is room for; spool_room.py finds them."""

    until_s: dict[int, float] = field(default_factory=dict)  # no output of that account is kept
    ended: set[tuple[str, int]] = field(default_factory=set)  # for that
    gone: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """Account and bytes of each that has ended since it was looked at."""
    freed: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Bytes of the disk that were taken back of what each under way has printed."""

    def went(self, key: tuple[str, int], uid: int | None, printed_bytes: int) -> None:
        del self.freed[key]
        if uid is not None and printed_bytes:
            self.gone[key] = uid, printed_bytes

    def loses(self, uid: int) -> bool:
        return self.until_s.get(uid, 0.0) > clock_s()


class Spool:
    def __init__(
        self,
        state_dir: str,
        limit_bytes: int,
        punch_hole: Callable[[int, int, int], None] = punch_hole,
    ) -> None:
        self.root = Path(spool_root(state_dir))
        self.holes = Holes(limit_bytes, punch_hole)
        self._blanks: deque[tuple[int, str, int, str]] = deque(maxlen=BLANKS)  # of which account
        self._owners: dict[tuple[str, int], int] = {}
        self._silent = "", -1  # the list that is being written, and its descriptor
        self.quick = Quick()
        self.calls = UserCalls()
        self.to_mark: set[tuple[str, int]] = set()  # files do not say yet that it may be cut short
        self.left: dict[str, int] = {}  # by file: what it had when its attempt ended
        # attempts that run, and of which somebody who waits for them has got some output
        self.shown: set[tuple[str, int]] = set()
        self.when_shown: dict[tuple[str, int], Callable[[], None]] = {}  # for those of gangs

    def open(self, job: str, attempt: int, name: str, uid: int | None = None) -> int:
        """For the command to write to, which runs as `uid`; None: as nobody it could share with.
        Nobody else gets here. Raises OSError."""
        file, is_kept = self._file(job, attempt, name), True
        if uid is not None:
            is_kept = name not in STREAMS or not self.quick.loses(uid)
            if len(self._owners) >= OWNERS_MAX:
                self._owners.clear()
            self._owners[job, attempt] = uid
            if is_kept and name in STREAMS and (blank := self._take_blank(file, uid)) is not None:
                return blank
        try:
            descriptor = os.open(file, FLAGS, MODE)
        except FileNotFoundError:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            Path(file).parent.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(file, FLAGS, MODE)
        if uid is not None and uid != os.geteuid():
            with contextlib.suppress(OSError):  # then a job cannot open it again
                os.setxattr(descriptor, ACCESS_LIST, access_list(uid))
        if not is_kept:
            os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) | stat.S_ISVTX)
            os.close(descriptor)
            return os.open(os.devnull, AGAIN)
        return descriptor

    def was_shown(self, job: str, attempt: int) -> None:
        """Somebody who waits for it has got some of its output, while it runs."""
        if (job, attempt) not in self.shown:
            self.shown.add((job, attempt))
            if (notify := self.when_shown.get((job, attempt))) is not None:
                notify()

    def drop(self, job: str, attempt: int, name: str) -> None:
        """What it has printed there. Raises OSError."""
        os.truncate(self._file(job, attempt, name), 0)

    def ended(self, job: str, attempt: int, *, spooled: bool = True) -> str:
        """All of its processes have. Why its output may not be whole, "" if it is. `spooled`: it
        wrote here, and not to files of its own."""
        if spooled and self.is_full():
            self.to_mark.add((job, attempt))
        cut, sizes = (job, attempt) in self.to_mark, []
        uid = self._owners.pop((job, attempt), None)
        for name in STREAMS:
            with contextlib.suppress(OSError):
                found = os.stat(path := self._file(job, attempt, name))
                if len(self.left) >= LEFT_MAX:
                    del self.left[next(iter(self.left))]
                self.left[path] = max(found.st_size, found.st_blocks * BLOCK_BYTES)
                sizes.append((found.st_size, found.st_blocks * BLOCK_BYTES))
                cut = cut or is_marked(found)
                if not (cut or found.st_size) and uid is not None:
                    self._blanks.append((uid, job, attempt, name))
        self.quick.went((job, attempt), uid, printed_in(sizes, self.quick.freed[job, attempt]))
        if (job, attempt) in self.quick.ended:
            return QUICK_WHY
        return FULL_WHY if cut and spooled else ""

    def owner(self, job: str, attempt: int) -> int | None:
        """Whose it is, of one under way; None: an LBM before us has begun it."""
        return self._owners.get((job, attempt))

    def printed_bytes(self, job: str, attempt: int) -> int:
        """By one that runs, also what was dropped of it."""
        sizes = [sizes_of(self._file(job, attempt, name)) for name in STREAMS]
        return printed_in(sizes, self.quick.freed[job, attempt])

    def is_full(self) -> bool:
        """The disk. Some file systems do not say how large they are."""
        try:
            found = os.statvfs(self.root)
        except OSError:
            return False
        return found.f_blocks > 0 and found.f_bavail * found.f_frsize < FULL_BYTES

    def mark_cut(self, job: str, attempt: int) -> None:
        """What it prints while the disk is full may not get here. Not in the event loop."""
        for name in STREAMS:
            with contextlib.suppress(OSError):
                path = self._file(job, attempt, name)
                os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | stat.S_ISVTX)

    def _take_blank(self, path: str, uid: int) -> int | None:
        """An empty file of an attempt of that account that has ended, as `path` from now on. Raises
        OSError."""
        blank = next((blank for blank in reversed(self._blanks) if blank[0] == uid), None)
        if blank is None:
            return None
        self._blanks.remove(blank)
        _, job, attempt, name = blank
        old = self._file(job, attempt, name)
        try:
            descriptor = os.open(old, AGAIN)
        except OSError:  # it was swept
            return None
        # A process that has escaped from its job may have kept the job's output.
        with (
            leased(descriptor, fcntl.F_WRLCK) as is_ours_alone,
            contextlib.suppress(OSError),  # there is no such directory yet
        ):
            if is_ours_alone and not os.fstat(descriptor).st_size:
                if name == "out":
                    self._add_silent(f"{os.path.dirname(old)}/{SILENT}", f"{job}.{attempt}\n")
                os.rename(old, path)
                os.utime(descriptor)
                return descriptor
        os.close(descriptor)
        return None

    def _add_silent(self, path: str, line: str) -> None:
        """Raises OSError."""
        known, descriptor = self._silent
        if path != known or not os.fstat(descriptor).st_nlink:  # it was swept
            self._silent = "", -1
            if known:
                os.close(descriptor)
            descriptor = os.open(path, AGAIN | os.O_CREAT, 0o600)
            self._silent = path, descriptor
        os.write(descriptor, line.encode())

    def _file(self, job: str, attempt: int, name: str) -> str:
        """As text: a `Path` takes longer to make than a file to open."""
        thousand = int(job) // 1000 if job.isdecimal() else 0
        return f"{self.root}/{thousand}/{job}.{attempt}.{name}"

    def output(self, job: str, attempt: int) -> str:
        """Where it is kept."""
        return self._file(job, attempt, "out")

    def _path(self, job: str, attempt: int, name: str) -> Path:
        return Path(self._file(job, attempt, name))

    def open_pack(self, job: str, attempt: int, uid: int) -> int:
        """For what that user leaves for --fetch. Raises OSError."""
        descriptor = self.open(job, attempt, "pack")
        with contextlib.suppress(OSError):  # then it counts as our own
            os.setxattr(descriptor, OWNER, b"%d" % uid)
        return descriptor

    def pack(self, job: str, attempt: int) -> Path:
        """What it has made for --fetch, if anything."""
        return self._path(job, attempt, "pack")

    def exists(self, job: str, attempt: int) -> bool:
        path = self._path(job, attempt, "out")
        if path.exists():
            return True
        with contextlib.suppress(OSError):
            return f"{job}.{attempt}" in path.with_name(SILENT).read_text().split()
        return False

    def read(self, job: str, attempt: int, name: str, at: int, *, waits: bool = True) -> Piece:
        """What there is from `at` on, up to a piece; of none, no bytes. Raises OSError; of that
        BlockingIOError if it would have to wait and is not to."""
        path = self._file(job, attempt, name)
        first, last = self.holes.of(path)
        dropped = 0
        if first <= at < last:
            dropped, at = last - at, last
        size = PIECE_BYTES if at >= last else min(PIECE_BYTES, first - at)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(descriptor, size, at) if waits else read_at_once(descriptor, size, at)
            cut = is_marked(os.fstat(descriptor)) or (job, attempt) in self.to_mark
        finally:
            os.close(descriptor)
        return Piece(data, at + len(data), dropped, cut)

    async def in_thread(self, job: str, attempt: int, call: Callable[[], Done]) -> Done:
        """Of whose output it is. Raises what it raises."""
        uid = self.owner(job, attempt) or owner_of(self.output(job, attempt))
        return await self.calls.threads.of(uid).run(call)

    def trim(self, job: str, attempt: int, limit_bytes: int | None = None) -> bool:
        """Drop the middle of what is too large. `limit_bytes`: in place of the usual one. Not in
        the event loop. Raises OSError if that cannot be done; from then on all is kept. Returns
        whether it takes more of the disk than it printed: by fallocate(2), as no program does by
        mistake."""
        takes_more = False
        for name in STREAMS:
            path = self._file(job, attempt, name)
            with contextlib.suppress(FileNotFoundError):  # swept, or a blank of another's by now
                much = self.holes.too_much(path, limit_bytes)
                first, last = self.holes.of(path)
                if much is TooMuch.PRINTED:
                    size, taken_bytes = sizes_of(path)
                    most = limit_bytes or self.holes.limit_bytes
                    self.holes.punch(path, min(first or size, most // 4), size - most // 2)
                    self.quick.freed[job, attempt] += taken_bytes - sizes_of(path)[1]
                elif much is TooMuch.TAKEN:
                    takes_more = True
                    self.holes.give_back(path, first, last)
        return takes_more

    def is_over(self, job: str, attempt: int, limit_bytes: int | None = None) -> bool:
        """Has `trim` anything to do?"""
        paths = (self._file(job, attempt, name) for name in STREAMS)
        return any(self.holes.too_much(path, limit_bytes) for path in paths)

    def old(self, keep_days: float, running: set[str]) -> dict[int, list[str]]:
        """What is older, by whose it is."""
        before_s = time.time() - keep_days * DAY_S
        found: dict[int, list[str]] = {}
        with contextlib.suppress(OSError):
            for directory in self.root.iterdir():
                with contextlib.suppress(OSError):
                    directory.rmdir()  # unless there is something in it
                    continue
                with contextlib.suppress(OSError):
                    for path in directory.iterdir():
                        is_old = path.stat().st_mtime < before_s
                        if is_old and attempt_of(path.name) not in running:
                            found.setdefault(owner_of(str(path)), []).append(str(path))
        return found
