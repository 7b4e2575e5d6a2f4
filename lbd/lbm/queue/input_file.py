"""The standard input of a queued attempt: a file in memory."""

import os

from lbd.local.write_all import write_all


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
