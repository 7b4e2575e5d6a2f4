"""The keeper's connection to its LBM, with a queue for what the LBM does not read at once.

The keeper never waits for its LBM, which may hang, because it has deadlines to keep. The queue is
bounded by what the LBM has asked for; of a job's stops and continuations it holds only the last,
since a user can cause any number of them.
"""

import contextlib
import socket
import struct

from lbd.local import frames
from lbd.local.descriptors import receive

LIMIT_BYTES = 64 << 20  # an LBM this far behind counts as gone


class Unsaid:
    """Queued frames in order; of frames with one key only the last is kept."""

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
        """Removes and returns the first frame."""
        frame = self._frames.pop(next(iter(self._frames)))
        self.size_bytes -= len(frame)
        return frame


class LbmLine:
    def __init__(self, sock: socket.socket, limit_bytes: int) -> None:
        """`limit_bytes`: the largest order."""
        sock.setblocking(False)
        self.socket = sock
        self.split = frames.Splitter(limit_bytes)
        self._unsaid = Unsaid()
        self.descriptors: list[int] = []  # received, and not taken yet by the frames they are for
        self._rest = b""  # the rest of a frame that was partly sent

    @property
    def is_behind(self) -> bool:
        return bool(self._rest or self._unsaid.size_bytes)

    def say(self, frame: bytes, key: str = "") -> bool:
        """Returns whether the LBM is behind."""
        if self._rest or self._unsaid.size_bytes:
            self._unsaid.add(frame, key)
        else:
            self._rest = frame
            self.go_on()
        if self._unsaid.size_bytes > LIMIT_BYTES:
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)  # the next read sees the end
        return self.is_behind

    def go_on(self) -> None:
        """Sends as much as the LBM takes now."""
        try:
            while self._rest or self._unsaid.size_bytes:
                self._rest = self._rest or self._unsaid.take()
                self._rest = self._rest[self.socket.send(self._rest) :]
        except BlockingIOError:
            pass
        except OSError:  # the next read notices the end
            self._rest, self._unsaid = b"", Unsaid()

    def hear(self) -> list[tuple[bytes, bytes]] | None:
        """Returns frames; None at the end of the connection."""
        try:
            data, descriptors = receive(self.socket, 1 << 16, 16)
            self.descriptors += descriptors
            return self.split.feed(data) if data else None
        except BlockingIOError:
            return []
        except (OSError, ValueError):
            return None


def peer_uid(sock: socket.socket) -> int:
    """Returns the uid of the process at the other end, as reported by the kernel."""
    return int(struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1])
