import asyncio
import contextlib

import pytest
import uvicorn
from uvicorn.server import ServerState

from lbd.web import connection
from lbd.web.connection import BoundedConnection, bound_connections


class Transport(asyncio.Transport):
    def __init__(self):
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.aborted = asyncio.Event()
        self.written = b""

    def abort(self):
        self.aborted.set()

    def is_closing(self):
        return self.aborted.is_set()

    def write(self, data):
        self.written += data

    def close(self):
        pass

    def pause_reading(self):
        pass

    def resume_reading(self):
        pass


async def never(scope, receive, send):
    await asyncio.Event().wait()


@pytest.fixture
async def made(monkeypatch):
    monkeypatch.setattr(connection, "HEADERS_S", 0.05)
    monkeypatch.setattr(connection, "UNREAD_S", 0.05)
    config = uvicorn.Config(never, log_config=None, access_log=False, lifespan="off")
    config.load()
    state, transport = ServerState(), Transport()
    protocol = BoundedConnection(config, state, {}, asyncio.get_running_loop())
    protocol.connection_made(transport)
    yield protocol, transport
    for task in state.tasks:
        task.cancel()
    protocol.connection_lost(None)


async def test_of_too_many_the_oldest_makes_room(made, monkeypatch):
    """A client that held all of them locked everybody out: 503."""
    protocol, transport = made
    monkeypatch.setattr(connection, "CONNECTIONS_MAX", 2)
    later = []
    for _ in range(2):
        one = BoundedConnection(
            protocol.config, protocol.server_state, {}, asyncio.get_running_loop()
        )
        later.append((one, Transport()))
        one.connection_made(later[-1][1])
    assert transport.is_closing()
    assert not any(newer.is_closing() for _, newer in later)
    assert len(protocol.connections) == 2
    for one, _ in later:
        one.connection_lost(None)


async def test_who_has_asked_is_not_the_first_to_make_room(made, monkeypatch):
    protocol, transport = made
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    monkeypatch.setattr(connection, "CONNECTIONS_MAX", 2)
    later = []
    for _ in range(3):
        one = BoundedConnection(
            protocol.config, protocol.server_state, {}, asyncio.get_running_loop()
        )
        later.append((one, Transport()))
        one.connection_made(later[-1][1])
        if len(later) == 2:
            assert [one.is_closing() for _, one in later] == [True, False]
            assert not transport.is_closing()
            protocol.pause_writing()  # and does not read
    assert transport.is_closing()
    assert [one.is_closing() for _, one in later] == [True, False, False]
    for one, _ in later:
        one.connection_lost(None)


async def aborted(transport):
    await asyncio.wait_for(transport.aborted.wait(), 20)


async def test_who_asks_nothing_whole_is_let_go(made):
    protocol, transport = made
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
    await aborted(transport)


async def test_a_client_that_has_asked_may_wait_but_must_read(made):
    protocol, transport = made
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert protocol._timer is None
    protocol.pause_writing()
    protocol.resume_writing()
    assert protocol._unread.cancelled()
    protocol.pause_writing()
    await aborted(transport)


async def test_who_ends_no_handshake_has_so_many_connections_and_no_more(monkeypatch):
    monkeypatch.setattr(connection, "LOOK_S", 0.01)
    ended = asyncio.Event()

    async def serve(reader, writer):
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    (sock,) = server.sockets
    ways = [await asyncio.open_connection(*sock.getsockname()) for _ in range(5)]
    reads = [asyncio.create_task(reader.read()) for reader, _ in ways]
    bounding = asyncio.create_task(bound_connections(sock, 3))
    try:
        async with asyncio.timeout(60):
            while sum(read.done() for read in reads) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert sum(read.done() for read in reads) == 2
    finally:
        bounding.cancel()
        ended.set()
        for _, writer in ways:
            writer.close()
        server.close()
        with contextlib.suppress(asyncio.CancelledError):
            await bounding
