"""Of what another host says, how much of our time it may take: half, whatever it is.

By number and bytes alone one host's messages could be all that a daemon does, for some cost far
more than others that are as long. So each is charged what it has taken. Who has had its share waits
for its next turn, and others have theirs meanwhile.
"""

import asyncio
import time
from collections.abc import Callable, Hashable

from lbd.local.rate_limit import Rates

SHARE, BURST_S = 0.5, 1.0
BLOCKED_S_MAX = 0.1  # of what one message has waited for: a disk, and not the load of this machine
FOR_EVER_S = float("inf")


class TimeShares(Rates):
    """Rates of seconds."""

    def __init__(
        self,
        share: float = SHARE,
        burst_s: float = BURST_S,
        clock_s: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        super().__init__(share, burst_s)
        self._clock_s, self._cpu_s = clock_s, cpu_s

    def spending(self, host: Hashable) -> "Spending":
        """Charges what is done meanwhile, which awaits nothing, to that host."""
        return Spending(self, host)

    def taken_s(self) -> tuple[float, float]:
        """All that has passed until now, and what of that was CPU time of ours."""
        return self._clock_s(), self._cpu_s()

    def charge(self, host: Hashable, seconds: float) -> None:
        self.turn_s(host, self._clock_s(), FOR_EVER_S, seconds)

    async def turn(self, host: Hashable) -> None:
        """Waits until more of it may be heard: of many that wait, one may take all the time."""
        while wait_s := self.turn_s(host, self._clock_s(), FOR_EVER_S, 0.0):  # noqa: ASYNC110
            await asyncio.sleep(wait_s)


class Spending:
    __slots__ = (
        "_began_cpu_s",
        "_began_s",
        "_host",
        "_shares",
    )  # no generator: each message has it

    def __init__(self, shares: TimeShares, host: Hashable) -> None:
        self._shares, self._host = shares, host

    def __enter__(self) -> None:
        self._began_s, self._began_cpu_s = self._shares.taken_s()

    def __exit__(self, *_: object) -> None:
        now_s, cpu_s = self._shares.taken_s()
        most_s = cpu_s - self._began_cpu_s + BLOCKED_S_MAX
        self._shares.turn_s(self._host, now_s, FOR_EVER_S, min(now_s - self._began_s, most_s))
