"""How much of one stream of bytes may be under way: its receiver grants it.

A stream begins with `FIRST_WINDOW_BYTES`. Its window doubles as the receiver writes on, as long as
the budget of whose stream it is has room: so what somebody does not read is bounded by the budget,
and what is read flows.
"""

from collections.abc import Callable

from lbd.lbm.link.wire import ACKNOWLEDGE_SHARE, FIRST_WINDOW_BYTES, WINDOW_BYTES
from lbd.local.budget import Budget, Share

# Beyond the first windows: of one user here, or of one other host, and of all of them
EACH_BYTES, ALL_BYTES = 64 << 20, 256 << 20


AShare = Share[int] | Share[str]  # of a user here, or of another host
Shares = Callable[[], AShare]  # returns a new one, for one more window of the same owner


def budget_of_windows() -> Budget:
    return Budget(EACH_BYTES, ALL_BYTES)


class Window:
    """The window of one stream that we receive."""

    def __init__(
        self, share: AShare, largest_bytes: int = WINDOW_BYTES, *, left_bytes: int = 0
    ) -> None:
        """`share`: of a budget, of whose stream it is. `left_bytes`: as an earlier LBM has granted,
        if not 0."""
        self._share = share
        self._largest_bytes = largest_bytes
        self._first_bytes = min(FIRST_WINDOW_BYTES, largest_bytes)
        self.size_bytes = left_bytes or self._first_bytes
        self.acknowledge_bytes = self.size_bytes // ACKNOWLEDGE_SHARE
        share.add(self.size_bytes - self._first_bytes)

    @property
    def most_bytes(self) -> int:
        """What may be under way at most: the last piece, no longer than a window, overdraws it."""
        return 2 * self.size_bytes

    def grow(self) -> None:
        """Doubles it, if that is within the budget."""
        size_bytes = min(2 * self.size_bytes, self._largest_bytes)
        if size_bytes > self.size_bytes and self._share.take(size_bytes - self._first_bytes):
            self.size_bytes = size_bytes
            self.acknowledge_bytes = size_bytes // ACKNOWLEDGE_SHARE

    def close(self) -> None:
        """Nothing more of it is kept here."""
        self._largest_bytes = self.size_bytes  # so it does not grow again
        self._share.give_back()
