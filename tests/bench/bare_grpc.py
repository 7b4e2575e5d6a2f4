"""The round trip of a byte on one open gRPC stream between two event loops, with nothing around it.

The link between two hosts is built on such a stream, so it cannot be faster.
"""

import asyncio
import subprocess
import sys
import time
from pathlib import Path

import grpc
import uvloop

from lbd.net.grpc_environment import settle
from tests.bench.measure import ENVIRONMENT, CannotMeasureError


def as_daemons() -> dict[str, str]:
    environment = dict(ENVIRONMENT)
    settle(environment)
    return environment


METHOD = "/bench.Echo/Echo"
START_TIMEOUT_S = 20.0
Call = grpc.aio.StreamStreamCall[bytes, bytes]


class BareStream:
    """A context manager; `echo_s` times one byte."""

    def __enter__(self) -> "BareStream":
        root = Path(__file__).resolve().parents[2]
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.bare_grpc"], cwd=root, env=as_daemons(),
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._server.stdout is not None
        port = self._server.stdout.readline().strip()
        if not port:
            raise CannotMeasureError("the bare gRPC server did not start")
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._runner.__enter__()
        self._runner.run(self._open(port))
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._channel.close())
        self._runner.__exit__(None, None, None)
        self._server.terminate()
        self._server.communicate()

    async def _open(self, port: str) -> None:
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        await asyncio.wait_for(self._channel.channel_ready(), START_TIMEOUT_S)
        self._call: Call = self._channel.stream_stream(METHOD)()

    def echo_s(self) -> float:
        return self._runner.run(self._echo_s())

    async def _echo_s(self) -> float:
        began_s = time.perf_counter()
        await self._call.write(b"x")
        if await self._call.read() != b"x":
            raise CannotMeasureError("the bare gRPC stream has ended")
        return time.perf_counter() - began_s


async def serve() -> None:
    async def echo(_: object, context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        while isinstance(message := await context.read(), bytes):
            await context.write(message)

    handler = grpc.method_handlers_generic_handler(
        METHOD.split("/")[1], {METHOD.split("/")[2]: grpc.stream_stream_rpc_method_handler(echo)}
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.Runner(loop_factory=uvloop.new_event_loop).run(serve())
