"""Attempts of the queue that were sent here ahead of a free slot take turns for the next ones."""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from lbd.lbm.ahead import WAIT_S, Ahead
from lbd.lbm.host import Host
from lbd.model import JobId


@dataclass(slots=True)
class Turn:
    user: str
    given: "asyncio.Future[bool]"


class Turns:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._waiting: OrderedDict[JobId, Turn] = OrderedDict()
        self.ahead = Ahead(host.config.dispatch.ahead_s)

    async def wait(self, job: JobId, user: str, width: int) -> bool:
        """Whether it has so many slots, at once or, if it is one, in a moment."""
        if not self._waiting and self._host.slots.take_many(job, user, width):
            return True
        if width > 1:
            return False
        loop = asyncio.get_running_loop()
        turn = self._waiting[job] = Turn(user, loop.create_future())
        timer = loop.call_later(WAIT_S, self._over, turn)
        try:
            return await turn.given
        finally:
            timer.cancel()
            self._waiting.pop(job, None)

    def _over(self, turn: Turn) -> None:
        if not turn.given.done():
            self.ahead.waited()
            turn.given.set_result(False)

    def give(self) -> None:
        """What is free now."""
        while self._waiting and not self._host.leaving:
            job, turn = next(iter(self._waiting.items()))
            if not turn.given.done():
                if not self._host.slots.take(job, turn.user):
                    return
                turn.given.set_result(True)
            del self._waiting[job]

    @property
    def are_many(self) -> bool:
        """Enough that the host will not be idle soon."""
        return 2 * len(self._waiting) > self.ahead.told
