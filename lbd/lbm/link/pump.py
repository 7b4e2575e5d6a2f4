"""The two ends of one direction of one job: `Source` reads and sends, `Sink` receives and writes.

The window between them and its acknowledgements are described in lbm/link/wire.py and window.py.
Both are in one file because each counts what the other moves: neither makes sense without its other
end.
"""

import asyncio
import contextlib
import errno
import os
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace

from lbd.lbm.handover.records import SinkState, SourceState
from lbd.lbm.link.nonblocking_fd import Descriptor
from lbd.lbm.link.window import Window
from lbd.lbm.link.wire import FIRST_WINDOW_BYTES, WINDOW_BYTES

CHUNK_BYTES = 1 << 20  # read at once at most
# A writer and we may fall into step, on one CPU: it writes a page, which wakes us, and waits for
# the CPU while we send that page. After so many small pieces in a row it gets a moment to write on.
CRUMB_BYTES = 1 << 14
CRUMBS = 16
LULL_S = 0.002
GATHER_S = 0.001
# Small pieces are joined into larger ones: each takes hundreds of bytes while it waits.
JOINED_BYTES = 1 << 14
UNREADABLE = (errno.EBADF, errno.EISDIR)


def errno_of(trouble: OSError) -> int:
    return trouble.errno or errno.EIO


def trouble_of(number: int) -> OSError | None:
    return OSError(number, os.strerror(number)) if number else None


def append_joined(queue: deque[bytes | bytearray | memoryview], data: bytes | memoryview) -> None:
    last = queue[-1] if queue else b""
    if isinstance(last, bytearray) and len(last) + len(data) <= JOINED_BYTES:
        last += data
    else:
        queue.append(bytearray(data) if len(data) < JOINED_BYTES else data)


async def until_cancelled(run: Callable[[], Awaitable[None]]) -> None:
    """Ends quietly. A task keeps the exception that ended it, and so all frames on the way and the
    data in them: megabytes in a cycle, which is collected late."""
    with contextlib.suppress(asyncio.CancelledError):
        await run()


