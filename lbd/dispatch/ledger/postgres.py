"""The ledger in PostgreSQL, for the one dispatcher that leads.

One connection writes in groups, each a transaction that starts with our fencing number. If the
connection breaks during a commit, the outcome is unknown, so the group waits until the database can
be asked about its transaction. What has not been started is refused after `REFUSE_S`, except for
records, which wait for the database.
"""

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

import asyncpg

from lbd.dispatch.core.ledger_rows import Deposed, LedgerTrouble
from lbd.dispatch.ledger.connection import (
    READ_S,
    REFUSED,
    TROUBLES,
    Connection,
    carry_out,
    line,
    passes,
    rows_of,
)
from lbd.dispatch.ledger.store import ROWS_MAX, Request, Store, next_group, pieces, steps
from lbd.dispatch.ledger.work import MakeWork, Over, Result, Row, Work, advance

if TYPE_CHECKING:
    from collections.abc import Sequence

log = logging.getLogger("lbd.dispatch")

RETRY_S = 0.2
REFUSE_S = 4.0  # shorter than callers wait
LAST_S = 2.0  # for pending writes when we are stopping
TRIES = 2  # of a query: the connection may have died long ago


# Errors about a value, before the database has seen it or in its answer.
FAULTS = (ArithmeticError, ValueError, TypeError, LookupError)


def is_fence(problem: BaseException) -> bool:
    """Whether the database reported that another dispatcher leads."""
    return isinstance(problem, asyncpg.PostgresError) and problem.sqlstate == REFUSED


