"""A few at a time of each key: more wait, and hold up no other key."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable


class Turns:
    """A semaphore for each key, for as long as somebody uses it."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._used: dict[Hashable, tuple[asyncio.Semaphore, int]] = {}  # and by how many

    @contextlib.asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        semaphore, users = self._used.get(key, (asyncio.Semaphore(self._at_once), 0))
        self._used[key] = semaphore, users + 1
        try:
            async with semaphore:
                yield
        finally:
            semaphore, users = self._used.pop(key)
            if users > 1:
                self._used[key] = semaphore, users - 1

    def __len__(self) -> int:
        return len(self._used)
