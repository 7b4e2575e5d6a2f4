"""One connection of a browser: who sends nothing, or reads nothing, is let go.

Where there are too many, the oldest that waits for its client makes room: a page is asked for and
made within a moment, and a browser opens a stream again that ends. So a client that holds all there
can be keeps nobody out.
"""

import asyncio
import itertools
import socket

from uvicorn.protocols.http.h11_impl import H11Protocol

from lbd.net.connection_share import LOOK_S, close_excess

HEADERS_S = 10.0  # for the whole of a request's headers
UNREAD_S = 20.0  # for what was written to be read
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
            self.connections.discard(oldest)  # whether or not it has heard of that
            oldest.transport.abort()
        self._timer = self.loop.call_later(HEADERS_S, self.transport.abort)

    @property
    def waits_for_its_client(self) -> bool:
        """To ask, or to read."""
        return self.cycle is None or self.cycle.response_complete or self.flow.write_paused

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        elif self._timer is None:  # part of another request; between them keep-alive has its limit
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
    """Until cancelled: no address has more than `most` to this socket, counting those that have not
    ended their TLS handshake, of which nothing else here knows."""
    host, port = sock.getsockname()[:2]
    while True:
        await asyncio.sleep(LOOK_S)
        close_excess(host, port, most)
