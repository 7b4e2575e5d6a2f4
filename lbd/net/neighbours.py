"""On a server: calls of hosts whose release is too old or too new for ours are refused at once.

Which host that is, is its certificate's word: by what the call says of itself, any host could have
another taken for one that is not to be dealt with, and go on with that after it was revoked.
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
Skewed = Callable[[str, str], None]  # a host and why we do not understand each other


def ignore(_host: str, _why: str) -> None:
    return


class Asking:
    """A call that is asked whose it is. That it is nobody's raises PeerError: it is refused for
    another reason."""

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
        """`caller`: the host that calls, "" where hosts prove nothing, as in a lab."""
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
        if announced in self._understood:
            return await continuation(handler_call_details)
        said = str(headers.get(self._host_header, "the caller"))
        if self._judge(said, announced):
            return self._refusal(said, announced)
        if len(self._understood) < UNDERSTOOD_MAX:
            self._understood.add(announced)
        return await continuation(handler_call_details)

    def _judge(self, caller: str, announced: str) -> str:
        try:
            theirs = wire.read(announced) if announced else wire.BEFORE
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
