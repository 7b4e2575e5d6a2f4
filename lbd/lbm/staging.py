"""A command that brings its files along: what of that is done where it came from.

Three commands run one after the other in a private directory of the far host, as the user: one that
unpacks, the user's own, one that packs. What they read and write goes through the same streams and
windows as any command's. Packing and unpacking at this end is the client's, which gives us pipes.
The directory is there as long as the conversation that asked for it.
"""

import asyncio
import os
from collections.abc import Callable

from lbd.config import Config, StageConfig
from lbd.errors import LbdError, Unavailable
from lbd.lbm.caller import PeerProcess
from lbd.lbm.client import Ends
from lbd.lbm.outgoing import make_request
from lbd.lbm.peer_streams import PeerStreams
from lbd.lbm.remote import NotRun, RemoteRun
from lbd.lbm.request import ClientRequest
from lbd.lbm.state import Job
from lbd.lbm.user_threads import Threads
from lbd.rpc import client_tags
from lbd.rpc import job_stream as tags
from lbd.rpc.gen import lbm_pb2

PIPE_S = 10.0
COMPLAINT_BYTES = 4096


class Pipes:
    """What the client packs comes out of these pipes, and what it unpacks goes into them."""

    def __init__(self, send: Callable[[bytes, bytes], None], threads: Threads) -> None:
        self._send = send
        self.threads = threads  # the client's user's
        self._pipe: asyncio.Future[int] | None = None
        self._outcome: asyncio.Future[str] | None = None

    async def open(self, tag: bytes, body: bytes) -> int:
        """Our end of one, to be closed by us. Raises TimeoutError if none comes."""
        loop = asyncio.get_running_loop()
        self._pipe, self._outcome = loop.create_future(), loop.create_future()
        self._send(tag, body)
        async with asyncio.timeout(PIPE_S):
            descriptor = await asyncio.shield(self._pipe)
        self._pipe = None
        return descriptor

    async def outcome(self) -> str:
        """Why the client could not pack or unpack, "" if it did; as soon as it has ended."""
        assert self._outcome is not None
        return await asyncio.shield(self._outcome)

    def came(self, descriptor: int) -> None:
        if self._pipe is None or self._pipe.done():
            self.threads.close(descriptor)
        else:
            self._pipe.set_result(descriptor)

    def ended(self, complaint: str) -> None:
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(complaint)

    def close(self) -> None:
        if self._pipe is not None and self._pipe.done() and not self._pipe.cancelled():
            self.threads.close(self._pipe.result())


class Staging:
    """The stage of one command on one host."""

    def __init__(
        self,
        config: Config,
        streams: PeerStreams,
        place: tuple[str, str],
        pipes: Pipes,
        job: Job,
        request: ClientRequest,
        caller: tuple[int, PeerProcess],
    ) -> None:
        """`place`: host and address; `caller`: uid and process."""
        self._config = config
        self._streams = streams
        self._place = place
        self._pipes = pipes
        self._job = job
        self._request = request
        self._caller = caller
        self.run = self._new_run()
        self.is_busy = False  # files are on their way
        self._step: RemoteRun | None = None

    def _new_run(self) -> RemoteRun:
        return RemoteRun(self._config.lbm, self._streams, *self._place, self._pipes.threads)

    def enter(self, request: lbm_pb2.RunRequest, step: str = "run") -> None:
        """Make it a command in this stage."""
        request.stage.stage = self._job.id
        request.stage.step = step
        request.stage.send.extend(self._request.send)
        request.stage.fetch.extend(self._request.fetch)

    async def open(self) -> NotRun | None:
        """Make it, and send what is to be sent. Raises LbdError."""
        wish = lbm_pb2.StageRequest(
            id=self._job.id,
            origin=self._job.origin,
            user=self._job.user,
            uid=self._caller[0],
            forced=self._request.mode == "host",
            slots=self._request.slots[0] if self._request.slots[1] > 1 else 0,
        )
        self.is_busy = True
        answer = await self.run.start(wish, tags.STAGE)
        if isinstance(answer, NotRun):
            return answer
        refused = await self._start("unpack", "in")
        if refused is not None:
            return refused
        pipe = await self._pipes.open(client_tags.PACK, bounds(self._config.stage))
        said = await self._follow(Ends(pipe, None, None))
        if complaint := await self._pipes.outcome():
            raise Unavailable(f"{complaint}; nothing ran")
        self.is_busy = False
        return NotRun(said, "stage") if said else None

    async def fetch(self, status: int) -> str:
        """What went wrong with it, "" if nothing did."""
        self.is_busy = True
        try:
            return await self._fetch(status) if self._request.fetch else ""
        except LbdError as problem:
            return f"--fetch: {problem}"

    async def _fetch(self, status: int) -> str:
        refused = await self._start("pack", "out")
        if refused is not None:
            return refused.reason
        body = bounds(self._config.stage) + b" %d" % status
        pipe = await self._pipes.open(client_tags.UNPACK, body)
        said = await self._follow(Ends(None, pipe, None))
        complaint = await self._pipes.outcome()
        return f"--fetch {said}" if said else complaint

    async def _start(self, step: str, suffix: str) -> NotRun | None:
        request = make_request(self._job, self._request, [], *self._caller, None)
        self.enter(request, step)
        request.job_id = f"{self._job.id}.{suffix}"
        request.wants_stdin = step == "unpack"
        request.closed_fds = request.null_outputs = 0
        request.ClearField("terminal")
        request.timeout_s = request.memory_bytes = request.slots = request.slots_most = 0
        del request.argv[:]
        request.argv.append(b"lbd-stage")
        self._step = self._new_run()
        answer = await self._step.start(request)
        return answer if isinstance(answer, NotRun) else None

    async def _follow(self, ends: Ends) -> str:
        """What the far end says went wrong; "" if nothing."""
        assert self._step is not None
        said = os.memfd_create("complaint", os.MFD_CLOEXEC)
        try:
            ends.stderr = os.dup(said)
            ended = await self._step.follow(ends, None)
            if ended.exit_status == 0:
                return self._step.trouble()
            text = os.pread(said, COMPLAINT_BYTES, 0).decode(errors="replace").strip()
            return f"{self._place[0]}: {text or f'ended with {ended.exit_status}'}"
        finally:
            os.close(said)
            self._step.close()
            self._step = None

    def signal(self, number: int) -> bool:
        """End a transfer that is under way; False if there is none."""
        if self._step is None:
            return False
        self._step.tell(tags.SIGNAL, bytes((number,)))
        return True

    def close(self) -> None:
        """The far host removes it."""
        if self._step is not None:
            self._step.close()
        self.run.close()


def bounds(config: StageConfig) -> bytes:
    return b"%d %d" % (config.max_bytes, config.max_files)
