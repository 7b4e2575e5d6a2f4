"""Answers for a dispatcher that waits for its ledger: every question is refused with the cause, so
that programs on all hosts can say it."""

import logging
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from lbd.config.schema import Config
from lbd.dispatch.service import SERVICE
from lbd.errors import NoAddress
from lbd.net import transport
from lbd.net.transport import Trust
from lbd.text.dispatcher_phrases import SAID_CHARS, WAITS
from lbd.text.one_line import one_line

if TYPE_CHECKING:  # generic only in the stubs
    from collections.abc import Awaitable, Callable

    Context = grpc.aio.ServicerContext[object, object]
    Handler = grpc.RpcMethodHandler[object, object]
    Refuse = Callable[[object, Context], Awaitable[None]]

log = logging.getLogger(__name__)

Where = tuple[str, int]
MESSAGE_BYTES = 1 << 16  # none is read


class Refusing(grpc.GenericRpcHandler):
    """Has one handler for all methods of the dispatcher."""

    def __init__(self, refuse: "Refuse") -> None:
        self._handler: Handler = grpc.stream_stream_rpc_method_handler(refuse)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "Handler | None":
        is_ours = handler_call_details.method.startswith(f"/{SERVICE}/")
        return self._handler if is_ours else None


class WaitingQueue:
    def __init__(self, trust: Trust, cuts: set[str]) -> None:
        self._trust, self._cuts = trust, cuts
        self._server: transport.Server | None = None
        self._why = ""
        self._where: Where | None = None

    async def begin(self, config: Config, why: str) -> None:
        """Serves until `end`, if the port is free. Only where no other host may lead: hosts take a
        dispatcher that listens for the leader."""
        self._why = why
        own = config.dispatch
        where = (config.host.address, own.port) if len(own.hosts) == 1 else None
        if where != self._where:
            await self.end()
        if where is None or self._server is not None:
            return
        handlers: list[grpc.GenericRpcHandler] = [Refusing(self._refuse)]
        options = transport.options(MESSAGE_BYTES, own.lease_s)
        try:
            server = transport.bind(*where, self._trust, self._cuts, handlers, options)
        except NoAddress as problem:
            log.debug("%s", problem)
            return
        await server.start()
        self._server, self._where = server, where

    async def end(self) -> None:
        """Frees the port."""
        server, self._server, self._where = self._server, None, None
        if server is not None:
            await server.stop(0.0)

    async def _refuse(self, _requests: object, context: "Context") -> None:
        await self._trust.caller(context)  # only hosts of this cluster are told
        said = f"{WAITS}{one_line(self._why, SAID_CHARS)}"
        await context.abort(grpc.StatusCode.UNAVAILABLE, said)
