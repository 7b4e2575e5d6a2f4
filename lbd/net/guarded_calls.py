"""Guards all calls of a server, and limits how much of the daemon one host's calls may take.

gRPC buffers a message until it is complete, and lets a caller send all of it as soon as the server
asks for it. So a server that asks for every message at once can be filled by messages whose last
byte never comes. Here messages are requested in turn, a few per caller and in total, and one that
is not complete after a while is refused. A call waiting for its turn holds no more than its
stream's window (see `transport.options`). Received bytes count until their call has ended.

For this purpose a method with one request is served as one with a stream of requests. That is the
same on the wire, but its handler starts before the request is read, and knows the caller by then.

Answers that a caller does not read stay in memory, too. So a call counts until gRPC has finished
it, which is once its answer is sent, and pending answers are within a budget per caller.

On a stream of requests, a withheld message cannot be told from one that has not begun. So each
caller may have a few such streams. A host needs one to each other host, and a second one while
commands run that it sent under an earlier certificate.
"""

import asyncio
import inspect
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol, cast

import grpc
import grpc.aio

from lbd.errors import LbdError, PeerError
from lbd.local.budget import Budget, BudgetOfRequests
from lbd.local.rate_limit import Rates
from lbd.local.turns import Turns
from lbd.process.boot_clock import clock_s

if TYPE_CHECKING:  # generic in the stubs only
    from collections.abc import Awaitable, Callable

    Context = grpc.aio.ServicerContext[object, object]
    Handler = grpc.RpcMethodHandler[object, object] | None
    Body = Callable[[object, Context], Awaitable[bytes]]
    Headers = tuple[tuple[str, str | bytes], ...]

# Per caller, over all its connections. Each waiting `lbrun -q` has a call, so the limit is above
# the default number of an LBM's clients (lbm.max_clients).
CALLS_MAX = 4096
STREAMS_MAX = 8  # streams of requests
READ_AT_ONCE = 4
READ_SHARED = 32  # of all callers, beyond the first of each, so that no caller is blocked
READ_S = 30.0  # for the longest message over a slow line
IN_HAND_BYTES = 128 << 20  # of requests whose calls are in progress
IN_HAND_OF_ALL_BYTES = 1 << 30  # of all callers
# Bytes of answers until they are sent; the same again for streams of answers, so that unread
# outputs do not keep others of the same host from asking. gRPC has a copy of each, and the
# allocator keeps as much again: four times this is what one host can take from the daemon.
UNREAD_BYTES = 32 << 20
UNREAD = "bytes of unread answers"
FAULTS_PER_S, FAULTS_AT_ONCE = 0.1, 10.0  # of the calls of one host, logged with their traceback
log = logging.getLogger("lbd.net")


class Callers(Protocol):
    """What this file needs of a `Trust`."""

    def asker(self, context: "Context") -> str: ...

    async def caller(self, context: "Context") -> str: ...

    def held(self, caller: str) -> AbstractContextManager[None]: ...


class TooMuch(LbdError):
    """A caller has reached one of its limits."""


def take(budget: Budget, asker: str, amount: int, what: str) -> None:
    """Raises TooMuch."""
    if not budget.take(asker, amount):
        has = f"{asker} has {budget.each}"
        if budget.of(asker) + amount <= budget.each:
            has = f"all hosts have {budget.total}"
        raise TooMuch(f"{has} {what} here; try again later")


@contextmanager
def held(budget: Budget, asker: str, amount: int, what: str) -> Iterator[None]:
    """Raises TooMuch."""
    take(budget, asker, amount, what)
    try:
        yield
    finally:
        budget.give_back(asker, amount)


def hold(context: "Context", budget: Budget, asker: str, amount: int, what: str) -> None:
    """Holds the amount until gRPC has finished the call, which is after its handler. Raises
    TooMuch."""
    take(budget, asker, amount, what)
    context.add_done_callback(
        lambda _: budget.give_back(asker, amount)  # type: ignore[arg-type]  # the stubs are wrong
    )


class CallerGone(grpc.aio.InternalError):
    """The call was over before all of its answer was written, as of a reader that has seen
    enough."""


class Counted:
    """A call's context that counts the bytes read. It also caches what is needed several times and
    gRPC makes each time: the authentication context, with the whole certificate, and the
    headers."""

    def __init__(self, context: "Context", peer: str, read_bytes: Counter[str]) -> None:
        """`read_bytes`: by peer."""
        self._context = context
        self._proof: Mapping[str, Iterable[bytes]] | None = None
        self._headers: Headers | None = None
        self._peer, self._read_bytes = peer, read_bytes

    def __getattr__(self, name: str) -> object:
        return getattr(self._context, name)

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        if self._proof is None:
            self._proof = self._context.auth_context()
        return self._proof

    def invocation_metadata(self) -> "Headers":
        if self._headers is None:
            self._headers = tuple(self._context.invocation_metadata() or ())
        return self._headers

    async def read(self) -> object:
        message = await self._context.read()
        if isinstance(message, bytes):
            self._read_bytes[self._peer] += len(message)
        return message

    async def write(self, message: bytes) -> None:
        """Raises CallerGone."""
        try:
            await self._context.write(message)
        except grpc.aio.InternalError as problem:  # gRPC cancels a call that waits, but not this
            raise CallerGone(str(problem)) from None


