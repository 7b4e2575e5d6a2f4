"""Calls that may never return, at most one at a time for each task of a user."""

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import TypeVar

from lbd.lbm.link.user_threads import HUNG_S, Call, UserThreads

Done = TypeVar("Done")


class UserCalls:
    """Calls that may wait for a file's lock, in threads of its user: one at a time per task."""

    def __init__(self) -> None:
        self.threads = UserThreads()
        self._under_way: dict[tuple[int, Hashable], Call] = {}

    def start(self, uid: int, what: Hashable, call: Callable[[], object]) -> Call:
        """Starts a call, unless one for the same task is under way; returns that one then."""
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
        """Like `start`; returns the result, or None if the call takes longer than a moment: it
        continues. Raises what the call raises."""
        done = self.start(uid, what, call).done
        await asyncio.wait((done,), timeout=HUNG_S)
        return done.result() if done.done() else None  # type: ignore[return-value]
