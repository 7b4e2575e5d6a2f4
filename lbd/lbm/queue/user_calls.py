"""Calls that may wait for what a user does, one at a time for each thing that there is to do."""

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import TypeVar

from lbd.lbm.link.user_threads import HUNG_S, Call, UserThreads

Done = TypeVar("Done")


class UserCalls:
    """What may wait for the lock of a file: in threads of the user whose file it is."""

    def __init__(self) -> None:
        self.threads = UserThreads()
        self._under_way: dict[tuple[int, Hashable], Call] = {}

    def start(self, uid: int, what: Hashable, call: Callable[[], object]) -> Call:
        """Not as long as one for the same is under way; that one is returned then."""
        known = self._under_way.get((uid, what))
        if known is None:
            known = self._under_way[uid, what] = self.threads.of(uid).start(call)
            known.done.add_done_callback(lambda _: self._under_way.pop((uid, what), None))
        return known

    def is_under_way(self, uid: int, what: Hashable, longer_than_s: float = 0.0) -> bool:
        known = self._under_way.get((uid, what))
        began_s = known.began_s if known is not None else 0.0
        return known is not None and (
            not longer_than_s or 0.0 < began_s < time.monotonic() - longer_than_s
        )

    async def run(self, uid: int, what: Hashable, call: Callable[[], Done]) -> Done | None:
        """Likewise; None if it has not been made within a moment: it goes on. Raises what it
        raises."""
        done = self.start(uid, what, call).done
        await asyncio.wait((done,), timeout=HUNG_S)
        return done.result() if done.done() else None  # type: ignore[return-value]
