"""The spool, where the output of the queue's attempts is kept.

The files are spool/LEDGER-THOUSAND/JOB.ATTEMPT.out and .err, and .pack for files to fetch.

A thousand jobs share one directory. A directory for each job would take longer to make than a short
job runs, because file systems spread directories over the disk. Each ledger has directories of its
own, told by the token that it shows this host: two ledgers have jobs of the same numbers, and a
host that poses as dispatcher must not have the output of another's jobs overwritten.

The command writes into the file itself, so output survives whatever happens to us. A file that
grows too large loses its middle (a hole is punched into it, which frees the disk space): the
beginning and the end are what people look for. `.cut` beside it says what is missing.

After an account's jobs have just filled the disk (spool_room.py) nothing of its output is kept for
a while: its commands get /dev/null, and their files are marked as cut short.

Only the command itself knows what it could not write because the disk was full. So all attempts
that run while it is full are marked: their output may be cut short. The mark is the sticky bit of
their files, which has no other meaning for a file and takes no room on that disk. What an ended
attempt has printed may be dropped later, for room: then the set-group-ID bit says so.

Short jobs mostly print nothing, and a new file can take longer to make than they run: ext4 searches
all inodes that were freed within the last minutes. So a file that an attempt has left empty is
reused for a later one of the same account, if nobody has it open any more; `silent` lists the
attempts whose files were reused. No file ever passes from one account to another, because a process
can keep a descriptor of it that no lease knows of (O_PATH).

A process that writes to a file holds its lock, for as long as it makes that write last: by writing
gigabytes at a time, or from a page of its own file system that never answers. Calls that need the
lock (to punch a hole, truncate, change the mode, rename, remove) are not made in the event loop,
but in a thread of that user's: `is_over` says whether there is anything to do.

All files belong to the daemon, with mode 0600: a job has descriptors, but cannot take away our
right to read its file and to bound it, as an owner could. So that a job can open its own output
again (/dev/stdout), the access control list names its account, where the file system has such
lists.
"""

import contextlib
import fcntl
import os
import stat
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from glob import escape, glob
from pathlib import Path
from typing import TypeVar

from lbd.lbm.link.user_calls import UserCalls
from lbd.lbm.queue.holes import Holes, TooMuch
from lbd.lbm.queue.output_file import (
    ACCESS_LIST,
    BLOCK_BYTES,
    OWNER,
    Leased,
    access_list,
    attempt_of,
    is_dropped,
    is_marked,
    owner_of,
    printed_in,
    punch_hole,
    read_at_once,
    sizes_of,
)
from lbd.load.procfs import read_small
from lbd.process.boot_clock import clock_s
from lbd.process.disk_space import is_full
from lbd.process.written_disks import spool_root

PIECE_BYTES = 256 << 10
DAY_S = 86400.0
AGAIN = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
FLAGS = AGAIN | os.O_CREAT | os.O_TRUNC
MODE = 0o600
STREAMS = ("out", "err")
OUT = ".out"
SILENT = "silent"
OWNERS_MAX = 100_000  # running attempts whose account is remembered
LEFT_MAX = 100_000  # files of ended attempts whose size is remembered
BLANKS = 16  # empty files remembered for reuse
NEW_S = 1.0  # a reused file that is no older than this counts as a new one
FULL_WHY = "its output may be incomplete: its host's disk was full"
QUICK_WHY = "it printed more than fits: its host's disk was full"
Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class Piece:
    data: bytes
    next_at: int
    dropped_bytes: int = 0  # just before `data`
    cut: bool = False  # there may have been more