class Source:
    """Reads a descriptor and sends what it reads, never more than the window ahead."""

    def __init__(
        self,
        descriptor: Descriptor,
        send: Callable[[bytes], None],
        sent: Callable[[], Awaitable[None]],
        window_bytes: int = FIRST_WINDOW_BYTES,
        *,
        is_full: Callable[[], bool] = lambda: False,
        at_once: bool = False,
        left: SourceState | None = None,
    ) -> None:
        """`is_full`: nothing may be sent before `sent` has returned. `window_bytes`: the window
        until more is granted. `at_once`: somebody watches the output, so small pieces are not
        gathered. `left`: state from an earlier LBM."""
        self._at_once = at_once
        self._descriptor = descriptor
        self._send = send
        self._sent = sent
        self._is_full = is_full
        self._state = state = left or SourceState(window_bytes)
        self._room = asyncio.Event()
        if state.under_way_bytes < state.window_bytes:
            self._room.set()
        if state.last_chance:
            descriptor.hurry()
        self._crumbs = 0
        self._crumb_at_s = 0.0
        self._reading: asyncio.Task[bytes] | None = None

    @property
    def read_bytes(self) -> int:
        return self._state.read_bytes

    @property
    def trouble(self) -> OSError | None:
        """Why not everything was read."""
        return trouble_of(self._state.errno)

    def delivered(self, count: int, granted_bytes: int = 0) -> None:
        """Notes that the other side has delivered `count` bytes more, and grants that window, if
        it is larger. Raises ValueError if fewer were sent."""
        state = self._state
        if count > state.under_way_bytes:
            raise ValueError("an acknowledgement of more than was sent")
        state.under_way_bytes -= count
        state.window_bytes = max(state.window_bytes, min(granted_bytes, WINDOW_BYTES))
        if state.under_way_bytes < state.window_bytes:
            self._room.set()

    def read_what_is_there(self) -> None:
        """Sends what is there, as far as the window allows, so that it goes before the next
        message."""
        with contextlib.suppress(OSError):  # `run` gets it too
            while self._may_send and not self._state.last_chance:
                data = self._descriptor.read_now(self._piece_bytes)
                if not data:
                    return
                self._sending(data)

    @property
    def _may_send(self) -> bool:
        return self._room.is_set() and not self._is_full()

    @property
    def _piece_bytes(self) -> int:
        return min(CHUNK_BYTES, self._state.window_bytes)

    def _sending(self, data: bytes) -> None:
        state = self._state
        state.read_bytes += len(data)
        state.under_way_bytes += len(data)
        if state.under_way_bytes >= state.window_bytes:
            self._room.clear()
        self._send(data)

    def writers_gone(self) -> None:
        """Notes that every process that could write is dead: no more will come into the pipe."""
        self._state.last_chance = True
        self._descriptor.hurry()

    def drain(self) -> bool:
        """Used in place of `run` once the writers are gone: sends what is there, and closes the
        descriptor. Returns whether that was all, without a wait."""
        with contextlib.suppress(OSError):  # `run` gets it too
            while self._may_send:
                data = self._descriptor.read_now(self._piece_bytes)
                if data:
                    self._sending(data)
                    continue
                if data is None:  # a thread must look
                    return False
                self._descriptor.close()
                return True
        return False

    def reader_gone(self) -> None:
        """Closes our end, because nobody reads the other, so that the writer gets SIGPIPE."""
        self.writers_gone()
        self._descriptor.close()
        self._room.set()  # nobody will acknowledge what is under way

    async def lost_bytes(self) -> int:
        """Bytes not in `read_bytes`: those that were being read when `run` was cancelled."""
        return await self._descriptor.lost_bytes()

    def close(self) -> None:
        """Closes the descriptor, in place of `run`."""
        self._descriptor.close()

    def start(self) -> "asyncio.Task[None]":
        """Starts `run` as a task. A task cancelled before its first step closes the descriptor
        too."""
        task = asyncio.create_task(until_cancelled(self.run))
        task.add_done_callback(lambda _: self.close())
        return task

    def left(self, number: int = 0) -> SourceState:
        """The state for another LBM; no further step of the event loop follows. Raises NotNow."""
        self._take_up_what_was_read()
        return replace(self._state, number=number, descriptor=self._descriptor.left())

    def _take_up_what_was_read(self) -> None:
        """Sends data that was read but that `run` has not seen yet."""
        reading = self._reading
        if reading is None or not reading.done() or reading.cancelled() or reading.exception():
            if data := self._descriptor.unseen():
                self._sending(data)
            return
        if data := reading.result():
            self._sending(data)
            return
        self._descriptor.close()
        if not self._state.last_chance:
            self._send(b"")

    async def run(self) -> None:
        """Runs until end of file, sent as an empty message unless the writers are gone anyway."""
        if not self._descriptor.is_open:  # an earlier LBM has finished it
            return
        try:
            await self._may_read()
            while data := await self._next():
                self._sending(data)
                self._read_on()
                count, data = len(data), b""  # it is not kept here as well
                # Data written meanwhile gathers in the pipe. Otherwise a writer of small pieces
                # would cost a message per piece.
                await self._sent()
                await self._room.wait()
                if self._in_step(count):
                    self._descriptor.widen()
                    await asyncio.sleep(GATHER_S)
                await self._may_read()
        finally:
            if self._reading is not None:
                self._reading.cancel()
            self._descriptor.close()
        if not self._state.last_chance:
            self._send(b"")

    async def _may_read(self) -> None:
        await self._room.wait()
        while self._is_full():
            await self._sent()

    def _in_step(self, count: int) -> bool:
        """Whether writer and reader are in step, after a piece of that many bytes."""
        now_s = asyncio.get_running_loop().time()
        follows = count <= CRUMB_BYTES and now_s - self._crumb_at_s <= LULL_S
        self._crumbs = self._crumbs + 1 if follows else 0
        self._crumb_at_s = now_s
        if self._crumbs < CRUMBS:
            return False
        self._crumbs = 0
        return not (self._state.last_chance or self._at_once)

    def _read_on(self) -> None:
        """Lets a thread read the next piece while this one is being sent."""
        if self._descriptor.flows and self._may_send:
            self._start_reading()

    def _start_reading(self) -> "asyncio.Task[bytes]":
        self._reading = asyncio.create_task(self._descriptor.read(self._piece_bytes))
        self._reading.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._reading

    async def _next(self) -> bytes:
        try:
            if self._reading is not None:
                return await self._reading
            found = self._descriptor.read_now(self._piece_bytes)
            return found if found is not None else await self._start_reading()
        except OSError as problem:  # EIO of a vanished terminal is an end like any other
            # A descriptor that cannot be read at all was hardly meant as input.
            if self._descriptor.is_trouble(problem) and problem.errno not in UNREADABLE:
                self._state.errno = errno_of(problem)
            return b""
        finally:
            self._reading = None

    @property
    def is_behind(self) -> bool:
        """Whether something was printed that could be sent, and was not."""
        is_read = self._reading is not None and self._reading.done()
        return self._room.is_set() and (is_read or self._descriptor.is_behind)


