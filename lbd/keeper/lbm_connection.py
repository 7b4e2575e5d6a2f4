"""The keeper's connection to its LBM: what that does not take at once waits here.

The keeper never waits for its LBM, which may hang: it has deadlines to keep. What there is to say
is as much as the LBM has asked for, and of the stops and continuations of a job the last, for a
user can make as many of these as there are moments.
"""

import contextlib
import socket

from lbd.local import frames
from lbd.local.descriptors import receive

LIMIT_BYTES = 64 << 20  # then it is taken to be gone


class Unsaid:
    """Frames in order; of those with one key only the last."""

    def __init__(self) -> None:
        self._frames: dict[object, bytes] = {}
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._frames)

    def add(self, frame: bytes, key: str = "") -> None:
        where: object = key or object()
        self.size_bytes += len(frame) - len(self._frames.pop(where, b""))
        self._frames[where] = frame

    def take(self) -> bytes:
        """The first."""
        frame = self._frames.pop(next(iter(self._frames)))
        self.size_bytes -= len(frame)
        return frame


class LbmLine:
    def __init__(self, sock: socket.socket, limit_bytes: int) -> None:
        """`limit_bytes`: of an order."""
        sock.setblocking(False)
        self.socket = sock
        self.split = frames.Splitter(limit_bytes)
        self._unsaid = Unsaid()
        self._rest = b""  # of a frame of which something has been sent

    @property
    def is_behind(self) -> bool:
        return bool(self._rest or self._unsaid)

    def say(self, frame: bytes, key: str = "") -> None:
        if self.is_behind:
            self._unsaid.add(frame, key)
        else:
            self._rest = frame
            self.go_on()
        if self._unsaid.size_bytes > LIMIT_BYTES:
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)  # which the next read tells

    def go_on(self) -> None:
        """As much as it takes now."""
        try:
            while self._rest or self._unsaid:
                self._rest = self._rest or self._unsaid.take()
                self._rest = self._rest[self.socket.send(self._rest) :]
        except BlockingIOError:
            pass
        except OSError:  # its end is noticed on the next read
            self._rest, self._unsaid = b"", Unsaid()

    def hear(self) -> tuple[list[tuple[bytes, bytes]], list[int]] | None:
        """Frames and descriptors; None at its end."""
        try:
            data, descriptors = receive(self.socket, 1 << 16, 16)
        except BlockingIOError:
            return [], []
        except OSError:
            return None
        try:
            return (self.split.feed(data), descriptors) if data else None
        except ValueError:
            for descriptor in descriptors:
                socket.close(descriptor)
            return None
