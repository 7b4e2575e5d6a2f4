"""Files of a backup: taken with the rights of whose they are, made where nobody else can exchange
them, put in place whole."""

import functools
import io
import os
import select
import shutil
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from lbd.dispatch.ledger.snapshot import copy_ledger
from lbd.errors import ConfigError, LbdError
from lbd.load.process_table import task_of
from lbd.process.own_directory import fault_of
from lbd.process.whole_file import write_whole
from lbd.text.one_line import one_line
from lbd.trust.files import opened, own_like

STALLED_S, LOOK_S = 30.0, 1.0
PIECE_BYTES, LEAST_BYTES = 1 << 20, 1 << 16  # in that time, or it is only kept waiting
ABSENT = 3  # a child's exit status
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
    """What `write` writes to a descriptor becomes the file `to`, if there is a `source`. It runs as
    the account whose directory `source` is in: there that account could lead root to any file, by a
    link in place of its own or of what SQLite keeps beside it. Raises ConfigError."""
    try:
        complaint = os.memfd_create("complaint", os.MFD_CLOEXEC)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        sys.stdout.flush()
        if (child := os.fork()) == 0:
            os.close(reader)
            _write_as(source, write, writer, complaint)
        os.close(writer)
        with open(reader, "rb", buffering=0) as data, to.open("wb") as target:
            if not has_copied(data, target, child):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, os.WNOHANG)  # it may hang for as long as its file system does
                raise ConfigError(f"{source}: it has not been read for {STALLED_S:g} s; given up")
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = os.pread(complaint, 4096, 0).decode(errors="replace")
        os.close(complaint)
    except OSError as problem:
        raise ConfigError(f"{problem.filename or to}: {problem.strerror}") from problem
    if status == ABSENT:
        to.unlink()
    elif status:
        raise ConfigError(one_line(said) or f"{source}: it could not be copied")


def has_copied(data: io.FileIO, target: io.BufferedWriter, child: int) -> bool:
    """Until the end of what the child says. False: it gets on no more, as where the directory is on
    a file server that is gone, or of a file system of that account's own (FUSE)."""
    came, since_s, before = 0, time.monotonic(), cpu_ticks(child)
    ready = select.poll()
    ready.register(data, select.POLLIN)
    while True:
        if ready.poll(LOOK_S * 1e3):
            if not (piece := data.read(PIECE_BYTES)):
                return True
            target.write(piece)
            came += len(piece)
        if (now_s := time.monotonic()) - since_s >= STALLED_S:
            if came < LEAST_BYTES and cpu_ticks(child) <= before:
                return False
            came, since_s, before = 0, now_s, cpu_ticks(child)


def cpu_ticks(child: int) -> int:
    """It says nothing while it copies a large ledger, but that takes time."""
    task = task_of(child)
    return task.cpu_ticks if task is not None else 0


def _write_as(source: Path, write: Callable[[int], None], target: int, complaint: int) -> NoReturn:
    """In a child."""
    status = 1
    try:
        if os.path.lexists(source.parent):
            become_owner(os.stat(source.parent))
        if os.path.lexists(source):
            write(target)
            status = 0
        else:
            status = ABSENT
    except OSError as problem:
        text = f"{problem.filename}: {problem.strerror}"
        os.write(complaint, text.encode(errors="replace"))
    except BaseException as problem:  # whatever it is, it is the parent that says so
        os.write(complaint, str(problem).encode(errors="replace"))
    finally:
        os._exit(status)


def become_owner(found: os.stat_result) -> None:
    if os.geteuid() == 0 and found.st_uid != 0:
        os.setgroups([])
        os.setgid(found.st_gid)
        os.setuid(found.st_uid)
    os.chdir("/")
