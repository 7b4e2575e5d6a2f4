"""How many threads a user has for calls that may never return (user_threads.py)."""

import asyncio
import threading
from collections.abc import Callable

from lbd.local.unwanted_descriptors import is_started

AGAIN_S = 0.2  # after so long another thread is tried, if none could be started


class Staff:
    """Begins the threads of one user, as many as there are calls. Where the host has none to spare,
    as any user can bring about, calls wait until one can be had."""

    def __init__(
        self,
        lock: threading.Lock,
        most: int,
        calls: Callable[[], int],
        work: Callable[[], None],
    ) -> None:
        """`calls`: asked with the lock."""
        self._lock, self._most, self._calls, self._work = lock, most, calls, work
        self.count = 0
        self._tries_later = False

    def fill(self) -> None:
        while self._is_short():
            if not is_started(threading.Thread(target=self._work, name="lbm-user", daemon=True)):
                return self._try_later()

    def _is_short(self) -> bool:
        """If so, one more thread counts from now on."""
        with self._lock:
            is_short = self._calls() > self.count and self.count < self._most
            self.count += is_short
        return is_short

    def _try_later(self) -> None:
        with self._lock:
            self.count -= 1
        if not self._tries_later:
            self._tries_later = True
            asyncio.get_running_loop().call_later(AGAIN_S, self._try_again)

    def _try_again(self) -> None:
        self._tries_later = False
        self.fill()
