"""Every long call ends when its caller is revoked, whatever its shape and whoever wrote it."""

import ast
import asyncio
import time
from pathlib import Path

import grpc
import grpc.aio
import pytest

import lbd
from lbd.rpc import transport
from lbd.rpc.tls import Tls
from lbd.trust.authority import Authority
from lbd.trust.enrol import enrol
from lbd.trust.files import HostFiles

MAKERS = {
    "Answers": grpc.unary_stream_rpc_method_handler,
    "Asks": grpc.stream_unary_rpc_method_handler,
    "Both": grpc.stream_stream_rpc_method_handler,
}
OPTIONS = transport.options(1 << 20, 10.0)


@pytest.fixture
def hosts(tmp_path):
    """h1, where the authority is, and h2."""
    authority = Authority(tmp_path / "authority", 86400.0)
    authority.create("c", "h1", time.time())
    for host in ("h1", "h2"):
        enrol(authority, HostFiles(tmp_path / host), host, "127.0.0.1:7901", time.time())
    return authority, *(Tls(host, HostFiles(tmp_path / host)) for host in ("h1", "h2"))


@pytest.mark.parametrize("method", MAKERS)
async def test_a_long_call_of_a_revoked_host_ends(hosts, method):
    authority, h1, h2 = hosts
    begun, ended = asyncio.Event(), asyncio.Event()

    async def forever(_request, _context):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    handlers = {name: make(forever) for name, make in MAKERS.items()}
    services = [grpc.method_handlers_generic_handler("test.S", handlers)]
    port = free_port()
    server = transport.bind("127.0.0.1", port, h1, set(), services, OPTIONS)
    await server.start()
    peers = transport.Peers(h2, OPTIONS)
    channel = peers.channel("h1", f"127.0.0.1:{port}")
    kinds = {"Answers": channel.unary_stream, "Asks": channel.stream_unary}
    opening = kinds.get(method, channel.stream_stream)(f"/test.S/{method}")
    given = (b"",) if method == "Answers" else ()
    call = opening(*given, metadata=peers.metadata, timeout=30)
    try:
        if method != "Answers":
            await call.write(b"x")
        async with asyncio.timeout(20):
            await begun.wait()
            h1.learn(authority.revoke("h2"))
            await ended.wait()
            assert await call.code() is grpc.StatusCode.ABORTED
        assert await call.details() == "h2 is revoked"
    finally:
        await peers.close()
        await server.stop(None)


def free_port():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def calls_in(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield ast.unparse(node.func)


def test_there_is_one_way_to_serve():
    """Streaming methods are guarded by `transport.bind`, so nothing may be served beside it."""
    found = {
        str(path.relative_to(Path(lbd.__file__).parent))
        for path in Path(lbd.__file__).parent.rglob("*.py")
        if {"grpc.aio.server", "grpc.server", "aio.server"} & set(calls_in(path))
    }
    assert found == {"rpc/transport.py"}
