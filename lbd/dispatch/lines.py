"""The dispatcher's line to one host: what is to be told it, several things in one message.

An attempt is told with all that its job needs, its standard input too: of those no more go into one
message than a host takes.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import grpc.aio

from lbd.rpc.gen import dispatch_pb2 as pb

STARTS_BYTES = 1 << 20  # of one message; a larger attempt has one for itself


class Line:
    """Once it is `broken` nothing more is sent."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._messages: deque[pb.WorkDown] = deque()  # in order
        self._starts_bytes = 0  # of the last of them
        self._sending: asyncio.Task[None] | None = None
        self.broken = asyncio.Event()
        self.beat = 0  # the last that came

    def reply(self, reply: pb.BeatReply) -> None:
        (self._messages[0] if self._messages else self._add()).reply.CopyFrom(reply)
        self._send()

    def start(self, start: pb.Start) -> None:
        start.anchor = self.beat
        size = start.ByteSize()
        message = self._last()
        if message.starts and self._starts_bytes + size > STARTS_BYTES:
            message = self._add()
        message.starts.append(start)
        self._starts_bytes += size
        self._send()

    def stop(self, job: str, attempt: int, number: int, wish: str) -> None:
        """After what is to be stopped: of one message a host takes the stops first."""
        message = self._last()
        if message.starts:
            message = self._add()
        message.stops.add(job=job, attempt=attempt, signal=number, wish=wish)
        self._send()

    def settled(self, job: str, attempt: int) -> None:
        self._last().settled.add(job=job, attempt=attempt)
        self._send()

    def _last(self) -> pb.WorkDown:
        return self._messages[-1] if self._messages else self._add()

    def _add(self) -> pb.WorkDown:
        self._messages.append(pb.WorkDown())
        self._starts_bytes = 0
        return self._messages[-1]

    def _send(self) -> None:
        if self._sending is None and not self.broken.is_set():
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._messages:
                await self._write(self._messages.popleft().SerializeToString())
        except (grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
            self.broken.set()
        finally:
            self._sending = None
