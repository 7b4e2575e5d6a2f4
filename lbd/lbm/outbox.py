"""What is to be sent on a job's stream, in order, small messages gathered into one.

Each gRPC write costs a thread switch on both sides, as much as everything else a short command
needs. While one write is under way the next messages gather; those that are small go out as one
batch. Putting never waits: the windows of rpc/job_stream.py bound what can be queued.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import grpc.aio

from lbd.rpc.job_stream import pack_batch

SMALL_BYTES = 1 << 14


class Outbox:
    """`broken` is set once the stream takes no more; what is put after that is dropped."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._queue: deque[bytes] = deque()
        self._sender: asyncio.Task[None] | None = None
        self.broken = False

    def put(self, message: bytes, linger_s: float = 0.0) -> None:
        """`linger_s`: it may wait that long for another one to travel with."""
        if self.broken:
            return
        self._queue.append(message)
        if linger_s:
            asyncio.get_running_loop().call_later(linger_s, self._start)
        else:
            self._start()

    def _start(self) -> None:
        if self._sender is None and self._queue:
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        try:
            while self._queue:
                await self._write(self._next())
        except (grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
            self.broken = True
            self._queue.clear()
        finally:
            self._sender = None

    def _next(self) -> bytes:
        first = self._queue.popleft()
        batch, size = [first], len(first)
        while self._queue and size + len(self._queue[0]) <= SMALL_BYTES:
            batch.append(self._queue.popleft())
            size += len(batch[-1])
        return first if len(batch) == 1 else pack_batch(batch)

    async def flush(self) -> None:
        """Until everything put so far is with gRPC, or the stream is broken."""
        while self._sender is not None:
            await asyncio.wait((self._sender,))

    def close(self) -> None:
        self.broken = True
        self._queue.clear()
        if self._sender is not None:
            self._sender.cancel()
