"""Ends attempts of the queue whose lease has expired. Does not wake up while none is held."""

import asyncio
from collections.abc import Callable, Iterable
from logging import getLogger

from lbd.lbm.core import execution_events as e
from lbd.lbm.core.execution import Timer
from lbd.lbm.queue.attempt import Attempt
from lbd.process.boot_clock import clock_s
from lbd.process.job_log import JobLog

WATCH_S = 0.1  # polled, since the leases' clock runs on while the machine sleeps

job_log = JobLog(getLogger("lbd.lbm"))


class LeaseWatch:
    def __init__(self, held: Callable[[], Iterable[Attempt]]) -> None:
        self._held = held
        self._is_any_held = asyncio.Event()

    def changed(self, is_any_held: bool) -> None:
        if is_any_held:
            self._is_any_held.set()
        else:
            self._is_any_held.clear()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await self._is_any_held.wait()
            now_s = clock_s()
            for attempt in list(self._held()):
                until_s = attempt.execution.timers.get(Timer.LEASE)
                if until_s is not None and until_s <= now_s:
                    job_log.warning(attempt.shown, "its lease has expired; ending it")
                    attempt.feed(e.Tick())
            await asyncio.sleep(WATCH_S)
