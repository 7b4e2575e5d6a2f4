"""The files that a job of the queue writes to, with `-o` and `--error`: where they are, and what is
in them, if they are to be had here. Their user has named them, so a child reads them, for root with
that user's rights.
"""

import os
import pwd
import stat

from lbd.cli.complaints import complain
from lbd.console.reply import Json, number, text
from lbd.local.write_all import write_all
from lbd.process.reading_child import become, read_in_child
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

    def read(target: int) -> int:
        try:
            if os.geteuid() == 0:
                account = pwd.getpwnam(user)
                become(account.pw_uid, account.pw_gid, os.getgrouplist(user, account.pw_gid))
        except (OSError, KeyError):  # nobody of that name here: nor are these files that job's
            return 0
        read_file(path, target, started_unix_s)
        return 0

    reading = read_in_child(read, lambda data: write_all(descriptor, data), STALLED_S)
    if reading.is_stalled:
        complain("lbctl", f"{path}: nothing was read of it within {STALLED_S:g} s; given up")
    elif reading.said:
        complain("lbctl", f"{path}: {reading.said}")
    return reading.size_bytes > 0


def read_file(path: str, target: int, started_unix_s: float) -> None:
    """In the child: nothing of what is no file, or is older than the job: on its host is another
    one. Raises OSError."""
    try:  # what is not ready, like a pipe, is not waited for
        source = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return
    found = os.fstat(source)
    if not stat.S_ISREG(found.st_mode) or found.st_mtime < started_unix_s - CLOCKS_S:
        return
    left = found.st_size  # it may be growing
    while left > 0 and (data := os.read(source, min(left, PIECE_BYTES))):
        write_all(target, data)
        left -= len(data)
