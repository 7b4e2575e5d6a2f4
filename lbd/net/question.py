"""One question to another host, a unary call: how to ask it and how to read it."""

import asyncio
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from lbd.errors import Unavailable
from lbd.net.details import SILENT, in_plain_words
from lbd.net.parsing import parsed

if TYPE_CHECKING:  # generic in the stubs only
    from lbd.net.transport import Metadata

    Call = grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]

Parsed = TypeVar("Parsed", bound=Message)


class Unanswered(Unavailable):
    """No answer came, or a refusal. `code` says which; None if the channel was closed."""

    def __init__(self, text: str, code: grpc.StatusCode | None) -> None:
        super().__init__(text)
        self.code = code


async def ask(
    channel: grpc.aio.Channel, method: str, data: bytes, metadata: "Metadata", timeout_s: float
) -> bytes:
    """Raises Unanswered.

    The time limit is a timer of ours. A deadline of gRPC's costs a dozen wake-ups of its threads at
    either end: they look for more work less and less often for seconds after each change of their
    next timer.
    """
    call: Call = channel.unary_unary(method)
    try:
        with ChannelMayClose():
            async with asyncio.timeout(timeout_s):
                return await call(data, metadata=metadata)
    except TimeoutError:
        raise Unanswered(SILENT, grpc.StatusCode.DEADLINE_EXCEEDED) from None
    except grpc.aio.AioRpcError as problem:
        text = in_plain_words(problem.details()) or problem.code().name.lower()
        raise Unanswered(text, problem.code()) from None


class ChannelMayClose:
    """Wraps calls on a channel that is closed when its host is revoked. gRPC then cancels the task
    that waits for such a call, and in a task group that task would end silently.

    Raises Unanswered instead."""

    __slots__ = ()  # a class, not a generator: each command uses several

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, problem: BaseException | None, _trace: object) -> None:
        if problem is None:
            return
        if isinstance(problem, grpc.aio.UsageError | grpc.aio.InternalError):
            raise Unanswered(str(problem), None) from None
        if isinstance(problem, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                raise Unanswered("the connection was closed", None) from None


class Aborting(Protocol):
    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn: ...


async def read(kind: type[Parsed], data: bytes, context: Aborting) -> Parsed:
    """Returns the message, or aborts the call."""
    try:
        return parsed(kind, data)
    except DecodeError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"not a {kind.__name__}")
