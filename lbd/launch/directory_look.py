"""Takes a directory's stamp from the kernel.

The LBM takes it for its clients' directories; the keeper's children take it for the directory they
are to run in, after they have become their user, since root has no access everywhere on a file
server.
"""

import contextlib
import ctypes
import errno
import os
import stat
import struct
from collections.abc import Callable

from lbd.launch.directory_stamp import Stamp
from lbd.text.kernel_tables import lines_of

AT_FDCWD = -100
AT_STATX_DONT_SYNC = 0x4000  # use cached attributes: asks no server
STATX_BASIC_STATS, STATX_BTIME, STATX_MNT_ID = 0x7FF, 0x800, 0x1000
STATX = struct.Struct("=I28xQ24x16xqI4x16xqI4x8xIIQ104x")  # the fields of struct statx used here
MOUNTS_BYTES = 1 << 20  # read in 5 ms; a host of a thousand containers has a fifth of that
BOOT_ID = "/proc/sys/kernel/random/boot_id"

FileSystemOf = Callable[[int, str], str]  # of a mount, by its number (-1: none) and its device


def kernel_id() -> str:
    """Returns an id that all processes on one kernel share until it is rebooted."""
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def mounts(process: str = "self") -> bytes:
    """Returns the text of a process's mounts, the first `MOUNTS_BYTES` of it: a user may have
    hundreds of megabytes. Raises OSError."""
    with open(f"/proc/{process}/mountinfo", "rb") as file:
        return file.read(MOUNTS_BYTES)


def file_system(mount: int, device: str, process: str = "self") -> str:
    """Returns the type of the file system mounted in `process`'s view; "" if unknown."""
    table = b""
    with contextlib.suppress(OSError):
        table = mounts(process).rpartition(b"\n")[0]
    for line in lines_of(table):
        left, _, right = line.partition(" - ")
        words = left.split(" ", 3)
        if (int(words[0]) == mount) if mount >= 0 else (words[2] == device):
            return right.split(" ", 1)[0]
    return ""


def find_program(name: bytes, path: bytes) -> int:
    """Returns 0 if exec would find a program to run there, else the errno it would fail with."""
    if b"/" in name:
        return _executable(name)
    failure = errno.ENOENT
    for directory in path.split(b":"):
        problem = _executable((directory or b".") + b"/" + name)
        if problem == 0:
            return 0
        failure = errno.EACCES if problem == errno.EACCES else failure
    return failure


def _executable(path: bytes) -> int:
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except OSError as problem:
        return problem.errno or errno.EIO
    return 0 if is_file and os.access(path, os.X_OK) else errno.EACCES


def look(
    path: bytes,
    kernel: str,
    libc: ctypes.CDLL,
    file_system_of: FileSystemOf = file_system,
    *,
    cached: bool = False,
) -> Stamp:
    """Raises OSError. `cached`: use cached attributes and never wait for a file server."""
    buffer = ctypes.create_string_buffer(STATX.size)
    flags = AT_STATX_DONT_SYNC if cached else 0
    wanted = STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID
    statx = getattr(libc, "statx", None)
    if statx is None or statx(AT_FDCWD, path, flags, wanted, buffer) != 0:
        found = os.stat(path)  # an old kernel or C library; otherwise this raises the right error
        device = f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}"
        kind = file_system_of(-1, device)
        return Stamp(kernel, found.st_dev, found.st_ino, 0, found.st_mtime_ns, kind)
    (mask, inode, born_s, born_ns, changed_s, changed_ns, major, minor, mount) = STATX.unpack(
        buffer.raw
    )
    return Stamp(
        kernel,
        os.makedev(major, minor),
        inode,
        born_s * 10**9 + born_ns if mask & STATX_BTIME else 0,
        changed_s * 10**9 + changed_ns,
        file_system_of(mount if mask & STATX_MNT_ID else -1, f"{major}:{minor}"),
    )