class PostgresLedger(Store):
    def __init__(self, url: str, name: str, fencing: int, term_s: float) -> None:
        super().__init__()
        self._fencing = fencing
        self._writing = Connection(url, f"{name} ledger", term_s)
        self._reading = Connection(url, f"{name} questions", term_s, READ_S)
        self._one_statement = asyncio.Lock()
        self._waiting: list[Request] = []
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = loop.create_future()  # only ever finished by an exception
        self._tasks = [
            asyncio.create_task(self._write_all(), name="ledger"),
            asyncio.create_task(self._refuse_late(), name="refuse what waits for the ledger"),
        ]

    async def close(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0 if self.over.done() else LAST_S):
                await self._idle.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for request in self._waiting:
            request.done.cancel()
        await self._writing.close()
        await self._reading.close()

    async def _read(self, make: MakeWork[Result]) -> Result:
        for tries_left in reversed(range(TRIES)):
            try:
                return await self._read_once(make())
            except TROUBLES as problem:
                if not tries_left:
                    raise self._reading.trouble(problem) from None
            except FAULTS as problem:
                raise self._reading.trouble(problem) from None
        raise AssertionError

    async def _read_once(self, question: Work[Result]) -> Result:
        """Lets other queries in between two statements. Raises TROUBLES, FAULTS."""
        rows: Sequence[Row] | None = None
        while not isinstance(step := advance(question, rows), Over):
            async with self._one_statement:
                try:
                    rows = await rows_of(await self._reading.get(), step)
                except TROUBLES:
                    self._reading.drop()
                    raise
        return step.result

    def _put(self, request: Request) -> None:
        request.until_s = asyncio.get_running_loop().time() + REFUSE_S
        self._waiting.append(request)
        self._idle.clear()
        self._wake.set()

    # Writing

    async def _write_all(self) -> None:
        try:
            await self._write()
        except Exception as problem:
            trouble = problem if isinstance(problem, Deposed) else LedgerTrouble(repr(problem))
            self._settle([(request, trouble) for request in self._waiting if not request.must])
            self.over.set_exception(problem)

    async def _write(self) -> None:
        """Raises Deposed."""
        rows_max = ROWS_MAX
        while True:
            if not self._waiting:
                self._idle.set()
                self._wake.clear()
                await self._wake.wait()
            group, self._waiting = next_group(self._waiting, rows_max)
            began_s = time.monotonic()
            try:
                refused = await self._commit(group)
            except Deposed:
                self._waiting[:0] = group
                raise
            except LedgerTrouble as problem:
                self.counts.failures += 1
                self._say(str(problem))
                # A value that the database rejects now it will reject later too.
                again = group if problem.passes else [r for r in group if r.must]
                self._settle([(request, problem) for request in group if request not in again])
                self._waiting[:0] = again
                rows_max = rows_max // 2 or 1  # it may have been too much for the time it has
                await asyncio.sleep(RETRY_S)
                continue
            self._say("")
            rows_max = min(2 * rows_max, ROWS_MAX)
            self.counts.commits.note(time.monotonic() - began_s)
            self._settle([(request, refused.get(request)) for request in group])

    async def _commit(self, group: list[Request]) -> dict[Request, LedgerTrouble]:
        """Writes the group. Returns the requests whose own values are at fault, and why. Raises
        LedgerTrouble if nothing of the group was written."""
        try:
            try:
                return await self._write_group(group, apart=False)
            except (*TROUBLES, *FAULTS) as problem:
                if passes(problem) or is_fence(problem):
                    raise
                self._writing.drop()
                return await self._write_group(group, apart=True)
        except (*TROUBLES, *FAULTS) as problem:
            self._writing.drop()
            if is_fence(problem):
                raise Deposed(line(problem)) from None
            raise self._writing.trouble(problem) from None

    async def _write_group(
        self, group: list[Request], *, apart: bool
    ) -> dict[Request, LedgerTrouble]:
        """Writes the group in one transaction. Raises TROUBLES, FAULTS; LedgerTrouble if its commit
        failed."""
        connection = await self._writing.get()
        await connection.execute("BEGIN")
        number: int = await connection.fetchval("SELECT fence($1)", self._fencing)
        refused: dict[Request, LedgerTrouble] = {}
        if apart:
            refused = await self._carry_out_apart(connection, group)
        else:
            for make, requests in pieces(group):
                results = await carry_out(connection, make())
                for request, result in zip(requests, results, strict=True):
                    request.result = result
        await self._end(connection, number)
        return refused

    async def _carry_out_apart(
        self, connection: asyncpg.Connection, group: list[Request]
    ) -> dict[Request, LedgerTrouble]:
        refused: dict[Request, LedgerTrouble] = {}
        for step in steps(group):
            await connection.execute("SAVEPOINT step")
            try:
                step.request.result = await carry_out(connection, step.make())
            except (*TROUBLES, *FAULTS) as problem:
                if passes(problem):
                    raise
                await connection.execute("ROLLBACK TO step")
                trouble = self._writing.trouble(problem)
                if step.instead is None:
                    refused[step.request] = trouble
                else:
                    log.error("wrote a record without its reason: %s", trouble)
                    await carry_out(connection, step.instead())
            await connection.execute("RELEASE step")
        return refused

    async def _end(self, connection: asyncpg.Connection, number: int) -> None:
        """Commits transaction `number`. Raises LedgerTrouble."""
        try:
            await connection.execute("COMMIT")
        except TROUBLES as problem:
            self._writing.drop()
            trouble = self._writing.trouble(problem)
            self._say(
                f"{trouble}; whether the last commit succeeded will be checked when it answers"
            )
            if not await self._came_to_be(number):
                raise trouble from None

    async def _came_to_be(self, number: int) -> bool:
        """Asks, once the database answers, whether the transaction was committed."""
        while True:
            try:
                connection = await self._writing.get()
                state: str = await connection.fetchval("SELECT txid_status($1)", number)
            except TROUBLES:
                self._writing.drop()
            else:
                if state != "in progress":
                    return state == "committed"
            await asyncio.sleep(RETRY_S)

    async def _refuse_late(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(RETRY_S)
            late = {r for r in self._waiting if not r.must and loop.time() > r.until_s}
            if late:
                self._waiting = [request for request in self._waiting if request not in late]
                why = self.trouble or f"{self._writing.where}: no answer in time"
                trouble = LedgerTrouble(f"{why}; nothing was queued; try again later")
                self._settle([(request, trouble) for request in late])
