"""Calls that may never return, made in threads of the user concerned.

A read from a file of a dead file server, of the user's own FUSE or of a strange device can wait for
ever, and so can its close. No such call is made in the event loop, and no user can take the threads
of another: a user whose calls hang waits alone. The threads are daemon threads, so that neither the
end of this process nor a hand-over to the next waits for one that hangs.
"""

import asyncio
import collections
import contextlib
import errno
import os
import queue
import select
import socket
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from lbd.lbm.handover.codec import Fd
from lbd.lbm.link.descriptor_kinds import DescriptorKind, kind_of, why_not
from lbd.lbm.link.thread_staff import Staff
from lbd.local.caller import person_of
from lbd.local.descriptors import is_at_end
from lbd.local.unwanted_descriptors import close_descriptor, close_with_descriptors, is_started

THREADS_MAX = 8  # for one user
IDLE_S = 10.0  # after so long an idle thread ends
STUCK_S = 10.0  # calls that have lasted longer will hardly ever end
HUNG_S = 0.5  # a call that has lasted longer is not waited for
CLOSING_MAX = 64  # descriptors of one user whose close hangs
STUCK = "too many of your files and devices do not answer (a file server that is down?)"

Done = TypeVar("Done")


class Call:
    """A call in a thread, or waiting for one."""

    __slots__ = ("_call", "_loop", "began_s", "done", "is_dropped", "is_made")

    def __init__(self, call: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._loop = loop
        self.done: asyncio.Future[object] = loop.create_future()
        self.began_s = 0.0  # 0: it has not begun
        self.is_dropped = False  # it never will begin
        self.is_made = False

    def make(self) -> None:
        """Runs in a thread."""
        try:
            found, problem = self._call(), None
        except Exception as raised:
            found, problem = None, raised
        self.is_made = True
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.settle, found, problem)

    def settle(self, found: object, problem: Exception | None) -> None:
        if self.done.done():
            return
        if problem is None:
            self.done.set_result(found)
        else:
            self.done.set_exception(problem)
            self.done.exception()  # marks it as seen: nobody may be waiting for it any more


