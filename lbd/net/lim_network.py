"""LIM messages over gRPC: one unary call each, with a deadline. Counts traffic in both directions.

A host speaks for itself only: the caller must be the sender, and the answer must come from the host
asked. Each host is limited in messages and bytes a second, and to half of this LIM's time.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from lbd.errors import Incompatible, PeerError, Unavailable
from lbd.lim.core.messages import (
    HOSTS_MAX,
    AskCentre,
    Hello,
    Message,
    Probe,
    ProbeReply,
    Report,
    Reserve,
    ReserveReply,
    unsealed,
    with_settings,
)
from lbd.local.rate_limit import Rates, TimeShares, turns_of
from lbd.net import convert, transport
from lbd.net.neighbours import Skewed, ignore
from lbd.net.peers import Peers
from lbd.net.question import Unanswered, ask

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[bytes, bytes]
    Handler = grpc.RpcMethodHandler[bytes, bytes]

METHOD = "/lbd.v1.Lim/Deliver"
RATE_PER_S = 2000
TURN_BYTES = 2048  # longer messages take several turns, since reading takes longer
PATIENCE_S = 1.0  # for a message of a host that sends too many
IDLE_CLOSE_MS = 60_000  # with 400 hosts most channels are needed only at the start
OWN_SAMPLE = (Report, ProbeReply, AskCentre, Reserve, ReserveReply)
# The answers accepted for each kind of message; ACK for all others.
ANSWERS = {
    Hello: ("members", "ack"), Probe: ("probe_reply", "ack"), AskCentre: ("centre_reply", "ack"),
    Reserve: ("reserve_reply", "ack"),
}  # fmt: skip
ACK = ("ack",)
Answer = Callable[[Message], Message]


def unguarded(message: Message) -> Message:
    """Removes the seal from settings, since nobody has checked it."""
    return with_settings(message, unsealed)


class Traffic:
    """Messages and bytes (of the messages themselves) by kind."""

    def __init__(self) -> None:
        self.messages_in: Counter[str] = Counter()
        self.messages_out: Counter[str] = Counter()
        self.bytes_in: Counter[str] = Counter()
        self.bytes_out: Counter[str] = Counter()
        self.refused = 0  # messages of hosts that send too many

    def came(self, kind: str, size: int) -> None:
        self.messages_in[kind] += 1
        self.bytes_in[kind] += size

    def went(self, kind: str, size: int) -> None:
        self.messages_out[kind] += 1
        self.bytes_out[kind] += size


def kind_of(message: Message) -> str:
    return type(message.body).__name__


def check_words(message: Message, host: str) -> None:
    """Raises PeerError if `host` ("" = any) may not send that, because it speaks for another."""
    body = message.body
    if host and message.sender != host:
        raise PeerError(f"{host} speaks for {message.sender}")
    if isinstance(body, Hello) and body.self.name != message.sender:
        raise PeerError(f"{message.sender} introduces itself as {body.self.name}")
    if isinstance(body, OWN_SAMPLE) and body.sample.host != message.sender:
        raise PeerError(f"{message.sender} reports the load of {body.sample.host}")


class Encoder:
    """Encodes a body that goes to many hosts only once: a vector of 400 hosts takes a
    millisecond."""

    def __init__(self) -> None:
        self._last: Message | None = None
        self._data = b""

    def encode(self, message: Message) -> bytes:
        last = self._last
        if last is None or last.body is not message.body or last != message:
            self._last, self._data = message, convert.encode(message)
        return self._data


class LimNetwork:
    def __init__(
        self,
        trust: transport.Trust,
        max_message_bytes: int,
        silence_s: float,
        rate_per_s: int = RATE_PER_S,
        hosts_max: int = HOSTS_MAX,
    ) -> None:
        """`rate_per_s`: messages accepted from one host; `hosts_max`: hosts in one message."""
        self.traffic = Traffic()
        self._rate = rate_per_s
        self._hosts_max, self._bytes_max = hosts_max, max_message_bytes
        self._rates = Rates(rate_per_s, 2 * rate_per_s)
        self._seconds = TimeShares()
        self._trust = trust
        self._options = [
            *transport.options(max_message_bytes, silence_s),
            ("grpc.client_idle_timeout_ms", IDLE_CLOSE_MS),
        ]
        self.peers = Peers(trust, self._options)
        # checks settings that other hosts pass on
        self.vet: Callable[[Message], Message] = unguarded
        self._encoder = Encoder()
        self._server: transport.Server | None = None

    async def serve(
        self,
        address: str,
        port: int,
        answer: Answer,
        *more: grpc.GenericRpcHandler,
        skewed: Skewed = ignore,
    ) -> None:
        """Serves on a port. `skewed`: see `neighbours`. Raises NoAddress if the port is not
        available."""

        async def deliver(data: bytes, context: "Context") -> bytes:
            caller = await self._trust.caller(context)
            if caller:  # before any byte is read
                await self._await_turn(caller, len(data), context)
            try:
                with self._seconds.spending(caller):
                    message = convert.decode(data, self._hosts_max)
                    check_words(message, caller)
                    message = self.vet(message)
            except PeerError as problem:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(problem))
            if not caller:
                await self._await_turn(message.sender, len(data), context)
            self.traffic.came(kind_of(message), len(data))
            with self._seconds.spending(message.sender):
                reply = answer(message)
                packed = convert.encode_within(reply, self._bytes_max)
            self.traffic.went(kind_of(reply), len(packed))
            return packed

        service, method = METHOD[1:].split("/")
        handler: Handler = grpc.unary_unary_rpc_method_handler(deliver)
        self._server = transport.bind(
            address,
            port,
            self._trust,
            self.peers.cuts,
            [grpc.method_handlers_generic_handler(service, {method: handler}), *more],
            self._options,
            skewed,
        )
        await self._server.start()

    async def _await_turn(self, host: str, size: int, context: "Context") -> None:
        """Delays a call, or aborts it if its host sends too much."""
        turns = min(turns_of(size, TURN_BYTES), self._rate)
        began_s = time.monotonic()
        wait_s = self._rates.turn_s(host, began_s, PATIENCE_S, turns)
        if wait_s is None:
            await self._refuse(
                f"{host} sends more than {self._rate} messages a second (lim.peer_rate)", context
            )
        elif wait_s:
            await asyncio.sleep(wait_s)
        # Its other messages may have used up its time while this one waited.
        while wait_s := self._seconds.turn_s(host, now_s := time.monotonic(), PATIENCE_S, 0.0):
            if now_s + wait_s > began_s + 2 * PATIENCE_S:
                break
            await asyncio.sleep(wait_s)
        if wait_s is None or wait_s:
            await self._refuse(f"{host} uses more than its share of this LIM's time", context)

    async def _refuse(self, text: str, context: "Context") -> None:
        self.traffic.refused += 1
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)

    async def ask(self, name: str, target: str, message: Message, timeout_s: float) -> Message:
        """Returns the reply. Raises Unavailable if none came in time, PeerError if it is
        malformed."""
        channel = self.peers.channel(name, target)
        data = self._encoder.encode(message)
        self.traffic.went(kind_of(message), len(data))
        try:
            packed = await ask(channel, METHOD, data, self.peers.metadata, timeout_s)
        except Unanswered as problem:
            text = f"{name or target}: {problem}"
            if problem.code is grpc.StatusCode.INVALID_ARGUMENT:
                raise PeerError(text) from None
            if problem.code is grpc.StatusCode.FAILED_PRECONDITION:
                raise Incompatible(str(problem)) from None
            raise Unavailable(text) from None
        with self._seconds.spending(name):
            reply = convert.decode(packed, self._hosts_max, ANSWERS.get(type(message.body), ACK))
            check_words(reply, name if self._trust.proves_names else "")
            reply = self.vet(reply)
        self.traffic.came(kind_of(reply), len(packed))
        return reply

    async def cut(self, names: set[str]) -> None:
        await self.peers.cut(names)

    async def close(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
        await self.peers.close()
