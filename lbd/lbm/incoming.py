"""The streams on which other LBMs send us their users' commands: a task for each command."""

import asyncio
from typing import TYPE_CHECKING

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from lbd import wire
from lbd.lbm.agent import ForeignJob, Host
from lbd.lbm.conversation import Conversation, Stream
from lbd.lbm.run_request import JOB_ID
from lbd.lbm.state import Claims
from lbd.lbm.users import Refuse
from lbd.rpc import job_stream as tags
from lbd.rpc.gen import lbm_pb2

if TYPE_CHECKING:  # generic in the stubs only
    Context = grpc.aio.ServicerContext[bytes, bytes]


async def serve_stream(host: Host, context: "Context", caller: str) -> None:
    """Until it breaks, which ends every command on it. `caller`: the host, "" = any."""
    await context.send_initial_metadata(((wire.HEADER, wire.OWN.announcement()),))
    stream = Stream(context.write)
    incoming = Incoming(host, stream, caller)
    trouble = ""
    try:
        while isinstance(message := await context.read(), bytes):
            incoming.hear(message)
    except ValueError as fault:
        trouble = str(fault)
    finally:
        incoming.close()
        await stream.outbox.last_written()
    if trouble:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, trouble)


async def serve_stage(host: Host, talk: Conversation, message: memoryview, caller: str) -> None:
    """A directory for a command and its files, until the origin hangs up (that cancels us)."""
    request, refused = lbm_pb2.StageRequest(), lbm_pb2.Refused(stage="admission", try_another=True)
    try:
        request.ParseFromString(bytes(message))
    except DecodeError:
        refused.reason = "the request is not a StageRequest"
    if not refused.reason and caller not in ("", request.origin):
        refused.reason = f"{caller} asks in the name of {request.origin}"
    if not refused.reason:
        admitted = await host.admit(request.user, request.uid, request.origin)
        if isinstance(admitted, Refuse):
            refused.reason = admitted.reason
        elif not JOB_ID.fullmatch(request.id):
            refused.reason = "the request lacks a proper id"
        elif not (host.config.stage.max_bytes and host.config.stage.max_files):
            refused.reason = "no command may bring files along (stage.max_bytes, stage.max_files)"
        elif not request.forced and host.slots.is_full:
            refused.reason = "no free slot"
        else:
            try:
                await host.stages.make(request, admitted.run_as)
            except OSError as problem:
                refused.reason, refused.stage = f"stage.root: {problem.strerror}", "stage"
    if refused.reason:
        talk.put(tags.REFUSED, refused.SerializeToString())
        return
    try:
        talk.put(tags.STARTED, lbm_pb2.Started(host=host.config.host.name).SerializeToString())
        await asyncio.get_running_loop().create_future()
    finally:
        host.stages.end(request.id)


class Incoming:
    """One peer's commands on this host."""

    def __init__(self, host: Host, stream: Stream, caller: str) -> None:
        self._host = host
        self._caller = caller
        self._stream = stream
        self._jobs: dict[int, asyncio.Task[None]] = {}
        self._claims = Claims(host.jobs)
        self._last_number = 0  # conversations are numbered upwards: a higher one is a new one
        # Slots and their queue bound the jobs; this bounds what has not got that far.
        self._limit = 2 * (host.config.lbm.max_waiting + host.slots.total)

    def hear(self, message: bytes) -> None:
        """Raises ValueError on a message that makes no sense."""
        for number, tag, body in tags.unpack(message):
            if tag in (tags.RUN, tags.STAGE) or number > self._last_number:
                self._begin(number, tag, body)
                continue
            over = tag == tags.HANGUP or not self._stream.deliver(number, tag, body)
            if over and number in self._jobs:
                self._jobs[number].cancel()

    def _begin(self, number: int, tag: bytes, body: memoryview) -> None:
        if number in self._jobs:
            raise ValueError(f"a second command as number {number}")
        self._last_number = max(number, self._last_number)
        talk = self._stream.converse(number)
        if tag not in (tags.RUN, tags.STAGE):
            self._refuse(talk, f"{wire.OWN} knows no request {tag!r}")
            return
        if len(self._jobs) >= self._limit:
            self._refuse(talk, "too many commands at once")
            return
        if tag == tags.RUN:
            serve = ForeignJob(self._host, talk, self._caller, self._claims).serve(body)
        else:
            serve = serve_stage(self._host, talk, body, self._caller)
        task = asyncio.create_task(serve, name=f"foreign job {number}")
        self._jobs[number] = task
        task.add_done_callback(lambda done: self._over(number, talk, done))

    def _refuse(self, talk: Conversation, reason: str) -> None:
        refused = lbm_pb2.Refused(reason=reason, stage="admission", try_another=True)
        talk.put(tags.REFUSED, refused.SerializeToString())
        talk.close()

    def _over(self, number: int, talk: Conversation, task: "asyncio.Task[None]") -> None:
        talk.close()
        del self._jobs[number]
        if not task.cancelled() and (problem := task.exception()) is not None:
            raise problem

    def close(self) -> None:
        self._stream.outbox.close()
        for task in self._jobs.values():
            task.cancel()
