"""Limits on an amount that many hold together, such as bytes of requests in progress."""

import asyncio
import gc
from collections.abc import Hashable
from typing import Generic, TypeVar

PASSED_BYTES = 16 << 20
AGAIN_S = 1.0
Key = TypeVar("Key", bound=Hashable)
NEW = 1  # collect the generations up to this one: objects made since the last collection


class Budget:
    """Each key may hold `each`, and all keys together `total`. A request beyond that is refused and
    the key keeps what it holds. A key that holds nothing is forgotten."""

    def __init__(self, each: int, total: int) -> None:
        self.each = each
        self.total = total
        self.held = 0
        self._of: dict[Hashable, int] = {}

    def take(self, key: Hashable, amount: int) -> bool:
        """Takes `amount` bytes; returns False if there is no room for them."""
        may = self._of.get(key, 0) + amount <= self.each and self.held + amount <= self.total
        if may:
            self.add(key, amount)
        return may

    def add(self, key: Hashable, amount: int) -> None:
        """Adds what is already held, even beyond the limit."""
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


class Share(Generic[Key]):
    """What one connection, or one of its streams, holds of a budget."""

    def __init__(self, budget: Budget, key: Key) -> None:
        """`key`: whose it is."""
        self._budget = budget
        self.key = key
        self._held = 0

    def take(self, amount: int) -> bool:
        """Raises the share to `amount` bytes in all. Returns False if there is no room."""
        more = amount - self._held
        may = more <= 0 or self._budget.take(self.key, more)
        if may:
            self._held = max(self._held, amount)
        return may

    def add(self, amount: int) -> None:
        """Adds what is already held."""
        self._budget.add(self.key, amount)
        self._held += amount

    def give_back(self) -> None:
        self._budget.give_back(self.key, self._held)
        self._held = 0


class Garbage:
    """Frees the memory of long requests that is held by reference cycles.

    A failed task, its exception and the frames that the exception refers to may hold each other,
    and with them a whole request: megabytes in so few objects that Python would collect them only
    after thousands of requests. So a collection runs once some megabytes of requests have passed,
    but at most once per interval, and only over new objects: a full one over a dispatcher's objects
    would take seconds.
    """

    def __init__(self) -> None:
        self._passed_bytes = 0
        self._later: asyncio.TimerHandle | None = None

    def passed(self, size_bytes: int) -> None:
        """Notes that `size_bytes` of requests are finished or soon will be. Needs a running event
        loop."""
        self._passed_bytes += size_bytes
        if self._passed_bytes >= PASSED_BYTES and self._later is None:
            self._later = asyncio.get_running_loop().call_later(AGAIN_S, self._collect)

    def _collect(self) -> None:
        self._passed_bytes, self._later = 0, None
        gc.collect(NEW)


class BudgetOfRequests(Budget):
    """Bytes of requests in progress; memory of finished ones is collected."""

    def __init__(self, each: int, total: int) -> None:
        super().__init__(each, total)
        self._garbage = Garbage()

    def give_back(self, key: Hashable, amount: int) -> None:
        super().give_back(key, amount)
        self._garbage.passed(amount)
