"""Faults of ours that a host's calls bring about."""

import grpc
import grpc.aio
import pytest

from tests.unit.net.call_server import said, serving


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
