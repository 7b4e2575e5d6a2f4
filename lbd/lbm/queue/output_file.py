"""One file that an attempt has printed to: whose it is, what it takes, what may be done with it.

The daemon owns the file, and a process of the job's user may hold a descriptor of it; see spool.py.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import stat
import struct
from collections.abc import Sequence

FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2
F_SETSIG = 10  # from <fcntl.h>; missing from the fcntl module
ACCESS_LIST = "system.posix_acl_access"
LIST_HEAD_BYTES, LIST_ENTRY_BYTES, LIST_USER = 4, 8, 0x02
OWNER = "user.lbd.uid"  # an attribute of packs, which have no such list
BLOCK_BYTES = 512  # the unit in which stat counts


def punch_hole(descriptor: int, first: int, size: int) -> None:
    """Punches a hole. Not every file system can. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    where = ctypes.c_longlong(first), ctypes.c_longlong(size)
    if libc.fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, *where):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def remove(paths: Sequence[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


def access_list(uid: int, *, may_open: bool = True) -> bytes:
    """Returns the list of a file of ours that `uid` may read and write, and nobody else (acl(5)).
    Without `may_open` not even `uid` may open it, and the list only says whose it is."""
    everybody, rights = 0xFFFFFFFF, 6 if may_open else 0
    entries = [(0x01, 6, everybody), (LIST_USER, rights, uid), (0x04, 0, everybody)]
    entries += [(0x10, rights, everybody), (0x20, 0, everybody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *item) for item in entries)


def owner_of(path: str) -> int:
    """Returns whose output it is; ours, if nothing says so."""
    with contextlib.suppress(OSError, struct.error):
        data = os.getxattr(path, ACCESS_LIST)
        for at in range(LIST_HEAD_BYTES, len(data), LIST_ENTRY_BYTES):
            tag, _, uid = struct.unpack_from("<HHI", data, at)
            if tag == LIST_USER:
                return int(uid)
    with contextlib.suppress(OSError, ValueError):
        return int(os.getxattr(path, OWNER))
    return os.geteuid()


def attempt_of(name: str) -> str:
    """Returns JOB.ATTEMPT from the name of a file in the spool."""
    return ".".join(name.split(".", 2)[:2])


def printed_in(sizes: Sequence[tuple[int, int]], freed_bytes: int) -> int:
    """How much was printed to files with these sizes, as returned by `sizes_of`. A hole of the
    job's own making (ftruncate(2)) was not printed, and takes no disk space, however large it is.
    """
    printed, taken = 0, freed_bytes
    for size_bytes, taken_bytes in sizes:
        printed += size_bytes
        taken += taken_bytes
    return min(printed, taken)


def sizes_of(path: str) -> tuple[int, int]:
    """Returns its size in bytes, and the bytes that it takes on the disk."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_size, found.st_blocks * BLOCK_BYTES


def read_at_once(descriptor: int, size: int, at: int) -> bytes:
    """Reads without waiting. Raises OSError, in particular BlockingIOError if the data is not in
    memory, or the file's lock is taken."""
    data = bytearray(size)
    try:
        count = os.preadv(descriptor, [data], at, os.RWF_NOWAIT)
    except OSError as problem:
        if problem.errno == errno.EOPNOTSUPP:  # that file system cannot tell
            raise BlockingIOError from None
        raise
    return bytes(data[:count])


def is_marked(found: os.stat_result) -> bool:
    return bool(found.st_mode & stat.S_ISVTX)


def is_dropped(found: os.stat_result) -> bool:
    return bool(found.st_mode & stat.S_ISGID)


class Leased:
    """Holds a lease, and returns whether it is granted.

    The kernel grants a write lease (F_WRLCK) only on a file that is open nowhere else, and a read
    lease only on a file that nobody else may write; nobody can get around that. While the lease
    lasts, this stays so: any process that opens the file waits for us, and the kernel notifies us
    by a signal, which must be one that ends nobody.

    A class, since a generator would take as long as the system calls.
    """

    __slots__ = ("_descriptor", "_is_granted", "_kind")

    def __init__(self, descriptor: int, kind: int) -> None:
        self._descriptor, self._kind, self._is_granted = descriptor, kind, False

    def __enter__(self) -> bool:
        try:
            fcntl.fcntl(self._descriptor, F_SETSIG, signal.SIGURG)
            fcntl.fcntl(self._descriptor, fcntl.F_SETLEASE, self._kind)
        except OSError:
            return False
        self._is_granted = True
        return True

    def __exit__(self, *_: object) -> None:
        if self._is_granted:
            try:
                fcntl.fcntl(self._descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
            except OSError:  # somebody has waited for too long
                return


def empty(path: str, uid: int) -> None:
    """Empties and marks a file, as dropped if it had anything in it. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        marks = stat.S_ISVTX | (stat.S_ISGID if os.fstat(descriptor).st_size else 0)
        os.truncate(descriptor, 0)
        with contextlib.suppress(OSError):  # that file system has no such lists
            os.setxattr(descriptor, ACCESS_LIST, access_list(uid, may_open=False))
        os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) | marks)
        drop_attributes(descriptor)
    finally:
        os.close(descriptor)


def is_open_to_write(path: str) -> bool:
    """Whether anybody has it open for writing. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with Leased(descriptor, fcntl.F_RDLCK) as nobody_writes:
            return not nobody_writes
    finally:
        os.close(descriptor)


def drop_attributes(descriptor: int) -> None:
    """Removes attributes set by its user, for which some file systems have unlimited room."""
    with contextlib.suppress(OSError):
        for name in os.listxattr(descriptor):
            if name.startswith("user."):
                os.removexattr(descriptor, name)
