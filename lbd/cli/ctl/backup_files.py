"""The files of a backup: read with their owner's rights, made where no other user can replace them,
put in place atomically."""

import functools
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lbd.dispatch.ledger.snapshot import copy_ledger
from lbd.errors import ConfigError, LbdError
from lbd.process.own_directory import fault_of
from lbd.process.reading_child import become, read_in_child
from lbd.process.whole_file import write_whole
from lbd.trust.files import opened, own_like

SMALL_BYTES_MAX = 64 << 20  # of every part that is not an SQLite file
STALLED_S = 30.0
ABSENT = 3  # the child's exit status if there is no such file
LEDGERS_COPY = "/var/tmp"  # noqa: S108  # in a new directory of its owner


@contextmanager
def scratch(beside: Path) -> Iterator[Path]:
    """Yields a new directory beside the target file, because a ledger may be large. Falls back to
    the directory for temporary files where another user could replace it."""
    try:
        is_ours = os.access(beside, os.W_OK) and not fault_of(beside)
    except OSError:
        is_ours = False
    root = beside if is_ours else None
    try:
        with tempfile.TemporaryDirectory(prefix=".lbd-", dir=root) as directory:
            yield Path(directory)
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        raise LbdError(f"{where}{problem.strerror}") from problem


def place(source: Path, to: Path, *, gives: bool = False) -> None:
    """Copies a file, readable only by its owner. With `gives`, the copy gets the directory's owner.
    Raises ConfigError."""
    try:
        with source.open("rb") as data, opened(to.parent, os.O_DIRECTORY) as directory:
            fill = functools.partial(filled, data, directory if gives else None)
            write_whole(to.name, b"", 0o600, True, fill, directory)
    except OSError as problem:
        raise ConfigError(f"{to}: {problem.strerror}") from problem


def filled(data: io.BufferedReader, directory: int | None, descriptor: int) -> None:
    if directory is not None:
        own_like(descriptor, directory)
    with open(descriptor, "wb", closefd=False) as target:
        shutil.copyfileobj(data, target)


def take_file(source: Path, to: Path) -> None:
    """Copies one of the daemons' files. Raises ConfigError."""

    def write(target: int) -> None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(source, flags), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > SMALL_BYTES_MAX:
                raise ConfigError(f"{source}: not a file of at most {SMALL_BYTES_MAX} bytes")
            with open(target, "wb", closefd=False) as copy:
                shutil.copyfileobj(file, copy)

    take(source, to, write)


def take_ledger(source: Path, to: Path) -> None:
    """Copies a ledger that may be in use. Raises ConfigError."""

    def write(target: int) -> None:
        with tempfile.TemporaryDirectory(prefix=".lbd-", dir=LEDGERS_COPY) as directory:
            copy = Path(directory, source.name)
            copy_ledger(source, copy)
            with copy.open("rb") as file, open(target, "wb", closefd=False) as pipe:
                shutil.copyfileobj(file, pipe)

    take(source, to, write)


def take(source: Path, to: Path, write: Callable[[int], None]) -> None:
    """Creates the file `to` from what `write` writes to a descriptor, if `source` exists.

    `write` runs as the owner of the directory that holds `source`. That account could replace the
    file, or what SQLite keeps beside it, by a link that leads root to any other file. Raises
    ConfigError.
    """

    def read(target: int) -> int:
        if os.path.lexists(source.parent):
            owner = os.stat(source.parent)
            become(owner.st_uid, owner.st_gid, ())
        if not os.path.lexists(source):
            return ABSENT
        write(target)
        return 0

    try:
        with to.open("wb") as target:
            reading = read_in_child(read, target.write, STALLED_S)
    except OSError as problem:
        raise ConfigError(f"{problem.filename or to}: {problem.strerror}") from problem
    if reading.is_stalled:
        raise ConfigError(f"{source}: it has not been read for {STALLED_S:g} s; given up")
    if reading.status == ABSENT:
        to.unlink()
    elif reading.status:
        raise ConfigError(reading.said or f"{source}: it could not be copied")