@dataclass(slots=True)
class Quick:
    """Users who print more than there is room for; spool_room.py finds them."""

    # no output of that account is kept until then
    until_s: dict[int, float] = field(default_factory=dict)
    ended: set[tuple[str, int]] = field(default_factory=set)  # attempts ended for that
    gone: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """Account and bytes of each that has ended since it was looked at."""
    freed: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Bytes of the disk that were taken back of what each under way has printed."""

    def went(self, key: tuple[str, int], uid: int | None, sizes: Sequence[tuple[int, int]]) -> None:
        printed_bytes = printed_in(sizes, self.freed.pop(key, 0))
        if uid is not None and printed_bytes:
            self.gone[key] = uid, printed_bytes

    def loses(self, uid: int) -> bool:
        return bool(self.until_s) and self.until_s.get(uid, 0.0) > clock_s()


@dataclass(slots=True)
class SpoolFiles:
    root: str
    # the name here of an attempt's ledger, or of that of the jobs that people ask about; "" if not
    # known
    ledger_of: Callable[[str, int], str] = lambda *_: ""

    def path(self, job: str, attempt: int, name: str) -> str:
        """Returns a string: a `Path` takes longer to make than a file to open."""
        thousand = int(job) // 1000 if job.isdecimal() else 0
        file, ledger = f"{job}.{attempt}.{name}", self.ledger_of(job, attempt)
        if not ledger:  # no dispatcher has been reached yet
            kept = glob(f"{escape(self.root)}/*-{thousand}/{file}")
            return kept[0] if kept else f"{self.root}/{thousand}/{file}"
        return f"{self.root}/{ledger}-{thousand}/{file}"


class Spool:
    def __init__(
        self,
        state_dir: str,
        limit_bytes: int,
        punch_hole: Callable[[int, int, int], None] = punch_hole,
    ) -> None:
        self.files = SpoolFiles(spool_root(state_dir))
        self.root = Path(self.files.root)
        self.holes = Holes(limit_bytes, punch_hole)
        self._blanks: deque[tuple[int, str]] = deque(maxlen=BLANKS)  # account and path
        self._owners: dict[tuple[str, int], int] = {}
        self._silent = "", -1  # the current list of silent attempts, and its descriptor
        self.quick = Quick()
        self.calls = UserCalls()
        # may be cut short, but their files are not marked yet
        self.to_mark: set[tuple[str, int]] = set()
        self.left: dict[str, int] = {}  # size of each file when its attempt ended
        # running attempts some of whose output was shown to somebody who waits for them
        self.shown: set[tuple[str, int]] = set()
        self.when_shown: dict[tuple[str, int], Callable[[], None]] = {}  # called for those of gangs

    def open(self, job: str, attempt: int, name: str, uid: int | None = None) -> int:
        """Returns a descriptor for the command, which runs as `uid`, to write to; None: its account
        is not known, so the file is not shared. Nobody else has access. Raises OSError."""
        file, is_kept = self.files.path(job, attempt, name), True
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
        """Notes that somebody who waits for a running attempt has got some of its output."""
        if (job, attempt) not in self.shown:
            self.shown.add((job, attempt))
            if (notify := self.when_shown.get((job, attempt))) is not None:
                notify()

    def drop(self, job: str, attempt: int, name: str) -> None:
        """Drops what it has printed there. Raises OSError."""
        os.truncate(self.files.path(job, attempt, name), 0)

    def ended(self, job: str, attempt: int, *, spooled: bool = True) -> str:
        """Notes that all its processes have ended. Returns why its output may not be whole, "" if
        it is. `spooled`: it wrote here, and not to files of its own."""
        if spooled and self.is_full():
            self.to_mark.add((job, attempt))
        cut, sizes = (job, attempt) in self.to_mark, []
        uid = self._owners.pop((job, attempt), None)
        for name in STREAMS:
            try:
                found = os.stat(path := self.files.path(job, attempt, name))
            except OSError:
                continue
            if len(self.left) >= LEFT_MAX:
                del self.left[next(iter(self.left))]
            sizes.append((found.st_size, found.st_blocks * BLOCK_BYTES))
            self.left[path] = max(sizes[-1])
            cut = cut or is_marked(found)
            if not (cut or found.st_size) and uid is not None:
                self._blanks.append((uid, path))
        self.quick.went((job, attempt), uid, sizes)
        if (job, attempt) in self.quick.ended:
            return QUICK_WHY
        return FULL_WHY if cut and spooled else ""

    def owner(self, job: str, attempt: int) -> int | None:
        """The account of a running attempt; None: an LBM before us has started it."""
        return self._owners.get((job, attempt))

    def printed_bytes(self, job: str, attempt: int) -> int:
        """How much a running attempt has printed, including what was dropped."""
        sizes = [sizes_of(self.files.path(job, attempt, name)) for name in STREAMS]
        return printed_in(sizes, self.quick.freed[job, attempt])

    def is_full(self) -> bool:
        return is_full(self.files.root)

    @property
    def why_full(self) -> str:
        """Why nothing begins that would print here while it is full."""
        return f"no room for its output: the disk of {self.root} is full"

    def mark_cut(self, job: str, attempt: int) -> None:
        """Marks an attempt that printed while the disk was full. Not for the event loop."""
        for name in STREAMS:
            with contextlib.suppress(OSError):
                path = self.files.path(job, attempt, name)
                os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) | stat.S_ISVTX)

    def _take_blank(self, path: str, uid: int) -> int | None:
        """Reuses an empty file, of an ended attempt of that account, as `path`. Raises OSError."""
        found = [blank for blank in self._blanks if blank[0] == uid]
        if not found:
            return None
        self._blanks.remove(found[-1])
        self.left.pop(old := found[-1][1], None)
        try:
            descriptor = os.open(old, AGAIN)
        except OSError:  # it was swept
            return None
        try:
            # A process that has escaped from its job may have kept the job's output open.
            with Leased(descriptor, fcntl.F_WRLCK) as is_ours_alone:
                if is_ours_alone and not (status := os.fstat(descriptor)).st_size:
                    directory, _, name = old.rpartition("/")
                    if name.endswith(OUT):
                        self._add_silent(f"{directory}/{SILENT}", f"{name.removesuffix(OUT)}\n")
                    os.rename(old, path)
                    if abs(time.time() - status.st_mtime) > NEW_S:
                        os.utime(descriptor)
                    return descriptor
        except OSError:  # the directory does not exist yet
            pass
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

    def output(self, job: str, attempt: int) -> str:
        """The path of its output."""
        return self.files.path(job, attempt, "out")

    def open_pack(self, job: str, attempt: int, uid: int) -> int:
        """Opens a file for what that user leaves for --fetch. Raises OSError."""
        descriptor = self.open(job, attempt, "pack")
        with contextlib.suppress(OSError):  # then it counts as our own
            os.setxattr(descriptor, OWNER, b"%d" % uid)
        return descriptor

    def pack(self, job: str, attempt: int) -> Path:
        """What it has left for --fetch, if anything."""
        return Path(self.files.path(job, attempt, "pack"))

    def exists(self, job: str, attempt: int) -> bool:
        """Whether there is a file with its output."""
        return any(os.path.exists(self.files.path(job, attempt, name)) for name in STREAMS)

    def was_silent(self, job: str, attempt: int) -> bool:
        """Whether it has printed nothing, so that later attempts got its files."""
        path = f"{os.path.dirname(self.files.path(job, attempt, 'out'))}/{SILENT}"
        with contextlib.suppress(OSError):
            listed = read_small(path, os.stat(path).st_size)
            return f"\n{job}.{attempt}\n".encode() in b"\n" + listed
        return False

    def read(self, job: str, attempt: int, name: str, at: int, *, waits: bool = True) -> Piece:
        """Returns the output from `at` on, up to one piece, or no bytes. Raises OSError, in
        particular BlockingIOError if it would have to wait and `waits` is False."""
        path = self.files.path(job, attempt, name)
        first, last = self.holes.of(path)
        dropped = 0
        if first <= at < last:
            dropped, at = last - at, last
        size = PIECE_BYTES if at >= last else min(PIECE_BYTES, first - at)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = os.pread(descriptor, size, at) if waits else read_at_once(descriptor, size, at)
            found = os.fstat(descriptor)
            is_cut = is_marked(found) and not is_dropped(found)
            cut = is_cut or (job, attempt) in self.to_mark
        finally:
            os.close(descriptor)
        return Piece(data, at + len(data), dropped, cut)

    def was_dropped(self, job: str, attempt: int) -> bool:
        """Whether what it has printed was dropped after its end, for room."""
        for name in STREAMS:
            with contextlib.suppress(OSError):
                if is_dropped(os.stat(self.files.path(job, attempt, name))):
                    return True
        return False

    async def in_thread(self, job: str, attempt: int, call: Callable[[], Done]) -> Done:
        """Makes a call in a thread of the output's user. Raises what the call raises."""
        uid = self.owner(job, attempt) or owner_of(self.output(job, attempt))
        return await self.calls.threads.of(uid).run(call)

    def trim(self, job: str, attempt: int, limit_bytes: int | None = None) -> bool:
        """Drops the middle of an output that is too large. `limit_bytes`: in place of the usual
        limit. Not for the event loop. Raises OSError if that is impossible; from then on all is
        kept. Returns whether the file takes more of the disk than was printed, by fallocate(2): no
        program does that by mistake."""
        takes_more = False
        for name in STREAMS:
            path = self.files.path(job, attempt, name)
            with contextlib.suppress(FileNotFoundError):  # swept, or reused by now
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
        """Whether `trim` has anything to do."""
        paths = (self.files.path(job, attempt, name) for name in STREAMS)
        return any(self.holes.too_much(path, limit_bytes) for path in paths)

    def old(self, keep_days: float, running: set[str]) -> dict[int, list[str]]:
        """Older files, by the user they belong to."""
        before_s = time.time() - keep_days * DAY_S
        found: dict[int, list[str]] = {}
        with contextlib.suppress(OSError):
            for directory in self.root.iterdir():
                with contextlib.suppress(OSError):
                    directory.rmdir()  # fails unless it is empty
                    continue
                with contextlib.suppress(OSError):
                    for path in directory.iterdir():
                        is_old = path.stat().st_mtime < before_s
                        if is_old and attempt_of(path.name) not in running:
                            found.setdefault(owner_of(str(path)), []).append(str(path))
        return found
