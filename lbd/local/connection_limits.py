"""What one local user may have of a daemon's JSON socket, so that the others get theirs.

Questions beyond the rate wait for their turn; connections beyond the limit are refused with one
line, and so are those that say nothing whole for a minute. The daemons of this host and root, who
could stop this daemon anyway, are bounded by what they have outstanding alone.
"""

import time
from collections import Counter
from typing import TYPE_CHECKING

from lbd.local.caller import Caller
from lbd.local.rate_limit import Rates, turns_of

if TYPE_CHECKING:
    from collections.abc import Callable

RATE_PER_S = 500.0
CONNECTIONS_MAX = 128  # of one user
ALL_CONNECTIONS_MAX = 1024  # of all of them
QUESTION_MAX_BYTES = 1 << 16
DAEMON_QUESTION_MAX_BYTES = 1 << 20
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
        self._crowd = 0  # connections of all who are not exempt

    def why_not(self, caller: Caller) -> str:
        """Returns why a connection is refused; "" if it was admitted."""
        if not self._is_exempt(caller):
            if self._connections[caller.person] >= CONNECTIONS_MAX:
                return f"user {caller.person} already has {CONNECTIONS_MAX} connections here"
            if self._crowd >= ALL_CONNECTIONS_MAX:
                return f"{ALL_CONNECTIONS_MAX} user connections are already open here"
            self._crowd += 1
        self._connections[caller.person] += 1
        return ""

    def left(self, caller: Caller) -> None:
        self._crowd -= not self._is_exempt(caller)
        self._connections[caller.person] -= 1
        if not self._connections[caller.person]:
            del self._connections[caller.person]

    def question_max_bytes(self, caller: Caller) -> int:
        return DAEMON_QUESTION_MAX_BYTES if self._is_exempt(caller) else QUESTION_MAX_BYTES

    def outstanding_max(self, caller: Caller) -> int:
        return OUTSTANDING_DAEMON_MAX if self._is_exempt(caller) else OUTSTANDING_MAX

    def idle_s(self, caller: Caller) -> float | None:
        """The seconds a connection may be silent; None = for ever."""
        return None if self._is_exempt(caller) else IDLE_S

    def turn_s(self, caller: Caller, size_bytes: int) -> float:
        """The seconds within which a question is to be read and answered."""
        if self._is_exempt(caller):
            return 0.0
        turns = turns_of(size_bytes)
        return self._rates.turn_s(caller.person, time.monotonic(), float("inf"), turns) or 0.0
