"""What the keeper holds between two LBMs of its host, and how it goes from one to the other.

    LBM                        keeper
    LEAVE ──────────────────▶  what happens from here on is for the next LBM
          ◀────────────────── LEFT
    HOLD, descriptors ──────▶  (as often as needed; then the LBM ends)

    the next LBM connects ──▶
          ◀────────────────── what jobs there are, each with what it holds of the host
          ◀────────────────── HELLO, with how many descriptors are held
          ◀────────────────── GIVEN, descriptors (as often as needed)
          ◀────────────────── what has happened meanwhile

The first descriptor is a file in memory with all that is to be known of the others; the keeper does
not look into it.
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
        self.expects_another = False  # LBM: this one has said that it leaves

    def leave(self, lbm: LbmLine) -> None:
        self.expects_another = True
        lbm.say(frames.pack(LEFT))

    def hold(self, body: bytes, received: list[int]) -> None:
        """Those that belong to a HOLD, which came first. Raises ValueError, KeyError."""
        count = int(dict(frames.fields(body))[COUNT])
        self.descriptors += received[:count]
        del received[:count]

    def report_later(self, frame: bytes, key: str) -> bool:
        """False: there is no need to."""
        if self.expects_another:
            self._unsaid.add(frame, key)
        return self.expects_another

    @property
    def is_complete(self) -> bool:
        """Has the LBM, which is gone, left what another can go on with?"""
        return self.expects_another and bool(self.descriptors)

    def give(self, lbm: LbmLine, first: bytes, tag: bytes, *pairs: tuple[bytes, str | int]) -> None:
        """`first`, a frame that says how much there is, then all of it: now, or not at all."""
        lbm.socket.settimeout(GIVE_S)
        with contextlib.suppress(OSError):  # its end is noticed on the next read
            lbm.socket.sendall(first + frame_of(tag, *pairs, (COUNT, len(self.descriptors))))
            send_descriptors(lbm.socket, GIVEN, self.descriptors)
        lbm.socket.setblocking(False)
        while self._unsaid:
            lbm.say(self._unsaid.take())
        self.drop()

    def drop(self) -> None:
        """What users have may hang as it is closed: not in the keeper's loop."""
        close_apart(self.descriptors)
        self.descriptors, self._unsaid, self.expects_another = [], Unsaid(), False


def frame_of(tag: bytes, *pairs: tuple[bytes, str | int]) -> bytes:
    return frames.pack(tag, frames.pack_fields([(k, str(value).encode()) for k, value in pairs]))


def send_descriptors(sock: socket.socket, tag: bytes, descriptors: list[int]) -> None:
    """On a blocking socket. Raises OSError."""
    for at in range(0, len(descriptors), AT_ONCE):
        some = descriptors[at : at + AT_ONCE]
        socket.send_fds(sock, [frame_of(tag, (COUNT, len(some)))], some)
