"""What attempts of the queue have printed here, for the LBM of whoever asks."""

import asyncio
from typing import TYPE_CHECKING

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from lbd.lbm.attempts import Attempts
from lbd.rpc.gen import dispatch_pb2 as pb

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[bytes, bytes]

POLL_S = 0.02
POLL_MAX_S = 0.25


async def serve_logs(attempts: Attempts, data: bytes, context: "Context") -> None:
    """What there is from the given places on; with `follow`, until the attempt is over."""
    asked = pb.LogsRequest()
    try:
        asked.ParseFromString(data)
        if not asked.job.isdecimal():
            raise DecodeError
    except DecodeError:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not a LogsRequest")
    spool, job, number = attempts.spool, asked.job, asked.attempt
    if not spool.exists(job, number) and not attempts.alive(job, number):
        piece = pb.LogsPiece(trouble="its output is not kept here (any more)")
        await context.write(piece.SerializeToString())
        return
    at = {"out": asked.output_at, "err": asked.error_at}
    pause_s = POLL_S
    while True:
        alive = attempts.alive(job, number)  # asked first: what comes later is read below
        told = pb.LogsPiece()
        for name in at:
            try:
                found = await asyncio.to_thread(spool.read, job, number, name, at[name])
            except OSError:
                continue
            at[name] = found.next_at
            told.dropped_bytes += found.dropped_bytes
            if name == "out":
                told.output = found.data
            else:
                told.error = found.data
        told.output_at, told.error_at = at["out"], at["err"]
        if told.output or told.error:
            await context.write(told.SerializeToString())
            pause_s = POLL_S
        elif not (asked.follow and alive):
            return
        else:
            await asyncio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, POLL_MAX_S)
