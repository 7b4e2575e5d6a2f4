"""What is to be sent on the stream to another LBM, in order, small messages gathered into one.

Each gRPC write costs a thread switch on both sides, as much as everything else a short command
needs. While one write is under way the next messages gather; those that are small go out as one
batch. Putting never waits: the windows of lbm/link/wire.py bound what can be queued.

Before one of the two LBMs is restarted the stream comes to rest: what is put from then on is held,
and goes out on the stream that follows.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable

import grpc.aio

from lbd.lbm.link.wire import pack_batch

SMALL_BYTES = 1 << 14
LAST_WRITE_S = 1.0
NOTICES_MAX = 4  # one of ours, and our answer to one; who asks again and again may read none
BROKEN = (grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError)


class Outbox:
    """`broken` is set once the stream takes no more; what is put after that is dropped."""

    def __init__(
        self, write: Callable[[bytes], Awaitable[None]], held: list[bytes] | None = None
    ) -> None:
        """`held`: what an earlier one has left, which rests."""
        self._write = write
        self._queue: deque[bytes] = deque()
        self._held = held  # put while the stream rests
        self._notices: deque[bytes] = deque()  # of the stream itself: last, never held
        self.count = 0  # of what went into the stream
        self._sender: asyncio.Task[None] | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._put = len(held or ())
        self._sent = 0
        self._flushes: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.broken = False

    def put(self, message: bytes, linger_s: float = 0.0) -> None:
        """`linger_s`: it may wait that long for another one to travel with."""
        if self.broken:
            return
        self._put += 1
        if self._held is not None:
            self._held.append(message)
            return
        self._queue.append(message)
        self.count += 1
        if not linger_s:
            self._start()
        elif self._lingering is None:
            self._lingering = asyncio.get_running_loop().call_later(linger_s, self._start)

    @property
    def waiting(self) -> int:
        """Messages that are not with gRPC yet."""
        return 0 if self.broken else self._put - self._sent

    @property
    def rests(self) -> bool:
        return self._held is not None

    def rest(self, notice: bytes) -> None:
        """Hold what is put from now on; `notice` goes out after all that was put before."""
        if self._held is None:
            self._held = []
        if len(self._notices) < NOTICES_MAX:
            self._notices.append(notice)
        self._start()

    def held(self) -> list[bytes]:
        return list(self._held or ())

    def go_on(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """On another stream, with what was held."""
        self._write = write
        held, self._held = self._held or [], None
        self._queue.extend(held)
        self.count += len(held)
        self._start()

    def _start(self) -> None:
        if self._lingering is not None:  # all goes now: nothing is left to wake us for
            self._lingering.cancel()
            self._lingering = None
        if self._sender is None and (self._queue or self._notices):
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        try:
            while self._queue:
                batch = self._next()
                await self._write(batch[0] if len(batch) == 1 else pack_batch(batch))
                self._sent += len(batch)
                self._settle()
        except BROKEN:
            self.close()
        while self._notices:
            with contextlib.suppress(*BROKEN):  # all else has gone: it may be resumed nevertheless
                await self._write(self._notices.popleft())
        self._sender = None
        self._start()  # what came while a notice was being written

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
        self._notices.clear()
        self._settle()

    async def last_written(self) -> None:
        """Until no write is under way any more: gRPC takes no status beside one."""
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=LAST_WRITE_S)
