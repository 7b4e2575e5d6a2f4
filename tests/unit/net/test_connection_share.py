"""One address has at most its share of a port's connections."""

import asyncio
import socket

import grpc.aio
import pytest

from lbd.net import connection_share
from lbd.net.connection_share import ConnectionShares, close_excess

SHARE = 40


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0), backlog=200) as listener:
        yield listener


def connected(listener, count, address="127.0.0.1"):
    """Returns (our ends, theirs)."""
    ours = [
        socket.create_connection(listener.getsockname(), source_address=(address, 0))
        for _ in range(count)
    ]
    return ours, [listener.accept()[0] for _ in range(count)]


def is_open(sock):
    sock.setblocking(False)
    try:
        return bool(sock.recv(1))
    except BlockingIOError:
        return True


def test_an_address_has_its_share_and_another_is_not_touched(listener, monkeypatch):
    monkeypatch.setattr(connection_share, "sharer", str)  # there are no others to call from here
    port = listener.getsockname()[1]
    many, accepted = connected(listener, SHARE + 25)
    few, more = connected(listener, 5, "127.0.0.9")
    assert close_excess("127.0.0.1", port, SHARE) == {"127.0.0.1": 25}
    assert sum(map(is_open, many)) == SHARE
    assert all(map(is_open, few))
    for sock in (*many, *accepted, *few, *more):
        sock.close()


def test_a_connection_that_has_carried_a_call_outlives_those_that_say_nothing(listener):
    """A user of a host opens as many to another as the host may have: its LBM's must not close."""
    port = listener.getsockname()[1]
    silent, accepted = connected(listener, SHARE)
    (lbm, *others), more = connected(listener, 20)
    called = {lbm.getsockname()}
    assert close_excess("127.0.0.1", port, SHARE, lambda: called) == {"127.0.0.1": 20}
    assert is_open(lbm)
    assert sum(map(is_open, silent)) + sum(map(is_open, others)) == SHARE - 1
    for sock in (*silent, *accepted, lbm, *others, *more):
        sock.close()


def test_those_that_have_carried_a_call_have_no_more_than_a_share(listener):
    """A host that was taken over makes a call on each."""
    port = listener.getsockname()[1]
    ours, accepted = connected(listener, SHARE + 5)
    called = {one.getsockname() for one in ours}
    assert close_excess("127.0.0.1", port, SHARE, lambda: called) == {"127.0.0.1": 5}
    for sock in (*ours, *accepted):
        sock.close()


def test_all_loopback_addresses_have_one_share(listener):
    """With four of them a user of the host had all connections, each with half a TLS handshake."""
    port = listener.getsockname()[1]
    pairs = [connected(listener, SHARE // 2, f"127.0.0.{n}") for n in range(2, 6)]
    assert close_excess("127.0.0.1", port, SHARE) == {"127.0.0.1": SHARE}
    assert [sum(map(is_open, ours)) for ours, _ in pairs] == [SHARE // 2, SHARE // 2, 0, 0]
    for sock in (sock for ends in pairs for end in ends for sock in end):
        sock.close()


def test_outgoing_connections_do_not_count(listener):
    """Those that we have opened ourselves."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        ours, theirs = connected(listener, SHARE + 5)
        assert close_excess(*other.getsockname(), SHARE) == {}
        assert all(map(is_open, ours))
        for sock in (*ours, *theirs):
            sock.close()


async def test_a_server_is_looked_at_as_long_as_it_is_there(caplog):
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    shares = ConnectionShares(("127.0.0.1", port), 4 * SHARE)
    socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(SHARE + 10)]
    async with asyncio.timeout(20):
        while "closed" not in caplog.text:  # noqa: ASYNC110  # nobody says so
            await asyncio.sleep(0.05)
    assert sum(map(still_there, socks)) == SHARE
    for sock in socks:
        sock.close()
    shares.end()
    await server.stop(None)
    assert connection_share.LOOK_S <= 5


def still_there(sock):
    """Returns the connections that are still open: gRPC has sent its settings on each."""
    sock.settimeout(5)
    while data := sock.recv(1 << 16):
        sock.setblocking(False)
        try:
            data = sock.recv(1 << 16)
        except BlockingIOError:
            return True
        if not data:
            return False
        sock.settimeout(5)
    return False
