"""What each question to the dispatcher goes through: its host's turn, like what that host says on
its line, and an answer that says so if the ledger is away.

A call counts by what it brings and by what it is answered: whoever asks for long lists has fewer.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio

from lbd.dispatch.core.ledger_rows import LedgerTrouble
from lbd.local.call_rates import CallRates
from lbd.local.time_share import TimeShares
from lbd.local.turns import Turns
from lbd.net.transport import HOST_HEADER, Trust

if TYPE_CHECKING:  # generic in the stubs only
    from collections.abc import Awaitable, Callable

    Context = grpc.aio.ServicerContext[bytes, bytes]

SELECTOR_BYTES = 256  # what one of a question counts as: by default, half of a core a host at most
LISTING_S_MAX = 2.0  # that one answer is charged
LONG_AT_ONCE = 8  # questions of one host whose answers may be long
LONG_OF_USER = 2  # and of one of its users: others' are not to wait for them
Answer = TypeVar("Answer")


class Calls:
    def __init__(self, trust: Trust, bytes_per_s: int) -> None:
        self._trust = trust
        self._rates = CallRates(bytes_per_s)
        self.requeueing = asyncio.Lock()
        self._long_of_user, self._long_of_host = Turns(LONG_OF_USER), Turns(LONG_AT_ONCE)
        self._time, self._under_way = TimeShares(), 0

    async def host(self, context: "Context") -> str:
        """Who calls; as it says itself where hosts prove nothing, as in a lab."""
        if proven := await self._trust.caller(context):
            return proven
        return str(dict(context.invocation_metadata() or ()).get(HOST_HEADER, ""))

    def looked_into(self, host: str, selectors: int) -> None:
        """Charges what it takes to read so many to the host's next calls: they are short."""
        self.answered(host, selectors * SELECTOR_BYTES)

    def answered(self, host: str, size_bytes: int) -> None:
        """Charges the size of an answer to the host's next calls."""
        self._rates.answered(host, size_bytes, time.monotonic())

    async def turn(self, host: str, size_bytes: int, context: "Context") -> None:
        """Waits for it; aborts the call of a host that would have to wait for too long."""
        wait_s = self._rates.wait_s(host, size_bytes, time.monotonic())
        if wait_s is None:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{host} asks the queue for more than dispatch.host_bytes_per_s; ask again later",
            )
        if wait_s:
            await asyncio.sleep(wait_s)

    def paced(
        self, handler: "Callable[[bytes, Context], Awaitable[Answer]]"
    ) -> "Callable[[bytes, Context], Awaitable[Answer]]":
        async def guarded(data: bytes, context: "Context") -> Answer:
            host = await self.host(context)
            await self.turn(host, len(data), context)
            try:
                answer = await handler(data, context)
            except LedgerTrouble as problem:  # it may be asked again
                await context.abort(grpc.StatusCode.UNAVAILABLE, str(problem))
            if isinstance(answer, bytes):
                self.answered(host, len(answer))
            return answer

        return guarded

    @contextlib.asynccontextmanager
    async def long(self, host: str, user: str) -> AsyncIterator[None]:
        """Around what takes as long as there are jobs: few at a time for each user of a host, and
        for each host."""
        async with self._long_of_user.turn((host, user)), self._long_of_host.turn(host):
            yield

    @contextlib.asynccontextmanager
    async def listing(self, host: str, user: str) -> AsyncIterator[None]:
        """Around an answer about many jobs: the same, and a host has half of our time for these.
        Those that are under way share it; nobody owes more than a few seconds."""
        async with self.long(host, user):
            await self._time.turn(host)
            began_s = time.monotonic()
            self._under_way += 1
            try:
                yield
            finally:
                taken_s = min(LISTING_S_MAX, time.monotonic() - began_s)
                self._time.charge(host, taken_s / self._under_way)
                self._under_way -= 1
