"""A daemon's connection to another daemon of its host."""

import asyncio
import itertools
from pathlib import Path
from typing import cast

from lbd.errors import LbdError, PeerError, Unavailable
from lbd.local import frames
from lbd.local.json_socket import (
    BODY_LIMIT_BYTES,
    CONNECT_S,
    Json,
    checked,
    connected,
    decode,
    encode_within,
)


class JsonClient(asyncio.Protocol):
    """A daemon's connection to another daemon of its host; `call` fails fast while it is down."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._transport: asyncio.Transport | None = None
        self._split = frames.Splitter(BODY_LIMIT_BYTES)

    @property
    def connected(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def connect(self) -> bool:
        """Tries once; returns False if nobody listens."""
        self._split = frames.Splitter(BODY_LIMIT_BYTES)
        try:
            sock = await asyncio.to_thread(connected, self.path, CONNECT_S)
            sock.setblocking(False)
            await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=sock)
        except OSError:
            return False
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            replies = [decode(*frame) for frame in self._split.feed(data)]
        except (ValueError, PeerError):
            if self._transport is not None:
                self._transport.close()
            return
        for reply in replies:
            number = reply.get("id")
            future = self._waiting.pop(number, None) if isinstance(number, int) else None
            if future is not None and not future.done():
                future.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Unavailable(f"{self.path.stem} disconnected"))
        self._waiting.clear()

    def notify(self, *messages: Json) -> None:
        """Sends without waiting for an answer; dropped while the other side is away."""
        self._send(b"".join(map(encode_within, messages)))

    def _send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    async def call(self, message: Json, timeout_s: float) -> Json:
        """Returns the reply. Raises Refusal if it is no, Unavailable if there is none."""
        if not self.connected:
            raise Unavailable(f"{self.path.stem} is not running ({self.path}); see `lbctl doctor`")
        number = next(self._ids)
        data = encode_within({"id": number, **message})
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        self._send(data)
        try:
            async with asyncio.timeout(timeout_s):
                reply = await future
        except TimeoutError:
            raise Unavailable(f"{self.path.stem} did not answer within {timeout_s:g} s") from None
        finally:
            self._waiting.pop(number, None)
        return checked(reply)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class OneQuestion(JsonClient):
    """A connection for one question to a daemon that may be away or hang."""

    async def ask(self, question: Json, timeout_s: float) -> Json | None:
        """Returns None if it does not answer."""
        try:
            async with asyncio.timeout(timeout_s):
                if await self.connect():
                    return await self.call(question, timeout_s)
        except (LbdError, TimeoutError):
            return None
        finally:
            self.close()
        return None
