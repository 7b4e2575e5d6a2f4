"""A command that the owner of its host has sent away, to begin anew on another. Pure.

Nothing has come in or out of it, so nobody can tell; but it cannot begin here, for its `lbrun` has
given its descriptors away. Where no other host takes it just now it waits for one that does, also
for the one it came from, once the owner is gone.
"""

from typing import TYPE_CHECKING

from lbd.errors import Unavailable
from lbd.model import HostId

if TYPE_CHECKING:
    from lbd.lbm.client import Ends
    from lbd.lbm.user_threads import Threads

LOOK_S = 1.0  # while it waits the hosts are asked again so often


class SentAway:
    def __init__(self, limit_s: float) -> None:
        """`limit_s`: how long it waits at most."""
        self.ends: Ends | None = None  # the client's, while it may begin once more
        self.host = HostId("")  # "": it has not been sent away
        self._limit_s = limit_s
        self._give_up_s = 0.0
        self._has_told = False

    def happens(self, host: HostId, now_s: float) -> None:
        self.host, self._has_told = host, False
        self._give_up_s = now_s + self._limit_s

    def nobody_takes_it(self, why: str, now_s: float) -> str:
        """What its `lbrun` is told of that, "" if it knows. Raises Unavailable once it has waited
        long enough."""
        if now_s >= self._give_up_s:
            within = f"no host took it within {self._limit_s:g} s (lbm.sent_away_wait_s)"
            raise Unavailable(f"the owner of {self.host} is back, and {within}: {why}")
        if self._has_told:
            return ""
        self._has_told = True
        return f"the owner of {self.host} is back; it waits for a host that takes it: {why}"

    def close(self, threads: "Threads") -> None:
        if self.ends is not None:
            self.ends.close(threads)
