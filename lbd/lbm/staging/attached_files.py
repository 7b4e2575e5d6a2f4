"""A command that brings its files along: the part of the host where it came from.

Three commands run one after the other in a workdir on the far host, as the user: one that unpacks,
the user's own, and one that packs. Their input and output go through the same streams and windows
as any command's. At this end the client packs and unpacks, and gives us pipes. The workdir lasts as
long as the conversation that asked for it.
"""

import os
from collections.abc import Callable

from lbd.config.schema import StageConfig
from lbd.errors import LbdError, Unavailable
from lbd.lbm.core.jobs import Job
from lbd.lbm.core.journey_events import Refused
from lbd.lbm.handover.codec import Fd
from lbd.lbm.handover.records import FarRun
from lbd.lbm.link import wire as tags
from lbd.lbm.link.conversation import FEW_BYTES, Conversation
from lbd.lbm.link.user_threads import StdFds
from lbd.lbm.outbound.remote_run import RemoteRun
from lbd.lbm.outbound.request import make_request
from lbd.lbm.session.client import Pipes
from lbd.lbm.session.peer_process import PeerProcess
from lbd.lbm.session.request import ClientRequest
from lbd.lbm.staging.attached_transfer import FilesPace, Transfer
from lbd.lbm.staging.step import complaint_file, complaint_in
from lbd.local import client_tags
from lbd.net.gen import lbm_pb2


class Staging:
    """The workdir of one command on one host, with its transfers."""

    def __init__(
        self,
        limits: StageConfig,
        host: str,
        new_run: Callable[[], RemoteRun],
        pipes: Pipes,
        job: Job,
        request: ClientRequest,
        caller: tuple[int, PeerProcess],
    ) -> None:
        """`new_run`: makes a run on that host; `caller`: uid and process."""
        self._bounds = b"%d %d" % (limits.max_bytes, limits.max_files)
        self._host = host
        self._new_run = new_run
        self._pipes = pipes
        self._job = job
        self._request = request
        self._caller = caller
        self.run = new_run()
        self.is_busy = False  # files are on their way
        self._step: Transfer | None = None

    def enter(self, request: lbm_pb2.RunRequest, step: str = "run") -> None:
        """Makes the request a command in this workdir."""
        request.workdir.id = self._job.id
        request.workdir.step = step
        request.workdir.send.extend(self._request.send)
        request.workdir.fetch.extend(self._request.fetch)

    async def open(self) -> Refused | None:
        """Makes the workdir, and sends the files that go there. Raises LbdError."""
        workdir_request = lbm_pb2.WorkdirRequest(
            id=self._job.id,
            origin=self._job.origin,
            user=self._job.user,
            uid=self._caller[0],
            forced=self._request.mode == "host",
            slots=self._request.slots[0] if self._request.slots[1] > 1 else 0,
        )
        self.is_busy = True
        answer = await self.run.start(workdir_request, tags.WORKDIR)
        if isinstance(answer, Refused):
            return answer
        refused = await self._start("unpack", "in", FilesPace(sends=False))
        if refused is not None:
            return refused
        pipe = await self._pipes.open(client_tags.PACK, self._bounds)
        said = await self._follow(StdFds(pipe))
        if complaint := await self._pipes.outcome():
            raise Unavailable(f"{complaint}; nothing ran")
        self.is_busy = False
        return Refused(said, "stage") if said else None

    async def fetch(self, status: int, end_within_s: float, show: Callable[[str], None]) -> str:
        """Fetches the files. Returns what went wrong, "" if nothing did. `end_within_s`: beyond the
        command's time limit, if it has one; `show`: as for `Transfer`."""
        self.is_busy = True
        limit_s = self._request.timeout_s
        within_s = limit_s + end_within_s if limit_s else 0.0
        try:
            if not self._request.fetch:
                return ""
            return await self._fetch(
                status, FilesPace(sends=True, within_s=within_s, limit_s=limit_s), show
            )
        except LbdError as problem:
            return f"--fetch: {problem}"

    async def _fetch(self, status: int, pace: FilesPace, show: Callable[[str], None]) -> str:
        refused = await self._start("pack", "out", pace, show)
        if refused is not None:
            return refused.reason
        pipe = await self._pipes.open(client_tags.UNPACK, self._bounds + b" %d" % status)
        said = await self._follow(StdFds(stdout=pipe))
        complaint = await self._pipes.outcome()
        return f"--fetch {said}" if said else complaint

    async def _start(
        self, step: str, suffix: str, pace: FilesPace, show: Callable[[str], None] = lambda _: None
    ) -> Refused | None:
        request = make_request(self._job, self._request, [], *self._caller, None)
        self.enter(request, step)
        request.job_id = f"{self._job.id}.{suffix}"
        request.wants_stdin = step == "unpack"
        request.closed_fds = request.null_outputs = 0
        request.joined_outputs = False  # complaints must not mix with the packed files
        request.ClearField("terminal")
        request.timeout_s = request.memory_bytes = request.slots = request.slots_most = 0
        request.needs = ""
        del request.argv[:]
        request.argv.append(b"lbd-stage")
        self._step = Transfer(self._new_run(), pace, show)
        return await self._step.start(request)

    async def _follow(self, ends: StdFds) -> str:
        """Returns what the far end says went wrong; "" if nothing did."""
        assert self._step is not None
        said = complaint_file()
        try:
            ends.stderr = Fd(os.dup(said))
            ended, trouble = await self._step.follow(ends)
            if ended is None:
                return f"{self._host} {trouble}"
            if ended.exit_status == 0:
                return trouble
            return f"{self._host}: {complaint_in(said, ended.exit_status)}"
        finally:
            os.close(said)
            self._step.close()
            self._step = None

    def take_up(self, left: FarRun, talk: Conversation) -> None:
        """Takes up the workdir that an earlier LBM has asked for. Raises OSError, DecodeError,
        ValueError."""
        talk.ahead_bytes = FEW_BYTES
        self.run.restore(left, talk)

    def signal(self, number: int) -> bool:
        """Ends a transfer that is under way; returns False if there is none."""
        if self._step is None:
            return False
        self._step.signal(number)
        return True

    def force(self) -> bool:
        """Like `signal`, whatever its host does."""
        if self._step is None:
            return False
        self._step.force()
        return True

    def close(self) -> None:
        """Ends the conversations; the far host removes the workdir."""
        if self._step is not None:
            self._step.close()
        self.run.close()
