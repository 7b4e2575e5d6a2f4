"""The listener: a small HTTP server, bounded in connections, bytes and time.

Each connection has one request, so a slow client occupies only that. If there are too many, the
oldest one that waits for its client makes room for the newest: a scrape is asked and answered
within milliseconds, so a longer wait only occupies a place. All who ask within a second share one
answer, so a reader that never reads costs a socket's buffer, for `Limits.answer_s` at most.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from lbd.errors import PeerError
from lbd.local.rate_limit import Rates
from lbd.metrics.core.request import (
    END,
    HEAD_BYTES_MAX,
    HEALTH,
    METRICS,
    TEXT,
    Asked,
    Fault,
    answer_head,
    read_head,
)
from lbd.metrics.exposition import CONTENT_TYPE

log = logging.getLogger("lbd.metrics")

ACCEPT_AGAIN_S = 0.1  # if no descriptor is left
BACKLOG = 64
REFUSED_LINES = Rates(1 / 3600.0, 1.0)  # in the log: one an hour about each caller

Check = Callable[[ssl.SSLObject], None]  # raises PeerError
Context = Callable[[], ssl.SSLContext]


@dataclass(frozen=True, slots=True)
class Limits:
    connections: int = 64
    request_s: float = 5.0  # for the TLS handshake and the request
    answer_s: float = 10.0  # for the client to take the answer


LIMITS = Limits()


class MetricsServer:
    def __init__(
        self,
        page: Callable[[], Awaitable[bytes]],
        unready: Callable[[], Awaitable[str]],
        context: Context | None = None,
        check: Check = lambda _: None,
        limits: Limits = LIMITS,
    ) -> None:
        """`context`: returns the TLS context for the current certificate; `check`: checks the
        client."""
        self._page, self._unready = page, unready
        self._context, self._check, self._limits = context, check, limits
        self.open: dict[asyncio.Task[None], None] = {}  # oldest first, as in `_waiting`
        # those that wait for their client to send or read
        self._waiting: dict[asyncio.Task[None], None] = {}
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self.statuses: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def listen(self, address: str, port: int) -> int:
        """Returns the port. Raises OSError if it is not available."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            listener.listen(BACKLOG)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
        self._listener = listener
        self._accepting = asyncio.create_task(self._accept(listener), name="accept")
        bound: int = listener.getsockname()[1]
        return bound

    async def close(self) -> None:
        tasks = [*self.open, *([self._accepting] if self._accepting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError:
                await asyncio.sleep(ACCEPT_AGAIN_S)
                continue
            if len(self.open) >= self._limits.connections:
                oldest = next(iter(self._waiting or self.open))
                self._forget(oldest)
                oldest.cancel()
                self.refused["too-many"] += 1
            task = loop.create_task(self._serve(sock), name="scrape")
            self.open[task] = self._waiting[task] = None
            task.add_done_callback(self._served)
            # otherwise all pending connections are accepted before one is answered
            await asyncio.sleep(0)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self.open.pop(task, None)
        self._waiting.pop(task, None)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._forget(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("error while answering a scrape", exc_info=problem)

    async def _serve(self, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(HEAD_BYTES_MAX, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport: asyncio.Transport | None = None
        try:
            async with asyncio.timeout(self._limits.request_s):
                transport = await self._connected(sock, protocol)
                if transport is None:
                    return
                asked = await read_request(reader)
            status, kind, body = await self._made(asked)
            self.statuses[str(status)] += 1
            has_body = not isinstance(asked, Asked) or asked.has_body
            writer = asyncio.StreamWriter(transport, protocol, reader, loop)
            transport.set_write_buffer_limits(0)
            writer.write(answer_head(status, kind, len(body)) + (body if has_body else b""))
            await self._taken(writer)
        except TimeoutError:
            self.statuses["408"] += 1
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has disconnected
        finally:
            if transport is not None:
                transport.abort()
            else:
                sock.close()

    async def _connected(
        self, sock: socket.socket, protocol: asyncio.StreamReaderProtocol
    ) -> asyncio.Transport | None:
        """Returns None if the client is not admitted."""
        loop, context = asyncio.get_running_loop(), self._context() if self._context else None
        try:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, ssl=context)
        except (OSError, ssl.SSLError) as problem:
            log.debug("scrape failed in the TLS handshake: %s", problem)
            self.refused["tls"] += 1
            return None
        if context is not None:
            try:
                self._check(transport.get_extra_info("ssl_object"))
            except PeerError as problem:
                if REFUSED_LINES.turn_s(str(problem), time.monotonic(), 0.0) is not None:
                    log.warning("refused a scrape: %s", problem)
                self.refused["revoked"] += 1
                transport.abort()
                return None
        return transport

    async def _made(self, asked: Asked | Fault) -> tuple[int, str, bytes]:
        """Makes the answer. Meanwhile the connection does not count as waiting for its client."""
        task = asyncio.current_task()
        assert task is not None
        self._waiting.pop(task, None)
        try:
            return await self._answer(asked)
        finally:
            if task in self.open:
                self._waiting[task] = None

    async def _answer(self, asked: Asked | Fault) -> tuple[int, str, bytes]:
        if isinstance(asked, Fault):
            return asked.status, TEXT, f"{asked.says}\n".encode()
        if asked.path == METRICS:
            return 200, CONTENT_TYPE, await self._page()
        if asked.path == HEALTH:
            return 200, TEXT, b"ok\n"
        unready = await self._unready()
        return 503 if unready else 200, TEXT, f"{unready or 'ready'}\n".encode()

    async def _taken(self, writer: asyncio.StreamWriter) -> None:
        """Waits until the client has read the answer."""
        try:
            async with asyncio.timeout(self._limits.answer_s):
                await writer.drain()
                writer.close()
                with contextlib.suppress(ssl.SSLError):
                    await writer.wait_closed()
        except TimeoutError:
            self.refused["slow-reader"] += 1


async def read_request(reader: asyncio.StreamReader) -> Asked | Fault:
    try:
        return read_head(await reader.readuntil(END))
    except asyncio.LimitOverrunError:
        return Fault(431, f"request longer than {HEAD_BYTES_MAX} bytes")
