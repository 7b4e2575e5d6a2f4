"""Reads what a client of lbm.sock sends: whole frames, and the descriptors passed along.

A frame of usual length is read at once, since the number of connections is limited. For a long one,
its user's budget must have room before more of it is read. If it has none, the frame waits a moment
and is then refused: the rest of it is read and dropped, so that the client gets the reason.
"""

import asyncio
import socket
import time
from itertools import groupby
from typing import Protocol

from lbd.local import client_tags as tags
from lbd.local import frames
from lbd.local.budget import Share
from lbd.local.descriptors import (
    brings_descriptors,
    receive,
    take_descriptors,
    take_urgent_inline,
)
from lbd.local.unread_answers import UNREAD

READ_BYTES = 1 << 16
FRAMES_AT_ONCE = 256  # short frames take many times their bytes, and a user has many connections
DESCRIPTORS_MAX = 3
PATIENCE_S = 1.0  # less than a client waits for its LBM
LOOK_S = 0.05
# Of these frames only the last one counts.
STATES = (tags.RESIZE, tags.SET_MODES, tags.GROUND, tags.FORCE)
ASK_DESCRIPTORS = (tags.GIVE, tags.PACK, tags.UNPACK)
Frame = tuple[bytes, bytes]


def latest(received: list[Frame]) -> list[Frame]:
    """Drops frames that later ones supersede: of several signals with one number only the last
    stays, as with pending signals of a process. So a client cannot flood another host with them.
    Typed input is joined into one frame, however small its pieces.
    """
    if len(received) == 1:
        return received
    found: dict[object, Frame] = {}
    for number, (tag, body) in enumerate(received):
        key = (tag, body) if tag == tags.SIGNAL else tag if tag in STATES else number
        found.pop(key, None)
        found[key] = tag, body
    joined: list[Frame] = []
    for typed, some in groupby(found.values(), is_typed):
        run = list(some)
        joined += [(tags.INPUT, b"".join(body for _, body in run))] if typed else run
    return joined


def is_typed(frame: Frame) -> bool:
    return frame[0] == tags.INPUT and frame[1] != b""


class Owner(Protocol):
    """The user to whom passed descriptors are charged."""

    def why_stuck(self) -> str: ...
    def discard(self, descriptor: int, /) -> None: ...
    def finish(self, sock: socket.socket, /) -> None: ...


class ClientFrames:
    def __init__(
        self,
        sock: socket.socket,
        split: frames.Splitter,
        share: Share[int],
        usual_bytes: int,
        owner: Owner,
    ) -> None:
        """`usual_bytes`: the length up to which a frame needs no room in the budget."""
        take_urgent_inline(sock)
        self._socket = sock
        self._owner = owner
        self.split = split
        self.share = share
        self._usual_bytes = usual_bytes
        self.descriptors: list[int] = []
        self._in_turn = True

    def send(self, tag: bytes, body: bytes = b"") -> None:
        """Sends a frame. Only a frame that asks for descriptors may be answered with some. These
        frames are few and small: a client whose buffer they fill is not reading."""
        try:
            if tag in ASK_DESCRIPTORS:
                take_descriptors(self._socket, wanted=True)
            self._socket.send(frames.pack(tag, body))
        except OSError:
            pass

    def at_hand(self) -> list[Frame]:
        """Returns the whole frames that are already there. Raises ValueError, OSError."""
        try:
            return self.split.feed(self._receive_now(), FRAMES_AT_ONCE)
        except BlockingIOError:
            return []

    async def read(self) -> list[Frame]:
        """Returns the next whole frames; none at the end of the connection. Raises ValueError,
        OSError."""
        if found := self.split.feed(b"", FRAMES_AT_ONCE):
            return found
        while True:
            if self.split.wanted_bytes > self._usual_bytes:
                await self._make_room(self.split.wanted_bytes)
            if not (data := await self._receive()):
                return []
            if found := self.split.feed(data, FRAMES_AT_ONCE):
                return found

    async def _make_room(self, size: int) -> None:
        give_up_s = time.monotonic() + PATIENCE_S
        while not self.share.take(size):
            if time.monotonic() > give_up_s:
                await self._drop(size - len(self.split.rest))
                raise ValueError(
                    f"no room for another {size} bytes while other long requests are in progress "
                    "(lbm.user_request_bytes, lbm.users_request_bytes); try again later"
                )
            await asyncio.sleep(LOOK_S)

    async def _drop(self, size: int) -> None:
        while size > 0 and (data := await self._receive()):
            size -= len(data)

    async def _receive(self) -> bytes:
        while True:
            if not self._in_turn:  # a client that sends without a pause takes turns with the others
                await self._readable()
            try:
                return self._receive_now()
            except BlockingIOError:
                await self._readable()
                self._in_turn = True

    def _receive_now(self) -> bytes:
        """Raises BlockingIOError if there is nothing; ValueError, OSError."""
        if (complaint := self._owner.why_stuck()) and brings_descriptors(self._socket):
            raise ValueError(complaint)
        data, descriptors = receive(self._socket, READ_BYTES)
        self._in_turn = False
        self.descriptors += descriptors
        if len(self.descriptors) > DESCRIPTORS_MAX:
            raise ValueError("too many descriptors")
        return data

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._socket, settle, ready)
        try:
            await ready
        finally:
            loop.remove_reader(self._socket)

    def close(self) -> None:
        """Also closes the connection."""
        self.share.give_back()
        for descriptor in self.descriptors:
            self._owner.discard(descriptor)
        self.descriptors = []
        UNREAD.close(self.share.key, self._socket, self._owner.finish)


def settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
