"""Commands waiting for room somewhere."""

import asyncio
from collections import deque
from dataclasses import dataclass, field

WAIT_POLL_S = 0.5  # there may be room that nobody tells of


@dataclass(slots=True)
class Room:
    """Commands waiting for room somewhere, longest first; woken one by one as jobs end."""

    waiting: "deque[asyncio.Future[None]]" = field(default_factory=deque)

    def made(self) -> None:
        while self.waiting:
            waiter = self.waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def wait(self, limit_s: float) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(waiter)
        try:
            await asyncio.wait_for(waiter, limit_s)
        except TimeoutError:
            pass
        finally:
            if waiter in self.waiting:
                self.waiting.remove(waiter)
