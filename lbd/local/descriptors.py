"""Receives descriptors over a Unix socket with close-on-exec set from the start.

socket.recv_fds does not serve: it takes flags but ignores them, so received descriptors would leak
into every child.

Any client may send descriptors, even unwanted ones. The kernel closes those not taken in the call
that reads or closes the socket, and closing a TCP socket with SO_LINGER can take as long as its
sender likes. So all descriptors from users are received and closed in a thread
(unwanted_descriptors.py). On a kernel that supports it, only a client that was asked may send any.
"""

import array
import contextlib
import os
import select
import socket

SO_PASSRIGHTS = 83  # since Linux 6.16, on machines with the common numbering
MACHINES = ("x86_64", "aarch64", "riscv64", "ppc64le", "s390x")
AT_ONCE_MAX = 253  # descriptors per message: SCM_MAX_FD
DRAIN_BYTES = 1 << 16
LOOK = socket.MSG_PEEK | socket.MSG_DONTWAIT
DRAINS_MAX = 8  # more than a socket holds, unless root has raised its buffer sizes


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
    """Otherwise the kernel drops an urgent byte, and its descriptors, when it reads past it."""
    with contextlib.suppress(OSError):  # a kernel without urgent bytes on Unix sockets
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)


def is_readable(descriptor: int | socket.socket) -> bool:
    """Returns whether a read would not block; of a pidfd, whether the process has ended. Uses poll:
    select(2) is limited to descriptors below 1024."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def brings_descriptors(sock: socket.socket) -> bool:
    """Returns whether the next data to receive has descriptors attached."""
    with contextlib.suppress(OSError):
        return bool(sock.recvmsg(1, 0, LOOK)[2] & socket.MSG_CTRUNC)
    return False


def take_descriptors(sock: socket.socket, *, wanted: bool) -> None:
    """Sets whether the other end may send any. On a listening socket, this holds for all later
    connections. Older kernels lack the option."""
    if os.uname().machine in MACHINES:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, wanted)


def is_at_end(sock: socket.socket) -> bool:
    """Returns True if nothing more comes and nothing is pending that would be closed with the
    socket. Pending data is dropped, up to the first that has descriptors."""
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
    """Closes a user's connection. Returns the descriptors that were still in it."""
    left: list[int] = []
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RD)  # nothing comes after what is pending
        while True:
            data, descriptors = receive(sock, DRAIN_BYTES)
            left += descriptors
            if not data:
                break
    sock.close()
    return left
