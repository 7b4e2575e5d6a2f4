"""Reading and writing a descriptor without ever blocking the event loop.

One rule: the event loop never calls read, write, splice, close or an ioctl that may block on
anything that a user has, or has the other end of. A thread of that user does (user_threads.py),
once poll(2) has said that it will do something. The loop polls pipes and
sockets itself, which takes no lock; to poll a terminal does, so that is up to a thread, too. What
stays in the loop has no lock that a user's process could hold:

- a pipe of ours whose other end nobody has any more;
- our side of a terminal that we have made, but for its modes, its size and its close;
- a few devices that never block.

A caller's descriptor shares its open file description with the caller's shell, so nothing is set on
it; and it is never opened again, so that it allows what it allows the caller and no more.

Any call on it may wait for that user for ever. The kernel keeps the lock of a pipe or socket while
it copies from or to the memory of whoever reads or writes it, and that memory may be a page of a
file that never answers; a terminal is locked while it hangs up, and that waits for who reads it. So
not even a call that is "not to wait" is harmless, and a close is none either.

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
from lbd.lbm.link.ferry import PIPE_BYTES, ferry, unread_bytes
from lbd.lbm.link.user_threads import Call, Threads

SMALL_BYTES = 1 << 16
MOMENT_MS = 1  # a thread waits, so that a stream need not change threads for each piece
UNREAD_S = 0.5  # for the answer of a pipe that its readers may hold
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
        self.is_to_widen = False  # before more is read
        self.written_bytes = 0

    def read(self, limit_bytes: int, patience_ms: int = 0) -> bytes | None:
        """b"" at the end of file; None if nothing is there, nor comes in a moment. Raises
        OSError."""
        is_terminal = self._kind is DescriptorKind.TERMINAL and not self._ours
        # A terminal's reader that finds nothing would take what comes after we have been closed.
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
        """How much of it went before there was no more room, nor is in a moment. Raises OSError."""
        done = 0
        while done < len(view):
            try:
                count = self._write(view[done:])
            except BlockingIOError:
                count = 0
            except OSError:
                if done:
                    break  # it comes again
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
            # Being ready it takes that at once.
            view = view[: select.PIPE_BUF] if self.is_ready(select.POLLOUT) else view[:0]
        return os.write(self.number, view) if view else 0

    def is_ready(self, wanted: int, patience_ms: int = 0) -> int:
        """What of that, and of hang-ups and errors, poll(2) sees."""
        poll = select.poll()
        poll.register(self.number, wanted)
        found = poll.poll(patience_ms)
        return found[0][1] if found else 0

    def _widen(self) -> None:
        """Let a pipe hold a megabyte, so that large chunks move in one piece. A no-op elsewhere."""
        self.is_to_widen = False
        if not self._is_wide and self._kind is DescriptorKind.PIPE:
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.number, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._is_wide = True

    def unread_bytes(self) -> int:
        """What is still in the pipe. Raises OSError if that cannot be told."""
        return unread_bytes(self.number)

    def turn_round(self) -> int:
        """`unread_bytes`. If any are, the number becomes that of the other end of our pipe: to its
        readers this one is closed. Raises OSError."""
        unread = unread_bytes(self.number)
        if unread:
            path = f"/proc/self/fd/{self.number}"
            end = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.dup2(end, self.number, inheritable=False)
            os.close(end)
        return unread

    def check_mode(self, forbidden: int) -> None:
        """Raises OSError if that is how it was opened: then poll(2) would never say so."""
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
    """Resolve a future that may have been resolved or given up already."""
    if not future.done():
        future.set_result(None)


class ReadFilter(Protocol):
    """What becomes of what is read, before anybody sees it."""

    def needs_look(self, data: bytes) -> bool:
        """If not, it is left as it is."""

    def look(self, descriptor: int) -> None:
        """In a thread: it asks what may never be answered."""

    def treat(self, data: bytes) -> bytes:
        """By what was last seen."""


class Descriptor:
    """An owned descriptor with awaitable `read` and `write`."""

    def __init__(
        self, descriptor: int, owner: Threads | None = None, *, ours: bool = False
    ) -> None:
        """`owner`: the threads of the user who has it, or its other end; None: nobody has. `ours`:
        nobody else has this end."""
        self._fd = descriptor
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._ours = ours = ours or owner is None
        # Who waits for it to be ready, and what ends that.
        self._waits: dict[asyncio.Future[None], Callable[[], object]] = {}
        self._polls: dict[int, select.epoll] = {}  # by events
        self.filter: ReadFilter | None = None  # of a terminal of ours alone
        self._unseen = b""  # read, but to be looked at first
        self._last: Call | None = None  # in a thread: what it has done shows at its end
        self._is_awaited = False
        self._left: Call | None = None  # by who had waited for it
        self._is_hurried = False
        self.flows = False  # much came the last time, and more may be read ahead
        self._is_read = False  # rather than written
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
        """One that another LBM had, closed if that has closed it."""
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
        """Of what is polled: what of that there is just now. Raises OSError."""
        self._check_open()
        events = self._calls.is_ready(wanted)
        if self._ours and events & ALONE[wanted] and not self._may_hang_up:
            # So no process is in a call on it.
            self._moves_here = self._closes_here = True
        return events

    def _is_held(self) -> bool:
        """May a call on the end to write to wait for a user's process? Raises OSError."""
        if not self._moves_here:
            self._events(select.POLLOUT)
        return not self._moves_here

    # reading

    async def read(self, limit_bytes: int) -> bytes:
        """Some bytes, b"" at the end of file. Raises OSError."""
        is_last = False
        while (data := await self._read_once(limit_bytes)) is None and not is_last:
            is_last = self._is_hurried  # a thread may have looked before the last was written
            if not is_last:
                await self._ready(select.EPOLLIN)
        return data or b""

    async def _read_once(self, limit_bytes: int) -> bytes | None:
        """None if nothing is there. Raises OSError."""
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
        """What is there already; None if nothing is, or only a thread can tell. Raises OSError."""
        self._check_open()
        self._is_read = True
        if not self._moves_here and self._ours:
            self._events(select.POLLIN)
        if not self._moves_here or self._unseen or self._is_awaited:
            return None  # what a thread is reading comes first
        data = self._calls.read(limit_bytes)
        if data and self.filter is not None and self.filter.needs_look(data):
            self._unseen = data
            for ready in self._waits:  # `read` goes on with it
                settle(ready)
            return None
        return data

    def unseen(self) -> bytes:
        """What was read and has not been returned, treated by what was last seen."""
        data, self._unseen = self._unseen, b""
        return self.filter.treat(data) if self.filter is not None else data

    def hurry(self) -> None:
        """What is there is all that will be read."""
        self._is_hurried = True
        for ready in self._waits:
            settle(ready)

    @property
    def is_behind(self) -> bool:
        """Was something written that `read` has not returned?"""
        if self._fd < 0 or (self._moves_here and not self._is_awaited):
            return bool(self._unseen)
        return self._is_awaited or bool(self._events(select.POLLIN) & select.POLLIN)

    def widen(self) -> None:
        """Let a pipe hold a megabyte; whoever reads it next does it."""
        self._calls.is_to_widen = True

    async def lost_bytes(self) -> int:
        """How much was read for somebody who had left by then."""
        if self._owner is None or self._left is None or self._left.is_dropped:
            return 0
        try:
            return len(await self._owner.wait(self._left) or b"")  # type: ignore[arg-type]
        except OSError:
            return 0

    # writing

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """All of it. Raises BrokenPipeError when nobody reads any more, OSError otherwise."""
        view = memoryview(data)
        while view:
            done = await self._write_once(view)
            view = view[done:]
            if not done:
                await self._ready(select.EPOLLOUT)

    async def _write_once(self, view: memoryview) -> int:
        """As much as goes. Raises OSError."""
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
        """How much of the written is unread in a pipe of ours; None if that cannot be told. If any
        is, this becomes the other end of it, for `unread_bytes`: to its readers it is closed."""
        try:
            held = self._is_held()
            turn = self._calls.turn_round
            return await self._in_thread(turn) if held else turn()
        except (OSError, ValueError):
            return None

    async def unread_bytes(self) -> int:
        """What of the written is still in the pipe. Raises OSError if that cannot be told."""
        async with asyncio.timeout(UNREAD_S):
            if self._is_awaited and self._last is not None:
                await asyncio.wait((self._last.done,))
            held = self._is_held()
            unread = self._calls.unread_bytes
            return await self._in_thread(unread) if held else unread()

    def unread_bytes_now(self) -> int:
        """As `unread_bytes`, if nobody can hold that up."""
        if self._is_held():
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return self._calls.unread_bytes()

    def is_trouble(self, problem: OSError) -> bool:
        """Rather than that nobody is at the other end any more."""
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
            if self._waits.pop(ready, None):  # else closed meanwhile
                stop()

    def _watch(self, events: int, call: Callable[[], None]) -> Callable[[], object]:
        """Returns what ends it. Raises OSError."""
        number = self._fd
        if self._owner is not None and not self._is_polled:
            return self._owner.watch(number, events, call)
        if not self._ours:
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
            self._polls[events] = poll = select.epoll()
            poll.register(self._fd, events)
        return poll

    def left(self) -> Fd:
        """For another LBM. Raises NotNow."""
        if self._is_awaited and self._last is not None and self._last.began_s:
            raise NotNow
        return Fd(self._fd) if self.is_open else NO_FD

    def close(self) -> None:
        """Closed at once: who waits for it meets EBADF.

        What a thread is in a call with is closed as soon as that ends.
        """
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
            self._owner.close(descriptor, self._last)
