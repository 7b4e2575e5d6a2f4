"""On a server: calls of hosts whose release is too old or too new for ours are refused at once."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from lbd.net import release as wire

if TYPE_CHECKING:  # generic in the stubs only
    from collections.abc import Awaitable

    Context = grpc.aio.ServicerContext[object, object]
    Handler = grpc.RpcMethodHandler[object, object] | None
    Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Handler]]

UNDERSTOOD_MAX = 1024
Skewed = Callable[[str, str], None]  # a host and why we do not understand each other


def ignore(_host: str, _why: str) -> None:
    return


class NeighbourCheck(grpc.aio.ServerInterceptor):
    """Refuses calls of incompatible hosts; `skewed` is called for each."""

    def __init__(self, own_name: str, host_header: str, skewed: Skewed) -> None:
        self._own_name = own_name
        self._host_header = host_header
        self._skewed = skewed
        self._understood: set[str] = set()

    async def intercept_service(  # type: ignore[override]  # the stubs make it generic
        self,
        continuation: "Continuation",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler":
        headers = dict(handler_call_details.invocation_metadata or ())
        announced = str(headers.get(wire.HEADER, ""))
        if announced in self._understood:
            return await continuation(handler_call_details)
        caller = str(headers.get(self._host_header, "the caller"))
        if why := self._judge(caller, announced):
            self._skewed(caller, why)
            return refusal(why)
        if len(self._understood) < UNDERSTOOD_MAX:
            self._understood.add(announced)
        return await continuation(handler_call_details)

    def _judge(self, caller: str, announced: str) -> str:
        try:
            theirs = wire.read(announced) if announced else wire.BEFORE
        except ValueError as problem:
            return f"{caller}: {problem}"
        return wire.disagreement(caller, theirs, self._own_name, wire.OWN)


def refusal(why: str) -> "Handler":
    async def refuse(_request: object, context: "Context") -> None:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, why)

    return grpc.stream_stream_rpc_method_handler(refuse)
