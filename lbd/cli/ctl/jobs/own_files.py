"""The files that a job of the queue writes to, with `-o` and `--error`: where they are, and what is
in them, if they are to be had here."""

import os
import stat

from lbd.cli.complaints import complain
from lbd.console.reply import Json, number, text
from lbd.local.write_all import write_all
from lbd.text.name_patterns import fill_in

PIECE_BYTES = 256 << 10
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


def copy_files(job: Json, copied: set[str]) -> None:
    """To our own outputs, what it has written to files of its own; of those of `copied`, which
    others of its array write to, too, not again."""
    for descriptor, name in ((1, "output"), (2, "error")):
        if not (pattern := text(job, name)):
            continue
        path = os.path.join(text(job, "directory"), own_file(pattern, job))
        if os.path.isabs(path) and path not in copied:  # else it was in a directory of its own
            copied.add(path)
            copy_file(path, descriptor, number(job, "started"))


def copy_file(path: str, descriptor: int, started_unix_s: float) -> None:
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
            write_all(descriptor, data)
            left -= len(data)
    finally:
        os.close(source)


def piece(source: int, size: int, path: str) -> bytes:
    try:
        return os.read(source, size)
    except OSError as trouble:
        complain("lbctl", f"{path}: {trouble.strerror}")
        return b""
