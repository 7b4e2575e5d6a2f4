"""Closes descriptors that users sent unasked, in threads, where a slow close delays nobody."""

import collections
import contextlib
import functools
import os
import queue
import socket
import struct
import threading
from collections.abc import Callable

from lbd.local.descriptors import is_at_end, receive

READ_BYTES = 1 << 16
IDLE_S = 10.0  # after which a thread ends
WAITING_MAX = 512  # per user
PATIENCE_S = 0.05  # per descriptor being closed, while others wait
NO_LINGER = struct.pack("ii", 0, 0)
UNCLOSED: collections.deque[int] = collections.deque()  # by `close_apart`


def close_descriptor(descriptor: int) -> None:
    """Closes a descriptor without lingering, if it is a socket. Runs in a thread, since its user
    may set that option back in between."""
    with contextlib.suppress(OSError):
        held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=descriptor)
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        finally:
            held.detach()
    with contextlib.suppress(OSError):
        os.close(descriptor)


def close_with_descriptors(sock: socket.socket) -> None:
    """Closes a user's connection and, one by one, the descriptors still in it. Runs in a thread."""
    with contextlib.suppress(OSError):
        while found := receive(sock, READ_BYTES):
            for descriptor in found[1]:
                close_descriptor(descriptor)
            if not found[0]:
                break
    sock.close()


def close_apart(descriptors: list[int]) -> None:
    """Closes descriptors of unknown owners in threads, so that none that hangs delays another.
    Where no thread can be had at the moment, they stay open until the next time."""
    if descriptors:
        UNCLOSED.extend(descriptors)
        is_started(threading.Thread(target=_close_apart, args=(UNCLOSED,), daemon=True))


def is_started(thread: threading.Thread) -> bool:
    """Starts the thread. Returns False where this process, its user or the host has as many as it
    may: any user of the host can bring that about."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


def _close_apart(left: collections.deque[int]) -> None:
    while left:
        closer = threading.Thread(target=_close_all, args=(left,), daemon=True)
        if not is_started(closer):
            return
        before = -1
        while left and before != (before := len(left)):
            closer.join(PATIENCE_S)


def _close_all(left: collections.deque[int]) -> None:
    with contextlib.suppress(IndexError):
        while True:
            descriptor = left.popleft()
            with contextlib.suppress(OSError):
                os.close(descriptor)


class Unwanted:
    """Closes unwanted descriptors, and connections that may hold some, in one thread per user."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[int, queue.SimpleQueue[Callable[[], None]]] = {}
        self._unserved: set[int] = set()  # those for whom no thread could be started

    def is_full(self, uid: int) -> bool:
        """Returns whether so many closes of this user hang that nothing more is received."""
        waiting = self._of.get(uid)
        return waiting is not None and waiting.qsize() >= WAITING_MAX

    def close(self, uid: int, descriptors: list[int]) -> None:
        self._put(uid, [functools.partial(close_descriptor, one) for one in descriptors])

    def finish(self, uid: int, sock: socket.socket) -> None:
        """Closes a user's connection."""
        if is_at_end(sock):
            sock.close()
            return
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        self._put(uid, [functools.partial(close_with_descriptors, sock)])

    def _put(self, uid: int, closes: list[Callable[[], None]]) -> None:
        if not closes:
            return
        with self._lock:
            waiting = self._of.get(uid)
            is_new = waiting is None or uid in self._unserved
            self._unserved.discard(uid)
            waiting = self._of.setdefault(uid, queue.SimpleQueue())
            for close in closes:
                waiting.put(close)
        if is_new and not is_started(
            threading.Thread(target=self._work, args=(uid, waiting), daemon=True)
        ):
            with self._lock:
                self._unserved.add(uid)  # until the next time

    def _work(self, uid: int, waiting: "queue.SimpleQueue[Callable[[], None]]") -> None:
        while True:
            try:
                close = waiting.get(timeout=IDLE_S)
            except queue.Empty:
                with self._lock:
                    if waiting.empty():
                        del self._of[uid]
                        return
                continue
            close()


UNWANTED = Unwanted()
