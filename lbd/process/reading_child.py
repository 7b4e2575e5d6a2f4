"""Reads in a directory of another account, in a child with that account's rights, and gives up if
the child gets stuck.

In its directory that account could lead root to any file by a link. It may also have a file system
of its own there (FUSE with allow_other), or one on a dead file server, that never answers. So the
parent opens nothing: it reads bytes from a pipe, and waits only while some arrive or the child uses
CPU time.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from lbd.load.process_table import task_of
from lbd.text.one_line import one_line

LOOK_S = 1.0
# at least this much per `stalled_s`, otherwise the child counts as stuck
PIECE_BYTES, LEAST_BYTES = 1 << 20, 1 << 16
FAILED = 1


@dataclass(frozen=True, slots=True)
class Reading:
    size_bytes: int
    is_stalled: bool
    status: int  # the result of `read`; FAILED if it raised or was killed
    said: str  # why it failed, in one line, if the child could report it


def read_in_child(
    read: Callable[[int], int], put: Callable[[bytes], object], stalled_s: float
) -> Reading:
    """Runs `read` in a child with a descriptor to write to, and passes the bytes to `put`. Raises
    OSError, and what `put` raises."""
    report = os.memfd_create("report", os.MFD_CLOEXEC)
    try:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        if (child := os.fork()) == 0:
            os.close(reader)
            _run(read, writer, report)
        os.close(writer)
        size_bytes, is_read = 0, False
        try:
            size_bytes, is_read = _take(reader, put, child, stalled_s)
        finally:
            os.close(reader)
            if not is_read:
                os.kill(child, signal.SIGKILL)  # it may hang for as long as its file system does
            with suppress(ChildProcessError):  # our parent may have set SIGCHLD to ignored
                os.waitpid(child, 0 if is_read else os.WNOHANG)
        found = os.pread(report, 4096, 0)
    finally:
        os.close(report)
    said = one_line(found[1:].decode(errors="replace"))
    return Reading(size_bytes, not is_read, found[0] if found else FAILED, said)


def _take(
    reader: int, put: Callable[[bytes], object], child: int, stalled_s: float
) -> tuple[int, bool]:
    """Returns how many bytes came, and whether that was all. Only the time spent waiting for the
    child counts, since `put` may wait for a person."""
    came, waited_s, before_bytes, before_ticks = 0, 0.0, 0, cpu_ticks(child)
    ready = select.poll()  # unlike select, works for any descriptor number
    ready.register(reader, select.POLLIN)
    while True:
        since_s = time.monotonic()
        is_ready = ready.poll(min(LOOK_S, stalled_s) * 1e3)
        waited_s += time.monotonic() - since_s
        if is_ready:
            if not (piece := os.read(reader, PIECE_BYTES)):
                return came, True
            put(piece)
            came += len(piece)
        if waited_s >= stalled_s:
            if came - before_bytes < LEAST_BYTES and cpu_ticks(child) <= before_ticks:
                return came, False
            waited_s, before_bytes, before_ticks = 0.0, came, cpu_ticks(child)


def cpu_ticks(child: int) -> int:
    """Returns the child's CPU time: while copying a large ledger it writes nothing, but uses
    time."""
    task = task_of(child)
    return task.cpu_ticks if task is not None else 0


def _run(read: Callable[[int], int], writer: int, report: int) -> NoReturn:
    """Runs in the child."""
    status, said = FAILED, ""
    try:
        status = read(writer)
    except OSError as problem:
        where = f"{problem.filename}: " if problem.filename else ""
        said = f"{where}{problem.strerror}"
    except BaseException as problem:  # the parent reports any failure
        said = str(problem)
    finally:
        os.write(report, bytes([status]) + said.encode(errors="replace"))
        os._exit(0)


def become(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Gives up root for good; without root, changes only the directory. Raises OSError."""
    if os.geteuid() == 0 and uid != 0:
        os.setgroups(groups)
        os.setgid(gid)
        os.setuid(uid)
    os.chdir("/")
