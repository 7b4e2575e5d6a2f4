"""What a descriptor is that a user has given us, without asking anybody.

fstat and isatty ask the file system, and that may be a dead file server or a program of the user's
that does not answer. statx can be had to say only what the kernel knows.
"""

import ctypes
import enum
import functools
import os
import stat
import struct

AT_EMPTY_PATH, AT_STATX_DONT_SYNC = 0x1000, 0x4000
STATX_TYPE = 1
STATX = struct.Struct("=28xH98xII120x")  # mode and device number
MEMORY = 1  # the major number of null, zero and the like
NEVER_BLOCK = (3, 5, 7, 9)  # of these null, zero, full, urandom
# Major numbers: consoles and serial lines, tty, pts, ttyACM, ttyUSB, the small serial ones, hvc.
TERMINALS = {4, 5, *range(136, 144), 166, 188, 204, 229}


class Kind(enum.Enum):
    PIPE = enum.auto()
    SOCKET = enum.auto()
    MEMORY = enum.auto()  # a device that never blocks
    TERMINAL = enum.auto()
    REGULAR = enum.auto()
    OTHER = enum.auto()
    NONE = enum.auto()  # no file of any sort: eventfd, timerfd, inotify, epoll, ...

    @property
    def closes_at_once(self) -> bool:
        """A socket may linger, a file be written back, a terminal drain."""
        return self in (Kind.PIPE, Kind.MEMORY, Kind.NONE)


KINDS = {stat.S_IFIFO: Kind.PIPE, stat.S_IFSOCK: Kind.SOCKET, stat.S_IFREG: Kind.REGULAR}


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def kind_of(descriptor: int) -> Kind:
    """OTHER, of which nothing is assumed, where the kernel does not tell."""
    buffer = ctypes.create_string_buffer(STATX.size)
    call = getattr(_libc(), "statx", None)
    flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC
    if call is None or call(descriptor, b"", flags, STATX_TYPE, buffer) != 0:
        return Kind.OTHER
    mode, major, minor = STATX.unpack(buffer.raw)
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFCHR and major == MEMORY and minor in NEVER_BLOCK:
        return Kind.MEMORY
    if kind == stat.S_IFCHR and major in TERMINALS:
        return Kind.TERMINAL
    return KINDS.get(kind, Kind.OTHER) if kind else Kind.NONE


def why_not(name: str, descriptor: int) -> str:
    """Why it cannot be the input or an output of a command; "" if it can."""
    if kind_of(descriptor) is not Kind.NONE:
        return ""
    try:
        found = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        found = "of an unknown kind"
    return f"{name} is no file, pipe, socket or terminal, but {found}"
