"""The standard input of a queued job, which each of its attempts gets from the beginning."""

import contextlib
import os

from lbd.process.whole_file import write_all


def input_of(data: bytes) -> int:
    """A descriptor to read it from. Raises OSError."""
    if not data:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    descriptor = os.memfd_create("input", os.MFD_CLOEXEC)
    with contextlib.ExitStack() as undo:
        undo.callback(os.close, descriptor)
        write_all(descriptor, data)
        os.lseek(descriptor, 0, os.SEEK_SET)
        undo.pop_all()
    return descriptor
