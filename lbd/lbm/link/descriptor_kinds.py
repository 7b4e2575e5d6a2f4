"""What kind of file a user's descriptor is, asking nobody but the kernel.

fstat and isatty ask the file system, which may be a dead file server or a program of the user's
that does not answer. statx can be told to return only what the kernel knows.
"""

import ctypes
import enum
import os
import socket
import stat
import struct

from lbd.launch.outputs import is_in_memory, libc, shows_writer, socket_option

AT_EMPTY_PATH, AT_STATX_DONT_SYNC = 0x1000, 0x4000
STATX_TYPE = 1
STATX = struct.Struct("=28xH98xII120x")  # mode and device number
MEMORY = 1  # the major number of null, zero and similar devices
NEVER_BLOCK = (3, 5, 7, 9)  # the minor numbers of null, zero, full and urandom
# Major numbers: consoles and serial lines, tty, pts, ttyACM, ttyUSB, the small serial ones, hvc.
TERMINALS = {4, 5, *range(136, 144), 166, 188, 204, 229}


class DescriptorKind(enum.Enum):
    PIPE = enum.auto()
    SOCKET = enum.auto()
    MEMORY = enum.auto()  # a device that never blocks
    TERMINAL = enum.auto()
    REGULAR = enum.auto()
    OTHER = enum.auto()
    NONE = enum.auto()  # not a file of any kind: eventfd, timerfd, inotify, epoll, ...


KINDS = {
    stat.S_IFIFO: DescriptorKind.PIPE,
    stat.S_IFSOCK: DescriptorKind.SOCKET,
    stat.S_IFREG: DescriptorKind.REGULAR,
}


def kind_of(descriptor: int) -> DescriptorKind:
    """Returns OTHER, of which nothing is assumed, if the kernel does not tell."""
    buffer = ctypes.create_string_buffer(STATX.size)
    call = getattr(libc(), "statx", None)
    flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC
    if call is None or call(descriptor, b"", flags, STATX_TYPE, buffer) != 0:
        return DescriptorKind.OTHER
    mode, major, minor = STATX.unpack(buffer.raw)
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFCHR and major == MEMORY and minor in NEVER_BLOCK:
        return DescriptorKind.MEMORY
    if kind == stat.S_IFCHR and major in TERMINALS:
        return DescriptorKind.TERMINAL
    return KINDS.get(kind, DescriptorKind.OTHER) if kind else DescriptorKind.NONE


def is_polled_at_once(descriptor: int) -> bool:
    """Whether poll(2) on this socket takes no lock that another process may hold for ever."""
    families = socket.AF_UNIX, socket.AF_INET, socket.AF_INET6
    return socket_option(descriptor, socket.SO_DOMAIN) in families


def why_not(name: str, descriptor: int, writer: int | None = None) -> str:
    """Why it cannot be the input or an output of a command; "" if it can. `writer`: whose output,
    by uid."""
    if writer is not None and shows_writer(descriptor, writer):
        return f"{name} is a socket whose reader could take this LBM for you: copy to it instead"
    if writer is not None and is_in_memory(descriptor):
        return f"{name} is a file in memory, which would count as this LBM's: copy to it instead"
    if kind_of(descriptor) is not DescriptorKind.NONE:
        return ""
    try:
        found = os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        found = "of an unknown kind"
    return f"{name} is not a file, pipe, socket or terminal, but {found}"
