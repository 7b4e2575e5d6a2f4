"""Limits on the questions of other LBMs: a rate per host, and few long answers at a time.

A host that asks faster than QUESTIONS_PER_S waits, and is refused if that would take too long. So a
host that asks without end blocks neither the event loop nor the accounting for others.
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

QUESTIONS_PER_S = 200.0  # of one host, for all its users
BURST = 400.0
TURN_BYTES = 1 << 17  # a longer question counts as several
PATIENCE_S = 1.0  # less than the asker waits for an answer
LONG_AT_ONCE = 4  # answers from the accounting, or with all jobs
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
        """Returns a handler that passes `answer` the question and the asking host, and sends an
        LbdError as a refusal. `operation`: its name for `LongAnswers`."""

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
        """Like `handler`, for questions that are messages of that kind."""
        return self.handler(partial(parsed, kind), answer, operation)

    def wait_s(self, caller: str, size_bytes: int) -> float | None:
        """Returns the wait until its turn; None: too long."""
        turns = turns_of(size_bytes, TURN_BYTES)
        return self._rates.turn_s(caller, self._clock(), PATIENCE_S, turns)
