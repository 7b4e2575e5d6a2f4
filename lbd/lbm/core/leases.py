"""How long this host may continue each attempt of the queue. Pure.

The dispatcher's lease counts here from when the answered heartbeat was *sent*. At the dispatcher it
counts from when the heartbeat arrived, so this end always lets go first. Seconds are those of a
clock that nobody sets.

A lease is never shortened: the keeper and its warden hold it too, and would have to confirm that
they have let go. Heartbeats say what is left of it instead (`left_s`), and the dispatcher waits for
that.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from lbd.config.dispatch import HEARTBEAT_S_MAX, HEARTBEATS_PER_LEASE
from lbd.metrics.core.histogram import Histogram
from lbd.metrics.core.table import MARGINS_S
from lbd.model import JobId

BEATS_KEPT = 64
SOON_S = 1.0  # after a heartbeat that could not name the keeper
Key = tuple[JobId, int]  # job, attempt


@dataclass(slots=True)
class Leases:
    until_s: dict[Key, float] = field(default_factory=dict)
    _sent_s: "OrderedDict[int, float]" = field(default_factory=OrderedDict)
    _number: int = 0
    margins: Histogram = field(default_factory=lambda: Histogram(MARGINS_S))  # at renewals
    lease_s: float = 30.0  # granted now
    _last_sent_s: float = float("-inf")
    _is_whole: bool = True  # whether the last heartbeat could say all

    def heartbeat(self, now_s: float, *, is_whole: bool = True) -> int:
        """Returns the number of the heartbeat that is about to be sent."""
        self._number += 1
        self._is_whole = is_whole
        self._sent_s[self._number] = self._last_sent_s = now_s
        while len(self._sent_s) > BEATS_KEPT:
            self._sent_s.popitem(last=False)
        return self._number

    @property
    def heartbeat_due_s(self) -> float:
        most_s = HEARTBEAT_S_MAX if self._is_whole else SOON_S
        return self._last_sent_s + min(self.lease_s / HEARTBEATS_PER_LEASE, most_s)

    def are_now(self, lease_s: float) -> bool:
        """Notes what is granted now. Returns whether that has changed."""
        before_s, self.lease_s = self.lease_s, lease_s
        return lease_s != before_s

    def take(self, key: Key, anchor: int, lease_s: float, now_s: float) -> float | None:
        """Takes a new attempt, leased from the heartbeat `anchor` on. Returns until when, or None
        if the lease has already expired."""
        until_s = self._sent_s.get(anchor, float("-inf")) + lease_s
        if until_s <= now_s:
            return None
        self.until_s[key] = until_s
        return until_s

    def renew(self, number: int, keys: Iterable[Key], lease_s: float, now_s: float) -> list[Key]:
        """Returns the attempts that are renewed."""
        if number not in self._sent_s:
            return []
        until_s, renewed = self._sent_s[number] + lease_s, list[Key]()
        for key in keys:
            if key in self.until_s:
                self.margins.note(self.until_s[key] - now_s)
                self.until_s[key] = max(self.until_s[key], until_s)
                renewed.append(key)
        return renewed

    def left_s(self, key: Key, now_s: float) -> float:
        """Returns for how long the attempt may run on; 0 if it has ended."""
        return max(0.0, self.until_s.get(key, now_s) - now_s)

    def drop(self, key: Key) -> None:
        self.until_s.pop(key, None)
