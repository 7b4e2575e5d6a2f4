"""The two ends of one direction of one job: what `Source` reads and sends, `Sink` writes.

The window between them and its acknowledgements are those of rpc/job_stream.py.
"""

import asyncio
import contextlib
import errno
import os
from collections import deque
from collections.abc import Awaitable, Callable

from lbd.lbm.bundle import Bundle
from lbd.lbm.descriptor import Descriptor
from lbd.rpc.gen.handover_pb2 import HeldSink, HeldSource
from lbd.rpc.job_stream import (
    ACKNOWLEDGE_BYTES,
    ACKNOWLEDGE_SHARE,
    PIECE_MAX_BYTES,
    WINDOW_BYTES,
)

# Of a command's input no more than this, and what its pipe holds, is taken before it reads any:
# what it leaves unread is for the next reader of the caller's pipe.
FIRST_WINDOW_BYTES = 1 << 16
# A writer and we may fall into step, on one CPU: it writes a page, which wakes us, and waits for
# the CPU while we send that page. After so many crumbs in a row it gets a moment to write on.
CRUMB_BYTES = 1 << 14
CRUMBS = 16
LULL_S = 0.002
GATHER_S = 0.001
UNREADABLE = (errno.EBADF, errno.EISDIR)


def errno_of(trouble: OSError | None) -> int:
    return trouble.errno or errno.EIO if trouble is not None else 0


def trouble_of(number: int) -> OSError | None:
    return OSError(number, os.strerror(number)) if number else None


