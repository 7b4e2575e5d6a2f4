"""The files that a queued job writes to with `-o` and `--error`: where they are, and their contents
if they can be read on this host. The user chose the names, so a child process reads the files, as
root with that user's rights."""

import os
import pwd
import shlex
import stat

from lbd.cli.complaints import complain
from lbd.console.output_paths import comes_back, is_in_place, path_of
from lbd.console.reply import Json, number, text
from lbd.local.write_all import write_all
from lbd.model import ENDED_NAMES
from lbd.process.reading_child import become, read_in_child

PIECE_BYTES = 256 << 10
STALLED_S = 10.0
CLOCKS_S = 60.0  # how much clocks of hosts and file servers may differ


def where_it_goes(job: Json) -> str:
    """Returns where the job's own files are and how to follow them; "" if the output is stored for
    `lbctl logs`."""
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
    if not os.access(paths[0], os.R_OK):
        runs = "ran" if has_ended else "runs"
        return f"{line}, which cannot be read here; it {runs} on {host}"
    return line if has_ended else f"{line}; follow it with: tail -f {shlex.quote(paths[0])}"


def copy_files(job: Json, copied: set[str]) -> bool:
    """Copies what the job wrote to its own files to our stdout and stderr. Skips files of `copied`,
    which other tasks of its array write to as well. Returns whether there was anything."""
    found = False
    for descriptor, name in ((1, "output"), (2, "error")):
        if not (pattern := text(job, name)):
            continue
        path = path_of(pattern, job)
        if is_in_place(pattern, job) and path not in copied:
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
        # the user does not exist here, so these are not the job's files
        except (OSError, KeyError):
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
    """Copies a file, in the child. Skips anything but a regular file, and files older than the job:
    these belong to another job. Raises OSError."""
    try:  # does not wait for what is not ready, such as a pipe
        source = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return
    found = os.fstat(source)
    if not stat.S_ISREG(found.st_mode) or found.st_mtime < started_unix_s - CLOCKS_S:
        return
    left = found.st_size  # the file may be growing
    while left > 0 and (data := os.read(source, min(left, PIECE_BYTES))):
        write_all(target, data)
        left -= len(data)
