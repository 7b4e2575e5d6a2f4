"""What each question to the dispatcher goes through: its host waits its turn, as for messages on
its connection, and an unavailable ledger becomes a proper error.

A call counts by the size of its request and of its answer: callers of long lists get fewer calls.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Hashable
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio

from lbd.dispatch.core.ledger_rows import LedgerTrouble
from lbd.errors import LbdError
from lbd.local.budget import Budget
from lbd.local.long_answers import OwnTime, own_time
from lbd.local.rate_limit import CallRates, TimeShares
from lbd.local.turns import Turns
from lbd.net.transport import HOST_HEADER, Trust
from lbd.text.units import show_size

if TYPE_CHECKING:  # generic only in the stubs
    from collections.abc import Awaitable, Callable

    Context = grpc.aio.ServicerContext[bytes, bytes]

SELECTOR_BYTES = 256  # cost of one selector in a question: by default at most half a core per host
# For one answer, or one order. Of an answer, what it takes of our own time, in which nobody else is
# served, is charged in full; the rest is that of the disk, of threads and of others.
CHARGED_S_MAX = 2.0
LONGEST_S = 20.0  # of our own time, for an answer about as many jobs as it may have
ORDER_S = 0.1  # time that an order may take for free
USER_SHARE = 0.25  # of our time; all users of a host together have twice as much
LONG_AT_ONCE = 8  # questions of one host with possibly long answers
LONG_OF_USER = 2  # and of one of its users, so that others' need not wait for them
# Of submissions until they are queued: each is held several times, as received and as parsed. A
# message may have 16 MiB.
SUBMITTED_OF_USER, SUBMITTED_OF_HOST, SUBMITTED_OF_ALL = 32 << 20, 64 << 20, 256 << 20
Answer = TypeVar("Answer")


class Calls:
    def __init__(
        self, trust: Trust, bytes_per_s: int, clock_s: "Callable[[], float]" = time.monotonic
    ) -> None:
        self._trust, self._clock_s = trust, clock_s
        self._rates = CallRates(bytes_per_s)
        self._long_of_user, self._long_of_host = Turns(LONG_OF_USER), Turns(LONG_AT_ONCE)
        burst_s = LONG_OF_USER * LONGEST_S  # so that a single user cannot make the others wait
        self._time = TimeShares(burst_s=burst_s, clock_s=clock_s)
        self._time_of_user = TimeShares(USER_SHARE, clock_s=clock_s)
        # Orders wait only for orders: a list may be long because of other users' jobs.
        self._orders_of_user = TimeShares(USER_SHARE, clock_s=clock_s)
        self._orders = TimeShares(burst_s=burst_s, clock_s=clock_s)
        self._under_way = 0
        self._submitted = Budget(SUBMITTED_OF_HOST, SUBMITTED_OF_ALL)
        self._submitted_of_user = Budget(SUBMITTED_OF_USER, sys.maxsize)

    async def host(self, context: "Context") -> str:
        """Returns the calling host; its own claim where hosts prove nothing, as in a lab."""
        if proven := await self._trust.caller(context):
            return proven
        return str(dict(context.invocation_metadata() or ()).get(HOST_HEADER, ""))

    def looked_into(self, host: str, selectors: int) -> None:
        """Charges the host's next calls for reading `selectors` selectors, which are short."""
        self.answered(host, selectors * SELECTOR_BYTES)

    def answered(self, host: str, size_bytes: int) -> None:
        """Charges the size of an answer to the host's next calls."""
        self._rates.answered(host, size_bytes, self._clock_s())

    async def turn(self, host: str, size_bytes: int, context: "Context") -> None:
        """Waits for the host's turn; aborts the call if the wait would be too long."""
        wait_s = self._rates.wait_s(host, size_bytes, self._clock_s())
        if wait_s is None:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{host} exceeds dispatch.host_bytes_per_s; try again later",
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
            except LedgerTrouble as problem:  # it may be retried
                await context.abort(grpc.StatusCode.UNAVAILABLE, str(problem))
            if isinstance(answer, bytes):
                self.answered(host, len(answer))
            return answer

        return guarded

    @contextlib.asynccontextmanager
    async def long(self, host: str, user: str) -> AsyncIterator[None]:
        """Wraps work that takes as long as there are jobs: limits how many run at once for each
        user of a host, and for each host."""
        async with self._long_of_user.turn((host, user)), self._long_of_host.turn(host):
            yield

    @contextlib.asynccontextmanager
    async def listing(self, host: str, user: str) -> AsyncIterator[None]:
        """Wraps an answer about many jobs: the same limits, and a host has half of our time for
        these, each of its users a quarter. Concurrent ones share the time that is not their
        own."""
        async with self.long(host, user):
            await self._time_of_user.turn((host, user))
            await self._time.turn(host)
            began_s = self._clock_s()
            self._under_way += 1
            try:
                with own_time() as own:
                    yield
            finally:
                waited_s = min(CHARGED_S_MAX, self._clock_s() - began_s) / self._under_way
                taken_s = max(waited_s, own.seconds)
                self._time.charge(host, taken_s)
                self._time_of_user.charge((host, user), taken_s)
                self._under_way -= 1

    @contextlib.asynccontextmanager
    async def ordering(self, host: str, user: str) -> AsyncIterator[OwnTime]:
        """Wraps an order: its time is charged to its user. What is added to the time that this
        yields is charged to its host, which may make up users; only that, as it may wait long for
        the orders of others."""
        async with self.long(host, user):
            await self._orders_of_user.turn((host, user))
            await self._orders.turn(host)
            began_s, own = self._clock_s(), OwnTime()
            try:
                yield own
            finally:
                taken_s = self._clock_s() - began_s - ORDER_S  # the disk accounts for ORDER_S
                self._orders_of_user.charge((host, user), min(CHARGED_S_MAX, max(0.0, taken_s)))
                self._orders.charge(host, own.seconds)

    @contextlib.asynccontextmanager
    async def submitting(
        self, host: str, user: str, size_bytes: int, *, as_order: bool
    ) -> AsyncIterator[None]:
        """Wraps a submission, which may continue when its call has ended: limits the bytes of each
        user of a host, of each host and of all. `as_order`: it takes as long as an order. Raises
        LbdError."""
        taken: list[tuple[Budget, Hashable]] = []
        try:
            for budget, key, whose in (
                (self._submitted_of_user, (host, user), f"{user} on {host} has"),
                (self._submitted, host, f"all users of {host} have"),
            ):
                if not budget.take(key, size_bytes):
                    most = budget.each
                    if budget.of(key) + size_bytes <= most:
                        whose, most = "all hosts have", budget.total
                    raise LbdError(
                        f"{whose} too much on the way to the queue at once: the limit is "
                        f"{show_size(most)}; try again later"
                    )
                taken.append((budget, key))
            if not as_order:
                yield
                return
            async with self.ordering(host, user):
                yield
        finally:
            for budget, whom in taken:
                budget.give_back(whom, size_bytes)
