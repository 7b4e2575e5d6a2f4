"""One browser connection, closed if the client neither sends nor reads.

When there are too many, the oldest one that waits for its client is closed. A page is requested and
made within a moment, and a browser reopens an event stream that ends. So a client that holds as
many connections as it can does not keep others out.
"""

import asyncio
import itertools
import socket

from uvicorn.protocols.http.h11_impl import H11Protocol

from lbd.net.connection_share import LOOK_S, close_excess

HEADERS_S = 10.0  # for all headers of a request
UNREAD_S = 20.0  # for the client to read what was written
CONNECTIONS_MAX = 512
NUMBERS = itertools.count()


class BoundedConnection(H11Protocol):
    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._number = next(NUMBERS)
        if len(self.connections) > CONNECTIONS_MAX:
            others = [
                one
                for one in self.connections
                if isinstance(one, BoundedConnection) and one is not self
            ]
            waiting = [one for one in others if one.waits_for_its_client]
            oldest = min(waiting or others, key=lambda one: one._number)
            self.connections.discard(oldest)  # even if it has not been notified yet
            oldest.transport.abort()
        self._timer = self.loop.call_later(HEADERS_S, self.transport.abort)

    @property
    def waits_for_its_client(self) -> bool:
        """Returns whether the client has yet to send a request or to read the response."""
        return self.cycle is None or self.cycle.response_complete or self.flow.write_paused

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        # part of another request; between requests, the keep-alive limit applies
        elif self._timer is None:
            self._timer = self.loop.call_later(HEADERS_S, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._timer, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)


async def bound_connections(sock: socket.socket, most: int = CONNECTIONS_MAX) -> None:
    """Limits each address to `most` connections on this socket, until cancelled. This includes
    connections in the TLS handshake, which uvicorn does not know of."""
    host, port = sock.getsockname()[:2]
    while True:
        await asyncio.sleep(LOOK_S)
        close_excess(host, port, most)
