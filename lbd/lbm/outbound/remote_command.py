"""A local user's command on one other host, with the files that it brings along."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from lbd.errors import Unavailable
from lbd.lbm.core import journey_events as e
from lbd.lbm.core.jobs import Job
from lbd.lbm.core.pauses import Pauses
from lbd.lbm.handover.records import FarRun, Outbound
from lbd.lbm.link import wire as stream
from lbd.lbm.link.conversation import Conversation
from lbd.lbm.outbound.context import OutboundContext
from lbd.lbm.outbound.directory import Directory
from lbd.lbm.outbound.remote_run import RemoteRun
from lbd.lbm.outbound.remote_stdio import RemoteStdio
from lbd.lbm.outbound.request import leaving, make_request
from lbd.lbm.session.client import Client
from lbd.lbm.session.request import ClientRequest
from lbd.lbm.staging.attached_files import Staging
from lbd.local.budget import Share
from lbd.local.caller import person_of
from lbd.model import HostId, JobState
from lbd.net.gen import lbm_pb2

STOPPED = "stopped by a signal"
BUSY_S = 30.0  # for a host that swaps to end a command
REMARK_AFTER_S = 3.0  # of waiting for a slot; soon after lbm.named_wait_s most have one beyond them


class Talks(Protocol):
    """The conversations that continue after a restart."""

    def of(self, run: FarRun) -> Conversation: ...


class RemoteCommand:
    """A command on one other host. Each answer is an event of its journey."""

    def __init__(
        self,
        home: OutboundContext,
        client: Client,
        request: ClientRequest,
        job: Job,
        uid: int,
        place: tuple[HostId, str],
        pauses: Pauses,
    ) -> None:
        """`place`: host and address."""
        self._home = home
        self._client = client
        self._request = request
        self._job = job
        self._uid = uid
        self._place = place
        self.withheld = ""  # variables withheld from its environment, for -v
        self._pauses = pauses
        self._remark: asyncio.TimerHandle | None = None  # it waits for a slot
        self.run = self._new_run()
        self.staging = self._new_staging() if request.is_staged else None

    def _new_run(self) -> RemoteRun:
        home, threads = self._home, self._client.pipes.threads
        assert home.streams is not None
        windows = partial(Share, home.windows, person_of(self._uid))
        move = partial(RemoteStdio, threads, windows)
        return RemoteRun(home.config.lbm, home.streams, *self._place, move)

    # As the follower of its run

    def input_taken(self) -> None:
        self._client.input_taken()

    def notice(self, tag: bytes) -> None:
        if tag == stream.STOPPED:
            self._show(STOPPED)
        elif tag == stream.SCREEN:  # a line would appear in the middle of the screen
            self._pauses.are_wanted = False
        self._client.notice(tag)

    def stands_still(self, why: str) -> None:
        self._show(why)
        if text := self._pauses.line(self._place[0], why):
            self._client.warn(text)

    def _show(self, why: str) -> None:
        """Shows its state in `lbctl jobs`."""
        self._job.state = JobState.SUSPENDED if why else JobState.RUNNING
        self._job.reason = why

    def _new_staging(self) -> Staging:
        caller, there = (self._uid, self._client.peer), (self._place[0], self._new_run)
        pipes, limits = self._client.pipes, self._home.config.stage
        return Staging(limits, *there, pipes, self._job, self._request, caller)

    async def start(self, directory: Directory, sent: Callable[[], None]) -> e.Event:
        """`sent` is called before anything of it may run. Raises LbdError, TimeoutError."""
        try:
            stamp = None if self._request.is_staged else await directory.stamp()
        except Unavailable as problem:
            return e.Unseen(str(problem))
        environment, self.withheld = await leaving(self._home.denied, self._request, self._uid)
        peer = self._client.peer
        request = make_request(self._job, self._request, environment, self._uid, peer, stamp)
        if self.staging is not None:
            if (refused := await self.staging.open()) is not None:
                return self._event(refused)
            self.staging.enter(request)
        return await self._answered(self.run.start(request, sent=sent, waits=self._waits))

    async def answer(self) -> e.Event:
        """Awaits the answer to a start that an earlier LBM has sent. Raises LbdError."""
        return await self._answered(self.run.answer(self._waits))

    async def _answered(self, answer: Awaitable[lbm_pb2.Started | e.Refused]) -> e.Event:
        try:
            return self._event(await answer)
        finally:
            if self._remark is not None:
                self._remark.cancel()

    def _waits(self, why: str) -> None:
        if self._remark is None:
            loop = asyncio.get_running_loop()
            self._remark = loop.call_later(REMARK_AFTER_S, self._tell_of_waiting, why)

    def _tell_of_waiting(self, why: str) -> None:
        if self._pauses.are_wanted:
            self._client.warn(f"waiting for a slot on {self._place[0]}: {why}")

    def _event(self, answer: lbm_pb2.Started | e.Refused) -> e.Event:
        if not isinstance(answer, e.Refused):
            self._job.pid = answer.pid
            least, most = self._request.slots
            self._job.slots = max(least, min(most, answer.slots))
            note = "".join(f"; {one}" for one in (answer.note, self.withheld) if one)
            return e.StartedThere(note, self._home.is_no_less_busy(answer))
        self._home.lim_questions.has_moved(self._place[0])
        return answer

    async def follow(self, *, keep: bool) -> e.Event:
        """`keep`: the caller's descriptors may be needed again. Raises LbdError, TimeoutError."""
        run = self.run
        if (ended := run.ended_already()) is None:  # otherwise it needs no descriptors
            if limit_s := self._request.timeout_s:  # the host keeps it, unless it is hung or lies
                since = f"after it began with a time limit of {limit_s:g} s"
                run.end_limit.set(limit_s + self._end_within_s, since)
            if not run.is_following:
                run.attach(await self._client.descriptors(keep=keep))
            ended = await run.follow(self)
        cpu_s = ended.user_cpu_s + ended.system_cpu_s
        how = ended.exit_status, ended.cause, ended.reason, ended.signal, cpu_s
        heard = ended.heard_signals if ended.HasField("heard_signals") else None
        seen = run.trouble(), run.is_untouched, ended.max_rss_bytes, heard
        return e.Ended(*how, *seen, ended.wall_s)

    async def fetch(self, status: int) -> e.Event:
        if self.staging is None:
            return e.Fetched("")
        return e.Fetched(await self.staging.fetch(status, self._end_within_s, self.stands_still))

    @property
    def is_moving_files(self) -> bool:
        return self.staging is not None and self.staging.is_busy

    def signal(self, number: int) -> None:
        if number == signal.SIGCONT and self._job.reason == STOPPED:
            self._show("")
        if self.staging is None or not self.staging.signal(number):
            self.run.send(stream.SIGNAL, bytes((number,)))

    def force(self) -> None:
        """Ends all of it at once, if it has begun."""
        if self.staging is None or not self.staging.force():
            self.run.send(stream.FORCE)
            self.run.end_limit.set(self._end_within_s, "after it was killed")

    @property
    def _end_within_s(self) -> float:
        """Within this a host ends a command that it has to end, and reports that."""
        limits = self._home.config.lbm
        return limits.kill_grace_s + limits.orphan_after_s + BUSY_S

    def leave(self, left: Outbound) -> None:
        """Leaves its state for another LBM. Raises NotNow."""
        left.run, left.withheld = self.run.left(), self.withheld
        left.workdir = self.staging.run.left() if self.staging is not None else None

    def take_up(self, left: Outbound, talks: Talks) -> None:
        """Takes up what `leave` has left. Raises OSError, DecodeError, ValueError."""
        self.withheld = left.withheld
        if left.run is not None:
            self.run.restore(left.run, talks.of(left.run))
        if left.workdir is not None and self.staging is not None:
            self.staging.take_up(left.workdir, talks.of(left.workdir))

    def close(self, number: int = 0) -> None:
        """Has the host end it, by that signal, and remove what it holds of it."""
        self.run.close(number)
        if self.staging is not None:
            self.staging.close()
