"""The hosts that had no slot for a command a moment ago.

They are left out until it has waited for room; then they may be asked again. What else a host
refuses for does not pass so soon.
"""

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from lbd.errors import Unavailable
from lbd.lbm.home import Where
from lbd.lbm.room import WAIT_POLL_S, Room

if TYPE_CHECKING:
    from lbd.model import HostId


class FullHosts:
    def __init__(self, limit_s: float) -> None:
        """`limit_s`: how long a command waits at most, however often it finds hosts full."""
        self.names: set[HostId] = set()
        self._limit_s = limit_s
        self._give_up_s = 0.0

    async def find_place(self, ask: Callable[[bool], Awaitable[Where]], room: Room) -> Where:
        """The first place that is no "wait". `ask`: the LIM; is told whether it may answer that.

        Raises Unavailable if there is none in time.
        """
        if not (self.names and self._give_up_s):  # else it has been looking for a while
            self._give_up_s = time.monotonic() + self._limit_s
        while True:
            patience = time.monotonic() < self._give_up_s
            where = await ask(patience)
            if where.verdict != "wait":
                return where
            if not patience:
                raise Unavailable(f"no host had room within {self._limit_s:g} s")
            await room.wait(WAIT_POLL_S)
            self.names.clear()
