"""What one local user may have of a daemon's JSON socket, so that the others get theirs.

Questions beyond the rate wait for their turn; connections beyond the limit are refused with one
line, and so are those that say nothing whole for a minute. The daemons of this host and root, who
could stop this daemon anyway, are bounded by what they have outstanding alone.
"""

import time
from collections import Counter
from typing import TYPE_CHECKING

from lbd.rates import Rates

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbd.rpc.local import Caller

RATE_PER_S = 500.0
CONNECTIONS_MAX = 128  # of one user
OUTSTANDING_MAX = 64  # questions of one connection; more are read when some are answered
OUTSTANDING_DAEMON_MAX = 4096
IDLE_S = 60.0


class Crowd:
    def __init__(
        self,
        rate_per_s: float = RATE_PER_S,
        is_exempt: "Callable[[Caller], bool]" = lambda caller: caller.is_daemon,
    ) -> None:
        self._rates = Rates(rate_per_s, 2 * rate_per_s)
        self._is_exempt = is_exempt
        self._connections: Counter[int] = Counter()

    def why_not(self, caller: "Caller") -> str:
        """Why it is refused a connection, or "": then it has one more."""
        if not self._is_exempt(caller) and self._connections[caller.uid] >= CONNECTIONS_MAX:
            return f"user {caller.uid} has {CONNECTIONS_MAX} connections here already"
        self._connections[caller.uid] += 1
        return ""

    def left(self, caller: "Caller") -> None:
        self._connections[caller.uid] -= 1
        if not self._connections[caller.uid]:
            del self._connections[caller.uid]

    def outstanding_max(self, caller: "Caller") -> int:
        return OUTSTANDING_DAEMON_MAX if self._is_exempt(caller) else OUTSTANDING_MAX

    def idle_s(self, caller: "Caller") -> float | None:
        """How long it may be silent; None: for ever."""
        return None if self._is_exempt(caller) else IDLE_S

    def turn_s(self, caller: "Caller") -> float:
        """In how many seconds its question is to be answered."""
        if self._is_exempt(caller):
            return 0.0
        return self._rates.turn_s(caller.uid, time.monotonic(), float("inf")) or 0.0
