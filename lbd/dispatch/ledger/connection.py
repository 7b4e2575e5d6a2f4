"""Connections to PostgreSQL: opened on demand, dropped at the first error, which is one line."""

import contextlib
import os
import ssl
import warnings
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from urllib.parse import urlsplit

import asyncpg

from lbd.dispatch.core.ledger_rows import LedgerTrouble
from lbd.dispatch.ledger.database_url import about_password, mode_in_force
from lbd.dispatch.ledger.work import Ask, Insert, Many, Over, Result, Row, Work, advance
from lbd.errors import ConfigError, Unavailable

# Classes of SQLSTATE: connection, its own timeouts, rollback, resources, intervention, system.
PASSING = ("08", "25", "40", "53", "55", "57", "58")
CONNECT_S = 3.0
WAIT_S = 5.0  # for one statement; a longer one is abandoned together with its connection
REFUSED = "LBD01"  # SQLSTATE of `fence`: another dispatcher leads
ROWS_AT_ONCE = 1000  # so that neither the event loop nor the server is busy with them for long
READ_S = 120.0  # a new leader reads all jobs that have not ended
IDLE_MIN_S = 0.5
# asyncpg's own error of a session that the server ended while an answer was on its way: it has read
# both at once, and not yet the end of the connection.
ENDED = asyncpg.InternalClientError
TROUBLES = (
    asyncpg.PostgresError, asyncpg.InterfaceError, ENDED, OSError, TimeoutError, EOFError,
)  # fmt: skip
# The server answers and refuses: for a person to fix.
REFUSALS = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.ClientConfigurationError,
    ssl.SSLCertVerificationError,  # also a ValueError
)


class Connection:
    """One connection to a database; its purpose is shown in pg_stat_activity."""

    def __init__(self, url: str, name: str, lease_s: float, wait_s: float = WAIT_S) -> None:
        """`lease_s`: a leader that hangs in a transaction must not keep others from taking the
        lead."""
        self._url = url
        self.where = shown(url)
        self._wait_s = wait_s
        self._settings = {
            "application_name": f"lbd {name}",
            "search_path": "lbd",
            "idle_in_transaction_session_timeout": str(int(max(IDLE_MIN_S, lease_s / 2) * 1000)),
            # The server drops a connection whose host was lost after 90 s, not after hours.
            "tcp_keepalives_idle": "60",
            "tcp_keepalives_interval": "10",
            "tcp_keepalives_count": "3",
        }
        self._open: asyncpg.Connection | None = None

    async def first(self) -> None:
        """Raises ConfigError if the database is unsuitable, Unavailable if it does not answer."""
        try:
            self._open = await self._connect()
        except REFUSALS as problem:
            why = line(problem)
            if isinstance(problem, asyncpg.InvalidAuthorizationSpecificationError):
                why += f"; {about_password(self._url, os.environ)}"
            raise ConfigError(f"dispatch.store {self.where}: {why}") from None
        except ValueError as problem:
            what = f"not a URL like postgresql://user@host:5432/database ({line(problem)})"
            raise ConfigError(f"dispatch.store {self.where}: {what}") from None
        except TROUBLES as problem:
            raise Unavailable(
                f"dispatch.store {self.where} does not answer: {line(problem)}"
            ) from None

    async def get(self) -> asyncpg.Connection:
        """Raises TROUBLES."""
        if self._open is None or self._open.is_closed():
            self._open = await self._connect()
        return self._open

    async def _connect(self) -> asyncpg.Connection:
        with warnings.catch_warnings():  # about a readable .pgpass; we report that ourselves
            warnings.simplefilter("ignore", UserWarning)
            made = await asyncpg.connect(
                self._url,
                ssl=mode_in_force(self._url, os.environ) or None,
                timeout=CONNECT_S,
                command_timeout=self._wait_s,
                server_settings=self._settings,
            )
        if await made.fetchval("SHOW synchronous_commit") == "off":  # acknowledged means on disk
            await made.execute("SET synchronous_commit = on")
        return made

    def drop(self) -> None:
        """Closes the connection without waiting for running statements."""
        if self._open is not None:
            self._open.terminate()
            self._open = None

    async def close(self) -> None:
        if self._open is not None:
            with contextlib.suppress(*TROUBLES):
                await self._open.close(timeout=1.0)
            self._open = None

    def trouble(self, problem: BaseException) -> LedgerTrouble:
        return LedgerTrouble(f"{self.where}: {line(problem)}", passes=passes(problem))


async def carry_out(connection: asyncpg.Connection, work: Work[Result]) -> Result:
    rows: Sequence[Row] | None = None
    while not isinstance(step := advance(work, rows), Over):
        rows = await rows_of(connection, step)
    return step.result


async def rows_of(connection: asyncpg.Connection, step: Ask | Many) -> Sequence[Row]:
    if isinstance(step, Ask):
        found: Sequence[Row] = await connection.fetch(
            numbered(step.sql), *map(storable, step.values)
        )
        return found
    rows, sql = iter(step.rows), numbered(step.sql)
    while values := [tuple(map(storable, row)) for row in islice(rows, ROWS_AT_ONCE)]:
        if isinstance(step, Insert) and len(values) == ROWS_AT_ONCE:  # several times as fast
            await connection.copy_records_to_table(step.table, records=values, columns=step.columns)
        else:
            await connection.executemany(sql, values)
    return ()


@lru_cache(maxsize=256)
def numbered(sql: str) -> str:
    """Replaces each `?` by $1, $2 …."""
    parts = sql.split("?")
    return parts[0] + "".join(f"${n}{part}" for n, part in enumerate(parts[1:], 1))


def storable(value: object) -> object:
    """PostgreSQL's texts can hold every character except NUL."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) and "\0" in value else value


def shown(url: str) -> str:
    """Returns the URL without the password."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "postgresql://…"
    user = f"{parts.username}@" if parts.username else ""
    socket = [word for word in parts.query.split("&") if word.startswith("host=")]
    query = f"?{socket[0]}" if socket else ""
    return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}{query}"


def passes(problem: BaseException) -> bool:
    """Whether the error concerns the connection or the server, not the values given."""
    if isinstance(problem, asyncpg.PostgresError):
        return (problem.sqlstate or "")[:2] in PASSING
    return isinstance(problem, OSError | EOFError | asyncpg.InterfaceError | ENDED)


def line(problem: BaseException) -> str:
    """Describes the error in one line."""
    if isinstance(problem, TimeoutError) and not str(problem):
        return "no answer in time"
    if isinstance(problem, ENDED):
        return "it ended the connection"
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    first = (str(problem) or type(problem).__name__).splitlines()[0]
    return first.strip()