class Answers:
    """The context of a call with many answers: each counts while it waits to be sent."""

    def __init__(self, context: "Context", unread: Budget, asker: str) -> None:
        self._context = context
        self._unread, self._asker = unread, asker

    def __getattr__(self, name: str) -> object:
        return getattr(self._context, name)

    async def write(self, message: bytes) -> None:
        """Raises TooMuch, CallerGone."""
        with held(self._unread, self._asker, len(message), UNREAD):
            await self._context.write(message)


class GuardedCalls(grpc.GenericRpcHandler):
    """Limits what each caller has in progress, and ends the long calls of a revoked caller at once.
    Every server uses it."""

    def __init__(self, handlers: Iterable[grpc.GenericRpcHandler], trust: Callers) -> None:
        self._handlers = tuple(handlers)
        self._trust = trust
        self.taken: Counter[str] = Counter()  # calls, by peer as named by gRPC
        self.read_bytes: Counter[str] = Counter()  # bytes of their messages
        self._known: dict[str, Handler] = {}  # existing methods
        self._calls = Budget(CALLS_MAX, sys.maxsize)
        self._streams = Budget(STREAMS_MAX, sys.maxsize)
        self._in_hand = BudgetOfRequests(IN_HAND_BYTES, IN_HAND_OF_ALL_BYTES)
        self._unread = Budget(UNREAD_BYTES, sys.maxsize)
        self._unread_of_streams = Budget(UNREAD_BYTES, sys.maxsize)
        self._turns = Turns(READ_AT_ONCE, READ_SHARED)
        self._faults = Rates(FAULTS_PER_S, FAULTS_AT_ONCE)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "Handler":
        if known := self._known.get(handler_call_details.method):
            return known
        for one in self._handlers:
            if (handler := one.service(handler_call_details)) is not None:
                method = handler_call_details.method
                found = self._known[method] = self._guarded(handler, method)
                return found
        return None

    def _guarded(self, handler: "Handler", method: str) -> "Handler":
        assert handler is not None
        body = (
            handler.unary_unary
            or handler.unary_stream
            or handler.stream_unary
            or handler.stream_stream
        )
        assert inspect.iscoroutinefunction(body)  # a handler that writes through its context
        is_long = handler.request_streaming or handler.response_streaming

        async def bounded(requests: object, context: "Context") -> object:
            self.taken[peer := context.peer()] += 1
            context = cast("Context", Counted(context, peer, self.read_bytes))
            asker = self._trust.asker(context)
            hold(context, self._calls, asker, 1, "calls in progress")
            if not is_long:
                answer = await self._answer(body, asker, context)
                hold(context, self._unread, asker, len(answer), UNREAD)
                return answer
            with self._trust.held(await self._trust.caller(context)):
                if not handler.request_streaming:
                    answers = Answers(context, self._unread_of_streams, asker)
                    return await self._answer(body, asker, cast("Context", answers))
                with held(self._streams, asker, 1, "streams open"):
                    return await body(requests, context)

        async def call(requests: object, context: "Context") -> object:
            try:
                try:
                    return await bounded(requests, context)
                except TooMuch as problem:
                    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(problem))
                except PeerError as problem:  # part of what it asked for may have been done
                    await context.abort(grpc.StatusCode.ABORTED, str(problem))
                except grpc.aio.AbortError:
                    raise
                except CallerGone:
                    await context.abort(grpc.StatusCode.CANCELLED, "the caller has gone")
                except Exception as fault:  # of ours, which a host may bring about without end
                    self._log_fault(fault, method, self._trust.asker(context))
                    text = f"{method} failed here by {type(fault).__name__}; the log says where"
                    await context.abort(grpc.StatusCode.INTERNAL, text)
            except grpc.aio.AbortError as problem:
                # gRPC keeps the exception, which would keep everything its frames refer to,
                # including the request.
                problem.__context__ = None
                raise problem.with_traceback(None) from None

        make = grpc.stream_unary_rpc_method_handler
        if handler.response_streaming:
            make = grpc.stream_stream_rpc_method_handler
        return make(call, handler.request_deserializer, handler.response_serializer)

    def _log_fault(self, fault: Exception, method: str, asker: str) -> None:
        if self._faults.turn_s(asker, clock_s(), 0.0) is not None:
            log.error("%s, called by %s, failed", method, asker, exc_info=fault)

    async def _answer(self, body: "Body", asker: str, context: "Context") -> bytes:
        """Answers one request once it has arrived."""
        async with self._turns.turn(asker):
            request = await whole_request(context)
        with held(self._in_hand, asker, len(request), "bytes of pending requests"):
            return await body(request, context)


async def whole_request(context: "Context") -> bytes:
    """Returns the request, or aborts the call if it does not arrive."""
    try:
        async with asyncio.timeout(READ_S):
            request = await context.read()
    except TimeoutError:
        text = f"the request was not complete within {READ_S:g} s"
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, text)
    if not isinstance(request, bytes):
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a call without a request")
    return request
