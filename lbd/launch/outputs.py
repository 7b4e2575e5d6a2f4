"""Outputs of a command that an LBM must not write itself; `lbrun` copies to these.

No file system is asked, since one may not answer, and no lock of a socket is taken, since a user
can hold it for ever.
"""

import sys
from _socket import (
    AF_UNIX,
    SO_DOMAIN,
    SO_PEERCRED,
    SO_TYPE,
    SOCK_SEQPACKET,
    SOCK_STREAM,
    SOL_SOCKET,
)
from fcntl import fcntl

TYPE_CHECKING = False  # typing's own takes milliseconds, which each lbrun would pay
if TYPE_CHECKING:
    from ctypes import CDLL

GET_SEALS = 1034  # fcntl(2), F_GET_SEALS
OPTION_BYTES, UID = 12, 4  # SO_PEERCRED is pid, uid and gid
_opened: "list[CDLL]" = []


def shows_writer(descriptor: int, uid: int) -> bool:
    """Whether it is a Unix socket whose reader may be another than this user: the kernel can show
    a reader who writes, and some act on the word of an LBM (systemd, the journal). The other end of
    a stream stays with whom it was connected to; that of a datagram socket does not."""
    if socket_option(descriptor, SO_DOMAIN) != AF_UNIX:
        return False
    is_stream = socket_option(descriptor, SO_TYPE) in (SOCK_STREAM, SOCK_SEQPACKET)
    return not is_stream or socket_option(descriptor, SO_PEERCRED, UID) != uid


def is_in_memory(descriptor: int) -> bool:
    """Whether it is a file in memory (tmpfs, memfd): what is written to it counts as the memory of
    the writer, and goes on doing so."""
    try:
        return fcntl(descriptor, GET_SEALS) >= 0
    except OSError:  # other files have none
        return False


def socket_option(descriptor: int, name: int, at: int = 0) -> int | None:
    """Returns a number of a socket's option, `at` this byte of it; None if it has none."""
    import ctypes

    buffer = ctypes.create_string_buffer(OPTION_BYTES)
    size = ctypes.byref(ctypes.c_uint(OPTION_BYTES))
    if libc().getsockopt(descriptor, SOL_SOCKET, name, buffer, size) != 0:
        return None
    return int.from_bytes(buffer.raw[at : at + 4], sys.byteorder)


def libc() -> "CDLL":
    """Opened once: that takes ten times as long as a call."""
    if not _opened:
        import ctypes  # most commands need none of this

        _opened.append(ctypes.CDLL(None))
    return _opened[0]
