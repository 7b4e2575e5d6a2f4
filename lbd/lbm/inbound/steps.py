"""What is waited for on behalf of one command: one thing after the other, in one task.

A task of its own for each would cost a short command more than what is waited for.
"""

import asyncio
from collections import deque
from collections.abc import Coroutine

from lbd.lbm.link.nonblocking_fd import settle

Step = Coroutine[object, object, None]


class Steps:
    def __init__(self) -> None:
        self._ahead: deque[Step] = deque()
        self._next: asyncio.Future[None] | None = None
        self.are_over = False  # no more will come

    def add(self, step: Step) -> None:
        self._ahead.append(step)
        self._wake()

    def end(self) -> None:
        self.are_over = True
        self._wake()

    def _wake(self) -> None:
        if self._next is not None:
            settle(self._next)

    async def take(self) -> None:
        """Each as it comes, until they are over."""
        while self._ahead or not self.are_over:
            if self._ahead:
                await self._ahead.popleft()
            else:
                self._next = asyncio.get_running_loop().create_future()
                await self._next

    def left(self) -> list[Step]:
        """Those that `take`, which was cancelled, has left."""
        left = list(self._ahead)
        self._ahead.clear()
        return left
