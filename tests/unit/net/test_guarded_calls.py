"""Limits on what one host's calls take of a server; and its long calls end when it is revoked."""

import ast
import asyncio
import contextlib
import gc
import tracemalloc
from collections import Counter
from pathlib import Path

import grpc
import grpc.aio
import pytest

import lbd
from lbd.config.schema import LbmConfig
from lbd.local.budget import Budget
from lbd.net import guarded_calls, transport
from lbd.net.guarded_calls import CALLS_MAX, READ_AT_ONCE, Answers, Counted
from lbd.net.peers import Peers
from lbd.net.tls import certificate_of
from tests.unit.enrolment import joined, made_authority
from tests.unit.net.call_server import (
    MAKERS,
    OPTIONS,
    as_host,
    free_port,
    said,
    serving,
    size_of,
)
from tests.unit.net.raw_http2 import WINDOW_BYTES, RawClient

LONG = 1 << 19  # bytes: more than a window, less than a message may have


@pytest.fixture
def hosts(tmp_path):
    """Makes h1, where the authority is, and h2."""
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
    peers = Peers(h2, OPTIONS)
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


async def test_a_host_has_so_many_calls_and_no_more(hosts, monkeypatch):
    """Each takes memory, and a host can open any number of connections for them."""
    monkeypatch.setattr(guarded_calls, "CALLS_MAX", 3)
    _, h1, h2 = hosts

    async def forever(_request, context):
        await context.write(b"begun")
        await asyncio.Event().wait()

    handlers = {"Answers": grpc.unary_stream_rpc_method_handler(forever)}
    services = [grpc.method_handlers_generic_handler("test.S", handlers)]
    port = free_port()
    server = transport.bind("127.0.0.1", port, h1, set(), services, OPTIONS)
    await server.start()
    peers = [Peers(h2, [*OPTIONS, ("test.number", number)]) for number in range(2)]
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
            assert await refused.details() == "h2 has 3 calls in progress here; try again later"
            calls[0].cancel()
            again = None
            while again != b"begun":  # it learns of that a moment later, and refuses until then
                with contextlib.suppress(grpc.aio.AioRpcError):
                    again = await opening[0](b"", metadata=metadata, timeout=120).read()
    finally:
        for one in peers:
            await one.close()
        await server.stop(None)


def test_all_clients_of_an_lbm_may_wait_on_one_connection():
    """One user with 1024 calls that waited for jobs kept others of that host from the queue."""
    assert 1.5 * LbmConfig().max_clients <= CALLS_MAX
    assert dict(OPTIONS)["grpc.max_concurrent_streams"] == CALLS_MAX


@pytest.mark.parametrize("method", ["Once", "Answers"])
async def test_of_messages_whose_end_does_not_come_a_few_are_held(method, monkeypatch):
    """A hundred that lacked a byte each took 1.5 GiB of a daemon that accepts 16 MiB in one."""
    async with serving(Once=size_of, Answers=size_of) as port, RawClient(port) as client:
        calls = [client.call(f"/test.S/{method}", LONG, as_host("h2")) for _ in range(40)]
        await client.until(lambda: len(client.whole()) == READ_AT_ONCE)
        waiting = [client.sent[call] for call in calls if call not in client.whole()]
        assert max(waiting) <= WINDOW_BYTES
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert await said(channel, "h3", bytes(LONG)) == str(LONG).encode()
        monkeypatch.setattr(guarded_calls, "READ_S", 0.2)  # for those that arrive now
        late = [client.call(f"/test.S/{method}", LONG, as_host("h4")) for _ in range(8)]
        await client.until(lambda: client.ended >= set(late))
        assert not client.ended & set(calls)


async def test_who_has_nothing_in_hand_is_read_however_many_others_withhold_messages(monkeypatch):
    """Eight hosts could have all turns, half a minute each."""
    monkeypatch.setattr(guarded_calls, "READ_SHARED", 2)
    async with serving(Once=size_of) as port, RawClient(port) as client:
        for host in ("h2", "h3"):
            for _ in range(READ_AT_ONCE):
                client.call("/test.S/Once", LONG, as_host(host))
        await client.until(lambda: len(client.whole()) == 2 + guarded_calls.READ_SHARED)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            assert await said(channel, "h4", bytes(LONG)) == str(LONG).encode()


async def test_of_streams_that_may_hold_a_message_back_a_host_has_a_few(monkeypatch):
    monkeypatch.setattr(guarded_calls, "STREAMS_MAX", 3)

    async def hears(_requests, context):
        while isinstance(await context.read(), bytes):
            pass

    async with serving(Both=hears, Asks=hears) as port, RawClient(port) as client:
        methods = ("Both", "Asks", "Both", "Asks", "Both")
        calls = [client.call(f"/test.S/{name}", LONG, as_host("h2")) for name in methods]
        await client.until(lambda: len(client.ended) == 2 and len(client.whole()) == 3)
        others = client.call("/test.S/Both", LONG, as_host("h3"))
        await client.until(lambda: others in client.whole())
        assert client.ended < set(calls)


