"""The streams on which other LBMs send us their users' commands: a task for each command."""

import asyncio
from typing import TYPE_CHECKING

import grpc
import grpc.aio

from lbd.lbm.agent import ForeignJob, Host
from lbd.lbm.conversation import Conversation, Stream
from lbd.rpc import job_stream as tags
from lbd.rpc.gen import lbm_pb2

if TYPE_CHECKING:  # generic in the stubs only
    Context = grpc.aio.ServicerContext[bytes, bytes]


async def serve_stream(host: Host, context: "Context") -> None:
    """Until it breaks, which ends every command on it."""
    incoming = Incoming(host, Stream(context.write))
    try:
        while isinstance(message := await context.read(), bytes):
            incoming.hear(message)
    except ValueError as fault:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(fault))
    finally:
        incoming.close()


class Incoming:
    """One peer's commands on this host."""

    def __init__(self, host: Host, stream: Stream) -> None:
        self._host = host
        self._stream = stream
        self._jobs: dict[int, asyncio.Task[None]] = {}
        # Slots and their queue bound the jobs; this bounds what has not got that far.
        self._limit = 2 * (host.config.lbm.max_waiting + host.slots.total)

    def hear(self, message: bytes) -> None:
        """Raises ValueError on a message that makes no sense."""
        for number, tag, body in tags.unpack(message):
            if tag == tags.RUN:
                self._begin(number, body)
            elif tag != tags.HANGUP:
                self._stream.deliver(number, tag, body)
            elif number in self._jobs:
                self._jobs[number].cancel()

    def _begin(self, number: int, body: memoryview) -> None:
        if number in self._jobs:
            raise ValueError(f"a second command as number {number}")
        talk = self._stream.converse(number)
        if len(self._jobs) >= self._limit:
            refused = lbm_pb2.Refused(
                reason="too many commands at once", stage="admission", try_another=True
            )
            talk.put(tags.REFUSED, refused.SerializeToString())
            talk.close()
            return
        job = ForeignJob(self._host, talk)
        task = asyncio.create_task(job.serve(body), name=f"foreign job {number}")
        self._jobs[number] = task
        task.add_done_callback(lambda done: self._over(number, talk, done))

    def _over(self, number: int, talk: Conversation, task: "asyncio.Task[None]") -> None:
        talk.close()
        del self._jobs[number]
        if not task.cancelled() and (problem := task.exception()) is not None:
            raise problem

    def close(self) -> None:
        self._stream.outbox.close()
        for task in self._jobs.values():
            task.cancel()