class Sink:
    """Writes what arrives to a descriptor and reports what was delivered."""

    def __init__(
        self,
        descriptor: Descriptor,
        delivered: Callable[[int, int], None],
        gone: Callable[[], None],
        window: Window,
        *,
        of_command: bool = False,
        left: SinkState | None = None,
    ) -> None:
        """`delivered` gets a count of bytes and the window to grant; `gone` is called once if
        nobody reads the descriptor any more.

        `of_command`: it is the pipe of a command's input, and `taken_bytes` tells at the command's
        end how much it has read. `left`: state from an earlier LBM.
        """
        self._of_command = of_command
        self._window = window
        self._state = left or SinkState()
        self._descriptor = descriptor
        self._delivered = delivered
        self._gone = gone
        self._queue: deque[bytes | bytearray | memoryview] = deque()
        self._queued_bytes = 0
        self.behind = asyncio.Event()  # not everything is written
        self._current: bytes | bytearray | memoryview = b""  # possibly written in part
        self._current_from = 0
        self._is_turned = False
        self._next: Callable[[], None] | None = None
        if left is not None:
            descriptor.written_bytes = left.written_bytes
            for piece in left.queue:
                self.put(piece)
            if left.ended:
                self.put(b"")

    @property
    def trouble(self) -> OSError | None:
        """Why not everything was written."""
        return trouble_of(self._state.errno)

    def put(self, data: bytes | memoryview) -> None:
        """Queues data; an empty piece is the end of file. Raises ValueError beyond the window."""
        if data:
            self._queued_bytes += len(data)
            if self._queued_bytes > self._window.most_bytes:
                raise ValueError("more than its stream's window")
            append_joined(self._queue, data)
        else:
            self._state.ended = True
        self.behind.set()

    def then(self, call: Callable[[], None], limit_s: float) -> None:
        """Calls `call` once all data put so far is written, at the latest when the limit of the
        first that waits is over. Of several only the last is called: all have the same to say."""
        if not self.behind.is_set():
            return call()
        if self._next is None:
            asyncio.get_running_loop().call_later(limit_s, self._call)
        self._next = call

    def _call(self) -> None:
        call, self._next = self._next, None
        if call is not None:
            call()

    def close(self, *, has_ended: bool = False) -> None:
        """Closes the descriptor, in place of `run` or after it. `has_ended`: the command has."""
        if self._of_command and self._state.taken_bytes is None:
            with contextlib.suppress(OSError, ValueError):
                unread = self._descriptor.unread_bytes_now()
                self._state.taken_bytes = self._descriptor.written_bytes - unread
        self._descriptor.close(empties=has_ended and self._of_command)
        self._window.close()

    def start(self) -> "asyncio.Task[None]":
        """Like `Source.start`."""
        task = asyncio.create_task(until_cancelled(self.run))
        task.add_done_callback(lambda _: self._over())
        return task

    async def run(self) -> None:
        """Runs until the end of file has been passed on; the descriptor is closed then."""
        state = self._state
        if not self._descriptor.is_open and state.is_read and not state.ended:
            return
        try:
            while True:
                while self._queue:
                    self._current = piece = self._queue.popleft()
                    self._current_from = self._descriptor.written_bytes
                    if state.is_read:
                        await self._write(piece)
                    self._current = b""
                    self._queued_bytes -= len(piece)
                    state.unreported_bytes += len(piece)
                    if state.unreported_bytes >= self._window.acknowledge_bytes:
                        self._report()
                self._call()
                if state.ended:
                    await self._pass_on_end()
                    return
                self.behind.clear()
                await self.behind.wait()
        finally:
            self._over()

    async def _pass_on_end(self) -> None:
        """Passes on the end of file. The reader may take long to read the rest, or never do."""
        if not (self._of_command and self._state.is_read):
            return
        unread = await self._descriptor.turn_round() if self._descriptor.written_bytes else 0
        if unread:
            self._is_turned = True
        elif unread == 0:
            self._state.taken_bytes = self._descriptor.written_bytes

    def _over(self) -> None:
        self._queue.clear()
        self._current = b""
        if not self._is_turned:
            self.close()

    async def _write(self, piece: bytes | bytearray | memoryview) -> None:
        try:
            await self._descriptor.write(piece)
        except OSError as problem:
            if self._descriptor.is_trouble(problem):
                self._state.errno = errno_of(problem)
            self._state.is_read = False
            self.close()
            self._gone()

    def left(self, number: int = 0) -> SinkState:
        """Like `Source.left`."""
        written = self._descriptor.written_bytes
        done = written - self._current_from if self._current else 0
        return replace(
            self._state,
            number=number,
            descriptor=self._descriptor.left(),
            queue=tuple(bytes(piece) for piece in (self._current[done:], *self._queue) if piece),
            written_bytes=written,
            unreported_bytes=self._state.unreported_bytes + done,
            window_bytes=self._window.size_bytes,
        )

    def _report(self) -> None:
        state = self._state
        state.reported_bytes += state.unreported_bytes
        if state.reported_bytes > FIRST_WINDOW_BYTES:
            self._window.grow()
        self._delivered(state.unreported_bytes, self._window.size_bytes)
        state.unreported_bytes = 0

    async def taken_bytes(self) -> int | None:
        """How much the reader of our pipe has read; None if that is unknown."""
        if self._state.taken_bytes is not None:
            return self._state.taken_bytes
        try:
            unread = await self._descriptor.unread_bytes()
            return self._descriptor.written_bytes - unread
        except (OSError, ValueError):
            return None
