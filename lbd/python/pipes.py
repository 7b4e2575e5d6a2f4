"""Moves large amounts of data through a pipe with fewer copies than read and write need."""

import ctypes
import errno
import io
import mmap
import os

LIBC = ctypes.CDLL(None, use_errno=True)
NONBLOCK = 2  # SPLICE_F_NONBLOCK
NOT_TO_BE_HAD = (errno.ENOSYS, errno.EPERM)  # the system call is missing, or a sandbox forbids it
PIECE_BYTES = 1 << 20
POPULATE = 23  # MADV_POPULATE_WRITE
WRITABLE = 0x200  # PyBUF_WRITE
NEW_BYTES = ctypes.pythonapi.PyBytes_FromStringAndSize
NEW_BYTES.restype = ctypes.py_object
NEW_BYTES.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t)
VIEW = ctypes.pythonapi.PyMemoryView_FromMemory
VIEW.restype = ctypes.py_object
VIEW.argtypes = (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)


class Piece(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("address", ctypes.c_void_p), ("size", ctypes.c_size_t))


def lend(target: int, data: bytes, at: int) -> int:
    """Writes bytes from offset `at` to a non-blocking pipe and returns how many were written.

    The pipe refers to the pages of `data` itself, so `data` must stay alive until the other end has
    read it. Raises OSError.
    """
    piece = Piece(address_of(data) + at, len(data) - at)
    count = int(LIBC.vmsplice(target, ctypes.byref(piece), 1, NONBLOCK))
    if count >= 0:
        return count
    number = ctypes.get_errno()
    if number in NOT_TO_BE_HAD:
        return os.write(target, memoryview(data)[at : at + PIECE_BYTES])
    raise OSError(number, os.strerror(number))


def address_of(data: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0


def read_exactly(source: int, size: int) -> bytes:
    """Reads `size` bytes straight into their final buffer. Raises OSError, EOFError, and
    MemoryError before anything has been read."""
    if size > PIECE_BYTES:
        return read_much(source, size)
    data = io.BufferedReader(io.FileIO(source, closefd=False), 1).read(size)
    if len(data) < size:
        raise EOFError
    return data


def read_much(source: int, size: int) -> bytes:
    """Reads like `read_exactly`, but asks the kernel for the memory of each piece at once. A page
    fault for each page would take as long as the reading, and would hold up the writer."""
    data: bytes = NEW_BYTES(None, size)
    address = address_of(data)
    whole: memoryview = VIEW(address, size, WRITABLE)  # nothing else refers to the bytes yet
    for at in range(0, size, PIECE_BYTES):
        view = whole[at : at + PIECE_BYTES]
        begin = (address + at) // mmap.PAGESIZE * mmap.PAGESIZE
        end = address + at + len(view)
        LIBC.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), POPULATE)
        while view:
            count = os.readv(source, [view])
            if not count:
                raise EOFError
            view = view[count:]
    return data


def move(source: int, target: int, limit_bytes: int) -> tuple[int, OSError | None]:
    """Moves some bytes, inside the kernel where possible. Returns how many have left the source,
    and why they did not reach the target. Raises OSError if the source cannot be read."""
    try:
        return os.splice(source, target, limit_bytes), None
    except OSError as problem:
        if problem.errno != errno.EINVAL:
            return 0, problem
    data = os.read(source, limit_bytes)  # not a pipe, or a file system without splice
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(target, view) :]
    except OSError as problem:
        return len(data), problem
    return len(data), None


def skip(source: int, size: int) -> None:
    """Raises OSError, EOFError."""
    while size:
        count = len(os.read(source, min(size, PIECE_BYTES)))
        if not count:
            raise EOFError
        size -= count
