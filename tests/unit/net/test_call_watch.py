"""The connections of a host that floods a port with calls are closed, on real sockets."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections import Counter

import grpc
import grpc.aio
import pytest

from lbd.net import call_floods, call_watch, transport
from lbd.net.call_floods import ANY_PORT
from lbd.net.call_watch import CallWatch, place_of
from lbd.net.peers import Peers
from tests.unit.net.raw_http2 import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    RESET,
    SETTINGS,
    WINDOW_BYTES,
    WINDOW_SETTING,
    frame,
    text,
)

OPTIONS = transport.options(1 << 20, 10.0)
KEY = "k" * 40
METHOD = "/test.S/Echo"
FLOODER = "127.0.0.2"


@pytest.fixture
async def port(monkeypatch):
    """Returns the port of a server that answers each call with its request."""
    monkeypatch.setattr(call_watch, "LOOK_S", 0.1)

    async def echo(request, _context):
        return request

    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(echo)}
    services = [grpc.method_handlers_generic_handler("test.S", handlers)]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = transport.bind("127.0.0.1", port, transport.Plain("h1", KEY), set(), services, OPTIONS)
    await server.start()
    yield port
    await server.stop(None)


def flood(port, ending, is_over):
    """Floods with calls from another address until that connection is closed."""
    trust = transport.Plain("h2", KEY)
    headers = {
        ":method": "POST", ":scheme": "http", ":path": METHOD, ":authority": "x",
        "te": "trailers", "content-type": "application/grpc",
    } | dict(trust.metadata)  # fmt: skip
    block = b"".join(b"\0" + text(name) + text(value) for name, value in headers.items())
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), source_address=(FLOODER, 0)) as sock,
    ):
        sock.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0))
        reader = threading.Thread(target=read_all, args=(sock,))
        reader.start()
        call = 1
        while not is_over.is_set() and reader.is_alive():
            calls = range(call, call + 100, 2)
            call = calls.stop + 1
            sock.sendall(b"".join(frame(HEADERS, END_HEADERS, n, block) + ending(n) for n in calls))


async def flooded(flooding, said, caplog):
    """Floods with two at once until it is noticed. gRPC closes some of them itself."""
    threads = []
    async with asyncio.timeout(60):
        while said not in caplog.text or any(thread.is_alive() for thread in threads):
            threads = [thread for thread in threads if thread.is_alive()]
            while said not in caplog.text and len(threads) < 2:
                threads.append(threading.Thread(target=flood, args=flooding))
                threads[-1].start()
            await asyncio.sleep(0.05)


def read_all(sock):
    with contextlib.suppress(OSError):
        while sock.recv(1 << 16):
            pass


async def heard(echo, metadata):
    """Waits for an answer soon: calls still queued from a flood are in the way for a moment."""
    async with asyncio.timeout(20):
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                assert await echo(b"y", metadata=metadata) == b"y"
                return
            await asyncio.sleep(0.05)


def is_closed(sock):
    """Waits until the other end has closed it."""
    try:
        while sock.recv(1 << 16):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


ENDINGS = {
    "calls": lambda n: frame(DATA, END_STREAM, n, bytes(5)),
    "resets": lambda n: frame(RESET, 0, n, struct.pack(">I", 8)),
}


FRAMES = {
    "pings": frame(PING, 0, 0, bytes(8)),
    "settings": frame(SETTINGS, 0, 0, struct.pack(">HI", WINDOW_SETTING, WINDOW_BYTES)),
    "priorities": frame(PRIORITY, 0, 1, bytes(5)),
    "unknown frames": frame(0x77, 0, 0),
}


def flood_with_frames(port, data, is_over):
    """Floods with frames from another address until that connection is closed."""
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", port), source_address=(FLOODER, 0)) as sock,
    ):
        sock.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0))
        reader = threading.Thread(target=read_all, args=(sock,))
        reader.start()
        while not is_over.is_set() and reader.is_alive():
            sock.sendall(data)


@pytest.mark.parametrize("kind", FRAMES)
async def test_whose_frames_are_no_calls_is_kept_away_too(port, kind, monkeypatch, caplog):
    """gRPC reads on from such a connection, and from no other. Others waited for seconds."""
    monkeypatch.setattr(call_watch, "FRAMES_BYTES", 1 << 10)  # the flood may be a slow one here
    monkeypatch.setattr(call_floods, "source_of", lambda place: (place[0], ANY_PORT))
    is_over, data = threading.Event(), FRAMES[kind] * 8000
    thread = threading.Thread(target=flood_with_frames, args=(port, data, is_over))
    thread.start()
    await asyncio.to_thread(thread.join, 60)
    is_over.set()
    assert f"too many calls or frames to port {port} from {FLOODER}: " in caplog.text


@pytest.mark.parametrize("sizes", [(10, 10, 10), (15, 30, 45, 60)])
async def test_whose_connections_come_and_go_is_looked_at(port, sizes, monkeypatch):
    """At each look there were as many bytes as at the last, or little more."""
    monkeypatch.setattr(call_watch, "BUSY", 0.0)
    monkeypatch.setattr(call_watch, "begun_calls", lambda: 0)
    received = {(FLOODER, number): size << 20 for number, size in enumerate(sizes, 1)}
    there = iter([{}, *({place: size} for place, size in received.items())])
    watch = CallWatch(("127.0.0.1", port), Counter(), Counter())
    monkeypatch.setattr(watch, "_received", lambda: next(there))
    looks = [watch._are_many_left(float(at)) for at in range(len(sizes) + 1)]
    watch.end()
    assert looks == [False, *(True for _ in sizes)]


async def test_long_messages_are_no_flood(port, monkeypatch, caplog):
    """However many arrive."""
    monkeypatch.setattr(call_watch, "FRAMES_BYTES", 1 << 7)
    monkeypatch.setattr(call_watch, "BUSY", 0.0)
    peers = Peers(transport.Plain("h3", KEY), OPTIONS)
    echo = peers.channel("h1", f"127.0.0.1:{port}").unary_unary(METHOD)
    message = bytes(1 << 19)
    for _ in range(100):
        assert await echo(message, metadata=peers.metadata) == message
    await peers.close()
    assert not caplog.messages


async def test_nobody_has_bytes_to_spare_by_messages_that_are_compressed(port):
    """15 KB that unpack to 15 MB counted as messages of 15 MB, and hid a flood of frames that
    large."""
    trust = transport.Plain("h3", KEY)
    target, gzip = f"127.0.0.1:{port}", grpc.Compression.Gzip
    async with grpc.aio.insecure_channel(target, compression=gzip) as channel:
        echo = channel.unary_unary(METHOD)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await echo(bytes(1 << 19), metadata=trust.metadata, timeout=60)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_no_answer_that_is_compressed_is_read():
    """It comes from a compromised host."""

    async def answer(_request, _context):
        return bytes(1 << 19)

    handlers = {"Echo": grpc.unary_unary_rpc_method_handler(answer)}
    server = grpc.aio.server(compression=grpc.Compression.Gzip)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.S", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    peers = Peers(transport.Plain("h3", KEY), OPTIONS)
    try:
        echo = peers.channel("h1", f"127.0.0.1:{port}").unary_unary(METHOD)
        with pytest.raises(grpc.aio.AioRpcError):
            assert len(await echo(b"x", timeout=60)) == 0
    finally:
        await peers.close()
        await server.stop(None)


@pytest.mark.parametrize("kind", ENDINGS)
async def test_who_floods_is_kept_away_and_others_are_heard(port, kind, monkeypatch, caplog):
    """Twenty connections kept all other hosts from a port for as long as they liked."""
    monkeypatch.setattr(call_floods, "source_of", lambda place: (place[0], ANY_PORT))
    monkeypatch.setattr(call_floods, "AWAY_S", 60.0)
    is_over = threading.Event()
    peers = Peers(transport.Plain("h3", KEY), OPTIONS)
    echo = peers.channel("h1", f"127.0.0.1:{port}").unary_unary(METHOD)
    try:
        assert await echo(b"x", metadata=peers.metadata) == b"x"
        said = f"too many calls or frames to port {port} from {FLOODER}: "
        await flooded((port, ENDINGS[kind], is_over), said, caplog)
        again = socket.create_connection(("127.0.0.1", port), source_address=(FLOODER, 0))
        again.settimeout(30)
        assert await asyncio.to_thread(is_closed, again)
        again.close()
        await heard(echo, peers.metadata)
    finally:
        is_over.set()
        await peers.close()


async def test_on_loopback_a_connection_that_floods_is_closed_and_the_next_let_in(
    port, monkeypatch, caplog
):
    """By frames: gRPC itself closes a connection with so many calls, mostly before we look."""
    monkeypatch.setattr(call_watch, "FRAMES_BYTES", 1 << 10)  # the flood may be a slow one here
    is_over, data = threading.Event(), FRAMES["unknown frames"] * 8000
    thread = threading.Thread(target=flood_with_frames, args=(port, data, is_over))
    thread.start()
    await asyncio.to_thread(thread.join, 60)
    is_over.set()
    assert "that connection is closed" in caplog.text
    peers = Peers(transport.Plain("h2", KEY), OPTIONS)
    echo = peers.channel("h1", f"127.0.0.1:{port}").unary_unary(METHOD)
    await heard(echo, peers.metadata)
    await peers.close()


def test_nothing_has_arrived_on_a_connection_that_was_closed_meanwhile():
    sock = socket.create_server(("127.0.0.1", 0))
    sock.close()
    assert call_watch.received_bytes(sock) == 0


@pytest.mark.parametrize(
    ("peer", "place"),
    [
        ("ipv4:10.0.0.2:40123", ("10.0.0.2", 40123)),
        ("ipv6:%5Bfe80::1%25eth0%5D:7", ("fe80::1%eth0", 7)),
        ("ipv6:%5B::ffff:10.0.0.2%5D:7", ("10.0.0.2", 7)),
    ],
)
def test_a_peer_in_the_format_of_grpc(peer, place):
    assert place_of(peer) == place
