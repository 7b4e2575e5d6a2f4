"""Every long call ends when its caller is revoked, whatever its shape and whoever wrote it."""

import ast
import asyncio
from pathlib import Path

import grpc
import grpc.aio
import pytest

import lbd
from lbd.config.schema import LbmConfig
from lbd.net import transport
from tests.unit.enrolment import joined, made_authority

MAKERS = {
    "Answers": grpc.unary_stream_rpc_method_handler,
    "Asks": grpc.stream_unary_rpc_method_handler,
    "Both": grpc.stream_stream_rpc_method_handler,
}
OPTIONS = transport.options(1 << 20, 10.0)


@pytest.fixture
def hosts(tmp_path):
    """h1, where the authority is, and h2."""
    authority = made_authority(tmp_path / "authority")
    return authority, *(joined(authority, host) for host in ("h1", "h2"))


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
    call = opening(*given, metadata=peers.metadata, timeout=120)
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


async def test_a_host_has_so_many_long_calls_and_no_more(hosts, monkeypatch):
    """Each takes memory, and a host can have any number of connections for them."""
    monkeypatch.setattr(transport, "LONG_CALLS_MAX", 3)
    _, h1, h2 = hosts

    async def forever(_request, context):
        await context.write(b"begun")
        await asyncio.Event().wait()

    handlers = {"Answers": grpc.unary_stream_rpc_method_handler(forever)}
    services = [grpc.method_handlers_generic_handler("test.S", handlers)]
    port = free_port()
    server = transport.bind("127.0.0.1", port, h1, set(), services, OPTIONS)
    await server.start()
    peers = [transport.Peers(h2, [*OPTIONS, ("test.number", number)]) for number in range(2)]
    opening = [
        one.channel("h1", f"127.0.0.1:{port}").unary_stream("/test.S/Answers") for one in peers
    ]
    metadata = peers[0].metadata
    try:
        async with asyncio.timeout(20):
            calls = [opening[n % 2](b"", metadata=metadata, timeout=120) for n in range(3)]
            assert [await call.read() for call in calls] == [b"begun"] * 3
            refused = opening[1](b"", metadata=metadata, timeout=120)
            assert await refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert await refused.details() == "h2 has 3 calls under way here"
            calls[0].cancel()
            again = None
            while again != b"begun":  # it hears of that a moment later
                again = await opening[0](b"", metadata=metadata, timeout=120).read()
    finally:
        for one in peers:
            await one.close()
        await server.stop(None)


def test_all_clients_of_an_lbm_may_wait_on_one_connection():
    """With 1024 calls of one user who waited for jobs nobody else of that host got to the queue."""
    assert 1.5 * LbmConfig().max_clients <= transport.CALLS_MAX
    assert dict(OPTIONS)["grpc.max_concurrent_streams"] == transport.CALLS_MAX


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
    assert found == {"net/transport.py"}
