"""Reading and writing a descriptor without ever blocking the event loop.

A caller's descriptor shares its open file description with the caller's shell, so O_NONBLOCK must
not be set on it. A pipe or terminal is therefore opened again through /proc/self/fd, which gives a
description of our own; where that is not permitted a thread does the blocking call. Regular files
never block; sockets take MSG_DONTWAIT.
"""

import array
import asyncio
import contextlib
import errno
import fcntl
import os
import select
import socket
import stat
import termios
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from lbd.lbm.bundle import Bundle, Given, NotNow

PIPE_BYTES = 1 << 20
SMALL_BYTES = 1 << 16
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def settle(future: "asyncio.Future[None]") -> None:
    """Resolve a future that may have been resolved or given up already."""
    if not future.done():
        future.set_result(None)


Argument = TypeVar("Argument")
Done = TypeVar("Done")


class Descriptor:
    """An owned descriptor with awaitable `read` and `write`."""

    def __init__(self, descriptor: int, *, borrowed: bool, writing: bool = False) -> None:
        """`borrowed`: it shares its description with the caller's processes."""
        self._fd = descriptor
        self._loop = asyncio.get_running_loop()
        self._threads: ThreadPoolExecutor | None = None
        self._socket: socket.socket | None = None
        self._widened = False
        # Who waits for it to be ready, and how the loop is told that nobody does any more.
        self._waits: dict[asyncio.Future[None], Callable[[int], object]] = {}
        self.treat: Callable[[bytes], bytes] = bytes  # what is read, before anybody sees it
        self.written_bytes = 0
        self._in_call = False  # a thread is: what it has read or written shows only then
        kind = os.fstat(descriptor).st_mode
        self._may_hang_up = stat.S_ISCHR(kind)
        if not borrowed:
            os.set_blocking(descriptor, False)
        elif stat.S_ISSOCK(kind):
            self._socket = socket.socket(fileno=os.dup(descriptor))
        elif stat.S_ISFIFO(kind) or (stat.S_ISCHR(kind) and os.isatty(descriptor)):
            self._reopen(writing)

    @classmethod
    def given(
        cls, given: Given, place: int, *, borrowed: bool = False, writing: bool = False
    ) -> "Descriptor":
        """One that another LBM had, closed if that has closed it (`place` 0)."""
        if place:
            return cls(given.take(place), borrowed=borrowed, writing=writing)
        made = cls(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), borrowed=True)
        made.close()
        return made

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    def _reopen(self, writing: bool) -> None:
        mode = os.O_WRONLY if writing else os.O_RDONLY
        try:
            own = os.open(
                f"/proc/self/fd/{self._fd}", mode | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            )
        except OSError as problem:
            if problem.errno == errno.ENXIO:  # the reader is gone: a write will say so
                return
            self._threads = ThreadPoolExecutor(1, "lbm-blocking-io")
            return
        os.close(self._fd)
        self._fd = own

    async def read(self, limit_bytes: int) -> bytes:
        """Some bytes, b"" at the end of file. Raises OSError."""
        if self._threads is not None:
            # Else the thread would take the first bytes of what comes after we have been closed.
            await self._ready(self._loop.add_reader, self._loop.remove_reader)
            return await self._in_thread(os.read, limit_bytes)
        while (data := self.read_now(limit_bytes)) is None:
            await self._ready(self._loop.add_reader, self._loop.remove_reader)
        return data

    async def _in_thread(self, call: Callable[[int, Argument], Done], argument: Argument) -> Done:
        self._in_call = True
        try:
            return await self._loop.run_in_executor(self._threads, call, self._fd, argument)
        finally:
            self._in_call = False

    def read_now(self, limit_bytes: int) -> bytes | None:
        """What is there already; None if nothing is, or nobody can tell. Raises OSError."""
        if self._threads is not None:
            return None
        try:
            if self._socket is not None:
                return self._socket.recv(limit_bytes, socket.MSG_DONTWAIT)
            data = os.read(self._fd, limit_bytes)
        except BlockingIOError:
            return None
        if len(data) == SMALL_BYTES:
            self.widen()
        return self.treat(data)

    def widen(self) -> None:
        """Let a pipe hold a megabyte, so that large chunks move in one piece. A no-op elsewhere."""
        if not self._widened:
            self._widened = True
            with contextlib.suppress(OSError):
                fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    async def write(self, data: bytes | memoryview) -> None:
        """All of it. Raises BrokenPipeError when nobody reads any more, OSError otherwise."""
        view = memoryview(data)
        while view:
            try:
                if self._threads is not None:
                    await self._ready(self._loop.add_writer, self._loop.remove_writer)
                    done = await self._in_thread(os.write, view[: self._room_bytes()])
                elif self._socket is not None:
                    done = self._socket.send(view, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                else:
                    done = os.write(self._fd, view)
                view = view[done:]
                self.written_bytes += done
            except BlockingIOError:
                if not self._widened and len(view) > SMALL_BYTES:
                    self.widen()
                    continue
                await self._ready(self._loop.add_writer, self._loop.remove_writer)

    def _room_bytes(self) -> int:
        """What it takes at once, being ready: so that no thread is in a call for long."""
        try:
            used_bytes = self.unread_bytes()
            room_bytes = fcntl.fcntl(self._fd, fcntl.F_GETPIPE_SZ) - used_bytes
        except OSError:  # a terminal
            return select.PIPE_BUF
        # The first and the last page of what is in it may be used in part.
        return max(select.PIPE_BUF, room_bytes - 2 * PAGE_BYTES * bool(used_bytes))

    async def _ready(
        self,
        add: Callable[[int, Callable[[], None]], object],
        remove: Callable[[int], object],
    ) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        add(self._fd, lambda: settle(ready))
        self._waits[ready] = remove
        try:
            await ready
        finally:
            if self._waits.pop(ready, None):  # else closed meanwhile
                remove(self._fd)

    def save(self, bundle: Bundle) -> int:
        """Its place there, 0 if it is closed. Raises NotNow."""
        if self._in_call:
            raise NotNow
        return bundle.add(self._fd)

    def turn_round(self) -> bool:
        """Hold the other end of a pipe in place of ours, for `unread_bytes`: to its readers it is
        closed. False: it is as before; nothing is unread, or there is no way."""
        with contextlib.suppress(OSError, ValueError):
            if self.unread_bytes():
                path = f"/proc/self/fd/{self._fd}"
                end = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                os.dup2(end, self._fd, inheritable=False)
                os.close(end)
                return True
        return False

    def unread_bytes(self) -> int:
        """What of the written is still in the pipe. Raises OSError if that cannot be told."""
        found = array.array("i", [0])
        fcntl.ioctl(self._fd, termios.FIONREAD, found)
        return found[0]

    def is_trouble(self, problem: OSError) -> bool:
        """Rather than that nobody is at the other end any more."""
        gone = isinstance(problem, BrokenPipeError | ConnectionResetError)
        return not gone and not (problem.errno == errno.EIO and self._may_hang_up)

    def close(self) -> None:
        """Closed at once: who waits for it meets EBADF.

        A thread still blocked in a call keeps its duplicate until that ends.
        """
        if self._fd < 0:
            return
        for ready, remove in self._waits.items():
            remove(self._fd)
            settle(ready)
        self._waits.clear()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        if self._socket is not None:
            self._socket.close()
        os.close(self._fd)
        self._fd = -1
