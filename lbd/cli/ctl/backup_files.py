"""Files of a backup: taken with the rights of whose they are, made where nobody else can exchange
them, put in place whole."""

import functools
import io
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from lbd.dispatch.ledger.snapshot import copy_ledger
from lbd.errors import ConfigError, LbdError
from lbd.process.own_directory import fault_of
from lbd.process.whole_file import write_whole
from lbd.text.one_line import one_line
from lbd.trust.files import opened, own_like

LEDGERS_COPY = "/var/tmp"  # noqa: S108  # in a new directory of its owner


@contextmanager
def scratch(beside: Path) -> Iterator[Path]:
    """The directory of the new file, as a ledger may be large; but in none that another user could
    put another in place of."""
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
    """A copy, for its owner alone; `gives`: that is to be the directory's. Raises ConfigError."""
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


def take_file(source: Path, to: Path, most_bytes: int) -> None:
    """A copy of one of the daemons' files. Raises ConfigError."""

    def write(target: int) -> None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(source, flags), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > most_bytes:
                raise ConfigError(f"{source}: not a file of at most {most_bytes} bytes")
            with open(target, "wb", closefd=False) as copy:
                shutil.copyfileobj(file, copy)

    take(source, to, write)


def take_ledger(source: Path, to: Path) -> None:
    """The same of a ledger that may be in use. Raises ConfigError."""

    def write(target: int) -> None:
        with tempfile.TemporaryDirectory(prefix=".lbd-", dir=LEDGERS_COPY) as directory:
            copy = Path(directory, source.name)
            copy_ledger(source, copy)
            with copy.open("rb") as file, open(target, "wb", closefd=False) as pipe:
                shutil.copyfileobj(file, pipe)

    take(source, to, write)


def take(source: Path, to: Path, write: Callable[[int], None]) -> None:
    """What `write` writes to a descriptor becomes the file `to`. It runs as the account whose
    directory `source` is in: there that account could lead root to any file, by a link in place of
    its own or of what SQLite keeps beside it. Raises ConfigError."""
    try:
        complaint = os.memfd_create("complaint", os.MFD_CLOEXEC)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        sys.stdout.flush()
        if (child := os.fork()) == 0:
            os.close(reader)
            _write_as(os.stat(source.parent), write, writer, complaint)
        os.close(writer)
        with open(reader, "rb") as data, to.open("wb") as target:
            shutil.copyfileobj(data, target)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = os.pread(complaint, 4096, 0).decode(errors="replace")
        os.close(complaint)
    except OSError as problem:
        raise ConfigError(f"{problem.filename or to}: {problem.strerror}") from problem
    if status:
        raise ConfigError(one_line(said) or f"{source}: it could not be copied")


def _write_as(
    owner: os.stat_result, write: Callable[[int], None], target: int, complaint: int
) -> NoReturn:
    """In a child."""
    status = 1
    try:
        if os.geteuid() == 0 and owner.st_uid != 0:
            os.setgroups([])
            os.setgid(owner.st_gid)
            os.setuid(owner.st_uid)
        os.chdir("/")
        write(target)
        status = 0
    except OSError as problem:
        text = f"{problem.filename}: {problem.strerror}"
        os.write(complaint, text.encode(errors="replace"))
    except BaseException as problem:  # whatever it is, it is the parent that says so
        os.write(complaint, str(problem).encode(errors="replace"))
    finally:
        os._exit(status)
