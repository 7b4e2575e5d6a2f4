"""Faults of ours that a host's calls bring about."""

import logging
from unittest.mock import Mock

import grpc
import grpc.aio
import pytest

from lbd.net.guarded_calls import Counted
from tests.unit.net.call_server import as_host, said, serving


async def test_a_fault_that_a_host_brings_about_again_and_again_does_not_fill_the_log(caplog):
    """Each call wrote a traceback: a megabyte a second."""

    async def fails(_request, _context):
        raise OverflowError("too large")

    async with (
        serving(Once=fails) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        for _ in range(40):
            with pytest.raises(grpc.aio.AioRpcError, match="failed here by OverflowError") as told:
                await said(channel, "h2", b"x")
            assert told.value.code() is grpc.StatusCode.INTERNAL
        with pytest.raises(grpc.aio.AioRpcError):
            await said(channel, "h3", b"x")
    logged = [one.getMessage() for one in caplog.records if one.exc_info]
    assert 10 <= logged.count("/test.S/Once, called by h2, failed") < 20
    assert logged[-1] == "/test.S/Once, called by h3, failed"


async def test_a_caller_that_goes_while_it_is_answered_is_no_fault(caplog, monkeypatch):
    """`lbctl logs ID | head -1` left a traceback in the log of the host with the output."""

    async def fails(_message):  # as gRPC's does at a call that is over
        raise grpc.aio.InternalError("Failed grpc_call_start_batch: 8")

    async def answers(_request, context):
        assert isinstance(context._context, Counted)
        monkeypatch.setattr(context._context, "_context", Mock(write=fails))
        await context.write(b"x")

    async with (
        serving(Answers=answers) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        call = channel.unary_stream("/test.S/Answers")(b"x", metadata=as_host("h2"))
        with pytest.raises(grpc.aio.AioRpcError) as told:
            await call.read()
    assert (
        told.value.code() is grpc.StatusCode.CANCELLED
    )  # it does not wait for ever, if it is there
    assert not [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
