"""What a client of lbm.sock sends: whole frames, and the descriptors that come along.

A frame of usual length is read as it comes; there are only so many connections. For a long one its
user's budget must have room before more of it is read. Who has none waits a moment, and is refused
then: the rest of that frame is read and dropped, so that the client gets to hear why.
"""

import asyncio
import socket
import time
from typing import Protocol

from lbd.budget import Budget
from lbd.rpc import frames
from lbd.rpc.descriptors import close_connection, receive, take_urgent_inline

READ_BYTES = 1 << 16
DESCRIPTORS_MAX = 3
PATIENCE_S = 1.0  # less than a client waits for its LBM
LOOK_S = 0.05
Frame = tuple[bytes, bytes]


class Share:
    """What one connection holds of a budget."""

    def __init__(self, budget: Budget, key: int) -> None:
        self._budget = budget
        self._key = key
        self._held = 0

    def take(self, amount: int) -> bool:
        """As much as that in all."""
        more = amount - self._held
        may = more <= 0 or self._budget.take(self._key, more)
        if may:
            self._held = max(self._held, amount)
        return may

    def add(self, amount: int) -> None:
        """What is held already."""
        self._budget.add(self._key, amount)
        self._held += amount

    def give_back(self) -> None:
        self._budget.give_back(self._key, self._held)
        self._held = 0


class Owner(Protocol):
    """The user whose descriptors come along."""

    def why_stuck(self) -> str: ...
    def discard(self, descriptor: int, /) -> None: ...


class ClientFrames:
    def __init__(
        self,
        sock: socket.socket,
        split: frames.Splitter,
        share: Share,
        usual_bytes: int,
        owner: Owner,
    ) -> None:
        """`usual_bytes`: of a frame that needs no room in the budget."""
        take_urgent_inline(sock)
        self._socket = sock
        self._owner = owner
        self.split = split
        self.share = share
        self._usual_bytes = usual_bytes
        self.descriptors: list[int] = []
        self._in_turn = True

    async def read(self) -> list[Frame]:
        """The next whole frames; none at the end of the connection. Raises ValueError, OSError."""
        while data := await self._receive():
            if found := self.split.feed(data):
                return found
            if self.split.wanted_bytes > self._usual_bytes:
                await self._make_room(self.split.wanted_bytes)
        return []

    async def _make_room(self, size: int) -> None:
        give_up_s = time.monotonic() + PATIENCE_S
        while not self.share.take(size):
            if time.monotonic() > give_up_s:
                await self._drop(size - len(self.split.rest))
                raise ValueError(
                    f"no room for another {size} bytes while other long requests are under way"
                    " (lbm.user_request_bytes, lbm.users_request_bytes); try again later"
                )
            await asyncio.sleep(LOOK_S)

    async def _drop(self, size: int) -> None:
        while size > 0 and (data := await self._receive()):
            size -= len(data)

    async def _receive(self) -> bytes:
        while True:
            if not self._in_turn:  # who sends without a pause takes turns with the others
                await asyncio.sleep(0)
            try:
                data, descriptors = receive(self._socket, READ_BYTES)
            except BlockingIOError:
                await self._readable()
                self._in_turn = True
                continue
            self._in_turn = False
            self.descriptors += descriptors
            if descriptors and (complaint := self._owner.why_stuck()):
                raise ValueError(complaint)
            if len(self.descriptors) > DESCRIPTORS_MAX:
                raise ValueError("more descriptors than a command has")
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
        """The connection, too."""
        self.share.give_back()
        for descriptor in (*self.descriptors, *close_connection(self._socket)):
            self._owner.discard(descriptor)
        self.descriptors = []


def settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
