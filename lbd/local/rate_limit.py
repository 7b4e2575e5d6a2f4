"""How often each of many may do something. Pure.

Each key may do `rate_per_s` a second on average and `burst` at once; who wants more waits its turn,
and is refused only where that would take longer than it can wait. So honest bursts are not touched,
a flood is spread out, and nobody's flood takes another's turn. What is remembered is one number a
key (the moment by which all its turns so far would be due: GCRA), and of no more keys than
`max_keys`; who has not been seen for as long as a burst takes is forgotten, being as good as new.
"""

from collections.abc import Hashable

KEYS_MAX = 4096
ROUNDING = 1e-6  # of a turn
TURN_BYTES = 1 << 14


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
