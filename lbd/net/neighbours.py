"""A server's check that refuses calls of hosts whose release is too old or too new for ours.

The host's name comes from its certificate. If the name in the call counted, any host could make us
take another host for an incompatible one, even after it was revoked.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import grpc
import grpc.aio

from lbd.errors import PeerError
from lbd.net import release as wire

if TYPE_CHECKING:  # generic in the stubs only
    from collections.abc import Awaitable, Iterable, Mapping

    Context = grpc.aio.ServicerContext[object, object]
    Handler = grpc.RpcMethodHandler[object, object] | None
    Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Handler]]
    Caller = Callable[["Asking"], Awaitable[str]]

UNDERSTOOD_MAX = 1024
Skewed = Callable[[str, str], None]  # called with a host and why the releases are incompatible


def ignore(_host: str, _why: str) -> None:
    return


class Asking:
    """Stands in for a call, to find out its caller. If the caller is nobody, it raises PeerError,
    since the call is refused for another reason."""

    def __init__(self, context: "Context") -> None:
        self._context = context

    def auth_context(self) -> "Mapping[str, Iterable[bytes]]":
        found: Mapping[str, Iterable[bytes]] = self._context.auth_context()
        return found

    async def abort(self, _code: grpc.StatusCode, details: str) -> NoReturn:
        raise PeerError(details)


class NeighbourCheck(grpc.aio.ServerInterceptor):
    """Refuses calls of incompatible hosts; `skewed` is called for each."""

    def __init__(self, own_name: str, host_header: str, skewed: Skewed, caller: "Caller") -> None:
        """`caller`: returns the calling host, "" where hosts prove nothing, as in a lab."""
        self._own_name = own_name
        self._host_header = host_header
        self._skewed = skewed
        self._caller = caller
        self._understood: set[str] = set()

    async def intercept_service(  # type: ignore[override]  # the stubs make it generic
        self,
        continuation: "Continuation",
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "Handler":
        headers = dict(handler_call_details.invocation_metadata or ())
        announced = str(headers.get(wire.HEADER, ""))
        if not announced or announced in self._understood:
            return await continuation(handler_call_details)
        said = str(headers.get(self._host_header, "the caller"))
        if self._judge(said, announced):
            return self._refusal(said, announced)
        if len(self._understood) < UNDERSTOOD_MAX:
            self._understood.add(announced)
        return await continuation(handler_call_details)

    def _judge(self, caller: str, announced: str) -> str:
        try:
            theirs = wire.read(announced)
        except ValueError as problem:
            return f"{caller}: {problem}"
        return wire.disagreement(caller, theirs, self._own_name, wire.OWN)

    def _refusal(self, said: str, announced: str) -> "Handler":
        async def refuse(_request: object, context: "Context") -> None:
            why = self._judge(said, announced)
            try:
                proven = await self._caller(Asking(context))
            except PeerError:  # revoked, or not a host yet
                pass
            else:
                why = self._judge(proven or said, announced)
                self._skewed(proven or said, why)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, why)

        return grpc.stream_stream_rpc_method_handler(refuse)
