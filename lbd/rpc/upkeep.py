"""Keeps a host's trust fresh: its certificate renewed in time, word of revocations exchanged.

One host in the cluster has the authority; it tells every other host at once of a revocation. Each
host also asks now and then, there or, while that one is away, any other host: the list is signed,
so it does not matter who hands it on.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio

from lbd.errors import LbdError, PeerError, Unavailable
from lbd.rpc.gen import trust_pb2 as pb
from lbd.rpc.tls import LOOK_S, Tls
from lbd.rpc.transport import Peers

if TYPE_CHECKING:
    from lbd.trust.authority import Authority

    RenewCall = grpc.aio.UnaryUnaryMultiCallable[pb.RenewRequest, pb.RenewReply]
    NewsCall = grpc.aio.UnaryUnaryMultiCallable[pb.RevocationNews, pb.RevocationNews]

log = logging.getLogger("lbd.tls")

RENEW_AT_SHARE = 1 / 3  # of its life is left then
RETRY_SHARE = 1 / 60  # of its life between two attempts, if one fails
TIMEOUT_S = 5.0
TOLD_AT_ONCE = 32
Reply = TypeVar("Reply")
Hosts = Callable[[], dict[str, str]]  # the other hosts' LIMs: name -> "address:port"


class Upkeep:
    def __init__(
        self, tls: Tls, peers: Peers, authority: "Authority | None", hosts: Hosts, check_s: float
    ) -> None:
        self._tls = tls
        self._peers = peers
        self._authority = authority
        self._hosts = hosts
        self._check_s = check_s
        self._dice = Random()
        self._told = tls.revocations.number
        self._renew_at_s = 0.0
        self._check_at_s = 0.0
        self._said = ""

    async def run(self) -> None:
        """For as long as the daemon runs."""
        while True:
            await asyncio.sleep(min(LOOK_S, self._check_s))
            self._tls.look()
            now_s = time.time()
            try:
                await self._renew_if_due(now_s)
                await self._tell_news()
                if now_s >= self._check_at_s:
                    self._check_at_s = now_s + self._check_s
                    await self._exchange_news()
            except LbdError as problem:
                self._complain(str(problem))

    def _complain(self, text: str) -> None:
        """Not the same thing every second."""
        if text != self._said:
            log.warning("%s", text)
        self._said = text

    # -- our certificate -------------------------------------------------------------------------

    async def _renew_if_due(self, now_s: float) -> None:
        begin_s, end_s = self._tls.credentials.valid_s
        life_s = end_s - begin_s
        if end_s - now_s > life_s * RENEW_AT_SHARE or now_s < self._renew_at_s:
            return
        self._renew_at_s = now_s + life_s * RETRY_SHARE
        try:
            await self._renew(now_s)
        except LbdError as problem:
            left = f"{end_s - now_s:.0f} s left" if now_s < end_s else "it has ended"
            raise Unavailable(f"our certificate is not renewed ({left}): {problem}") from None

    async def _renew(self, now_s: float) -> None:
        from lbd.trust.certificates import new_key, new_request
        from lbd.trust.evidence import proof_of_renewal
        from lbd.trust.files import Credentials

        own, key = self._tls.own_name, new_key()
        request = new_request(key, own)
        before = self._tls.credentials
        proof = proof_of_renewal(before.key, request)
        if self._authority is not None:
            shown = before.certificate.encode()
            made = await asyncio.to_thread(
                self._authority.renew_shown, shown, request, proof, now_s
            )
        else:
            home, target = self._home()
            call: RenewCall = self._peers.channel(home, target).unary_unary(
                "/lbd.v1.Trust/Renew",
                request_serializer=pb.RenewRequest.SerializeToString,
                response_deserializer=pb.RenewReply.FromString,
            )
            made = (await self._answer(home, call(
                pb.RenewRequest(request=request, proof=proof), timeout=TIMEOUT_S,
                metadata=self._peers.metadata,
            ))).certificates  # fmt: skip
        self._tls.files.write_credentials(Credentials(key, made))
        self._tls.look()

    def _home(self) -> tuple[str, str]:
        """The authority's host and its LIM. Raises Unavailable if it is not known."""
        home, target = self._tls.files.read_home()
        if not home:
            raise Unavailable(f"{self._tls.files.home} does not say where the authority is")
        return home, self._hosts().get(home, target)

    # -- news ------------------------------------------------------------------------------------

    async def _tell_news(self) -> None:
        """The authority's host tells all others of a new list."""
        if self._tls.revocations.number == self._told:
            return
        self._told = self._tls.revocations.number
        if self._authority is None:
            return
        turns = asyncio.Semaphore(TOLD_AT_ONCE)

        async def tell(name: str, target: str) -> None:
            async with turns:
                try:
                    await self._exchange(name, target)
                except LbdError as problem:
                    log.info("not told of the revocation: %s", problem)

        async with asyncio.TaskGroup() as group:
            for name, target in self._hosts().items():
                group.create_task(tell(name, target))

    async def _exchange_news(self) -> None:
        if self._authority is not None:
            return
        others = self._hosts()
        others.pop(self._tls.files.read_home()[0], None)
        try:
            await self._exchange(*self._home())
        except Unavailable:
            if others:
                name = self._dice.choice(sorted(others))
                await self._exchange(name, others[name])

    async def _exchange(self, name: str, target: str) -> None:
        """Each learns what the other knows. Raises Unavailable or PeerError."""
        call: NewsCall = self._peers.channel(name, target).unary_unary(
            "/lbd.v1.Trust/Revocations",
            request_serializer=pb.RevocationNews.SerializeToString,
            response_deserializer=pb.RevocationNews.FromString,
        )
        news = pb.RevocationNews(signed=self._tls.files.read_signed())
        reply = await self._answer(
            name, call(news, timeout=TIMEOUT_S, metadata=self._peers.metadata)
        )
        if reply.signed:
            self._tls.learn(reply.signed)

    async def _answer(self, name: str, call: Awaitable[Reply]) -> Reply:
        try:
            return await call
        except grpc.aio.AioRpcError as problem:
            text = f"{name}: {problem.details() or problem.code().name}"
            if problem.code() in (
                grpc.StatusCode.PERMISSION_DENIED,
                grpc.StatusCode.FAILED_PRECONDITION,
            ):
                raise PeerError(text) from None
            raise Unavailable(text) from None
        except (grpc.aio.UsageError, grpc.aio.InternalError) as problem:  # the channel was closed
            raise Unavailable(f"{name}: {problem}") from None
