"""Whose outputs are fetched when: those of each user from a few hosts at a time, and beside them
from hosts that are slow, which hold up nobody but themselves."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from collections import deque

    from lbd.net.gen import dispatch_pb2 as pb

AT_ONCE = 4  # of each user
TURN_S, QUICK_BYTES_PER_S = 10.0, 1 << 20
ORDER_S = 20.0
Lane = tuple[int, str]  # of a user's jobs that ran on that host


class FetchTurn:
    """The turn of one job's outputs. While a host is slow it has none: another one begins."""

    def __init__(self, turns: asyncio.Semaphore) -> None:
        self._turns, self._moved_bytes = turns, 0
        self._is_held = False
        self._looking: asyncio.TimerHandle | None = None

    async def take(self) -> None:
        await self._turns.acquire()
        self._is_held = True
        self._look_later()

    def moved(self, size: int) -> None:
        self._moved_bytes += size

    def _look_later(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(TURN_S, self._look)

    def _look(self) -> None:
        if self._moved_bytes < TURN_S * QUICK_BYTES_PER_S:
            self.end()
        else:
            self._moved_bytes = 0
            self._look_later()

    async def received(self) -> None:
        """All is here. What follows is in its user's hands, who may keep it from ending: so it
        needs a turn in any case."""
        if self._looking is not None:
            self._looking.cancel()
        if not self._is_held:
            await self._turns.acquire()
            self._is_held = True

    def end(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if self._is_held:
            self._is_held = False
            self._turns.release()


@dataclass(slots=True)
class InLine:
    lane: Lane
    names: int
    before: Optional["InLine"]
    over: asyncio.Event


class FetchOrder:
    """Outputs of the same names are put in place in the order in which their jobs ended, so that
    the last are what stays, unless those of an earlier job are slow."""

    def __init__(self) -> None:
        self._last: dict[int, InLine] = {}  # by names
        self._of: dict[int, InLine] = {}  # by job
        self._slow: set[Lane] = set()  # waited for in vain

    def ended(self, job: int, lane: Lane, names: int) -> None:
        """`names`: stands for the directory, and the names in it."""
        place = InLine(lane, names, self._last.get(names), asyncio.Event())
        self._of[job] = self._last[names] = place

    async def wait(self, job: int) -> None:
        place = self._of.get(job)
        before = place.before if place is not None else None
        if before is None or before.lane in self._slow:
            return
        try:
            async with asyncio.timeout(ORDER_S):
                await before.over.wait()
        except TimeoutError:
            self._slow.add(before.lane)

    def over(self, job: int) -> None:
        if (place := self._of.pop(job, None)) is not None:
            place.over.set()
            place.before = None
            self._slow.discard(place.lane)
            if self._last.get(place.names) is place:
                del self._last[place.names]


class FetchTurns:
    def __init__(self) -> None:
        self.lanes: dict[Lane, deque[pb.JobInfo]] = {}  # what has ended, in order
        self._of: dict[int, asyncio.Semaphore] = {}  # by user
        self._order = FetchOrder()

    def ended(self, job: int, lane: Lane, names: int) -> None:
        """As for `FetchOrder`; 0: no other outputs have the names of this job's."""
        if names:
            self._order.ended(job, lane, names)

    @contextlib.asynccontextmanager
    async def turn(self, uid: int, job: int) -> AsyncIterator[FetchTurn]:
        """Waits for the turn of that user's job."""
        turn = FetchTurn(self._of.setdefault(uid, asyncio.Semaphore(AT_ONCE)))
        try:
            await self._order.wait(job)
            await turn.take()
            yield turn
        finally:
            turn.end()
            self._order.over(job)
