"""Calls that may never return, each user's in threads of that user's own.

A read from a file of a dead file server, of the user's own FUSE or of a strange device can wait for
ever, and so can its close. No such call is made in the event loop, and no user can take the threads
of another: whose calls hang waits for them alone. The threads are daemons, so that neither the end
of this process nor a hand-over to the next waits for one that hangs.
"""

import asyncio
import contextlib
import errno
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from lbd.lbm.kinds import kind_of
from lbd.rpc.unwanted import close_descriptor

THREADS_MAX = 8  # of one user
IDLE_S = 10.0  # then a thread ends
HUNG_S = 0.5  # a call that has lasted longer is not waited for
CLOSING_MAX = 64  # descriptors of one user that hang as they are closed
STUCK = "too many of your files and devices do not answer (a file server that is down?)"

Done = TypeVar("Done")


class Call:
    """One in a thread, or waiting for one."""

    __slots__ = ("_call", "_loop", "began_s", "done", "is_dropped")

    def __init__(self, call: Callable[[], object], loop: asyncio.AbstractEventLoop) -> None:
        self._call = call
        self._loop = loop
        self.done: asyncio.Future[object] = loop.create_future()
        self.began_s = 0.0  # 0: it has not begun
        self.is_dropped = False  # it never will

    def make(self) -> None:
        """In a thread."""
        try:
            found, problem = self._call(), None
        except Exception as raised:
            found, problem = None, raised
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.settle, found, problem)

    def settle(self, found: object, problem: Exception | None) -> None:
        if self.done.done():
            return
        if problem is None:
            self.done.set_result(found)
        else:
            self.done.set_exception(problem)
            self.done.exception()  # nobody may be waiting for it any more


class Threads:
    """Those of one user."""

    def __init__(self, most: int = THREADS_MAX) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._unfinished = 0  # in a thread, or waiting for one
        self._threads = 0
        self._rests = False
        self._awaited: set[Call] = set()
        self._closing = 0

    async def run(self, call: Callable[[], Done]) -> Done:
        """In a thread. Raises what it raises. Cancelled before it has begun it never does; else its
        result is lost."""
        return await self.wait(self.start(call))  # type: ignore[return-value]

    def start(self, call: Callable[[], object]) -> Call:
        made = Call(call, asyncio.get_running_loop())
        with self._lock:
            self._unfinished += 1
            is_short = self._unfinished > self._threads and self._threads < self._most
            self._threads += is_short
        if is_short:
            threading.Thread(target=self._work, name="lbm-user", daemon=True).start()
        self._calls.put(made)
        return made

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
        """False: it is too late."""
        with self._lock:
            call.is_dropped = call.is_dropped or not call.began_s
        return call.is_dropped

    def _work(self) -> None:
        while True:
            try:
                call = self._calls.get(timeout=IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._unfinished < self._threads:
                        self._threads -= 1
                        return
                continue
            with self._lock:
                if self._rests:  # the calls that wait are those of the next LBM
                    return
                if not call.is_dropped:
                    call.began_s = time.monotonic()
            if call.began_s:
                call.make()
            with self._lock:
                self._unfinished -= 1

    def rest(self) -> None:
        """No further call begins."""
        with self._lock:
            self._rests = True

    def is_settled(self) -> bool:
        """Is no call under way, but such as hang?"""
        late_s = time.monotonic() - HUNG_S
        return all(call.began_s < late_s for call in self._awaited)

    def close(self, descriptor: int, after: Call | None = None) -> None:
        """Not in the event loop if that may hang, and not before the call `after` is over: by then
        its number could be another descriptor's."""
        if after is not None and not after.done.done() and self._drop(after):
            after.settle(None, OSError(errno.EBADF, os.strerror(errno.EBADF)))
        if after is not None and not after.done.done():
            self._closing += 1
            after.done.add_done_callback(lambda _: self._close_late(descriptor))
        elif kind_of(descriptor).closes_at_once:
            os.close(descriptor)
        else:
            self._closing += 1
            self._close_late(descriptor)

    def discard(self, descriptor: int) -> None:
        """One that was sent, and that nobody has used: a socket does not linger then."""
        self._closing += 1
        made = self.start(lambda: close_descriptor(descriptor))
        made.done.add_done_callback(self._closed)

    def _close_late(self, descriptor: int) -> None:
        self.start(lambda: os.close(descriptor)).done.add_done_callback(self._closed)

    def _closed(self, _: object) -> None:
        self._closing -= 1

    @property
    def are_stuck(self) -> bool:
        """Has the user so many descriptors here that hang that no more are taken?"""
        return self._closing >= CLOSING_MAX

    def why_stuck(self) -> str:
        return STUCK if self.are_stuck else ""


class UserThreads:
    """Of all users."""

    def __init__(self) -> None:
        self._of: dict[int, Threads] = {}

    def of(self, uid: int) -> Threads:
        found = self._of.get(uid)
        if found is None:
            found = self._of[uid] = Threads()
        return found

    def rest(self) -> None:
        for threads in self._of.values():
            threads.rest()

    def are_settled(self) -> bool:
        return all(threads.is_settled() for threads in self._of.values())


def close_unseen(descriptors: list[int]) -> None:
    """Whose they are is not known: in a thread of their own."""
    if descriptors:
        threading.Thread(target=_close_all, args=(descriptors,), daemon=True).start()


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
