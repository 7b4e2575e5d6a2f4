"""Serves the output of the queue's attempts on this host to the LBM of the user who asks.

That LBM ensures that only a job's user sees its output. So a host from which no command may come
does not get output either: it could pose as any user of jobs that others sent.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from lbd.lbm.core.admission import origin_fault
from lbd.lbm.inbound.request import QUEUED_ID
from lbd.lbm.queue.spool import Piece, Spool
from lbd.local.rate_limit import Rates
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.parsing import parsed
from lbd.text.job_phrases import NOT_STORED, OUTPUT_DROPPED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lbd.lbm.inbound.context import InboundContext
    from lbd.net.transport import Trust

    Context = grpc.aio.ServicerContext[bytes, bytes]
    CheckReader = Callable[["Context"], Awaitable[str]]
    Turn = Callable[[], Awaitable[None]]

POLL_S = 0.02
POLL_MAX_S = 0.25
READ_HERE_BYTES = 16384  # reading so much takes less time than a thread switch, except for data
# that is not in memory, or is locked by its user
LOOKS_PER_S, LOOKS_AT_ONCE = 400.0, 800.0  # for one host, however many outputs it follows
FOR_EVER_S = float("inf")
PLACE_MAX = 1 << 62  # of a position in an output; the kernel takes none of 2^63


class KnownAttempts(Protocol):
    """The queue's attempts on this host."""

    @property
    def spool(self) -> Spool: ...

    def alive(self, job: str, number: int) -> bool: ...

    def is_awaited_by(self, reader: str, job: str, number: int) -> bool: ...


async def check_reader(host: "InboundContext", trust: "Trust", context: "Context") -> str:
    """Returns which host reads. Aborts the call of a host from which no command may run here."""
    reader = await trust.caller(context)
    if reader and (rule := origin_fault(host.rules.config.admission, reader)):
        text = f"{reader} may not read jobs here (admission.{rule})"
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, text)
    return reader


async def serve_logs(
    check: "CheckReader", attempts: KnownAttempts, looks: Rates, data: bytes, context: "Context"
) -> None:
    reader = await check(context)
    try:
        asked = parsed(pb.LogsRequest, data)
        if not QUEUED_ID.fullmatch(asked.job) or max(asked.output_at, asked.error_at) >= PLACE_MAX:
            raise DecodeError
    except DecodeError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not a LogsRequest")

    async def turn() -> None:
        if wait_s := looks.turn_s(reader, time.monotonic(), FOR_EVER_S):
            await asyncio.sleep(wait_s)

    async for piece in output_of(attempts, reader, asked, turn):
        data = piece.SerializeToString()
        del piece
        await context.write(data)


def looks_of_hosts() -> Rates:
    return Rates(LOOKS_PER_S, LOOKS_AT_ONCE)


async def at_once() -> None:
    return


async def output_of(
    attempts: KnownAttempts, reader: str, asked: pb.LogsRequest, turn: "Turn" = at_once
) -> AsyncIterator[pb.LogsPiece]:
    """Yields the output from the given positions on; with `follow`, until the attempt has ended.
    `turn` is awaited before each look. What `reader` gets counts as shown if it is the host where a
    user waits for the job: else any host could keep others' jobs from being moved."""
    spool, job, number = attempts.spool, asked.job, asked.attempt
    if not spool.exists(job, number):
        if spool.was_silent(job, number):
            return
        if not attempts.alive(job, number):
            yield pb.LogsPiece(trouble=NOT_STORED)
            return
    output_at, error_at, pause_s = asked.output_at, asked.error_at, POLL_S
    while True:
        await turn()
        alive = attempts.alive(job, number)  # asked first: what comes later is read below
        piece = await look(spool, job, number, output_at, error_at)
        output_at, error_at = piece.output_at, piece.error_at
        if piece.output or piece.error:
            if asked.follow and attempts.is_awaited_by(reader, job, number):
                spool.was_shown(job, number)
            found = [piece]
            del piece  # the receiver may hold it for long, and must be the only one
            yield found.pop()
            pause_s = POLL_S
        elif not (asked.follow and alive):
            if spool.was_dropped(job, number):
                yield pb.LogsPiece(trouble=OUTPUT_DROPPED, output_at=output_at, error_at=error_at)
            elif piece.cut:
                yield piece
            return
        else:
            await asyncio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, POLL_MAX_S)


async def look(spool: Spool, job: str, number: int, *at: int) -> pb.LogsPiece:
    """Returns the output from these positions on, of both files; it may be empty."""
    if spool.printed_bytes(job, number) - sum(at) <= READ_HERE_BYTES:
        with contextlib.suppress(BlockingIOError):
            return next_piece(spool, job, number, *at, waits=False)
    return await spool.in_thread(job, number, partial(next_piece, spool, job, number, *at))


def next_piece(
    spool: Spool, job: str, number: int, output_at: int, error_at: int, *, waits: bool = True
) -> pb.LogsPiece:
    """Raises BlockingIOError like `Spool.read`."""
    piece = pb.LogsPiece(output_at=output_at, error_at=error_at)
    if (found := piece_of(spool, job, number, "out", output_at, waits=waits)) is not None:
        piece.output, piece.output_at = found.data, found.next_at
        piece.dropped_bytes += found.dropped_bytes
        piece.cut |= found.cut
    if (found := piece_of(spool, job, number, "err", error_at, waits=waits)) is not None:
        piece.error, piece.error_at = found.data, found.next_at
        piece.dropped_bytes += found.dropped_bytes
        piece.cut |= found.cut
    return piece


def piece_of(
    spool: Spool, job: str, number: int, name: str, at: int, *, waits: bool
) -> Piece | None:
    """Returns None if there is no such file. Raises BlockingIOError like `Spool.read`."""
    try:
        return spool.read(job, number, name, at, waits=waits)
    except BlockingIOError:
        raise
    except OSError:
        return None


def why_not_whole(host: str, piece: pb.LogsPiece) -> str:
    if piece.trouble:
        return f"{host}: {piece.trouble}"
    return f"the output may be incomplete: the disk of {host} was full while the job ran"
