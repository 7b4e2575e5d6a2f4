"""A LIM's answers about certificates: join, renew, and news of revoked hosts.

Every peer that TLS admits may ask, including a revoked host and the holder of a token. So each host
has turns of its own, all other peers share theirs, and there are few of them.
"""

import asyncio
import logging
import time
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from lbd.errors import LbdError, PeerError
from lbd.local.rate_limit import Rates, turns_of
from lbd.net.gen import trust_pb2 as pb
from lbd.net.question import read
from lbd.net.tls import Tls, certificate_of
from lbd.net.transport import NOBODY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lbd.trust.authority import Authority

    Context = grpc.aio.ServicerContext[object, object]

log = logging.getLogger("lbd.tls")

SERVICE = "lbd.v1.Trust"
CALLS_PER_S, CALLS_AT_ONCE = 20.0, 100.0  # per host; a long call counts as several
SIGNED_TURNS = 10.0  # for a call that needs the authority's signature
# Of such calls of one host, which needs one in days: each is a line in the log, and a write to the
# authority's disk. Newcomers, which have no name yet, may be many.
SIGNED_PER_S, SIGNED_AT_ONCE = 0.1, 10.0
PATIENCE_S = 2.0
Request = TypeVar("Request", bound=Message)
Reply = TypeVar("Reply", bound=Message)


class TrustService:
    """Answers about certificates; most of it only on the authority's host."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._rates = Rates(CALLS_PER_S, CALLS_AT_ONCE)
        self._signed = Rates(SIGNED_PER_S, SIGNED_AT_ONCE)

    def handler(self) -> grpc.GenericRpcHandler:
        methods = {
            "Join": self._unary(self._join, pb.JoinRequest, SIGNED_TURNS),
            "Renew": self._unary(self._renew, pb.RenewRequest, SIGNED_TURNS),
            "Revocations": self._unary(self._revocations, pb.RevocationUpdate),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    async def _join(self, request: pb.JoinRequest, context: "Context") -> pb.JoinReply:
        authority = await self._need_authority(context)
        try:
            shown = certificate_of(context)
            token = await asyncio.to_thread(authority.token_of, shown)
            made = await asyncio.to_thread(
                authority.join_shown, shown, request.host, request.request, time.time()
            )
        except LbdError as problem:
            log.warning("refused to let %.80r join: %s", request.host, problem)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(problem))
        log.info(
            "host %s joined with token %s", request.host, token.id,
            extra={"action": "joined", "host": request.host},
        )  # fmt: skip
        self._tls.learn(await asyncio.to_thread(authority.signed_list))
        return pb.JoinReply(
            cluster=authority.ledger().cluster,
            authority_host=self._tls.own_name,
            certificates=made,
            revocations=self._tls.files.read_signed(),
        )

    async def _renew(self, request: pb.RenewRequest, context: "Context") -> pb.RenewReply:
        host = await self._tls.caller(context)
        authority = await self._need_authority(context)
        shown = certificate_of(context)
        try:
            made = await asyncio.to_thread(
                authority.renew_shown, shown, request.request, request.proof, time.time()
            )
        except LbdError as problem:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(problem))
        log.info(
            "issued a new certificate to host %s", host, extra={"action": "renewed", "host": host}
        )
        return pb.RenewReply(certificates=made)

    async def _revocations(
        self, update: pb.RevocationUpdate, context: "Context"
    ) -> pb.RevocationUpdate:
        try:  # a revoked host may ask, too
            self._tls.identity_of(certificate_of(context), time.time())
        except PeerError as problem:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, str(problem))
        if update.signed:
            try:
                self._tls.learn(update.signed)
            except LbdError as problem:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(problem))
        return pb.RevocationUpdate(signed=self._tls.files.read_signed())

    async def _need_authority(self, context: "Context") -> "Authority":
        authority = self._tls.authority
        if authority is None:
            home = self._tls.files.read_home()[0] or "another host"
            text = f"the authority is on {home}, not on {self._tls.own_name}"
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        return authority

    def _unary(
        self,
        body: "Callable[[Request, Context], Awaitable[Reply]]",
        request: type[Request],
        turns: float = 0.0,
    ) -> "grpc.RpcMethodHandler[object, object]":
        """Makes a handler of bytes, which rejects what cannot be parsed. `turns`: what the call
        counts as, besides its length."""

        async def call(data: bytes, context: "Context") -> bytes:
            await self._await_turn(turns + turns_of(len(data)), context)
            message = await read(request, data, context)
            return (await body(message, context)).SerializeToString()

        return grpc.unary_unary_rpc_method_handler(call)

    async def _await_turn(self, turns: float, context: "Context") -> None:
        """Waits for the caller's turn; aborts the call if that would take too long."""
        who = self._tls.asker(context)
        wait_s = self._rates.turn_s(who, time.monotonic(), PATIENCE_S, turns)
        if turns >= SIGNED_TURNS and who != NOBODY and wait_s is not None:
            signed_s = self._signed.turn_s(who, time.monotonic(), PATIENCE_S)
            wait_s = None if signed_s is None else max(wait_s, signed_s)
        if wait_s is None:
            text = f"{who} asks about certificates too often; try again later"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        if wait_s:
            await asyncio.sleep(wait_s)
