"""Where the outputs of an attempt of the queue go: its descriptors, and what is said if there is no
room for them.

Most commands fail if they cannot print. So on a full disk no attempt begins whose output would be
kept there: the job waits, or another host takes it. One that already runs goes on.
"""

import contextlib
import errno
import os

from lbd.errors import LbdError
from lbd.lbm.core import execution_events as e
from lbd.lbm.inbound.performer import not_started
from lbd.lbm.queue.own_files import EXIT_CANNOT_OPEN, own_files, why_not_opened
from lbd.lbm.queue.spool import Spool
from lbd.local.write_all import write_all
from lbd.net.gen import dispatch_pb2, lbm_pb2
from lbd.net.spooled_output import ERR, IN, OUT, is_spooled


def no_room(
    start: dispatch_pb2.Start, request: lbm_pb2.RunRequest, spool: Spool
) -> e.NotStarted | None:
    """Returns why the attempt cannot begin now; None if there is room, or it prints nothing here,
    but to files of its own."""
    is_full = is_spooled(start.spec, request) and spool.is_full()
    return lacks_room(spool) if is_full else None


def lacks_room(spool: Spool) -> e.NotStarted:
    return e.NotStarted(spool.why_full, "stage", errno.ENOSPC)


def refused_for(trouble: LbdError | OSError, spool: Spool, *, in_gang: bool) -> e.NotStarted:
    """Returns why an attempt was not started. `in_gang`: others of its gang may have been."""
    if isinstance(trouble, OSError) and trouble.errno == errno.ENOSPC and not in_gang:
        return lacks_room(spool)  # not even for the names of its outputs
    return not_started(trouble, "spawn")


def open_stdio(
    descriptors: list[int],
    start: dispatch_pb2.Start,
    request: lbm_pb2.RunRequest,
    uid: int,
    spool: Spool,
) -> None:
    """Appends the command's descriptors, in order. Raises OSError."""
    closed = request.closed_fds
    if not closed & IN:
        descriptors.append(input_of(start.spec.input))
    if not closed & OUT:
        descriptors.append(spool.open(start.job, start.attempt, "out", uid))
    if not closed & ERR:
        if request.joined_outputs and not closed & OUT:
            descriptors.append(os.dup(descriptors[-1]))
        else:
            descriptors.append(spool.open(start.job, start.attempt, "err", uid))


def output_trouble(
    start: dispatch_pb2.Start,
    request: lbm_pb2.RunRequest,
    host: str,
    spool: Spool,
    status: int | None,
) -> str:
    """Why an ended attempt's output may not be whole, or a file for it could not be opened."""
    output, error = own_files(start, host)
    complaint = ""
    if status == EXIT_CANNOT_OPEN and (output or error):
        name = "out" if request.joined_outputs and not request.closed_fds & OUT else "err"
        with contextlib.suppress(OSError):
            said = spool.read(start.job, start.attempt, name, 0, waits=False)
            complaint = why_not_opened(said.data, output, error)
            if complaint:  # it says more than the shell's status, and the command has not run
                spool.drop(start.job, start.attempt, name)
    return spool.ended(start.job, start.attempt, spooled=not output) or complaint


def input_of(data: bytes) -> int:
    """Returns a descriptor from which the command reads its input; each attempt reads it from the
    beginning. The command gets a copy (`copies_input`): otherwise a user could keep these, in our
    memory, for as long as they like. Raises OSError."""
    if not data:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    descriptor = os.memfd_create("input", os.MFD_CLOEXEC)
    try:
        write_all(descriptor, data)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
