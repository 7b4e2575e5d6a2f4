"""Reading and writing a descriptor without ever blocking the event loop.

One rule: the event loop never calls read, write, splice, close or an ioctl that may block on
anything that a user holds, or whose other end a user holds. A thread of that user does
(user_threads.py), once poll(2) has said that the call will do something. The loop itself polls
pipes and sockets, which takes no lock. Polling a terminal takes one, so a thread does that too. The
loop only handles descriptors without a lock that a user's process could hold:

- a pipe of ours whose other end nobody holds any more;
- our side of a terminal that we have made, except for its modes, its size and its close;
- a few devices that never block.

A caller's descriptor shares its open file description with the caller's shell, so no flag is set on
it. It is never opened again, so that it allows exactly what it allows the caller.

Any call on it may wait for that user for ever. The kernel holds the lock of a pipe or socket while
it copies from or to the memory of the reading or writing process, and that memory may be a page of
a file that never answers. A terminal is locked while it hangs up, which waits for its reader. So
even a non-blocking call is not harmless, and neither is a close.

It is one file because what is called and where are one question.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import select
import socket
import stat
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol, TypeVar

from lbd.lbm.handover.codec import NO_FD, Fd
from lbd.lbm.handover.fds import NotNow
from lbd.lbm.link.descriptor_kinds import DescriptorKind, is_polled_at_once, kind_of
from lbd.lbm.link.ferry import PIPE_BYTES, empty, ferry, unread_bytes
from lbd.lbm.link.user_threads import Call, Threads

SMALL_BYTES = 1 << 16
MOMENT_MS = 1  # a thread waits this long, so that a stream need not change threads for each piece
UNREAD_S = 0.5  # for the answer of a pipe whose lock its readers may hold
ALONE = {select.POLLIN: select.POLLHUP, select.POLLOUT: select.POLLERR}
Done = TypeVar("Done")


class FdCalls:
    """The calls on one descriptor, one at a time, in the event loop or in a thread."""

    def __init__(self, number: int, kind: DescriptorKind, *, ours: bool) -> None:
        """`ours`: nobody else has this end, so it does not block."""
        self.number = number
        self._kind = kind
        self._ours = ours
        self._is_wide = False
        self.is_to_widen = False  # before the next read
        self.written_bytes = 0

    def read(self, limit_bytes: int, patience_ms: int = 0) -> bytes | None:
        """Returns b"" at the end of file; None if nothing comes in a moment. Raises OSError."""
        is_terminal = self._kind is DescriptorKind.TERMINAL and not self._ours
        # A read of a terminal that finds nothing would take bytes that come after our close.
        if (is_terminal or patience_ms) and not self.is_ready(select.POLLIN, patience_ms):
            return None
        try:
            data = self._read(limit_bytes)
        except BlockingIOError:
            return None
        if self.is_to_widen or len(data) == SMALL_BYTES:
            self._widen()
        return data

    def _read(self, limit_bytes: int) -> bytes:
        if self._kind is DescriptorKind.PIPE and not self._ours:
            return ferry().read(self.number, limit_bytes)
        if self._kind is DescriptorKind.SOCKET:
            with borrowed(self.number) as sock:
                return sock.recv(limit_bytes, socket.MSG_DONTWAIT)
        return os.read(self.number, limit_bytes)

    def write(self, view: memoryview, patience_ms: int = 0) -> int:
        """Returns how much was written before there was no more room. Raises OSError."""
        done = 0
        while done < len(view):
            try:
                count = self._write(view[done:])
            except BlockingIOError:
                count = 0
            except OSError:
                if done:
                    break  # the error will come again
                raise
            done += count
            self.written_bytes += count
            if count:
                continue
            if not self._is_wide and len(view) - done > SMALL_BYTES:
                self._widen()
            elif not patience_ms or not self.is_ready(select.POLLOUT, patience_ms):
                break
        return done

    def _write(self, view: memoryview) -> int:
        if self._kind is DescriptorKind.PIPE and not self._ours:
            return ferry().write(self.number, view)
        if self._kind is DescriptorKind.SOCKET:
            with borrowed(self.number) as sock:
                return sock.send(view, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        if self._kind is DescriptorKind.TERMINAL and not self._ours:
            # A terminal that is ready takes that much at once.
            view = view[: select.PIPE_BUF] if self.is_ready(select.POLLOUT) else view[:0]
        return os.write(self.number, view) if view else 0

    def is_ready(self, wanted: int, patience_ms: int = 0) -> int:
        """Returns the events, of `wanted` and hang-ups and errors, that poll(2) sees."""
        poll = select.poll()
        poll.register(self.number, wanted)
        found = poll.poll(patience_ms)
        return found[0][1] if found else 0

    def _widen(self) -> None:
        """Lets a pipe, if it is one, hold a megabyte, so that large chunks move in one piece."""
        self.is_to_widen = False
        if not self._is_wide and self._kind is DescriptorKind.PIPE:
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.number, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._is_wide = True

    def unread_bytes(self) -> int:
        """How much is still in the pipe. Raises OSError if that is unknown."""
        return unread_bytes(self.number)

    def turn_round(self) -> int:
        """Returns `unread_bytes`. If there are any, the number becomes the other end of our pipe:
        to its readers this end is closed. Raises OSError."""
        unread = unread_bytes(self.number)
        if unread:
            path = f"/proc/self/fd/{self.number}"
            end = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.dup2(end, self.number, inheritable=False)
            os.close(end)
        return unread

    def check_mode(self, forbidden: int) -> None:
        """Raises OSError if that is how it was opened: poll(2) would never report it."""
        mode = fcntl.fcntl(self.number, fcntl.F_GETFL) & os.O_ACCMODE
        if not self._ours and self._kind is DescriptorKind.PIPE and mode == forbidden:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))


@contextlib.contextmanager
def borrowed(descriptor: int) -> Iterator[socket.socket]:
    """Raises OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, descriptor)
    try:
        yield sock
    finally:
        sock.detach()


