"""Limits on one local user's use of a daemon's JSON socket, so that the others are served.

Questions beyond the rate wait for their turn. Connections beyond the limit are refused with one
line, and so are those that send no complete question for a minute. This host's daemons and root,
who could stop this daemon anyway, are only limited in their outstanding questions.
"""

import time
from collections import Counter, deque
from typing import TYPE_CHECKING

from lbd.local import frames
from lbd.local.caller import Caller
from lbd.local.rate_limit import Rates, turns_of

if TYPE_CHECKING:
    from collections.abc import Callable

RATE_PER_S = 500.0
CONNECTIONS_MAX = 128  # of one user
ALL_CONNECTIONS_MAX = 1024  # of all users
QUESTION_MAX_BYTES = 1 << 16
DAEMON_QUESTION_MAX_BYTES = 1 << 20
OUTSTANDING_MAX = 64  # questions of one connection; more are read when some are answered
OUTSTANDING_DAEMON_MAX = 4096
IDLE_S = 60.0


class Questions:
    """The questions of one connection as they arrive. A limited number is processed at once, fewer
    if they are long. The others stay unparsed, which takes the least memory."""

    def __init__(self, most: int, most_bytes: int) -> None:
        """`most_bytes`: of one question; also of all in progress, not counting the last one."""
        self._split = frames.Splitter(most_bytes)
        self._most, self._most_bytes = most, most_bytes
        self._waiting: deque[tuple[bytes, bytes]] = deque()
        self._count = self._held_bytes = 0

    def feed(self, data: bytes) -> bool:
        """Returns whether any wait. Raises ValueError if one is too long."""
        self._waiting += self._split.feed(data, OUTSTANDING_MAX if not self._waiting else 0)
        return bool(self._waiting)

    def next(self) -> tuple[bytes, bytes] | None:
        """Returns the next question, which counts as in progress; None if none is complete. Raises
        ValueError."""
        if not self._waiting and not self.feed(b""):
            return None
        self._count += 1
        self._held_bytes += len(self._waiting[0][1])
        return self._waiting.popleft()

    def answered(self, size_bytes: int) -> None:
        self._count -= 1
        self._held_bytes -= size_bytes

    @property
    def has_room(self) -> bool:
        return self._count < self._most and self._held_bytes < self._most_bytes


class Crowd:
    def __init__(
        self,
        rate_per_s: float = RATE_PER_S,
        is_exempt: "Callable[[Caller], bool]" = lambda caller: caller.is_daemon,
    ) -> None:
        self._rates = Rates(rate_per_s, 2 * rate_per_s)
        self._is_exempt = is_exempt
        self._connections: Counter[int] = Counter()
        self._crowd = 0  # connections of all callers that are not exempt

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

    def questions(self, caller: Caller) -> "Questions":
        """Returns the queue for a new connection."""
        is_exempt = self._is_exempt(caller)
        most = OUTSTANDING_DAEMON_MAX if is_exempt else OUTSTANDING_MAX
        return Questions(most, self.question_max_bytes(caller))

    def idle_s(self, caller: Caller) -> float | None:
        """Returns the seconds a connection may be silent; None = for ever."""
        return None if self._is_exempt(caller) else IDLE_S

    def turn_s(self, caller: Caller, size_bytes: int) -> float:
        """Returns the seconds to wait before a question is processed."""
        if self._is_exempt(caller):
            return 0.0
        turns = turns_of(size_bytes)
        return self._rates.turn_s(caller.person, time.monotonic(), float("inf"), turns) or 0.0
