"""A question to another host that is not answered."""

import asyncio
import contextlib

import grpc
import grpc.aio
import pytest

from lbd.net.question import Unanswered, ask


class Channel:
    def __init__(self, problem):
        self.problem = problem

    def unary_unary(self, _method):
        async def call(_data, metadata):
            raise self.problem

        return call


def failure(code, details):
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


@pytest.mark.parametrize(
    ("problem", "code", "text"),
    [
        (failure(grpc.StatusCode.ABORTED, "revoked"), grpc.StatusCode.ABORTED, "revoked"),
        (failure(grpc.StatusCode.CANCELLED, ""), grpc.StatusCode.CANCELLED, "cancelled"),
        (grpc.aio.UsageError("Channel is closed."), None, "Channel is closed."),
        (grpc.aio.InternalError("closed"), None, "closed"),
    ],
)
async def test_a_missing_answer_is_an_error_with_its_reason(problem, code, text):
    with pytest.raises(Unanswered) as found:
        await ask(Channel(problem), "/lbd.v1.Lbm/Jobs", b"", (), 1.0)
    assert (found.value.code, str(found.value)) == (code, text)


async def test_a_channel_closed_under_a_question_is_not_a_cancellation():
    """As for a revoked host: gRPC cancels the waiting task."""
    async with asking() as (channel, asked, _):
        task = asyncio.create_task(ask(channel, "/test.S/Ask", b"", (), LONG_S))
        await asked.wait()
        await channel.close(None)
        with pytest.raises(Unanswered, match="closed"):
            await task


async def test_a_question_without_an_answer_in_time_is_taken_back():
    async with asking() as (channel, asked, given_up):
        with pytest.raises(Unanswered, match="it is silent") as found:
            await ask(channel, "/test.S/Ask", b"", (), 0.2)
        assert found.value.code is grpc.StatusCode.DEADLINE_EXCEEDED
        if asked.is_set():  # on a busy machine the time may be up before it is sent
            await given_up.wait()


async def test_a_cancelled_task_stays_cancelled():
    async with asking() as (channel, asked, _):
        task = asyncio.create_task(ask(channel, "/test.S/Ask", b"", (), LONG_S))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


LONG_S = 60.0


@contextlib.asynccontextmanager
async def asking():
    """Yields a channel to a server that never answers, and events set when it has been asked and
    when it need no longer answer."""
    asked, given_up = asyncio.Event(), asyncio.Event()

    async def never(_request, _context):
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()

    handlers = {"Ask": grpc.unary_unary_rpc_method_handler(never)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("test.S", handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
    try:
        async with asyncio.timeout(LONG_S):
            yield channel, asked, given_up
    finally:
        await channel.close(None)
        await server.stop(None)
