"""Letting go of this process's connections, for the time that the kernel cannot end it.

The descriptors of a process are closed when its last thread has ended. A thread that is in a system
call on a user's file may never end: so what others must see as closed is closed by hand.
"""

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

LIMIT_S = 1.0
STREAMS = (socket.AF_INET, socket.AF_INET6)


def let_go(report: Callable[[], None], locks: list[int], kept: list[int]) -> None:
    """Of the locks, and of all sockets but those `kept`; then `told` is called. This process does
    nothing afterwards but end."""
    for lock in locks:
        os.close(lock)
    thread = threading.Thread(target=_let_go, args=(frozenset(kept),), daemon=True)
    thread.start()
    thread.join(LIMIT_S)  # a user's socket may hang, too
    report()


def _let_go(kept: frozenset[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            is_socket = os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
            if is_socket and int(name) > 2 and int(name) not in kept:
                _end(int(name))


def _end(descriptor: int) -> None:
    """Raises OSError."""
    duplicate = os.dup(descriptor)  # whoever else closes it by its number, closes that alone
    with socket.socket(socket.AF_UNIX, fileno=duplicate) as sock:
        if sock.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) in STREAMS:
            sock.shutdown(socket.SHUT_RDWR)  # and no more: gRPC's threads use it by its number
            return
    os.close(descriptor)
