"""The files that a job of the queue writes to, with `-o` and `--error`: where they are, and what is
in them, if they are to be had here.

Its user has named them, and may have a file system of their own there, which answers nobody (FUSE
with allow_other), or a link to what only root may read. So each is read by a child, for root with
the rights of that user, and given up where nothing comes of it.
"""

import os
import pwd
import select
import signal
import stat
from contextlib import suppress
from typing import NoReturn

from lbd.cli.complaints import complain
from lbd.console.reply import Json, number, text
from lbd.local.write_all import write_all
from lbd.text.name_patterns import fill_in

PIECE_BYTES = 256 << 10
STALLED_S = 10.0
CLOCKS_S = 60.0  # by so much clocks of hosts and file servers may differ


def own_file(pattern: str, job: Json) -> str:
    """The name that a job's own file has; of an array it stays as it was given."""
    if text(job, "array"):
        return pattern
    index, host = job.get("array_index"), text(job, "host") or "%h"
    own = index if isinstance(index, int) else None
    return os.fsdecode(fill_in(os.fsencode(pattern), text(job, "id"), own, host))


def where_it_goes(job: Json) -> str:
    """ "" if its output is kept for `lbctl logs`."""
    output, errors = text(job, "output"), text(job, "error")
    if not output:
        return ""
    beside = f", its standard error to {own_file(errors, job)}" if errors else ""
    return f"the output of job {text(job, 'id')} goes to {own_file(output, job)}{beside}"


def copy_files(job: Json, copied: set[str]) -> bool:
    """To our own outputs, what it has written to files of its own; of those of `copied`, which
    others of its array write to, too, not again. Whether that was anything."""
    found = False
    for descriptor, name in ((1, "output"), (2, "error")):
        if not (pattern := text(job, name)):
            continue
        path = os.path.join(text(job, "directory"), own_file(pattern, job))
        if os.path.isabs(path) and path not in copied:  # else it was in a directory of its own
            copied.add(path)
            found |= copy_file(path, descriptor, number(job, "started"), text(job, "user"))
    return found


def copy_file(path: str, descriptor: int, started_unix_s: float, user: str) -> bool:
    """Returns whether there was anything to copy."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    if (child := os.fork()) == 0:
        os.close(reader)
        _read_as(user, path, writer, started_unix_s)
    os.close(writer)
    found, is_read, ready = False, False, select.poll()  # whatever number it has
    ready.register(reader, select.POLLIN)
    try:
        while not is_read and ready.poll(STALLED_S * 1e3):
            data = os.read(reader, PIECE_BYTES)
            write_all(descriptor, data)
            is_read, found = not data, found or bool(data)
        if not is_read:
            complain("lbctl", f"{path}: nothing was read of it within {STALLED_S:g} s; given up")
    finally:
        os.close(reader)
        if not is_read:
            os.kill(child, signal.SIGKILL)  # it may hang for as long as its file system does
        with suppress(ChildProcessError):  # who started us may have SIGCHLD ignored
            os.waitpid(child, 0 if is_read else os.WNOHANG)
    return found


def _read_as(user: str, path: str, writer: int, started_unix_s: float) -> NoReturn:
    """In the child."""
    try:
        if os.geteuid() == 0:
            account = pwd.getpwnam(user)
            os.initgroups(user, account.pw_gid)
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
        read_file(path, writer, started_unix_s)
    except (OSError, KeyError):  # nobody of that name here: nor are these files that job's
        pass
    finally:
        os._exit(0)


def read_file(path: str, writer: int, started_unix_s: float) -> None:
    """Nothing of what is no file, or is older than the job: on its host is another one."""
    try:  # what is not ready, like a pipe, is not waited for
        source = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return
    try:
        found = os.fstat(source)
        if not stat.S_ISREG(found.st_mode) or found.st_mtime < started_unix_s - CLOCKS_S:
            return
        left = found.st_size  # it may be growing
        while left > 0 and (data := piece(source, min(left, PIECE_BYTES), path)):
            write_all(writer, data)
            left -= len(data)
    finally:
        os.close(source)


def piece(source: int, size: int, path: str) -> bytes:
    try:
        return os.read(source, size)
    except OSError as trouble:
        complain("lbctl", f"{path}: {trouble.strerror}")
        return b""
