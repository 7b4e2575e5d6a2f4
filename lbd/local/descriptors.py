"""Receiving descriptors over a Unix socket, closed on exec from the first moment.

Not socket.recv_fds: it takes flags and passes none of them on, so what it receives would leak into
every child.

Whoever may connect may send descriptors, also where none are wanted. What nobody takes the kernel
closes in the call that reads or closes the socket; and to close a TCP socket with SO_LINGER can
take as long as its sender likes. So of what users send every descriptor is taken, and closed in a
thread (unwanted_descriptors.py). A kernel that can be told so lets nobody send any but who was
asked to.
"""

import array
import contextlib
import os
import socket

SO_PASSRIGHTS = 83  # of Linux 6.16, on machines that number these like most do
MACHINES = ("x86_64", "aarch64", "riscv64", "ppc64le", "s390x")
AT_ONCE_MAX = 253  # descriptors with one message: SCM_MAX_FD
DRAIN_BYTES = 1 << 16
LOOK = socket.MSG_PEEK | socket.MSG_DONTWAIT
DRAINS_MAX = 8  # more than a socket holds, but where root has made these larger


def receive(sock: socket.socket, size: int, count: int = AT_ONCE_MAX) -> tuple[bytes, list[int]]:
    """Receives up to `size` bytes and `count` descriptors. Raises OSError."""
    descriptors = array.array("i")
    room = socket.CMSG_LEN(count * descriptors.itemsize)
    data, attached, _, _ = sock.recvmsg(size, room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in attached:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    return data, list(descriptors)


def take_urgent_inline(sock: socket.socket) -> None:
    """Else the kernel drops an urgent byte, and the descriptors with it, as it reads past it."""
    with contextlib.suppress(OSError):  # a kernel that knows no urgent bytes here
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)


def brings_descriptors(sock: socket.socket) -> bool:
    """Returns whether descriptors come with what is received next."""
    with contextlib.suppress(OSError):
        return bool(sock.recvmsg(1, 0, LOOK)[2] & socket.MSG_CTRUNC)
    return False


def take_descriptors(sock: socket.socket, *, wanted: bool) -> None:
    """Whether the other end may send any. Set on a listening socket, it holds for all that
    connect from then on. An older kernel has no such option."""
    if os.uname().machine in MACHINES:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, wanted)


def is_at_end(sock: socket.socket) -> bool:
    """Nothing more comes, and nothing is there that would be closed with it. Data that nobody has
    read is dropped, as far as no descriptors come with it."""
    try:
        sock.shutdown(socket.SHUT_RD)
        for _ in range(DRAINS_MAX):
            data, _, flags, _ = sock.recvmsg(DRAIN_BYTES, 0, LOOK)
            if not data or flags & socket.MSG_CTRUNC:
                return not data
            sock.recv(len(data), socket.MSG_DONTWAIT)  # and no byte beyond
    except OSError:
        pass
    return False


def close_connection(sock: socket.socket) -> list[int]:
    """Close a connection of a user's; the descriptors that were still on their way."""
    left: list[int] = []
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RD)  # nothing comes after what is there
        while True:
            data, descriptors = receive(sock, DRAIN_BYTES)
            left += descriptors
            if not data:
                break
    sock.close()
    return left
