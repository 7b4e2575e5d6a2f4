"""What many hold of something together, such as bytes of requests that wait to be dealt with."""

import asyncio
import gc
from collections.abc import Hashable

PASSED_BYTES = 16 << 20
AGAIN_S = 1.0
NEW = 1  # the generations up to this one: what was made since the last look


class Budget:
    """Each key may hold `each`, and all of them `total`; who would hold more is told so, and has
    what it had. A key that holds nothing is forgotten."""

    def __init__(self, each: int, total: int) -> None:
        self.each = each
        self.total = total
        self.held = 0
        self._of: dict[Hashable, int] = {}

    def take(self, key: Hashable, amount: int) -> bool:
        """Takes so many bytes; returns False if there is no room for them."""
        may = self._of.get(key, 0) + amount <= self.each and self.held + amount <= self.total
        if may:
            self.add(key, amount)
        return may

    def add(self, key: Hashable, amount: int) -> None:
        """Adds what is held already, even beyond the limit."""
        self._of[key] = self._of.get(key, 0) + amount
        self.held += amount

    def give_back(self, key: Hashable, amount: int) -> None:
        self.held -= amount
        if (left := self._of.get(key, 0) - amount) > 0:
            self._of[key] = left
        else:
            self._of.pop(key, None)

    def of(self, key: Hashable) -> int:
        return self._of.get(key, 0)


class Garbage:
    """Memory of long requests that holds itself, of one process.

    A task that has failed, its exception and the frames that this knows may hold each other, and
    with them all of a request: megabytes, in so few objects that Python would look for them after
    thousands of requests. So it looks once some megabytes of requests have passed, but not more
    than once in a while, and only at what is new: to go through all that a dispatcher has would
    take seconds.
    """

    def __init__(self) -> None:
        self._passed_bytes = 0
        self._later: asyncio.TimerHandle | None = None

    def passed(self, size_bytes: int) -> None:
        """So much of requests is done with, or soon will be. In an event loop."""
        self._passed_bytes += size_bytes
        if self._passed_bytes >= PASSED_BYTES and self._later is None:
            self._later = asyncio.get_running_loop().call_later(AGAIN_S, self._collect)

    def _collect(self) -> None:
        self._passed_bytes, self._later = 0, None
        gc.collect(NEW)


class BudgetOfRequests(Budget):
    """Bytes of requests under way; of what is given back nothing is to stay."""

    def __init__(self, each: int, total: int) -> None:
        super().__init__(each, total)
        self._garbage = Garbage()

    def give_back(self, key: Hashable, amount: int) -> None:
        super().give_back(key, amount)
        self._garbage.passed(amount)