async def test_requests_whose_calls_go_on_are_within_a_budget(monkeypatch):
    """A question about one job, with 15 MiB of padding, was kept for as long as the job ran."""
    monkeypatch.setattr(guarded_calls, "IN_HAND_BYTES", 3 * LONG)

    async def forever(_request, context):
        await context.write(b"begun")
        await asyncio.Event().wait()

    async with (
        serving(Answers=forever) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        asking = channel.unary_stream("/test.S/Answers")
        calls = [asking(bytes(LONG), metadata=as_host("h2"), timeout=60) for _ in range(3)]
        assert [await call.read() for call in calls] == [b"begun"] * 3
        refused = asking(bytes(LONG), metadata=as_host("h2"), timeout=60)
        assert await refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await asking(bytes(LONG), metadata=as_host("h3"), timeout=60).read() == b"begun"
        calls[0].cancel()
        again = None
        while again != b"begun":  # it learns of that a moment later
            again = await asking(bytes(LONG), metadata=as_host("h2"), timeout=60).read()


@pytest.mark.parametrize("method", ["Once", "Answers"])
async def test_answers_that_are_not_read_are_within_a_budget(method, monkeypatch):
    """One host made an LBM hold a GiB at once, and a dispatcher as much in half a minute."""
    monkeypatch.setattr(guarded_calls, "UNREAD_BYTES", 3 * LONG)
    answer = bytes(LONG)

    async def once(_request, _context):
        return answer

    async def answers(_request, context):
        await context.write(answer)

    async with (
        serving(Once=once, Answers=answers) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel,
    ):
        asking = channel.stream_stream(f"/test.S/{method}")

        async def asked(host):
            call = asking(metadata=as_host(host), timeout=60)
            await call.write(b"x")
            await call.done_writing()
            return call

        unread = [await asked("h2") for _ in range(3)]
        for call in unread:
            await call.initial_metadata()  # it is answered
        refused = await asked("h2")
        text = f"h2 has {3 * LONG} bytes of unread answers here; try again later"
        assert await refused.details() == text
        assert await refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await (await asked("h3")).read() == answer
        assert await unread[0].read() == answer
        assert await unread[0].code() is grpc.StatusCode.OK
        again = None
        while again != answer:  # it is finished with that a moment later
            again = await (await asked("h2")).read()


async def test_a_call_counts_until_its_answer_is_sent(monkeypatch):
    monkeypatch.setattr(guarded_calls, "CALLS_MAX", 3)

    async def once(_request, _context):
        return bytes(LONG)

    async with (
        serving(Once=once) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel,
    ):
        asking = channel.stream_stream("/test.S/Once")
        unread = [asking(metadata=as_host("h2"), timeout=60) for _ in range(3)]
        for call in unread:
            await call.write(b"x")
            await call.done_writing()
            await call.initial_metadata()  # it is answered
        refused = asking(metadata=as_host("h2"), timeout=60)
        assert await refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await refused.details() == "h2 has 3 calls in progress here; try again later"
        for call in unread:
            call.cancel()
        again = asking(metadata=as_host("h3"), timeout=60)
        await again.write(b"x")
        assert await again.read() == bytes(LONG)
        code = grpc.StatusCode.RESOURCE_EXHAUSTED
        while code is not grpc.StatusCode.OK:  # it learns of that a moment later
            asked = channel.unary_unary("/test.S/Once")
            code = await asked(b"", metadata=as_host("h2"), timeout=60).code()


async def test_what_was_refused_is_not_kept():
    """In fifteen seconds one host made the dispatcher keep 3 GiB of refused questions."""

    async def refuse(request, context):
        try:
            raise ValueError(request)
        except ValueError:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "asked too often")

    async with (
        serving(Once=refuse) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        with pytest.raises(grpc.aio.AioRpcError):
            await said(channel, "h2", bytes(LONG))
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            for _ in range(20):
                with pytest.raises(grpc.aio.AioRpcError, match="asked too often"):
                    await said(channel, "h2", bytes(LONG))
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            gc.enable()
    assert kept < 5 * LONG


async def test_a_call_without_a_request_is_refused_and_one_too_long(monkeypatch):
    monkeypatch.setattr(guarded_calls, "READ_S", 60.0)
    async with (
        serving(Once=size_of) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        nothing = channel.stream_unary("/test.S/Once")(metadata=as_host("h2"), timeout=60)
        await nothing.done_writing()
        assert await nothing.code() is grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.aio.AioRpcError, match="larger than max") as refused:
            await said(channel, "h2", bytes(2 << 20))
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        for _ in range(READ_AT_ONCE + 1):  # and their places are free again
            assert await said(channel, "h2", b"x") == b"1"


async def test_who_was_revoked_takes_nothing_from_who_has_joined_again(hosts):
    authority, h1, h2 = hosts
    shown = h2.credentials.certificate.encode()

    class Call:
        def auth_context(self):
            return {"x509_pem_cert": [shown]}

    assert h1.asker(Call()) == "h2"
    h1.learn(authority.revoke("h2"))
    assert h1.asker(Call()) == "h2 (revoked)"
    shown = b"none of ours"
    assert h1.asker(Call()) == transport.NOBODY


def calls_in(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield ast.unparse(node.func)


def test_there_is_one_way_to_serve():
    """Streaming methods are guarded by `transport.bind`, so nothing may be served another way."""
    found = {
        str(path.relative_to(Path(lbd.__file__).parent))
        for path in Path(lbd.__file__).parent.rglob("*.py")
        if {"grpc.aio.server", "grpc.server", "aio.server"} & set(calls_in(path))
    }
    assert found == {"net/transport.py"}


def test_the_certificate_of_a_caller_is_read_once_per_call():
    read = []

    class Context:
        def auth_context(self):
            read.append(1)
            return {"x509_pem_cert": [b"certificate"]}

        def invocation_metadata(self):
            read.append(2)
            return [("lbd-host", "h2")]

        def peer(self):
            return "ipv4:10.0.0.2:40123"

    context = Answers(Counted(Context(), "h2", Counter()), Budget(1, 1), "h2")
    assert [certificate_of(context) for _ in range(3)] == [b"certificate"] * 3
    assert [context.invocation_metadata() for _ in range(2)] == [(("lbd-host", "h2"),)] * 2
    assert (read, context.peer()) == ([1, 2], "ipv4:10.0.0.2:40123")
