"""One file that an attempt has printed to: whose it is, what it takes, what may be done with it.

It is ours, and a process of its user may have a descriptor of it: spool.py.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import stat
import struct
from collections.abc import Iterator, Sequence

FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2
F_SETSIG = 10  # <fcntl.h>; the fcntl module does not name it
ACCESS_LIST = "system.posix_acl_access"
LIST_HEAD_BYTES, LIST_ENTRY_BYTES, LIST_USER = 4, 8, 0x02
OWNER = "user.lbd.uid"  # an attribute of packs, which have no such list
BLOCK_BYTES = 512  # as stat counts


def punch_hole(descriptor: int, first: int, size: int) -> None:
    """Not every file system can. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    where = ctypes.c_longlong(first), ctypes.c_longlong(size)
    if libc.fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, *where):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def remove(paths: Sequence[str]) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


def access_list(uid: int, *, may_open: bool = True) -> bytes:
    """That of a file of ours which `uid` may read and write, and nobody else (acl(5)). If not even
    they may open it, the list says whose it is."""
    everybody, rights = 0xFFFFFFFF, 6 if may_open else 0
    entries = [(0x01, 6, everybody), (LIST_USER, rights, uid), (0x04, 0, everybody)]
    entries += [(0x10, rights, everybody), (0x20, 0, everybody)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *item) for item in entries)


def owner_of(path: str) -> int:
    """Whose output it is; ours, where nothing says so."""
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
    """JOB.ATTEMPT, of the name of a file in the spool."""
    return ".".join(name.split(".", 2)[:2])


def printed_in(sizes: Sequence[tuple[int, int]], freed_bytes: int) -> int:
    """Of files with these sizes, as of `sizes_of`. A hole of an output's own making (ftruncate(2))
    was not printed, and takes nothing of the disk, however large it is."""
    return min(sum(size for size, _ in sizes), freed_bytes + sum(taken for _, taken in sizes))


def sizes_of(path: str) -> tuple[int, int]:
    """Its bytes, and those that it takes of the disk."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_size, found.st_blocks * BLOCK_BYTES


def read_at_once(descriptor: int, size: int, at: int) -> bytes:
    """Raises OSError; of that BlockingIOError if it is not in memory, or its lock is taken."""
    data = bytearray(size)
    try:
        count = os.preadv(descriptor, [data], at, os.RWF_NOWAIT)
    except OSError as problem:
        if problem.errno == errno.EOPNOTSUPP:  # that file system cannot say
            raise BlockingIOError from None
        raise
    return bytes(data[:count])


def is_marked(found: os.stat_result) -> bool:
    return bool(found.st_mode & stat.S_ISVTX)


@contextlib.contextmanager
def leased(descriptor: int, kind: int) -> Iterator[bool]:
    """A lease to write (F_WRLCK) can be had of a file alone that is open nowhere else, one to read
    of a file that nobody else may write; nobody can get around that. Returns whether there is one;
    so it stays meanwhile. Whoever opens the file waits for us then, and the kernel says so by a
    signal, which is to be one that ends nobody."""
    try:
        fcntl.fcntl(descriptor, F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, kind)
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def empty(path: str, uid: int) -> None:
    """Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.truncate(descriptor, 0)
        with contextlib.suppress(OSError):  # no such lists there
            os.setxattr(descriptor, ACCESS_LIST, access_list(uid, may_open=False))
        os.fchmod(descriptor, stat.S_IMODE(os.fstat(descriptor).st_mode) | stat.S_ISVTX)
        drop_attributes(descriptor)
    finally:
        os.close(descriptor)


def is_open_to_write(path: str) -> bool:
    """To anybody. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with leased(descriptor, fcntl.F_RDLCK) as nobody_writes:
            return not nobody_writes
    finally:
        os.close(descriptor)


def drop_attributes(descriptor: int) -> None:
    """Of its user's making, which some file systems have room for without end."""
    with contextlib.suppress(OSError):
        for name in os.listxattr(descriptor):
            if name.startswith("user."):
                os.removexattr(descriptor, name)
