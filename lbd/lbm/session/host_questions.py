"""What each question of another LBM goes through: its host's turn, and few long answers at a time.

Who asks faster than QUESTIONS_PER_S waits, and is refused where that would take too long: so a host
that asks without end keeps neither the event loop nor the accounting from others.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from lbd.errors import LbdError, PeerError
from lbd.local.long_answers import LongAnswers
from lbd.local.rate_limit import Rates, turns_of
from lbd.net.parsing import parsed

if TYPE_CHECKING:
    from lbd.net.transport import Call

    Context = grpc.aio.ServicerContext[bytes, bytes]

QUESTIONS_PER_S = 200.0  # of one host, whose users' they are
BURST = 400.0
TURN_BYTES = 1 << 17  # a longer question counts as several
PATIENCE_S = 1.0  # less than who asks waits for an answer
LONG_AT_ONCE = 4  # answers of the accounting, or with all jobs
TOO_MANY = "asks more than its LBM can answer; try again later"

Question = TypeVar("Question")
Asked = TypeVar("Asked", bound=Message)


class Callers(Protocol):
    async def caller(self, context: "Call") -> str: ...


class HostQuestions:
    def __init__(self, trust: Callers, clock: Callable[[], float] = time.monotonic) -> None:
        self._trust = trust
        self._clock = clock
        self._rates = Rates(QUESTIONS_PER_S, BURST)
        self._long = LongAnswers(LONG_AT_ONCE)

    def handler(
        self,
        read: Callable[[bytes], Question],
        answer: Callable[[Question, str], Awaitable[Message]],
        operation: str = "",
    ) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """Gives `answer` what is asked, and which host asks; an LbdError of it is sent as a
        refusal. `operation`: as `LongAnswers` knows it."""

        async def call(data: bytes, context: "Context") -> bytes:
            caller = await self._trust.caller(context)
            if wait_s := self.wait_s(caller, len(data)):
                await asyncio.sleep(wait_s)
            elif wait_s is None:
                text = f"{caller} {TOO_MANY}"
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
            try:
                async with self._long.turn(caller, operation):
                    return (await answer(read(data), caller)).SerializeToString()
            except (DecodeError, PeerError) as problem:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(problem))
            except LbdError as problem:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(problem))

        return grpc.unary_unary_rpc_method_handler(call)

    def message_handler(
        self,
        kind: type[Asked],
        answer: Callable[[Asked, str], Awaitable[Message]],
        operation: str = "",
    ) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """The same, of what is asked by such a message."""
        return self.handler(partial(parsed, kind), answer, operation)

    def wait_s(self, caller: str, size_bytes: int) -> float | None:
        """Until its turn; None: for too long."""
        turns = turns_of(size_bytes, TURN_BYTES)
        return self._rates.turn_s(caller, self._clock(), PATIENCE_S, turns)
