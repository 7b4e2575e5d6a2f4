"""Files of one directory as a stream of frames, and back.

Packed by `lbrun` itself at the origin, and on the remote host by a child that has become the user,
so every file is read and written with its user's rights only.

    DIRECTORY, FILE, LINK   fields: PATH and its attributes; a FILE is followed by DATA frames
    MISSING                 a listed path does not exist
    END                     complete: a stream without it is invalid

A PATH is the number of a listed path and what lies below that, so the receiver alone decides where
things go. Nothing is followed out of there: each step of a path is opened separately, never through
a symbolic link. Devices, pipes and sockets are refused; setuid bits are dropped. (The tar format
has names of any form, two kinds of links and owners, all of which need guarding against, and no
end.)
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO

from lbd.local import frames
from lbd.pack.places import Noted, has, is_ours, open_parent, open_way

DIRECTORY, FILE, LINK, DATA, MISSING, END = b"d", b"f", b"l", b"c", b"m", b"e"
PATH, MODE, MODIFIED, SIZE, TARGET = b"p", b"m", b"t", b"s", b"l"
PIECE_BYTES = 1 << 18
HEAD_BYTES = 1 << 16
DEEP = 200
LATEST_NS = 1 << 62  # a modification time that every file system's calls accept
OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class BadPack(Exception):
    """A pack that cannot be written or read; the text is one line for the user."""

    number = 0  # the errno behind it, if there is one


@dataclass(slots=True)
class Allowance:
    """What may still be transferred."""

    max_bytes: int
    max_files: int
    used_bytes: int = 0
    used_files: int = 0

    def take(self, size: int) -> None:
        """Raises BadPack."""
        self.used_bytes += size
        self.used_files += 1
        if self.used_bytes > self.max_bytes:
            raise BadPack(f"more than {self.max_bytes} bytes (stage.max_bytes)")
        if self.used_files > self.max_files:
            raise BadPack(f"more than {self.max_files} files (stage.max_files)")


def shown(path: bytes) -> str:
    return path.decode(errors="replace")


@contextmanager
def naming(path: bytes) -> Iterator[None]:
    """Turns a system error about `path` into a line that names it."""
    try:
        yield
    except OSError as problem:
        bad = BadPack(f"{shown(path)}: {problem.strerror}")
        bad.number = problem.errno or 0
        raise bad from None


def complaint_of(work: Callable[[], object]) -> str:
    """Returns why a step of packing or unpacking failed, in one line; "" if it did not."""
    return failure_of(work)[0]


def failure_of(work: Callable[[], object]) -> tuple[str, int]:
    """Like `complaint_of`; with the errno behind it, 0 if there is none."""
    try:
        work()
    except BadPack as problem:
        return str(problem), problem.number
    except OSError as problem:
        return problem.strerror or str(problem), problem.errno or 0
    return "", 0


class Packer:
    """Packs listed paths of the current directory."""

    def __init__(
        self,
        output: BinaryIO,
        allowance: Allowance,
        *,
        noted: Sequence[Noted] | None = None,
        absent: str = "",
    ) -> None:
        """`noted`: what the listed paths must be where others could have replaced them; without it
        nobody has looked, and no link on the way to one is followed. `absent`: the complaint if a
        listed path does not exist; "": put MISSING in the pack.
        """
        self._output = output
        self._allowance = allowance
        self._noted = noted
        self._is_kept_way = False  # nobody else can have put anything on the way to the path
        self._absent = absent

    def pack(self, paths: list[bytes]) -> None:
        """Raises BadPack, and OSError if nobody reads any more."""
        for number, path in enumerate(paths):
            name = b"%d" % number
            with naming(path):
                try:
                    parent = self._open_parent(path)
                except FileNotFoundError:
                    self._put_missing(name, path)
                    continue
            try:
                if self._noted is not None and not self._is_kept_way:
                    check_is(self._noted[number].above, parent, os.path.dirname(path) or b".")
                self._add(parent, os.path.basename(path) or b".", name, path, 0)
            finally:
                os.close(parent)
        self._put(END)
        self._output.flush()

    def _open_parent(self, path: bytes) -> int:
        """Raises OSError."""
        if self._noted is None:
            return open_parent(path)
        parent, self._is_kept_way = open_way(path)
        return parent

    def _put_missing(self, packed: bytes, path: bytes) -> None:
        if self._absent:
            raise BadPack(f"{shown(path)}: {self._absent}")
        self._put(MISSING, (PATH, packed))

    def _put(self, tag: bytes, *pairs: tuple[bytes, bytes]) -> None:
        self._output.write(frames.pack(tag, frames.pack_fields(pairs)))

    def _add(self, parent: int, name: bytes, packed: bytes, path: bytes, depth: int) -> None:
        with naming(path):
            try:
                found = os.stat(name, dir_fd=parent, follow_symlinks=False)
            except FileNotFoundError:
                if not depth:  # otherwise it vanished in between
                    self._put_missing(packed, path)
                return
        if depth > DEEP:
            raise BadPack(f"{shown(path)}: nested deeper than {DEEP} directories")
        about = [
            (PATH, packed),
            (MODE, b"%d" % (found.st_mode & 0o777)),
            (MODIFIED, b"%d" % found.st_mtime_ns),
        ]
        if stat.S_ISDIR(found.st_mode):
            self._allowance.take(0)
            self._put(DIRECTORY, *about)
            self._add_below(parent, name, packed, path, depth)
        elif stat.S_ISLNK(found.st_mode):
            self._allowance.take(0)
            with naming(path):
                target = os.readlink(name, dir_fd=parent)
            self._put(LINK, *about, (TARGET, target))
        elif stat.S_ISREG(found.st_mode):
            self._add_file(parent, name, about, path)
        else:
            raise BadPack(f"{shown(path)}: not a file, directory or symbolic link")

    def _add_below(self, parent: int, name: bytes, packed: bytes, path: bytes, depth: int) -> None:
        with naming(path):
            directory = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
            try:
                names = sorted(map(os.fsencode, os.listdir(directory)))
            except OSError:
                os.close(directory)
                raise
        try:
            is_kept = self._is_kept_way and is_ours(parent, directory)
            if self._noted is not None and not depth and not is_kept:
                check_is(self._noted[int(packed)].itself, directory, path)
            for below in names:
                self._add(
                    directory, below, packed + b"/" + below, os.path.join(path, below), depth + 1
                )
        finally:
            os.close(directory)

    def _add_file(
        self, parent: int, name: bytes, about: list[tuple[bytes, bytes]], path: bytes
    ) -> None:
        with naming(path):
            # Non-blocking: it may have been replaced by a pipe just now.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=parent)
        with open(descriptor, "rb", buffering=0) as file:
            size = os.fstat(descriptor).st_size
            self._allowance.take(size)
            self._put(FILE, *about, (SIZE, b"%d" % size))
            while size:
                with naming(path):
                    data = file.read(min(size, PIECE_BYTES))
                if not data:
                    raise BadPack(f"{shown(path)}: truncated while being read")
                self._output.write(frames.pack(DATA, data))
                size -= len(data)


def check_is(stamp: bytes, directory: int, path: bytes) -> None:
    """Raises BadPack if the open directory is not the one that was noted."""
    if not has(stamp, directory):
        raise BadPack(f"{shown(path)}: another directory has its name now")


@dataclass(slots=True)
class Unpacked:
    """What has been unpacked so far."""

    arrived: set[int] = field(default_factory=set)  # numbers of listed paths
    missing: set[int] = field(default_factory=set)


class Unpacker:
    """Creates each listed path where `place` says."""

    def __init__(
        self,
        source: BinaryIO,
        allowance: Allowance,
        place: Callable[[int], tuple[int, bytes]],
        allows_link: Callable[[bytes, bytes], bool] = lambda path, target: True,
        listed: Sequence[bytes] = (),
    ) -> None:
        """`place`: returns an open directory and the name in it, for the number of a listed path.
        `allows_link`: called with the PATH of a symbolic link and its target. `listed`: the paths
        by their numbers.
        """
        self._source = source
        self._allowance = allowance
        self._place = place
        self._allows_link = allows_link
        self._listed = listed
        self._finish: list[tuple[bytes, int, int]] = []  # directories: PATH, mode, modified

    def unpack(self) -> Unpacked:
        """Unpacks until END. Raises BadPack."""
        result = Unpacked()
        while (head := self._frame())[0] != END:
            tag, given = head
            path = given.get(PATH, b"")
            number, steps = self._steps(path)
            if tag == MISSING:
                is_said = number in result.missing or number in result.arrived
                if steps or is_said or number >= len(self._listed):
                    raise BadPack("malformed transfer")
                result.missing.add(number)
                continue
            if not steps and number in result.arrived:
                raise BadPack(f"{shown(self._name(path))} occurs twice")
            if steps and number not in result.arrived:
                raise BadPack(f"{shown(self._name(path))} comes before its directory")
            with naming(self._name(path)):
                self._make(tag, path, number, steps, given)
            result.arrived.add(number)
        for path, mode, modified_ns in reversed(self._finish):
            with naming(self._name(path)), self._parent(*self._steps(path)) as (parent, name):
                if name != b".":
                    directory = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
                    try:
                        os.utime(directory, ns=(modified_ns, modified_ns))
                        os.fchmod(directory, mode)
                    finally:
                        os.close(directory)
        return result

    def _name(self, path: bytes) -> bytes:
        number, slash, below = path.partition(b"/")
        known = number.isdigit() and len(number) < 10 and int(number) < len(self._listed)
        return self._listed[int(number)] + slash + below if known else path

    def _frame(self) -> tuple[bytes, dict[bytes, bytes]]:
        tag, size = self._head()
        if tag not in (DIRECTORY, FILE, LINK, MISSING, END) or size > HEAD_BYTES:
            raise BadPack("malformed transfer")
        try:
            return tag, dict(frames.fields(self._exactly(size)))
        except ValueError:
            raise BadPack("malformed transfer") from None

    def _head(self) -> tuple[bytes, int]:
        head = self._exactly(frames.HEADER_BYTES)
        return head[4:5], int.from_bytes(head[:4], "little")

    def _exactly(self, size: int) -> bytes:
        data = self._source.read(size)
        if len(data) != size:
            raise BadPack("the transfer was cut short")
        return data

    @staticmethod
    def _steps(path: bytes) -> tuple[int, list[bytes]]:
        number, *steps = path.split(b"/")
        if not number.isdigit() or len(number) > 9 or len(steps) > DEEP + 1:
            raise BadPack("malformed transfer")
        if any(step in (b"", b".", b"..") or b"\0" in step for step in steps):
            raise BadPack(f"{shown(path)} points outside its directory")
        return int(number), steps

    @contextmanager
    def _parent(self, number: int, steps: list[bytes]) -> Iterator[tuple[int, bytes]]:
        """Opens the directory of an entry; yields it with the entry's name. Raises OSError."""
        root, name = self._place(number)
        parent = os.dup(root)
        try:
            for step in steps:
                following = os.open(name, OPEN_DIRECTORY, dir_fd=parent)
                os.close(parent)
                parent, name = following, step
            yield parent, name
        finally:
            os.close(parent)

    def _make(
        self, tag: bytes, path: bytes, number: int, steps: list[bytes], given: dict[bytes, bytes]
    ) -> None:
        """Raises OSError, BadPack."""
        try:
            mode, modified_ns = int(given[MODE]) & 0o777, int(given[MODIFIED])
            size = int(given[SIZE]) if tag == FILE else 0
            target = given[TARGET] if tag == LINK else b""
        except (KeyError, ValueError):
            raise BadPack("malformed transfer") from None
        if size < 0 or abs(modified_ns) > LATEST_NS or b"\0" in target:
            raise BadPack("malformed transfer")
        self._allowance.take(size)
        with self._parent(number, steps) as (parent, name):
            if tag == DIRECTORY:
                if name != b".":
                    os.mkdir(name, 0o700, dir_fd=parent)
                self._finish.append((path, mode, modified_ns))
            elif tag == LINK:
                if not self._allows_link(path, target):
                    link = shown(self._name(path))
                    raise BadPack(
                        f"{link}: a symbolic link pointing outside the directory ({shown(target)})"
                    )
                os.symlink(target, name, dir_fd=parent)
                os.utime(name, ns=(modified_ns, modified_ns), dir_fd=parent, follow_symlinks=False)
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                descriptor = os.open(name, flags, 0o600, dir_fd=parent)
                with open(descriptor, "wb", buffering=0) as file:
                    self._fill(file, size)
                    os.fchmod(descriptor, mode)
                    os.utime(descriptor, ns=(modified_ns, modified_ns))

    def _fill(self, file: BinaryIO, size: int) -> None:
        while size:
            tag, count = self._head()
            if tag != DATA or not 0 < count <= min(size, PIECE_BYTES):
                raise BadPack("malformed transfer")
            view = memoryview(self._exactly(count))
            while view:
                view = view[file.write(view) :]
            size -= count
