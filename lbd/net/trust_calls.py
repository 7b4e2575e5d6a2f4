"""Questions to other hosts' LIMs about certificates, and the exchange of lists of revocations.

The lists are signed by the authority, so it does not matter who passes them on. A revoked host may
exchange them, too: so it learns that it is revoked.
"""

from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from lbd.errors import PeerError, Unavailable
from lbd.net.gen import trust_pb2 as pb
from lbd.net.parsing import parsed_answer
from lbd.net.peers import Peers
from lbd.net.question import Unanswered, ask
from lbd.net.tls import Tls
from lbd.net.trust_service import SERVICE

TIMEOUT_S = 5.0
REFUSALS = (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.FAILED_PRECONDITION)
Reply = TypeVar("Reply", bound=Message)


class TrustCalls:
    def __init__(self, tls: Tls, peers: Peers) -> None:
        self._tls = tls
        self._peers = peers

    async def exchange(self, name: str, target: str) -> None:
        """Exchanges lists, so that each learns what the other knows. Raises Unavailable or
        PeerError."""
        update = pb.RevocationUpdate(signed=self._tls.files.read_signed())
        reply = await self.ask(name, target, "Revocations", update, pb.RevocationUpdate)
        if reply.signed:
            self._tls.learn(reply.signed)

    async def ask(
        self, name: str, target: str, method: str, asked: Message, reply: type[Reply]
    ) -> Reply:
        """Raises Unavailable, or PeerError for a refusal."""
        channel, data = self._peers.channel(name, target), asked.SerializeToString()
        try:
            answer = await ask(
                channel, f"/{SERVICE}/{method}", data, self._peers.metadata, TIMEOUT_S
            )
            return parsed_answer(reply, answer)
        except Unanswered as problem:
            refused = problem.code in REFUSALS
            text = f"{name or target}: {problem}"
            raise (PeerError if refused else Unavailable)(text) from None
        except DecodeError:
            raise Unavailable(f"{name or target}: its answer is not a {reply.__name__}") from None