class Source:
    """Reads a descriptor and sends what it reads, never more than the window ahead."""

    def __init__(
        self,
        descriptor: Descriptor,
        send: Callable[[bytes], None],
        sent: Callable[[], Awaitable[None]],
        window_bytes: int,
        chunk_bytes: int,
        *,
        slow_start: bool = False,
        at_once: bool = False,
    ) -> None:
        """`slow_start`: the window opens as the other side is seen to read on.

        `at_once`: somebody looks at it, so no crumbs are gathered.
        """
        self._at_once = at_once
        self._descriptor = descriptor
        self._send = send
        self._sent = sent
        self._window_bytes = FIRST_WINDOW_BYTES if slow_start else window_bytes
        self._largest_window_bytes = window_bytes
        self._chunk_bytes = chunk_bytes
        self._delivered_bytes = 0
        self.read_bytes = 0
        self._under_way = 0
        self._room = asyncio.Event()
        self._room.set()
        self._last_chance = False
        self._crumbs = 0
        self._crumb_at_s = 0.0
        self._reading: asyncio.Task[bytes] | None = None
        self.trouble: OSError | None = None  # what was read was not all

    def delivered(self, count: int) -> None:
        """The other side has handed over `count` bytes more."""
        self._under_way = max(0, self._under_way - count)
        self._delivered_bytes += count
        if self._delivered_bytes > FIRST_WINDOW_BYTES:
            self._window_bytes = min(2 * self._window_bytes, self._largest_window_bytes)
        if self._under_way < self._window_bytes:
            self._room.set()

    def read_what_is_there(self) -> None:
        """And send it, as far as the window allows: what is sent next comes after it."""
        with contextlib.suppress(OSError):  # `run` meets it too
            while self._room.is_set() and not self._last_chance:
                data = self._descriptor.read_now(self._piece_bytes)
                if not data:
                    return
                self._sending(data)

    @property
    def _piece_bytes(self) -> int:
        return min(self._chunk_bytes, self._window_bytes)

    def _sending(self, data: bytes) -> None:
        self.read_bytes += len(data)
        self._under_way += len(data)
        if self._under_way >= self._window_bytes:
            self._room.clear()
        self._send(data)

    def writers_gone(self) -> None:
        """Every process that could write is dead: what is in the pipe now is all there will be."""
        self._last_chance = True
        if self._reading is not None:
            self._reading.cancel()

    def reader_gone(self) -> None:
        """Nobody reads the other end: close ours, so that the writer gets SIGPIPE."""
        self.writers_gone()
        self._descriptor.close()
        self._room.set()  # nobody will acknowledge what is under way

    async def lost_bytes(self) -> int:
        """Besides `read_bytes`: what was still being read as `run` was cancelled."""
        return await self._descriptor.lost_bytes()

    def close(self) -> None:
        """In place of `run`."""
        self._descriptor.close()

    def start(self) -> "asyncio.Task[None]":
        """`run` as a task. Cancelled before its first step it closes the descriptor, too."""
        task = asyncio.create_task(self.run())
        task.add_done_callback(lambda _: self.close())
        return task

    def save(self, bundle: Bundle, number: int = 0) -> HeldSource:
        """Between two steps of the event loop, after which there are none. Raises NotNow."""
        self._take_up_what_was_read()
        return HeldSource(
            descriptor=self._descriptor.save(bundle),
            under_way=self._under_way,
            delivered=self._delivered_bytes,
            window=self._window_bytes,
            read=self.read_bytes,
            last_chance=self._last_chance,
            errno=errno_of(self.trouble),
            number=number,
        )

    def _take_up_what_was_read(self) -> None:
        """But `run` has not been told of yet."""
        reading = self._reading
        if reading is None or not reading.done() or reading.cancelled() or reading.exception():
            return
        if data := reading.result():
            self._sending(data)
            return
        self._descriptor.close()
        if not self._last_chance:
            self._send(b"")

    def restore(self, held: HeldSource) -> "Source":
        self._under_way, self._delivered_bytes = held.under_way, held.delivered
        self._window_bytes, self.read_bytes = held.window, held.read
        self._last_chance, self.trouble = held.last_chance, trouble_of(held.errno)
        if self._under_way >= self._window_bytes:
            self._room.clear()
        return self

    async def run(self) -> None:
        """Until end of file, which is sent as an empty message unless the end itself is near."""
        if not self._descriptor.is_open:  # an earlier LBM has done it
            return
        try:
            await self._room.wait()
            while data := await self._next():
                self._sending(data)
                # What is written meanwhile gathers in the pipe: a writer of small pieces would
                # otherwise cost a message each.
                await self._sent()
                await self._room.wait()
                if self._in_step(len(data)):
                    self._descriptor.widen()
                    await asyncio.sleep(GATHER_S)
        finally:
            self._descriptor.close()
        if not self._last_chance:
            self._send(b"")

    def _in_step(self, count: int) -> bool:
        """After a piece of that many bytes."""
        now_s = asyncio.get_running_loop().time()
        follows = count <= CRUMB_BYTES and now_s - self._crumb_at_s <= LULL_S
        self._crumbs = self._crumbs + 1 if follows else 0
        self._crumb_at_s = now_s
        if self._crumbs < CRUMBS:
            return False
        self._crumbs = 0
        return not (self._last_chance or self._at_once)

    async def _next(self) -> bytes:
        while True:
            try:
                if self._last_chance:
                    return self._descriptor.read_now(self._piece_bytes) or b""
                found = self._descriptor.read_now(self._piece_bytes)
                if found is not None:
                    return found
                self._reading = asyncio.ensure_future(self._descriptor.read(self._piece_bytes))
                return await self._reading
            except asyncio.CancelledError:
                if not (self._last_chance and self._reading and self._reading.cancelled()):
                    raise
            except OSError as problem:  # EIO of a vanished terminal is an end like any other
                # What cannot be read at all was hardly meant as input.
                if self._descriptor.is_trouble(problem) and problem.errno not in UNREADABLE:
                    self.trouble = problem
                return b""
            finally:
                self._reading = None


