"""So many at once of each asker: who asks for more waits for their own, and nobody else does."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Hashable


class Turns:
    def __init__(self) -> None:
        self._under_way: dict[Hashable, tuple[asyncio.Semaphore, int]] = {}  # and who uses it

    @contextlib.asynccontextmanager
    async def of(self, asker: Hashable, at_once: int) -> AsyncIterator[None]:
        semaphore, users = self._under_way.get(asker, (asyncio.Semaphore(at_once), 0))
        self._under_way[asker] = semaphore, users + 1
        try:
            async with semaphore:
                yield
        finally:
            semaphore, users = self._under_way.pop(asker)
            if users > 1:
                self._under_way[asker] = semaphore, users - 1

    def __len__(self) -> int:
        """How many askers have something under way."""
        return len(self._under_way)
