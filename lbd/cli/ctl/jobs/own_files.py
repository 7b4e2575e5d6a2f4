"""The files that a queued job writes to with `-o` and `--error`: where they are, and their contents
if they can be read on this host. The user chose the names, so a child process reads the files, as
root with that user's rights."""

import os
import pwd
import shlex
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass

from lbd.cli.ctl.verb import say
from lbd.console.output_paths import comes_back, is_in_place, path_of
from lbd.console.reply import Json, number, text
from lbd.local.write_all import write_all
from lbd.model import ENDED_NAMES
from lbd.process.reading_child import Reading, become, read_in_child

PIECE_BYTES = 256 << 10
STALLED_S = 10.0
CLOCKS_S = 60.0  # how much clocks of hosts and file servers may differ
LOOK_S = 1.0  # between two looks at a file that is followed
OPENS_S = 3.0  # for an attempt to open its files, and a file server to show them
LAST_BYTES = 64
UNREADABLE, OVERWRITTEN, NOT_ITS_OWN = 2, 3, 4  # the child's status


def where_it_goes(job: Json, can_read: bool | None = None) -> str:
    """Returns where the job's own files are and how to follow them; "" if the output is stored for
    `lbctl logs`. `can_read`: whether the first can be read here, None if that is to be looked
    at."""
    output, errors = text(job, "output"), text(job, "error")
    if not output:
        return ""
    state, host, has_ended = (
        text(job, "state"),
        text(job, "host"),
        text(job, "state") in ENDED_NAMES,
    )
    does = "wrote" if has_ended else "is going to write" if state == "pending" else "writes"
    paths = [path_of(pattern, job) for pattern in (output, errors) if pattern]
    line = f"job {text(job, 'id')} {does} to {paths[0]}"
    if errors:
        line += f", and its standard error to {paths[1]}"
    if not is_in_place(output, job):
        own = f"a directory of its own{f' on {host}' if host else ''}"
        if not comes_back(output, job):
            return f"{line}, in {own}"
        when = "has yet to come back" if has_ended else "comes back once the job has ended,"
        return f"{line} on {text(job, 'origin')}: it {when} from {own}"
    if state == "pending":
        return line
    if can_read is None:
        can_read = is_readable(paths[0], text(job, "user"))
    if not can_read:
        runs = "ran" if has_ended else "runs"
        return f"{line}, which cannot be read here; it {runs} on {host}"
    return line if has_ended else f"{line}; follow it with: tail -f {shlex.quote(paths[0])}"


def copy_files(job: Json, copied: set[str]) -> "list[OwnFile]":
    """Copies what the job wrote to its own files to our stdout and stderr. Skips files of `copied`,
    which other tasks of its array write to as well. Returns the others."""
    found: list[OwnFile] = []
    for descriptor, name in ((1, "output"), (2, "error")):
        if not (pattern := text(job, name)):
            continue
        path = path_of(pattern, job)
        if is_in_place(pattern, job) and path not in copied:
            copied.add(path)
            file = OwnFile(path, descriptor, number(job, "started"), text(job, "user"))
            file.copy()
            found.append(file)
    return found


def is_readable(path: str, user: str) -> bool:
    """Returns whether the job's user can read the file here; False if it does not answer."""

    def look(_: int) -> int:
        return 0 if os.access(path, os.R_OK) else UNREADABLE

    reading = read_as(user, look, len)
    return not reading.is_stalled and reading.status == 0


def read_as(user: str, read: Callable[[int], int], put: Callable[[bytes], object]) -> Reading:
    """Runs `read` in a child: as root with the rights of the job's user, since the file may be
    anything."""

    def read_with_rights(target: int) -> int:
        try:
            if os.geteuid() == 0:
                account = pwd.getpwnam(user)
                groups = os.getgrouplist(user, account.pw_gid)
                become(account.pw_uid, account.pw_gid, groups)
        # the user does not exist here, so these are not the job's files
        except (OSError, KeyError):
            return UNREADABLE
        return read(target)

    return read_in_child(read_with_rights, put, STALLED_S)