def settle(future: "asyncio.Future[None]") -> None:
    """Resolves a future that may be resolved or cancelled already."""
    if not future.done():
        future.set_result(None)


class ReadFilter(Protocol):
    """Changes what is read before anybody sees it."""

    def needs_look(self, data: bytes) -> bool:
        """Whether `look` must run before this data is treated."""

    def look(self, descriptor: int) -> None:
        """Runs in a thread, because the call may never return."""

    def treat(self, data: bytes) -> bytes:
        """Returns the data, changed according to the last look."""


class Descriptor:
    """An owned descriptor with awaitable `read` and `write`."""

    def __init__(
        self, descriptor: int, owner: Threads | None = None, *, ours: bool = False
    ) -> None:
        """`owner`: the threads of the user who holds it or its other end; None: no user does.
        `ours`: nobody else holds this end."""
        self._fd = descriptor
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._ours = ours = ours or owner is None
        # Those that wait until it is ready, and the call that ends each wait.
        self._waits: dict[asyncio.Future[None], Callable[[], object]] = {}
        self._polls: dict[int, select.epoll] = {}  # by events
        self.filter: ReadFilter | None = None  # only for a terminal of ours
        self._unseen = b""  # data that was read, but must be looked at first
        self._last: Call | None = None  # in a thread; its effect shows when it ends
        self._is_awaited = False
        self._left: Call | None = None  # a call whose waiter has left
        self._is_hurried = False
        self.flows = False  # the last read was large, so more may be read ahead
        self._is_read = False  # otherwise it is written
        if ours:
            is_terminal = stat.S_ISCHR(os.fstat(descriptor).st_mode)
            kind = DescriptorKind.TERMINAL if is_terminal else DescriptorKind.PIPE
            os.set_blocking(descriptor, False)
        else:
            kind = kind_of(descriptor)
        self._may_hang_up = kind is DescriptorKind.TERMINAL
        self._calls = FdCalls(descriptor, kind, ours=ours)
        self._is_polled = ours or kind is DescriptorKind.PIPE or is_polled_at_once(descriptor)
        self._closes_here = owner is None or kind is DescriptorKind.MEMORY
        self._moves_here = self._closes_here or (ours and kind is DescriptorKind.TERMINAL)

    @classmethod
    def given(cls, left: Fd, owner: Threads | None = None, *, ours: bool = False) -> "Descriptor":
        """Returns a descriptor that another LBM had, closed if that LBM had closed it."""
        if left >= 0:
            return cls(left, owner, ours=ours)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.close(writer)
        made = cls(reader)
        made.close()
        return made

    @property
    def is_open(self) -> bool:
        return self._fd >= 0

    @property
    def written_bytes(self) -> int:
        return self._calls.written_bytes

    @written_bytes.setter
    def written_bytes(self, count: int) -> None:
        self._calls.written_bytes = count

    def _check_open(self) -> None:
        """Raises OSError."""
        if self._fd < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def _events(self, wanted: int) -> int:
        """Returns the wanted events that poll(2) sees now. Raises OSError."""
        self._check_open()
        events = self._calls.is_ready(wanted)
        if self._ours and events & ALONE[wanted] and not self._may_hang_up:
            # So no process is in a call on it.
            self._moves_here = self._closes_here = True
        return events

    def _is_held(self) -> bool:
        """Whether a call on the end to write to may wait for a user's process. Raises OSError."""
        if not self._moves_here:
            self._events(select.POLLOUT)
        return not self._moves_here

    # reading

    async def read(self, limit_bytes: int) -> bytes:
        """Returns some bytes, b"" at the end of file. Raises OSError."""
        is_last = False
        while (data := await self._read_once(limit_bytes)) is None and not is_last:
            is_last = self._is_hurried  # a thread may have looked before the last write
            if not is_last:
                await self._ready(select.EPOLLIN)
        return data or b""

    async def _read_once(self, limit_bytes: int) -> bytes | None:
        """Returns None if nothing is there. Raises OSError."""
        found = self.read_now(limit_bytes)
        if self._unseen and self.filter is not None:
            await self._in_thread(partial(self.filter.look, self._fd))
            return self.unseen()
        if found is not None or self._moves_here:
            return found
        if self._is_polled and not self.flows:
            self._calls.check_mode(os.O_WRONLY)
            if not self._events(select.POLLIN):
                return None
        data = await self._in_thread(partial(self._calls.read, limit_bytes, MOMENT_MS * self.flows))
        self.flows = self._is_polled and data is not None and len(data) >= SMALL_BYTES
        return data

    def read_now(self, limit_bytes: int) -> bytes | None:
        """Returns what is there; None if nothing is, or only a thread can tell. Raises OSError."""
        self._check_open()
        self._is_read = True
        if not self._moves_here and self._ours:
            self._events(select.POLLIN)
        if not self._moves_here or self._unseen or self._is_awaited:
            return None  # data that a thread is reading comes first
        data = self._calls.read(limit_bytes)
        if data and self.filter is not None and self.filter.needs_look(data):
            self._unseen = data
            for ready in self._waits:  # `read` continues with it
                settle(ready)
            return None
        return data

    def unseen(self) -> bytes:
        """Returns data that was read and not returned yet, treated according to the last look."""
        data, self._unseen = self._unseen, b""
        return self.filter.treat(data) if self.filter is not None else data

    def hurry(self) -> None:
        """Makes `read` end once it has returned what is there now."""
        self._is_hurried = True
        for ready in self._waits:
            settle(ready)

    @property
    def is_behind(self) -> bool:
        """Whether something was written that `read` has not returned."""
        if self._fd < 0 or (self._moves_here and not self._is_awaited):
            return bool(self._unseen)
        return self._is_awaited or bool(self._events(select.POLLIN) & select.POLLIN)

    def widen(self) -> None:
        """Lets a pipe hold a megabyte, from the next read on."""
        self._calls.is_to_widen = True

    async def lost_bytes(self) -> int:
        """How many bytes were read for a waiter that had left by then."""
        if self._owner is None or self._left is None or self._left.is_dropped:
            return 0
        try:
            return len(await self._owner.wait(self._left) or b"")  # type: ignore[arg-type]
        except OSError:
            return 0

    # writing

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Writes all data. Raises BrokenPipeError if nobody reads any more, OSError otherwise."""
        view = memoryview(data)
        while view:
            done = await self._write_once(view)
            view = view[done:]
            if not done:
                await self._ready(select.EPOLLOUT)

    async def _write_once(self, view: memoryview) -> int:
        """Writes as much as fits. Raises OSError."""
        self._check_open()
        if not self._moves_here and self._is_polled:
            self._calls.check_mode(os.O_RDONLY)
            if not self._events(select.POLLOUT):
                return 0
        if self._moves_here:
            return self._calls.write(view)
        if self._may_hang_up and self._owner is not None:
            await self._owner.after_first()
        patience_ms = MOMENT_MS if self._is_polled else 0
        return await self._in_thread(partial(self._calls.write, view, patience_ms))

    async def turn_round(self) -> int | None:
        """Returns how much of the written data is unread in a pipe of ours; None if that is
        unknown. If any is, the descriptor becomes the other end of the pipe, for `unread_bytes`: to
        its readers it is closed."""
        try:
            held = self._is_held()
            turn = self._calls.turn_round
            return await self._in_thread(turn) if held else turn()
        except (OSError, ValueError):
            return None

    async def unread_bytes(self) -> int:
        """How much of the written data is still in the pipe. Raises OSError if that is unknown."""
        async with asyncio.timeout(UNREAD_S):
            if self._is_awaited and self._last is not None:
                await asyncio.wait((self._last.done,))
            held = self._is_held()
            unread = self._calls.unread_bytes
            return await self._in_thread(unread) if held else unread()

    def unread_bytes_now(self) -> int:
        """Like `unread_bytes`, if nobody can block the call."""
        if self._is_held():
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return self._calls.unread_bytes()

    def is_trouble(self, problem: OSError) -> bool:
        """Whether it is a real error, not a sign that nobody holds the other end any more."""
        gone = isinstance(problem, BrokenPipeError | ConnectionResetError)
        return not gone and not (problem.errno == errno.EIO and self._may_hang_up)

    # both

    async def _in_thread(self, call: Callable[[], Done]) -> Done:
        assert self._owner is not None
        self._last = made = self._owner.start(call)
        self._is_awaited = True
        try:
            return await self._owner.wait(made)  # type: ignore[return-value]
        except asyncio.CancelledError:
            self._left = made
            raise
        finally:
            self._is_awaited = False

    async def _ready(self, events: int) -> None:
        self._check_open()
        ready: asyncio.Future[None] = self._loop.create_future()
        stop = self._watch(events, partial(settle, ready))
        self._waits[ready] = stop
        try:
            await ready
        finally:
            if self._waits.pop(ready, None):  # otherwise it was closed meanwhile
                stop()

    def _watch(self, events: int, call: Callable[[], None]) -> Callable[[], object]:
        """Calls `call` once the events occur. Returns a function that ends that. Raises OSError."""
        number = self._fd
        if self._owner is not None and not self._is_polled:
            return self._owner.watch(number, events, call)
        if not self._ours:
            # uvloop sets O_NONBLOCK on what it watches. Other processes share this one, so uvloop
            # watches an epoll instead.
            number, events = self._poll(events).fileno(), select.EPOLLIN
        if events == select.EPOLLIN:
            self._loop.add_reader(number, call)
            return lambda: self._loop.remove_reader(number)
        self._loop.add_writer(number, call)
        return lambda: self._loop.remove_writer(number)

    def _poll(self, events: int) -> select.epoll:
        """Returns an epoll that is readable when the descriptor is ready. Raises OSError."""
        poll = self._polls.get(events)
        if poll is None:
            self._polls[events] = poll = select.epoll()
            poll.register(self._fd, events)
        return poll

    def left(self) -> Fd:
        """Returns the descriptor for another LBM. Raises NotNow."""
        if self._is_awaited and self._last is not None and self._last.began_s:
            raise NotNow
        return Fd(self._fd) if self.is_open else NO_FD

    def close(self, *, empties: bool = False) -> None:
        """Closes it at once: waiters get EBADF. A descriptor that a thread uses in a call is closed
        as soon as that call ends. `empties`: what is unread in this pipe of ours is dropped."""
        if self._fd < 0:
            return
        for ready, stop in self._waits.items():
            stop()
            settle(ready)
        self._waits.clear()
        for poll in self._polls.values():
            poll.close()
        self._polls.clear()
        busy = self._last is not None and not self._last.done.done()
        if self._ours and not self._moves_here:
            self._events(select.POLLIN if self._is_read else select.POLLOUT)
        descriptor, self._fd = self._fd, -1
        if self._owner is None or (self._closes_here and not busy):
            os.close(descriptor)
        else:
            self._owner.close(descriptor, self._last, empty if empties else None)