class Sink:
    """Writes what arrives to a descriptor and reports what was delivered."""

    def __init__(
        self,
        descriptor: Descriptor,
        delivered: Callable[[int], None],
        gone: Callable[[], None],
        acknowledge_bytes: int = ACKNOWLEDGE_BYTES,
        *,
        of_command: bool = False,
    ) -> None:
        """`gone` is called once if nobody reads the descriptor any more.

        `of_command`: it is the pipe of a command's input. The `Source` at the other end starts
        slowly; what the command leaves unread is told at its end, by `taken_bytes`.
        """
        self._of_command = of_command
        self._largest_acknowledge_bytes = acknowledge_bytes
        first_bytes = FIRST_WINDOW_BYTES // ACKNOWLEDGE_SHARE
        self._acknowledge_bytes = first_bytes if of_command else acknowledge_bytes
        self._reported_bytes = 0
        self._taken_bytes: int | None = None
        self._descriptor = descriptor
        self._delivered = delivered
        self._gone = gone
        self._unreported = 0
        self._queue: deque[bytes | memoryview] = deque()
        self._queued_bytes = 0
        self._more = asyncio.Event()
        self._current: bytes | memoryview = b""  # of which some may be written
        self._current_from = 0
        self._is_read = True
        self._idle = True
        self._next: list[Callable[[], None]] = []
        self._ended = False
        self.trouble: OSError | None = None  # not everything was written

    def put(self, data: bytes | memoryview) -> None:
        """An empty piece is the end of file. Raises ValueError on more than the window allows."""
        if data:
            self._queued_bytes += len(data)
            if self._queued_bytes > WINDOW_BYTES + PIECE_MAX_BYTES:
                raise ValueError("more than the window of its stream")
            self._queue.append(data)
        else:
            self._ended = True
        self._idle = False
        self._more.set()

    def then(self, call: Callable[[], None], limit_s: float) -> None:
        """Once all that was put is written, but after `limit_s` in any case."""
        if self._idle:
            call()
            return
        self._next.append(call)
        asyncio.get_running_loop().call_later(limit_s, self._call, call)

    def _call(self, call: Callable[[], None]) -> None:
        if call in self._next:
            self._next.remove(call)
            call()

    def close(self) -> None:
        """In place of `run`, or after it."""
        if self._taken_bytes is None:
            self._taken_bytes = self.taken_bytes()
        self._descriptor.close()

    def start(self) -> "asyncio.Task[None]":
        """As that of a `Source`."""
        task = asyncio.create_task(self.run())
        task.add_done_callback(lambda _: self._over())
        return task

    async def run(self) -> None:
        """Until the end of file has been passed on (the descriptor is closed then)."""
        if not self._descriptor.is_open and self._is_read and not self._ended:
            return
        try:
            while True:
                while self._queue:
                    self._current = piece = self._queue.popleft()
                    self._queued_bytes -= len(piece)
                    self._current_from = self._descriptor.written_bytes
                    if self._is_read:
                        await self._write(piece)
                    self._current = b""
                    self._unreported += len(piece)
                    if self._unreported >= self._acknowledge_bytes:
                        self._report()
                for call in list(self._next):
                    self._call(call)
                if self._ended:
                    return
                self._idle = True
                self._more.clear()
                await self._more.wait()
        finally:
            self._over()

    def _over(self) -> None:
        """What has been passed on may be read for a long time yet, or never."""
        passed_on = self._ended and self._is_read and not self._queue and not self._current
        if not (passed_on and self._of_command and self._descriptor.turn_round()):
            self.close()

    async def _write(self, piece: bytes | memoryview) -> None:
        try:
            await self._descriptor.write(piece)
        except OSError as problem:
            if self._descriptor.is_trouble(problem):
                self.trouble = problem
            self._is_read = False
            self.close()
            self._gone()

    def save(self, bundle: Bundle, number: int = 0) -> HeldSink:
        """As that of a `Source`."""
        written = self._descriptor.written_bytes
        done = written - self._current_from if self._current else 0
        taken = self._taken_bytes
        return HeldSink(
            descriptor=self._descriptor.save(bundle),
            queue=[bytes(piece) for piece in (self._current[done:], *self._queue) if piece],
            ended=self._ended,
            written=written,
            unreported=self._unreported + done,
            reported=self._reported_bytes,
            acknowledge=self._acknowledge_bytes,
            errno=errno_of(self.trouble),
            gone=not self._is_read,
            taken=-1 if taken is None else taken,
            number=number,
        )

    def restore(self, held: HeldSink) -> "Sink":
        for piece in held.queue:
            self.put(piece)
        if held.ended:
            self.put(b"")
        self._descriptor.written_bytes = held.written
        self._unreported, self._reported_bytes = held.unreported, held.reported
        self._acknowledge_bytes, self._is_read = held.acknowledge, not held.gone
        self.trouble = trouble_of(held.errno)
        if held.taken >= 0:
            self._taken_bytes = held.taken
        return self

    def _report(self) -> None:
        self._delivered(self._unreported)
        self._reported_bytes += self._unreported
        self._unreported = 0
        if self._reported_bytes > FIRST_WINDOW_BYTES:
            self._acknowledge_bytes = min(
                2 * self._acknowledge_bytes, self._largest_acknowledge_bytes
            )

    def taken_bytes(self) -> int | None:
        """What the reader of our pipe has read of it; None if that cannot be told."""
        if self._taken_bytes is not None:
            return self._taken_bytes
        try:
            return self._descriptor.written_bytes - self._descriptor.unread_bytes()
        except (OSError, ValueError):
            return None
