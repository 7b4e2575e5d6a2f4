"""A few turns at a time for each key: further ones wait without delaying other keys."""

import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import AsyncIterator, Hashable


class Turns:
    """A semaphore for each key. All keys together can be limited as well: each key has one turn of
    its own, and beyond these there are `shared` ones, for which keys wait in turn."""

    def __init__(self, at_once: int, shared: int = sys.maxsize) -> None:
        self._at_once, self._shared = at_once, shared
        self._taken: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, deque[asyncio.Future[None]]] = {}

    @contextlib.asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        if self._is_free(key):  # those still waiting were just cancelled
            self._take(key)
        else:
            await self._wait(key)
        try:
            yield
        finally:
            self._give_back(key)

    def _is_free(self, key: Hashable) -> bool:
        taken = self._taken.get(key, 0)
        return not taken or (taken < self._at_once and self._shared > 0)

    def _take(self, key: Hashable) -> None:
        taken = self._taken.get(key, 0)
        self._shared -= taken > 0
        self._taken[key] = taken + 1

    def _give_back(self, key: Hashable) -> None:
        self._taken[key] -= 1
        self._shared += self._taken[key] > 0
        if not self._taken[key]:
            del self._taken[key]
        for one, turns in self._waiting.items():
            turn = next((turn for turn in turns if not turn.done()), None)
            if turn is not None and self._is_free(one):
                self._take(one)
                turn.set_result(None)
                self._waiting[one] = self._waiting.pop(one)
                return

    async def _wait(self, key: Hashable) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the turn was given at the same moment
                self._give_back(key)
            raise
        finally:
            self._waiting[key].remove(turn)
            if not self._waiting[key]:
                del self._waiting[key]

    def __len__(self) -> int:
        return len(self._taken.keys() | self._waiting.keys())
