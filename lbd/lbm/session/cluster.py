"""The hosts of the cluster: where their LBMs are, and questions to them.

Another host answers so many questions a second, whichever of our users asks. So each user has a
share of these, and waits for their turn here: one who asks without end would have the others'
questions refused there. Who asks is known here alone.
"""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from lbd.config.schema import Config
from lbd.errors import Unavailable
from lbd.lbm.session.host_questions import BURST, QUESTIONS_PER_S, TURN_BYTES
from lbd.local.caller import person_of
from lbd.local.json_client import JsonClient
from lbd.local.json_socket import Refusal
from lbd.local.rate_limit import Rates, turns_of
from lbd.model import target_of
from lbd.net import question
from lbd.net.parsing import parsed_in_turns
from lbd.net.peers import Peers
from lbd.text.one_line import one_line

SERVICE = "/lbd.v1.Lbm/"
ASK_LIM_S = 2.0
USER_SHARE = 0.25  # of what another host answers: for one user's questions, and for their orders
PATIENCE_S = 3.0  # on top of the time for the answer: together less than `lbctl` waits

Reply = TypeVar("Reply", bound=Message)


def rates_of_users() -> Rates:
    return Rates(USER_SHARE * QUESTIONS_PER_S, USER_SHARE * BURST)


class Unreached(Unavailable):
    """Nobody listens there: a command would not get there either."""


class NotInCluster(Unavailable):
    """No host of that name is known here, or not any more."""


@dataclass(frozen=True, slots=True)
class ClusterHost:
    name: str
    lbm: str  # "address:port"
    is_up: bool
    is_down: bool  # neither up nor down: out of contact


@dataclass(frozen=True, slots=True)
class Cluster:
    config: Config
    lim: JsonClient
    peers: Peers | None  # None: this host cannot prove its identity to others
    rates: Rates  # of each user's questions to each host

    async def others(self) -> list[ClusterHost]:
        """Every host that this one may ask. Raises LbdError if the LIM does not answer."""
        if self.peers is None:
            return []
        own = self.config.host.name
        return [peer for peer in await self._known() if peer.name != own]

    async def peer(self, name: str) -> ClusterHost:
        """Raises LbdError, Refusal for a host that is not in this cluster."""
        if name == self.config.host.name:
            return ClusterHost(name, await self.lbm_of(name), is_up=True, is_down=False)
        for peer in await self._known():
            if peer.name == name:
                return peer
        raise Refusal(f"no host {name!r} in this cluster")

    async def lbm_of(self, name: str) -> str:
        """A host's LBM address, from the configuration if it is there. Raises Unavailable,
        NotInCluster."""
        own = self.config
        if name == own.host.name:
            return target_of(own.host.address, own.lbm.port)
        for entry in own.cluster.hosts:
            if entry.name == name:
                return target_of(entry.address, entry.lbm_port)
        for peer in await self._known():
            if peer.name == name:
                return peer.lbm
        raise NotInCluster(f"host {name} is not in this cluster")

    async def _known(self) -> list[ClusterHost]:
        rows = (await self.lim.call({"op": "peers"}, ASK_LIM_S)).get("peers")
        return [*read_peers(rows if isinstance(rows, list) else [])]

    async def ask(
        self,
        uid: int,
        peer: ClusterHost,
        method: str,
        request: Message,
        reply: type[Reply],
        timeout_s: float,
        *,
        is_order: bool = False,
    ) -> Reply:
        """Asks one question for that user, in their turn. Orders have a share of their own, as who
        asks too much may want to end what asks. Raises Unavailable with the reason."""
        if self.peers is None:
            raise Unavailable(
                "this host has no credentials for other hosts (security.key_file, tls)"
            )
        data = request.SerializeToString()
        share = person_of(uid), is_order, peer.name
        turns, patience_s = turns_of(len(data), TURN_BYTES), min(PATIENCE_S, timeout_s)
        wait_s = self.rates.turn_s(share, time.monotonic(), patience_s, turns)
        if wait_s is None:
            raise Unavailable(f"you are asking {peer.name} too often; try again later")
        if wait_s:
            await asyncio.sleep(wait_s)
        channel = self.peers.channel(peer.name, peer.lbm)
        try:
            method = SERVICE + method
            answer = await question.ask(channel, method, data, self.peers.metadata, timeout_s)
            return await parsed_in_turns(reply, answer)
        except question.Unanswered as problem:
            is_there = problem.code is not grpc.StatusCode.UNAVAILABLE
            kind = Unavailable if is_there else Unreached
            raise kind(why_unanswered(problem, timeout_s)) from None
        except DecodeError:
            raise Unavailable(f"its answer is not a {reply.__name__}") from None


def read_peers(rows: list[object]) -> Iterator[ClusterHost]:
    for row in rows:
        if isinstance(row, dict):
            state = row.get("state")
            yield ClusterHost(
                str(row.get("name")), str(row.get("lbm")), state == "up", state == "down"
            )


def why_unanswered(problem: question.Unanswered, timeout_s: float) -> str:
    code = problem.code
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return "its release does not know this question"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"no answer within {timeout_s:g} s"
    if code is grpc.StatusCode.UNAVAILABLE:
        return "its LBM cannot be reached"
    return one_line(str(problem))
