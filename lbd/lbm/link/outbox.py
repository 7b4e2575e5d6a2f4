"""The messages to send on a stream between two LBMs.

Messages are sent in order, small ones gathered into one. Each gRPC write costs a thread switch on
both sides, as much as everything else a short command needs. While one write is under way the next
messages gather, and small ones go out as one batch. Putting never waits: the windows of
lbm/link/wire.py bound what is under way of one output or input, and no more of any is put while the
outbox is full, as with a peer that reads nothing.

Before one of the two LBMs is restarted the stream comes to rest: messages put from then on are
held, and go out on the next stream.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable

import grpc.aio

from lbd.lbm.link import wire as tags
from lbd.lbm.link.wire import pack, pack_batch

SMALL_BYTES = 1 << 14
LAST_WRITE_S = 1.0
FULL_BYTES = 4 << 20
NOTICES_MAX = 4  # one of ours, and our answer to one; a peer that keeps asking may read none
BROKEN = (grpc.aio.AioRpcError, grpc.aio.BaseError, asyncio.InvalidStateError)


class Outbox:
    """The messages to send. Once the stream takes no more, `broken` is set and messages are
    dropped."""

    def __init__(
        self, write: Callable[[bytes], Awaitable[None]], held: list[bytes] | None = None
    ) -> None:
        """`held`: messages left by an earlier outbox at rest."""
        self._write = write
        self._queue: deque[bytes] = deque()
        self._held = held  # messages put while the stream rests
        self._notices: deque[bytes] = deque()  # about the stream itself: sent last, never held
        self.count = 0  # messages that went into the stream
        self._sender: asyncio.Task[None] | None = None
        self._lingering: asyncio.TimerHandle | None = None
        self._put = len(held or ())
        self._sent = 0
        self._waiting_bytes = sum(map(len, held or ()))
        self._flushes: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.broken = False

    def put(self, message: bytes, linger_s: float = 0.0) -> None:
        """Queues a message. `linger_s`: how long it may wait for others to travel with."""
        if self.broken:
            return
        self._put += 1
        self._waiting_bytes += len(message)
        if self._held is not None:
            self._held.append(message)
            return
        self._queue.append(message)
        self.count += 1
        if not linger_s:
            self._start()
        elif self._lingering is None:
            self._lingering = asyncio.get_running_loop().call_later(linger_s, self._start)

    def drop(self, conversation: int) -> bool:
        """Drops what waits to be sent in a conversation. Returns whether its first message did, so
        that the other side has not heard of it."""
        number, was_first = pack(conversation, b""), False
        for queue in (self._queue, self._held):
            kept = [message for message in queue or () if not message.startswith(number)]
            if queue is None or len(kept) == len(queue):
                continue
            was_first |= any(tags.is_first(one) for one in queue if one.startswith(number))
            self._sent += len(queue) - len(kept)
            self._waiting_bytes -= sum(map(len, queue)) - sum(map(len, kept))
            if queue is self._queue:
                self.count -= len(queue) - len(kept)
            queue.clear()
            queue.extend(kept)
        self._settle()
        return was_first

    @property
    def waiting(self) -> int:
        """The number of messages that gRPC has not taken yet."""
        return 0 if self.broken else self._put - self._sent

    @property
    def is_full(self) -> bool:
        """Whether so much waits that nothing large should be put now."""
        return self._waiting_bytes > FULL_BYTES and not self.broken

    @property
    def rests(self) -> bool:
        return self._held is not None

    def rest(self, notice: bytes) -> None:
        """Holds messages from now on; `notice` goes out after all messages put before."""
        if self._held is None:
            self._held = []
        if len(self._notices) < NOTICES_MAX:
            self._notices.append(notice)
        self._start()

    def held(self) -> list[bytes]:
        return list(self._held or ())

    def go_on(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Continues on another stream, with the held messages first."""
        self._write = write
        held, self._held = self._held or [], None
        self._queue.extend(held)
        self.count += len(held)
        self._start()

    def _start(self) -> None:
        if self._lingering is not None:  # everything is sent now, so the timer is not needed
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
                self._waiting_bytes -= sum(map(len, batch))
                self._settle()
        except BROKEN:
            self.close()
        while self._notices:
            # all other messages have gone, so it may still be resumed
            with contextlib.suppress(*BROKEN):
                await self._write(self._notices.popleft())
        self._sender = None
        self._start()  # for messages put while a notice was being written

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
        """Waits until gRPC has taken everything put so far, or the stream is broken."""
        if self.broken or self._sent == self._put:
            return
        flushed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flushes.append((self._put, flushed))
        await flushed

    def close(self) -> None:
        """Drops the queued messages; a write under way ends with the stream."""
        self.broken = True
        self._queue.clear()
        self._notices.clear()
        self._settle()

    async def last_written(self) -> None:
        """Waits for the write under way: gRPC accepts no status while one is."""
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=LAST_WRITE_S)
