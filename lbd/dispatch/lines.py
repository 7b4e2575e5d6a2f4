"""The dispatcher's line to one host: what is to be told it, several things in one message."""

import asyncio
from collections.abc import Awaitable, Callable

import grpc.aio

from lbd.rpc.gen import dispatch_pb2 as pb


class Line:
    """`close` ends it from our side; a broken one drops what is put."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._message = pb.WorkDown()
        self._sending: asyncio.Task[None] | None = None
        self.broken = asyncio.Event()
        self.beat = 0  # the last that came

    def reply(self, reply: pb.BeatReply) -> None:
        self._message.reply.CopyFrom(reply)
        self._send()

    def start(self, start: pb.Start) -> None:
        start.anchor = self.beat
        self._message.starts.append(start)
        self._send()

    def stop(self, job: str, attempt: int, number: int, wish: str) -> None:
        self._message.stops.add(job=job, attempt=attempt, signal=number, wish=wish)
        self._send()

    def settled(self, job: str, attempt: int) -> None:
        self._message.settled.add(job=job, attempt=attempt)
        self._send()

    def _send(self) -> None:
        if self._sending is None and not self.broken.is_set():
            self._sending = asyncio.get_running_loop().create_task(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._message.ByteSize():
                message, self._message = self._message, pb.WorkDown()
                await self._write(message.SerializeToString())
        except (grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
            self.broken.set()
        finally:
            self._sending = None
