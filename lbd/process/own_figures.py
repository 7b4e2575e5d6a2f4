"""A daemon's metrics about its own process.

The lateness of its event loop's timers is measured only while somebody asks, so a daemon whose
metrics nobody wants is not woken up.
"""

import asyncio
import os
import resource
import time

from lbd.metrics.core.histogram import Histogram
from lbd.metrics.core.table import LAGS_S

TICK_S = 0.5
UNASKED_S = 180.0  # measurements stop this long after the last question
STARTED_S = time.time()
PAGE_BYTES = resource.getpagesize()


class OwnFigures:
    def __init__(self) -> None:
        self._lags = Histogram(LAGS_S)
        self._until_s = 0.0
        self._due_s: float | None = None  # when the timer is due; None: none is set

    def answer(self) -> dict[str, object]:
        self._until_s = time.monotonic() + UNASKED_S
        if not self.is_measuring:
            self._set_timer()
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "process_cpu_seconds": used.ru_utime + used.ru_stime,
            "process_resident_memory_bytes": resident_bytes(),
            "process_open_fds": len(os.listdir("/proc/self/fd")),
            "process_max_fds": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "process_start_time_seconds": STARTED_S,
            "event_loop_lag_seconds": self._lags.answer(),
        }

    @property
    def is_measuring(self) -> bool:
        return self._due_s is not None

    def _set_timer(self) -> None:
        self._due_s = time.monotonic() + TICK_S
        asyncio.get_running_loop().call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        assert self._due_s is not None
        now_s = time.monotonic()
        self._lags.note(max(0.0, now_s - self._due_s))
        self._due_s = None
        if now_s < self._until_s:
            self._set_timer()


def resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * PAGE_BYTES