class Threads:
    """The threads of one user."""

    def __init__(self, most: int = THREADS_MAX) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._unfinished = 0  # calls in a thread, or waiting for one
        self._staff = Staff(self._lock, most, lambda: self._unfinished, self._work)
        self._awaited: set[Call] = set()
        self._under_way: set[Call] = set()
        self._resting_s = 0.0
        self._closing: collections.deque[Callable[[], object]] = collections.deque()
        self._closers: set[Call] = set()
        self._late = 0  # descriptors to close when a call has ended
        self._watch = Watch()
        self._first: Call | None = None

    async def run(self, call: Callable[[], Done]) -> Done:
        """Makes the call in a thread. Raises what the call raises. A call that is cancelled before
        it begins is never made; one that is cancelled later loses its result."""
        return await self.wait(self.start(call))  # type: ignore[return-value]

    def start(self, call: Callable[[], object]) -> Call:
        made = Call(call, asyncio.get_running_loop())
        with self._lock:
            self._unfinished += 1
        self._calls.put(made)
        self._staff.fill()
        return made

    def start_first(self, call: Callable[[], object]) -> Call:
        """Starts the call that `after_first` waits for."""
        self._first = self.start(call)
        return self._first

    async def after_first(self) -> None:
        if self._first is not None and not self._first.done.done():
            await asyncio.wait((self._first.done,), timeout=HUNG_S)

    def watch(
        self, descriptor: int, events: int, call: Callable[[], object]
    ) -> Callable[[], object]:
        """Calls `call` once poll(2), which may hang, sees the events. Returns what ends that."""
        return self._watch.add(descriptor, events, call, asyncio.get_running_loop())

    async def wait(self, call: Call) -> object:
        self._awaited.add(call)
        try:
            return await asyncio.shield(call.done)
        except asyncio.CancelledError:
            self._drop(call)
            raise
        finally:
            self._awaited.discard(call)

    def _drop(self, call: Call) -> bool:
        """Returns False if it is too late."""
        with self._lock:
            call.is_dropped = call.is_dropped or not call.began_s
        return call.is_dropped

    def _work(self) -> None:
        while True:
            try:
                call = self._calls.get(timeout=IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._unfinished < self._staff.count:
                        self._staff.count -= 1
                        return
                continue
            with self._lock:
                if self._resting_s:  # the waiting calls are those of the next LBM
                    return
                if not call.is_dropped:
                    call.began_s = time.monotonic()
                    self._under_way.add(call)
            if call.began_s:
                call.make()
            with self._lock:
                self._unfinished -= 1
                self._under_way.discard(call)

    def rest(self) -> None:
        """No further call begins."""
        with self._lock:
            self._resting_s = time.monotonic()

    def is_settled(self) -> bool:
        """Whether, after `rest`, no call is under way except those that hung by then."""
        hung_s = self._resting_s - HUNG_S
        return all(call.began_s < hung_s and not call.is_made for call in self._awaited)

    def close(
        self,
        descriptor: int,
        after: Call | None = None,
        before: Callable[[int], object] | None = None,
    ) -> None:
        """Closes a descriptor in a thread, after the call `after` has ended: otherwise its number
        could be another descriptor's by then. `before`: called with the descriptor first."""
        close = (
            partial(close_after, before, descriptor) if before else partial(os.close, descriptor)
        )
        if after is not None and not after.done.done() and self._drop(after):
            after.settle(None, OSError(errno.EBADF, os.strerror(errno.EBADF)))
        if after is not None and not after.done.done():
            self._late += 1
            after.done.add_done_callback(lambda _: self._close_late(close))
        elif kind_of(descriptor) is DescriptorKind.MEMORY:
            os.close(descriptor)
        else:
            self._close(close)

    def discard(self, descriptor: int) -> None:
        """Closes a received descriptor that was never used, so that no socket lingers."""
        self._close(partial(close_descriptor, descriptor))

    def finish(self, sock: socket.socket) -> None:
        """Closes a connection of the user's. It may still hold any number of descriptors."""
        if is_at_end(sock):
            sock.close()
            return
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        self._close(partial(close_with_descriptors, sock))

    def _close_late(self, close: Callable[[], object]) -> None:
        self._late -= 1
        self._close(close)

    def _close(self, close: Callable[[], object]) -> None:
        """A closing thread goes on to the next descriptor; another starts only if all are busy."""
        self._closing.append(close)
        if all(closer.began_s for closer in self._closers):
            closer = self.start(self._close_all)
            self._closers.add(closer)
            closer.done.add_done_callback(lambda _: self._closers.discard(closer))

    def _close_all(self) -> None:
        """Runs in a thread."""
        while True:
            try:
                close = self._closing.popleft()
            except IndexError:
                return
            with contextlib.suppress(OSError):
                close()

    @property
    def are_stuck(self) -> bool:
        """Whether so many calls of the user hang that no more descriptors are accepted."""
        closing = sum(closer.began_s > 0 for closer in self._closers)
        if len(self._closing) + closing + self._late >= CLOSING_MAX:
            return True
        late_s = time.monotonic() - STUCK_S
        with self._lock:
            hung = sum(call.began_s < late_s for call in self._under_way)
        return hung >= self._most

    def why_stuck(self) -> str:
        return STUCK if (self._unfinished or self._late) and self.are_stuck else ""


class Watch:
    """One thread of a user that polls descriptors that cannot be polled in the event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: dict[int, tuple[int, Callable[[], object]]] = {}  # by our duplicate
        self._wake = -1

    @property
    def is_busy(self) -> bool:
        return self._wake >= 0

    def add(
        self,
        descriptor: int,
        events: int,
        call: Callable[[], object],
        loop: asyncio.AbstractEventLoop,
    ) -> Callable[[], object]:
        """Raises OSError."""
        # The thread closes the duplicate: otherwise its number could be reused while the thread
        # polls it.
        own = os.dup(descriptor)
        with self._lock:
            self._wanted[own] = events, lambda: loop.call_soon_threadsafe(call)
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)
            elif not self._begin():
                del self._wanted[own]
                os.close(own)
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return lambda: self._forget(own)

    def _begin(self) -> bool:
        """Returns whether there is a thread now."""
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        if is_started(threading.Thread(target=self._work, name="lbm-watch", daemon=True)):
            return True
        os.close(self._wake)
        self._wake = -1
        return False

    def _forget(self, own: int) -> None:
        with self._lock:
            if own in self._wanted:
                self._wanted[own] = 0, lambda: None
                os.eventfd_write(self._wake, 1)

    def _work(self) -> None:
        while wanted := self._all_wanted():
            poll = select.poll()
            poll.register(self._wake, select.POLLIN)
            for own, (events, _) in wanted.items():
                poll.register(own, events)
            ready = [number for number, _ in poll.poll() if number != self._wake]
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._wake)
            for own in ready:
                self._done(own)

    def _all_wanted(self) -> dict[int, tuple[int, Callable[[], object]]]:
        """Returns the duplicates to poll; if there are none, the thread ends."""
        with self._lock:
            given_up = [own for own, (events, _) in self._wanted.items() if not events]
        for own in given_up:
            self._done(own)
        with self._lock:
            if not self._wanted:
                os.close(self._wake)
                self._wake = -1
            return dict(self._wanted)

    def _done(self, own: int) -> None:
        with self._lock:
            _, call = self._wanted.pop(own)
        os.close(own)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            call()


class UserThreads:
    """The threads of all users. A user's entry lasts as long as anybody holds what `of` returned,
    or a call is under way."""

    def __init__(self) -> None:
        self._of: weakref.WeakValueDictionary[int | str, Threads] = weakref.WeakValueDictionary()

    def of(self, user: int | str) -> Threads:
        """Returns the threads of a user: by number for a user on this host, by name for one whose
        command came here."""
        user = person_of(user) if isinstance(user, int) else user
        found = self._of.get(user)
        if found is None:
            found = self._of[user] = Threads()
        return found

    def rest(self) -> None:
        for threads in list(self._of.values()):
            threads.rest()

    def are_settled(self) -> bool:
        return all(threads.is_settled() for threads in list(self._of.values()))


def close_after(call: Callable[[int], object], descriptor: int) -> None:
    try:
        call(descriptor)
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class StdFds:
    """The caller's descriptors, ours to close; None if the caller has none or keeps it."""

    stdin: Fd | None = None
    stdout: Fd | None = None
    stderr: Fd | None = None

    def copy(self) -> "StdFds":
        """Returns duplicates of our own, to `close`. Raises OSError."""
        return StdFds(*(None if fd is None else Fd(os.dup(fd)) for fd in self._all()))

    def close(self, threads: Threads) -> None:
        for descriptor in self._all():
            if descriptor is not None:
                threads.close(descriptor)

    def why_not(self, uid: int) -> str:
        """Why a command of this user could not use one of them; "" if it can use all."""
        given = (
            ("standard input", self.stdin, None),
            ("standard output", self.stdout, uid),
            ("standard error", self.stderr, uid),
        )
        faults = (why_not(name, fd, writer) for name, fd, writer in given if fd is not None)
        return next(filter(None, faults), "")

    def _all(self) -> tuple[Fd | None, ...]:
        return self.stdin, self.stdout, self.stderr
