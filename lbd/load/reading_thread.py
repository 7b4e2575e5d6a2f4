"""Reads a file of /proc many times a second, in a thread that does nothing else.

After each pause the processor's caches are cold, so what a reading costs is the code it runs
through. A sleep and a read are half of what a timer of the event loop comes to, and all readings of
a second are understood at once.
"""

import threading
from collections import deque
from collections.abc import Callable

UNTAKEN_MAX = 1000  # more are not kept while nobody takes them


class ReadingThread:
    def __init__(self, read: Callable[[], bytes], pause_s: Callable[[], float]) -> None:
        """`pause_s`: returns the time to the next reading."""
        self._read, self._pause_s = read, pause_s
        self._untaken: deque[bytes] = deque(maxlen=UNTAKEN_MAX)
        self._ended = threading.Lock()  # not an Event, whose `wait` is long code
        self._thread = threading.Thread(target=self._run, name="readings", daemon=True)

    def start(self) -> None:
        """Raises RuntimeError where no thread can be had."""
        self._ended.acquire()
        self._thread.start()

    def end(self) -> None:
        self._ended.release()
        self._thread.join()

    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def take(self) -> list[bytes]:
        """Returns what was read since the last call."""
        return [self._untaken.popleft() for _ in range(len(self._untaken))]

    def _run(self) -> None:
        while not self._ended.acquire(timeout=self._pause_s()):
            self._untaken.append(self._read())
