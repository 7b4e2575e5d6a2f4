"""How often each of many may do something, and how much time that may take.

Each key may do `rate_per_s` a second on average and `burst` at once; who wants more waits its turn,
and is refused only where that would take longer than it can wait. So honest bursts are not touched,
a flood is spread out, and nobody's flood takes another's turn. What is remembered is one number a
key (the moment by which all its turns so far would be due: GCRA), and of no more keys than
`max_keys`; who has not been seen for as long as a burst takes is forgotten, being as good as new.
"""

import asyncio
import time
from collections.abc import Callable, Hashable

KEYS_MAX = 4096
ROUNDING = 1e-6  # of a turn
TURN_BYTES = 1 << 14
SHARE, BURST_S = 0.5, 1.0
BLOCKED_S_MAX = 0.1  # of what one message has waited for: a disk, and not the load of this machine
FOR_EVER_S = float("inf")
# A submission brings its job's standard input, and costs the dispatcher a write to the disk: less
# than to hear as much on a line.
CHEAPER = 16
CALL_BYTES = CHEAPER * TURN_BYTES
AT_ONCE_S, TURNS_MIN = 4, 1 / 16
PATIENCE_S = 8.0  # less than who asks waits for an answer
USER_SHARE = 0.5


def turns_of(size_bytes: int, turn_bytes: int = TURN_BYTES) -> float:
    """Of what has to be read, which takes the longer the longer it is."""
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
        """In how many seconds it is its turn, 0 = now; None: not within `patience_s`. `turns`: so
        many at once, for what takes as long as so many."""
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
        """Drops the idle ones, or the least busy half if all are busy."""
        self._due_s = {key: due_s for key, due_s in self._due_s.items() if due_s > now_s}
        if len(self._due_s) >= self._max_keys:
            busiest = sorted(self._due_s.items(), key=lambda item: item[1])
            self._due_s = dict(busiest[len(busiest) // 2 :])

    def __len__(self) -> int:
        return len(self._due_s)


class TimeShares(Rates):
    """Of what another host says, how much of our time it may take: half, whatever it is.

    By number and bytes alone one host's messages could be all that a daemon does, for some cost far
    more than others that are as long. So each is charged what it has taken. Who has had its share
    waits for its next turn, and others have theirs meanwhile.
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


class CallRates:
    """How much those who ask the dispatcher may ask: by the bytes that their calls bring and are
    answered. The dispatcher holds each host to `dispatch.host_bytes_per_s`, and each host's LBM
    each of its users to half of that, so that no user keeps the others of that host waiting."""

    def __init__(self, bytes_per_s: float) -> None:
        per_s = bytes_per_s / TURN_BYTES
        self._rates = Rates(per_s, AT_ONCE_S * per_s)

    def wait_s(self, key: Hashable, size_bytes: int, now_s: float) -> float | None:
        """Before a call of so many bytes; None: too long, and it does not count."""
        turns = max(TURNS_MIN, size_bytes / CALL_BYTES)
        return self._rates.turn_s(key, now_s, PATIENCE_S, turns)

    def answered(self, key: Hashable, size_bytes: int, now_s: float) -> None:
        """Charges the size of an answer to the next calls."""
        self._rates.turn_s(key, now_s, FOR_EVER_S, size_bytes / CALL_BYTES)
