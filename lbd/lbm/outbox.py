"""What is to be sent on the stream to another LBM, in order, small messages gathered into one.

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
LAST_WRITE_S = 1.0


class Outbox:
    """`broken` is set once the stream takes no more; what is put after that is dropped."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        self._queue: deque[bytes] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._put = 0
        self._sent = 0
        self._flushes: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.broken = False

    def put(self, message: bytes, linger_s: float = 0.0) -> None:
        """`linger_s`: it may wait that long for another one to travel with."""
        if self.broken:
            return
        self._queue.append(message)
        self._put += 1
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
                batch = self._next()
                await self._write(batch[0] if len(batch) == 1 else pack_batch(batch))
                self._sent += len(batch)
                self._settle()
        except (grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError):
            self.close()
        finally:
            self._sender = None

    def _next(self) -> list[bytes]:
        batch = [self._queue.popleft()]
        size = len(batch[0])
        while self._queue and size + len(self._queue[0]) <= SMALL_BYTES:
            batch.append(self._queue.popleft())
            size += len(batch[-1])
        return batch

    def _settle(self) -> None:
        while self._flushes and (self.broken or self._flushes[0][0] <= self._sent):
            _, flushed = self._flushes.popleft()
            if not flushed.done():
                flushed.set_result(None)

    async def flush(self) -> None:
        """Until everything put so far is with gRPC, or the stream is broken."""
        if self.broken or self._sent == self._put:
            return
        flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flushes.append((self._put, flushed))
        await flushed

    def close(self) -> None:
        """Drop what is queued; a write under way is left to the end of the stream."""
        self.broken = True
        self._queue.clear()
        self._settle()

    async def last_written(self) -> None:
        """Until no write is under way any more: gRPC takes no status beside one."""
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=LAST_WRITE_S)
