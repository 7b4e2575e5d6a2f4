"""Descriptors that users have sent and nobody asked for, closed where that holds up nobody."""

import contextlib
import os
import queue
import socket
import struct
import threading

IDLE_S = 10.0  # then a thread ends
NO_LINGER = struct.pack("ii", 0, 0)


def close_descriptor(descriptor: int) -> None:
    """Without lingering, if it is a socket. In a thread: its user may be quicker than we are."""
    with contextlib.suppress(OSError):
        held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=descriptor)
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        finally:
            held.detach()
    with contextlib.suppress(OSError):
        os.close(descriptor)


class Unwanted:
    """Descriptors that nobody asked for: those of each user are closed in a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[int, queue.SimpleQueue[int]] = {}

    def close(self, uid: int, descriptors: list[int]) -> None:
        if not descriptors:
            return
        with self._lock:
            waiting = self._of.get(uid)
            is_new = waiting is None
            waiting = self._of.setdefault(uid, queue.SimpleQueue())
            for descriptor in descriptors:
                waiting.put(descriptor)
        if is_new:
            thread = threading.Thread(target=self._work, args=(uid, waiting), daemon=True)
            thread.start()

    def _work(self, uid: int, waiting: "queue.SimpleQueue[int]") -> None:
        while True:
            try:
                descriptor = waiting.get(timeout=IDLE_S)
            except queue.Empty:
                with self._lock:
                    if waiting.empty():
                        del self._of[uid]
                        return
                continue
            close_descriptor(descriptor)


UNWANTED = Unwanted()
