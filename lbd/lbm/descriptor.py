"""Reading and writing a descriptor without ever blocking the event loop.

A caller's descriptor shares its open file description with the caller's shell, so nothing is set on
it; and it is never opened again, so that it allows what it allows the caller and no more. What is
there of a pipe comes by splice (ferry.py), sockets take MSG_DONTWAIT, a few devices never block.
All else, regular files included, is read, written and closed in threads of the caller's user
(user_threads.py).
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import select
import socket
import stat
from collections.abc import Callable
from typing import TypeVar

from lbd.lbm.bundle import Bundle, Given, NotNow
from lbd.lbm.ferry import PIPE_BYTES, ferry, unread_bytes
from lbd.lbm.kinds import Kind, kind_of
from lbd.lbm.user_threads import Call, Threads

SMALL_BYTES = 1 << 16
Done = TypeVar("Done")


def settle(future: "asyncio.Future[None]") -> None:
    """Resolve a future that may have been resolved or given up already."""
    if not future.done():
        future.set_result(None)


class Descriptor:
    """An owned descriptor with awaitable `read` and `write`."""

    def __init__(self, descriptor: int, owner: Threads | None = None) -> None:
        """`owner`: the user whose processes have it, too; None: nobody has."""
        self._fd = descriptor
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._socket: socket.socket | None = None
        self._widened = False
        # Who waits for it to be ready, and how the loop is told that nobody does any more.
        self._waits: dict[asyncio.Future[None], Callable[[], object]] = {}
        self._polls: dict[int, select.epoll] = {}  # by events
        self.treat: Callable[[bytes], bytes] = bytes  # what is read, before anybody sees it
        self.written_bytes = 0
        self._last: Call | None = None  # in a thread: what it has done shows at its end
        self._is_awaited = False
        self._left: Call | None = None  # by who had waited for it
        if owner is None:
            self._kind = Kind.PIPE
            self._may_hang_up = stat.S_ISCHR(os.fstat(descriptor).st_mode)
            os.set_blocking(descriptor, False)
            return
        self._kind = kind_of(descriptor)
        self._may_hang_up = self._kind is Kind.TERMINAL
        if self._kind is Kind.SOCKET:
            try:
                self._socket = socket.socket(fileno=descriptor)
            except OSError:  # its name in the file system alone
                self._kind = Kind.OTHER

    @classmethod
    def given(cls, given: Given, place: int, owner: Threads | None = None) -> "Descriptor":
        """One that another LBM had, closed if that has closed it (`place` 0)."""
        if place:
            return cls(given.take(place), owner)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.close(writer)
        made = cls(reader)
        made.close()
        return made

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    @property
    def _is_slow(self) -> bool:
        """Only a thread may read or write it."""
        return self._kind in (Kind.TERMINAL, Kind.REGULAR, Kind.OTHER, Kind.NONE)

    async def read(self, limit_bytes: int) -> bytes:
        """Some bytes, b"" at the end of file. Raises OSError."""
        if self._owner is not None and self._is_slow:
            return await self._read_slowly(self._owner, limit_bytes)
        while (data := self.read_now(limit_bytes)) is None:
            await self._ready(select.EPOLLIN)
        return data

    async def _read_slowly(self, owner: Threads, limit_bytes: int) -> bytes:
        if self._kind is Kind.TERMINAL:
            # Else the thread would take the first bytes of what comes after we have been closed.
            await self._ready(select.EPOLLIN)
        descriptor = self._open_fd
        return await self._in_thread(owner, lambda: os.read(descriptor, limit_bytes))

    async def _in_thread(self, owner: Threads, call: Callable[[], Done]) -> Done:
        self._last = made = owner.start(call)
        self._is_awaited = True
        try:
            return await owner.wait(made)  # type: ignore[return-value]
        except asyncio.CancelledError:
            self._left = made
            raise
        finally:
            self._is_awaited = False

    async def lost_bytes(self) -> int:
        """How much was read for somebody who had left by then."""
        if self._owner is None or self._left is None or self._left.is_dropped:
            return 0
        try:
            return len(await self._owner.wait(self._left))  # type: ignore[arg-type]
        except OSError:
            return 0

    @property
    def _open_fd(self) -> int:
        """Raises OSError."""
        if self._fd < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._fd

    def read_now(self, limit_bytes: int) -> bytes | None:
        """What is there already; None if nothing is, or nobody can tell. Raises OSError."""
        if self._owner is not None and self._is_slow:
            return None
        try:
            if self._socket is not None:
                return self._socket.recv(limit_bytes, socket.MSG_DONTWAIT)
            if self._owner is not None and self._kind is Kind.PIPE:
                data = ferry().read(self._open_fd, limit_bytes)
            else:
                data = os.read(self._open_fd, limit_bytes)
        except BlockingIOError:
            return None
        if len(data) == SMALL_BYTES:
            self.widen()
        return self.treat(data)

    def widen(self) -> None:
        """Let a pipe hold a megabyte, so that large chunks move in one piece. A no-op elsewhere."""
        if self._widened:
            return
        self._widened = True
        if self._kind is Kind.PIPE:
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    async def write(self, data: bytes | memoryview) -> None:
        """All of it. Raises BrokenPipeError when nobody reads any more, OSError otherwise."""
        view = memoryview(data)
        while view:
            try:
                if self._owner is not None and self._is_slow:
                    done = await self._write_slowly(self._owner, view)
                elif self._socket is not None:
                    done = self._socket.send(view, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                elif self._owner is not None and self._kind is Kind.PIPE:
                    done = ferry().write(self._open_fd, view)
                else:
                    done = os.write(self._open_fd, view)
                view = view[done:]
                self.written_bytes += done
            except BlockingIOError:
                if not self._widened and len(view) > SMALL_BYTES:
                    self.widen()
                    continue
                await self._ready(select.EPOLLOUT)

    async def _write_slowly(self, owner: Threads, view: memoryview) -> int:
        if self._kind is Kind.TERMINAL:
            if not self._poll(select.EPOLLOUT).poll(0):
                await self._ready(select.EPOLLOUT)
            view = view[: select.PIPE_BUF]  # it takes that at once, being ready
        descriptor = self._open_fd
        return await self._in_thread(owner, lambda: os.write(descriptor, view))

    async def _ready(self, events: int) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        stop = self._watch(events, lambda: settle(ready))
        self._waits[ready] = stop
        try:
            await ready
        finally:
            if self._waits.pop(ready, None):  # else closed meanwhile
                stop()

    def _watch(self, events: int, call: Callable[[], None]) -> Callable[[], object]:
        """Returns what ends it. Raises OSError."""
        number = self._open_fd
        if self._owner is not None:
            # uvloop sets O_NONBLOCK on what it watches: others have this, so it watches a poll.
            number, events = self._poll(events).fileno(), select.EPOLLIN
        if events == select.EPOLLIN:
            self._loop.add_reader(number, call)
            return lambda: self._loop.remove_reader(number)
        self._loop.add_writer(number, call)
        return lambda: self._loop.remove_writer(number)

    def _poll(self, events: int) -> select.epoll:
        """Readable when the descriptor is ready. Raises OSError."""
        poll = self._polls.get(events)
        if poll is None:
            poll = select.epoll()
            poll.register(self._open_fd, events)
            self._polls[events] = poll
        return poll

    def save(self, bundle: Bundle) -> int:
        """Its place there, 0 if it is closed. Raises NotNow."""
        if self._is_awaited and self._last is not None and self._last.began_s:
            raise NotNow
        return bundle.add(self._fd)

    def turn_round(self) -> bool:
        """Hold the other end of a pipe of ours in place of this, for `unread_bytes`: to its readers
        it is closed. False: it is as before; nothing is unread, or there is no way."""
        with contextlib.suppress(OSError, ValueError):
            if self._owner is None and self.unread_bytes():
                path = f"/proc/self/fd/{self._fd}"
                end = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                os.dup2(end, self._fd, inheritable=False)
                os.close(end)
                return True
        return False

    def unread_bytes(self) -> int:
        """What of the written is still in the pipe. Raises OSError if that cannot be told."""
        return unread_bytes(self._open_fd)

    def is_trouble(self, problem: OSError) -> bool:
        """Rather than that nobody is at the other end any more."""
        gone = isinstance(problem, BrokenPipeError | ConnectionResetError)
        return not gone and not (problem.errno == errno.EIO and self._may_hang_up)

    def close(self) -> None:
        """Closed at once: who waits for it meets EBADF.

        What a thread is in a call with is closed as soon as that ends.
        """
        if self._fd < 0:
            return
        for ready, remove in self._waits.items():
            remove()
            settle(ready)
        self._waits.clear()
        for poll in self._polls.values():
            poll.close()
        self._polls.clear()
        descriptor, self._fd = self._fd, -1
        if self._socket is not None:
            self._socket.detach()
            self._socket = None
        if self._owner is None:
            os.close(descriptor)
        else:
            self._owner.close(descriptor, self._last)