@dataclass(slots=True)
class OwnFile:
    """A file of a job, as far as it has been copied."""

    path: str
    descriptor: int
    started_unix_s: float
    user: str
    copied_bytes: int = 0
    last: bytes = b""  # the last bytes copied: others are there once an attempt has overwritten it
    can_read: bool = False  # whatever is there, when last tried
    is_empty: bool = False  # it is the job's, and nothing is in it

    def copy(self) -> bool:
        """Copies what has not been copied. Returns whether the file can be read here."""
        added = b""

        def read(target: int) -> int:
            return read_file(self.path, target, self.started_unix_s, self.copied_bytes, self.last)

        def put(data: bytes) -> None:
            nonlocal added
            write_all(self.descriptor, data)
            added = (added + data[-LAST_BYTES:])[-LAST_BYTES:]

        reading = read_as(self.user, read, put)
        if reading.is_stalled:
            say(f"{self.path}: nothing was read of it within {STALLED_S:g} s; given up")
        elif reading.said:
            say(f"{self.path}: {reading.said}")
        if reading.status == OVERWRITTEN:
            self.copied_bytes, self.last = 0, b""
        self.copied_bytes += reading.size_bytes
        self.last = (self.last + added)[-LAST_BYTES:]
        is_copied = not reading.is_stalled and reading.status in (0, OVERWRITTEN)
        self.is_empty = is_copied and not self.copied_bytes
        self.can_read = is_copied or reading.status == NOT_ITS_OWN
        return is_copied


def read_file(path: str, target: int, started_unix_s: float, copied_bytes: int, last: bytes) -> int:
    """Copies the rest of a file, in the child: all of it if `last` are not the bytes before. Skips
    anything but a regular file, and files older than the job: these belong to another job. Returns
    the child's status. Raises OSError."""
    try:  # does not wait for what is not ready, such as a pipe
        source = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return UNREADABLE
    found = os.fstat(source)
    if not stat.S_ISREG(found.st_mode) or found.st_mtime < started_unix_s - CLOCKS_S:
        return NOT_ITS_OWN
    status = 0
    if os.pread(source, len(last), copied_bytes - len(last)) != last:
        status, copied_bytes = OVERWRITTEN, 0
    os.lseek(source, copied_bytes, os.SEEK_SET)
    left = found.st_size - copied_bytes  # the file may be growing
    while left > 0 and (data := os.read(source, min(left, PIECE_BYTES))):
        write_all(target, data)
        left -= len(data)
    return status


@dataclass(slots=True)
class FollowedFiles:
    """The files of an attempt, copied as they grow."""

    job: Json
    files: list[OwnFile]  # none: they cannot be read before the job has ended
    opened_by_s: float  # monotonic time; until then, the attempt may not have opened them yet
    next_s: float = 0.0

    @property
    def have_all(self) -> bool:
        """Whether all output goes to these files."""
        return bool(text(self.job, "output"))

    def copy(self, *, is_last: bool) -> bool:
        """Copies what has been added, at most every `LOOK_S`. Returns whether all files can be read
        here, or still may be."""
        now_s = time.monotonic()
        if now_s < self.next_s and not is_last:
            return True
        self.next_s = now_s + LOOK_S
        can_read = [file.copy() for file in self.files]
        if self.files and all(can_read):
            return True
        return bool(self.files) and not is_last and time.monotonic() < self.opened_by_s

    def where(self) -> str:
        """Returns where the files are that cannot be read."""
        if where := where_it_goes(self.job, any(file.can_read for file in self.files[:1])):
            return where
        (errors,) = self.files
        name = text(self.job, "id")
        return f"the standard error of job {name} is in {errors.path}, which cannot be read here"


def followed_files(job: Json, before: FollowedFiles | None) -> FollowedFiles | None:
    """Returns the files that a started job writes to, None if it has none that can be followed.
    `before`: those of its last attempt, which may be the same."""
    known = {file.path: file for file in before.files} if before is not None else {}
    started_unix_s, files = number(job, "started"), []
    for descriptor, name in ((1, "output"), (2, "error")):
        if (pattern := text(job, name)) and is_in_place(pattern, job):
            path = path_of(pattern, job)
            file = known.get(path) or OwnFile(path, descriptor, started_unix_s, text(job, "user"))
            file.started_unix_s = started_unix_s
            files.append(file)
    if not files and not text(job, "output"):
        return None
    age_s = time.time() - started_unix_s
    left_s = 0.0 if age_s > OPENS_S else OPENS_S  # also if the start is not known yet
    return FollowedFiles(job, files, time.monotonic() + left_s)
