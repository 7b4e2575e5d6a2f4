"""Connections of users who have not read the last answer yet.

What is sent through a Unix socket is kernel memory of who sends it, and stays in the other socket
when the sender has closed its own. So a user could leave as much of a daemon's memory unread as
they may have descriptors. A connection is therefore kept until all has been read or its client is
gone, and counts for its user, who gets no further ones if that is too much.
"""

import array
import asyncio
import contextlib
import fcntl
import resource
import socket
import termios
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

BYTES_MAX = 8 << 20  # of one user
COUNT_MAX = 1024  # of one user, if there are descriptors for sixteen times as many
LOOKS = 16  # at those that are kept, each time another ends
LOOK_S = 1.0  # as long as there are any


Close = Callable[[socket.socket], object]


@dataclass(frozen=True, slots=True)
class Kept:
    uid: int
    sock: socket.socket
    close: Close
    unread_bytes: int


class UnreadAnswers:
    """The kept connections of one process. Used in its event loop."""

    def __init__(self) -> None:
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most = COUNT_MAX if descriptors < 0 else min(COUNT_MAX, descriptors // 16)
        self._kept: deque[Kept] = deque()
        self._count, self._bytes = Counter[int](), Counter[int]()
        self._timer: asyncio.TimerHandle | None = None

    def is_full(self, uid: int) -> bool:
        """Whether that user has left so much unread that nothing more is to be sent to them."""
        if uid not in self._count:
            return False
        if self._is_too_much(uid):
            self._look(len(self._kept))
        return self._is_too_much(uid)

    def _is_too_much(self, uid: int) -> bool:
        return self._count[uid] >= self._most or self._bytes[uid] >= BYTES_MAX

    def close(self, uid: int, sock: socket.socket, close: Close) -> None:
        """Has `close` close a user's connection once all that was sent has been read. The client
        sees its end already, both ways. If all users keep too many, it is closed at once."""
        self._look(LOOKS)
        unread = unread_bytes(sock)
        if not unread or len(self._kept) >= 2 * self._most:
            close(sock)
            return
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        self._kept.append(Kept(uid, sock, close, unread))
        self._count[uid] += 1
        self._bytes[uid] += unread
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look_at_all)

    def _look_at_all(self) -> None:
        self._timer = None
        self._look(len(self._kept))
        if self._kept:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look_at_all)

    def _look(self, most: int) -> None:
        for _ in range(min(most, len(self._kept))):
            kept = self._kept.popleft()
            if unread_bytes(kept.sock):
                self._kept.append(kept)
                continue
            self._count[kept.uid] -= 1
            self._bytes[kept.uid] -= kept.unread_bytes
            if not self._count[kept.uid]:
                del self._count[kept.uid], self._bytes[kept.uid]
            kept.close(kept.sock)


def unread_bytes(sock: socket.socket) -> int:
    """Returns how much memory it takes what was sent and not read yet; 0 once the other end is
    closed."""
    found = array.array("i", [0])
    try:
        fcntl.ioctl(sock, termios.TIOCOUTQ, found)
    except (OSError, ValueError):
        return 0
    return found[0]


UNREAD = UnreadAnswers()
