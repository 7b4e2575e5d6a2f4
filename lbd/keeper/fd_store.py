"""What the keeper holds between two LBMs of its host, and how it is handed over.

    LBM                        keeper
    LEAVE ──────────────────▶  events from here on are kept for the next LBM
          ◀────────────────── LEFT
    HOLD, descriptors ──────▶  (as often as needed; then the LBM ends)

    the next LBM connects ──▶
          ◀────────────────── the running jobs, each with what it holds of the host
          ◀────────────────── HELLO, with the number of descriptors held
          ◀────────────────── GIVEN, descriptors (as often as needed)
          ◀────────────────── the events kept meanwhile

The first descriptor is a file in memory that describes the others; the keeper does not read it.
"""

import contextlib
import socket

from lbd.keeper.lbm_connection import LbmLine, Unsaid
from lbd.keeper.protocol import GIVEN, LEFT
from lbd.local import frames
from lbd.local.unwanted_descriptors import close_apart

COUNT = b"c"
AT_ONCE = 16  # descriptors in one message
GIVE_S = 5.0


class Holding:
    """The keeper's side."""

    def __init__(self) -> None:
        self.descriptors: list[int] = []
        self._unsaid = Unsaid()
        self.expects_another = False  # the LBM has announced that it leaves

    def leave(self, lbm: LbmLine) -> None:
        self.expects_another = True
        lbm.say(frames.pack(LEFT))

    def hold(self, body: bytes, received: list[int]) -> None:
        """Takes the descriptors of a HOLD, the first of those received. Raises ValueError,
        KeyError."""
        count = int(dict(frames.fields(body))[COUNT])
        self.descriptors += received[:count]
        del received[:count]

    def report_later(self, frame: bytes, key: str) -> bool:
        """Keeps a frame for the next LBM. Returns False if none is expected."""
        if self.expects_another:
            self._unsaid.add(frame, key)
        return self.expects_another

    @property
    def is_complete(self) -> bool:
        """Returns whether the LBM left everything that another needs to go on."""
        return self.expects_another and bool(self.descriptors)

    def give(self, lbm: LbmLine, first: bytes, tag: bytes, *pairs: tuple[bytes, str | int]) -> None:
        """Sends `first`, a frame with the running jobs, then all that is held: now, or not at
        all."""
        lbm.socket.settimeout(GIVE_S)
        with contextlib.suppress(OSError):  # the next read notices the end
            lbm.socket.sendall(first + frame_of(tag, *pairs, (COUNT, len(self.descriptors))))
            send_descriptors(lbm.socket, GIVEN, self.descriptors)
        lbm.socket.setblocking(False)
        while self._unsaid:
            lbm.say(self._unsaid.take())
        self.drop()

    def drop(self) -> None:
        """Closes all that is held, outside the keeper's loop: closing users' descriptors may
        hang."""
        close_apart(self.descriptors)
        self.descriptors, self._unsaid, self.expects_another = [], Unsaid(), False


def frame_of(tag: bytes, *pairs: tuple[bytes, str | int]) -> bytes:
    return frames.pack(tag, frames.pack_fields([(k, f"{value}".encode()) for k, value in pairs]))


def send_descriptors(sock: socket.socket, tag: bytes, descriptors: list[int]) -> None:
    """Sends on a blocking socket. Raises OSError."""
    for at in range(0, len(descriptors), AT_ONCE):
        some = descriptors[at : at + AT_ONCE]
        socket.send_fds(sock, [frame_of(tag, (COUNT, len(some)))], some)
