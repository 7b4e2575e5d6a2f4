"""Limits how often each of many keys may act, and how much time that may take.

Each key may act `rate_per_s` times a second on average and `burst` times at once. Beyond that it
waits its turn, and is refused only if the wait would be longer than it accepts. So honest bursts
are not affected, a flood is spread out, and no key's flood takes another's turn. The state is one
number per key (the moment by which all its turns so far would be due: GCRA), for at most `max_keys`
keys. A key not seen for as long as a burst takes is as good as new and is forgotten.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from typing import TypeVar

from lbd.local.steps import Steps

KEYS_MAX = 4096
ROUNDING = 1e-6  # fraction of a turn
TURN_BYTES = 1 << 14
SHARE, BURST_S = 0.5, 1.0
# charged for the wait of one message: for a disk, but not for the load of this machine
BLOCKED_S_MAX = 0.1
FOR_EVER_S = float("inf")
# A submission carries its job's standard input and costs the dispatcher a disk write, which is less
# than receiving as much line by line.
CHEAPER = 16
CALL_BYTES = CHEAPER * TURN_BYTES
AT_ONCE_S, TURNS_MIN = 4, 1 / 16
PATIENCE_S = 8.0  # less than askers wait for an answer
USER_SHARE = 0.5
Item = TypeVar("Item")


def turns_of(size_bytes: int, turn_bytes: int = TURN_BYTES) -> float:
    """Returns the number of turns for a message of that length, since reading takes longer the
    longer it is."""
    return max(1.0, size_bytes / turn_bytes)


class Rates:
    def __init__(self, rate_per_s: float, burst: float, max_keys: int = KEYS_MAX) -> None:
        self._gap_s = 1.0 / rate_per_s
        self._ahead_s = burst / rate_per_s
        self._max_keys = max_keys
        self._due_s: dict[Hashable, float] = {}

    def turn_s(
        self, key: Hashable, now_s: float, patience_s: float, turns: float = 1.0
    ) -> float | None:
        """Returns the seconds until the key's turn, 0 = now; None if that exceeds `patience_s`.
        `turns`: how many turns the action takes."""
        due_s = max(self._due_s.get(key, now_s), now_s) + turns * self._gap_s
        wait_s = due_s - self._ahead_s - now_s
        if wait_s < self._gap_s * ROUNDING:
            wait_s = 0.0
        if wait_s > patience_s:
            return None
        if key not in self._due_s and len(self._due_s) >= self._max_keys:
            self._forget(now_s)
        self._due_s[key] = due_s
        return wait_s

    def _forget(self, now_s: float) -> None:
        """Drops idle keys, or the least busy half if all are busy."""
        self._due_s = {key: due_s for key, due_s in self._due_s.items() if due_s > now_s}
        if len(self._due_s) >= self._max_keys:
            busiest = sorted(self._due_s.items(), key=lambda item: item[1])
            self._due_s = dict(busiest[len(busiest) // 2 :])

    def __len__(self) -> int:
        return len(self._due_s)


class TimeShares(Rates):
    """Limits the share of our time that messages of one host may take: half.

    By number and bytes alone, one host's messages could take all of a daemon's time, because some
    cost far more than others of the same length. So each host is charged the time it took. A host
    that used up its share waits for its next turn, while others get theirs.
    """

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
        """Charges the work done in this context, which must not await, to that host."""
        return Spending(self, host)

    def taken_s(self) -> tuple[float, float]:
        """Returns the clock and our CPU time."""
        return self._clock_s(), self._cpu_s()

    def charge(self, host: Hashable, seconds: float) -> None:
        self.turn_s(host, self._clock_s(), FOR_EVER_S, seconds)

    async def turn(self, host: Hashable) -> None:
        """Waits until more of this host's messages may be handled; rechecks, since another of its
        waiting messages may have used up the time."""
        while wait_s := self.turn_s(host, self._clock_s(), FOR_EVER_S, 0.0):  # noqa: ASYNC110
            await asyncio.sleep(wait_s)

    async def in_turns(self, host: Hashable, items: Iterable[Item]) -> AsyncIterator[Item]:
        """Yields the parts of a message that had its turn: the work on each is charged to that
        host, and after a step it waits for its next turn."""
        steps = Steps(items, self._clock_s)
        while steps.is_left:
            with self.spending(host):
                for item in steps:
                    yield item
            if steps.is_left:
                await asyncio.sleep(0)
                await self.turn(host)


class Spending:
    __slots__ = (
        "_began_cpu_s",
        "_began_s",
        "_host",
        "_shares",
    )  # a class, not a generator: each message uses it

    def __init__(self, shares: TimeShares, host: Hashable) -> None:
        self._shares, self._host = shares, host

    def __enter__(self) -> None:
        self._began_s, self._began_cpu_s = self._shares.taken_s()

    def __exit__(self, *_: object) -> None:
        now_s, cpu_s = self._shares.taken_s()
        most_s = cpu_s - self._began_cpu_s + BLOCKED_S_MAX
        self._shares.turn_s(self._host, now_s, FOR_EVER_S, min(now_s - self._began_s, most_s))


class CallRates:
    """Limits what askers may request of the dispatcher, by the bytes of their calls and the
    answers. The dispatcher limits each host to `dispatch.host_bytes_per_s`, and each host's LBM
    limits each of its users to half of that, so that no user blocks the others of that host."""

    def __init__(self, bytes_per_s: float) -> None:
        per_s = bytes_per_s / TURN_BYTES
        self._rates = Rates(per_s, AT_ONCE_S * per_s)

    def wait_s(self, key: Hashable, size_bytes: int, now_s: float) -> float | None:
        """Returns the wait before a call of that size; None if it would be too long, and then the
        call is not charged."""
        turns = max(TURNS_MIN, size_bytes / CALL_BYTES)
        return self._rates.turn_s(key, now_s, PATIENCE_S, turns)

    def answered(self, key: Hashable, size_bytes: int, now_s: float) -> None:
        """Charges the size of an answer to the next calls."""
        self._rates.turn_s(key, now_s, FOR_EVER_S, size_bytes / CALL_BYTES)
