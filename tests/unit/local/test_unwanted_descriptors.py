"""Descriptors that are sent where none are wanted: they are rejected, or limited in number."""

import asyncio
import os
import socket
import threading

import pytest

from lbd.local import unix_transport, unwanted_descriptors
from lbd.local.descriptors import MACHINES, SO_PASSRIGHTS, is_at_end, take_urgent_inline
from lbd.local.json_socket import ask, serve_json

CONNECTIONS, SENT, WAITING_MAX = 40, 100, 50


def knows_the_rule():
    with socket.socket(socket.AF_UNIX) as sock:
        try:
            sock.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 0)
        except OSError:
            return False
    return os.uname().machine in MACHINES


@pytest.fixture
async def serve(tmp_path_factory):
    """Serves a daemon's socket."""
    servers = []

    async def handle(_request, _caller):
        return {}

    async def begin():
        path = tmp_path_factory.mktemp("s") / "x.sock"
        servers.append(await serve_json(path, handle, 0o600))
        return path

    yield begin
    for server in servers:
        server.close()


def flood(path):
    """Returns how often it was rejected."""
    refused = 0
    with open(os.devnull) as null:
        for _ in range(CONNECTIONS):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(str(path))
                try:
                    socket.send_fds(sock, [b"x"], [null.fileno()] * SENT)
                except PermissionError:
                    refused += 1
    return refused


@pytest.mark.skipif(not knows_the_rule(), reason="a kernel before Linux 6.16")
async def test_the_kernel_lets_none_in(serve):
    path = await serve()
    assert await asyncio.to_thread(flood, path) == CONNECTIONS
    assert await asyncio.to_thread(ask, path, {"op": "x"}) == {"ok": True, "id": 1}


async def test_of_whose_hang_as_they_are_closed_no_more_are_received(serve, monkeypatch):
    """On kernels that let them in: they took all descriptors that the daemon may have."""
    let_go, close = threading.Event(), unwanted_descriptors.close_descriptor

    def hang(descriptor):
        let_go.wait(60)
        close(descriptor)

    monkeypatch.setattr(unix_transport, "take_descriptors", lambda *_, **__: None, raising=False)
    monkeypatch.setattr(unwanted_descriptors, "WAITING_MAX", WAITING_MAX, raising=False)
    monkeypatch.setattr(unwanted_descriptors, "close_descriptor", hang)
    path = await serve()
    before = len(os.listdir("/proc/self/fd"))
    try:
        assert await asyncio.to_thread(flood, path) == 0
        assert await asyncio.to_thread(ask, path, {"op": "x"}) == {"ok": True, "id": 1}
        more = len(os.listdir("/proc/self/fd")) - before
        assert more <= WAITING_MAX + SENT + CONNECTIONS + 10
    finally:
        let_go.set()


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_a_connection_with_plain_data_is_closed_at_once(size):
    """Otherwise each would wait, holding one of the daemon's descriptors, while another hangs."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(bytes(size))
        assert is_at_end(ours)


@pytest.mark.parametrize(("before", "flags"), [(0, 0), (3, 0), (100_000, 0), (3, socket.MSG_OOB)])
def test_one_that_descriptors_have_come_with_is_not(before, flags):
    ours, theirs = socket.socketpair()
    with ours, theirs, open(os.devnull) as null:
        take_urgent_inline(ours)
        theirs.sendall(bytes(before))
        socket.send_fds(theirs, [b"x"], [null.fileno()], flags)
        assert not is_at_end(ours)
        received = [socket.recv_fds(ours, 1 << 17, 1) for _ in range(2)]
        descriptors = [number for one in received for number in one[1]]
        assert len(descriptors) == 1  # still there, for a thread to close
        os.close(descriptors[0])
