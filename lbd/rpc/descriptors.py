"""Receiving descriptors over a Unix socket, closed on exec from the first moment.

Not socket.recv_fds: it takes flags and passes none of them on, so what it receives would leak into
every child.
"""

import array
import socket


def receive(sock: socket.socket, size: int, count: int) -> tuple[bytes, list[int]]:
    """Up to `size` bytes and `count` descriptors. Raises OSError."""
    descriptors = array.array("i")
    room = socket.CMSG_LEN(count * descriptors.itemsize)
    data, attached, _, _ = sock.recvmsg(size, room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in attached:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
    return data, list(descriptors)
