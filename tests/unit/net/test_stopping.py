"""A server that stops waits for its calls as long as it says, and for no peer that never reads."""

import asyncio
import contextlib
import gc
import socket
import weakref

import grpc
import grpc.aio
import pytest

from lbd.net import transport
from tests.unit.net.raw_http2 import ACK, PING, PREFACE, SETTINGS, frame
from tests.unit.until import until

OPTIONS = transport.options(1 << 20, 300.0)
TRUST = transport.Plain("h1", "k" * 40)
PINGS = frame(PING, 0, 0, bytes(8)) * 1000
RECEIVED_BYTES = 1 << 16
CALL_S = 0.3


async def echo(request, _context):
    await asyncio.sleep(CALL_S)
    return request


async def started():
    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    services = [grpc.method_handlers_generic_handler("test.S", handlers)]
    server = transport.bind("127.0.0.1", 0, TRUST, set(), services, OPTIONS)
    await server.start()
    return server


@pytest.fixture
async def server():
    return await started()


def unread(place):
    """Returns a connection whose answers nobody reads, once the server cannot write any more."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVED_BYTES)
    sock.connect(place)
    sock.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0))
    sock.settimeout(1.0)
    with contextlib.suppress(TimeoutError):
        while True:
            sock.sendall(PINGS)
    return sock


@pytest.mark.parametrize("grace_s", [None, 0.0, 0.1])
async def test_a_peer_that_reads_no_answer_does_not_delay_the_end(server, grace_s):
    """gRPC waited for it: a dispatcher whose ledger was there again began nothing meanwhile."""
    with await asyncio.to_thread(unread, server.place):
        async with asyncio.timeout(10):
            await server.stop(grace_s)


async def test_a_call_that_ends_in_time_is_answered(server, monkeypatch):
    monkeypatch.setattr(transport, "WRITING_S", 0.0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.place[1]}") as channel:
        asked = channel.unary_unary("/test.S/Echo")(b"x", metadata=TRUST.metadata)
        await asyncio.sleep(CALL_S / 3)
        await server.stop(20 * CALL_S)
        assert await asked == b"x"


async def test_a_stopped_server_is_kept_until_its_handshakes_are_over(monkeypatch):
    """The timer of one that was reset used the freed server: the process crashed seconds later."""
    assert 1e3 * transport.KEPT_S > transport.HANDSHAKE_MS
    monkeypatch.setattr(transport, "KEPT_S", 0.5)
    server = await started()
    kept = weakref.ref(server._server)
    watches = server._watches
    assert not any(watch._next.cancelled() for watch in watches)
    await server.stop(None)
    assert all(watch._next.cancelled() for watch in watches), "they would watch the next server"
    del server
    gc.collect()
    assert kept() is not None
    await until(lambda: kept() is None)
