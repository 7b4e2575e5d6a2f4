"""A local user's command: ask the LIM where, send it there or let the caller run it.

The answer "here" costs one question: the client execs the command itself. A host that declines or
cannot be used is left out and the LIM asked again; nothing has run there, so trying elsewhere is
safe. Once a command may have begun it is never begun again. It is one file because all of that
is one life.
"""

import asyncio
import time

from lbd.errors import LbdError, LostContact, Unavailable
from lbd.lbm.client import LBRUN_FAILED, Client, CommandEnd
from lbd.lbm.directory import NO_CANDIDATE, Directory
from lbd.lbm.directory import STAGES as NOT_SHARED
from lbd.lbm.environment import outgoing
from lbd.lbm.full_hosts import FullHosts
from lbd.lbm.home import Home, Where
from lbd.lbm.launch import exit_status_of
from lbd.lbm.outgoing import kept_back, make_request, may_restart, new_job
from lbd.lbm.peer_streams import PeerStreams
from lbd.lbm.remote import ENDING_SIGNALS, NotRun, RemoteRun
from lbd.lbm.request import ClientRequest
from lbd.lbm.room import WAIT_POLL_S
from lbd.lbm.sent_away import LOOK_S, SentAway
from lbd.lbm.staging import Staging
from lbd.lbm.stayed import Stayed
from lbd.lbm.staying import stays
from lbd.lbm.told import reason_of
from lbd.lbm.wide import Wide
from lbd.model import HostId, JobState
from lbd.rpc import client_tags as tags
from lbd.rpc import job_stream as stream
from lbd.rpc.gen import lbm_pb2
from lbd.rpc.local import Json, Refusal

MAX_TRIES = 8


class Command:
    """One `lbrun`, from its request to its end."""

    def __init__(
        self, home: Home, client: Client, request: ClientRequest, user: str, uid: int
    ) -> None:
        self._home = home
        self._client = client
        self._request = request
        self._uid, self._peer = uid, client.peer
        self._excluded: set[HostId] = set(request.excluded)
        self._wide = Wide(request.slots, HostId(home.config.host.name))
        self._full = FullHosts(home.config.lim.hold_limit_s)
        self._directory = Directory(home.looker, home.unshared, request, uid, self._peer)
        self._refusals: list[NotRun] = []
        self._remote: RemoteRun | None = None
        self._staging: Staging | None = None
        self._asked_lim = self._charged = self._begun = False
        self._task: asyncio.Task[bool] | None = None
        self._where = Where("wait", HostId(""), "", "")
        self._away = SentAway(home.config.lbm.sent_away_wait_s)
        self._kept, self._interrupted_by = "", 0
        self.stayed = Stayed()
        self._stay = home.is_leader(self._peer) or request.depth >= home.config.lbm.max_hops
        self.job = new_job(home.new_id(), request, (user, uid), self.own_name, time.time())
        self.job.pinned = self._stay or request.mode == "host"

    async def run(self) -> bool:
        """True if the client now runs it itself; else DONE has been sent."""
        self._home.jobs.add(self.job)
        self._home.commands[self.job.id] = self
        self._task = asyncio.current_task()
        try:
            if self._remote is not None:  # an earlier LBM has sent it there
                if await self._go_on(self._remote):
                    return False
            elif (kept := self._keep()) is not None:
                self.job.pinned = True
                return await self._here(kept)
            return await self._look_for_host()
        except LostContact as problem:
            self._fail(f"{problem}; it may have run in part, so it is not run again", "lost")
        except LbdError as problem:
            self._fail(str(problem), "failed")
        except TimeoutError:
            self._fail("lbrun did not hand over its descriptors", "failed")
        except asyncio.CancelledError:
            if not self._interrupted_by:
                self._end_job(JobState.CANCELLED, reason="its lbrun went away")
                raise
            status = 128 + self._interrupted_by
            self._client.done(CommandEnd(status, "signalled", signal=self._interrupted_by))
            self._end_job(JobState.CANCELLED, status, reason="interrupted before it began")
        finally:
            del self._home.commands[self.job.id]
            self.let_go()
            self._away.close(self._home.threads.of(self._uid))
        return False

    async def _look_for_host(self) -> bool:
        """As `run`. One that was sent away looks again and again."""
        while True:
            try:
                return await self._try_hosts()
            except Unavailable as problem:
                if not self._away.host:
                    raise
                if line := self._away.nobody_takes_it(str(problem), time.monotonic()):
                    self._client.warn(line)
            await self._home.room.wait(LOOK_S)
            self._excluded = set(self._request.excluded)
            self._refusals.clear()
            self._full.names.clear()

    async def _try_hosts(self) -> bool:
        """As `run`."""
        tries = 0
        while tries < MAX_TRIES:
            where = await self._full.find_place(self._ask_lim, self._home.room)
            if where.verdict != "there":
                return await self._here(where)
            if self._request.has(tags.FLAG_ASK):  # it asks again, with its terminal
                self._home.jobs.running.pop(self.job.id, None)
                self._home.notes.ended(self.job.id, where.host, charged=self._charged)
                self._client.away()
                return False
            if await self._there(where):
                return False
            # What may not run here waits instead, however many hosts turn out to be full.
            tries += not (self._must_leave and where.host in self._full.names)
        return await self._here(Where("here", self.own_name, "", "nobody-took-it"))

    @property
    def own_name(self) -> HostId:
        return HostId(self._home.config.host.name)

    @property
    def _must_leave(self) -> bool:
        return bool(self._request.mode == "remote" or self._away.host or self._wide.must_leave)

    def _keep(self) -> Where | None:
        kept, run = stays(self._home, self._request, self._uid)
        self.stayed = Stayed(run)
        return kept

    async def _ask_lim(self, may_wait: bool) -> Where:
        """Raises LbdError where running here would be against the user's word."""
        request, home = self._request, self._home
        anywhere = request.mode == "host" or request.is_staged
        strangers = set() if anywhere else await self._directory.strangers()
        question: Json = {
            "op": "place",
            "job": self.job.id,
            "wanted": request.host,
            "user": self.job.user,
            "cpu_s": home.eligible.expected_cpu_s(self._uid, request.argv),
            "excluded": sorted(self._excluded | self._full.names | strangers),
            "must_leave": self._must_leave,
            "must_stay": self._stay and request.mode == "auto",
            "may_wait": may_wait,
        }
        if (named := self._at_known_address(question)) is not None:
            return named
        home.notes.flush()
        try:
            self._asked_lim = True
            answer = await home.ask_lim(self._wide, question, must=request.mode != "auto")
            self._charged = True
        except Refusal as refusal:
            if self._full.names:  # they will have room again
                return Where("wait", self.own_name, "", "no-free-slot")
            if self._away.host:
                raise Unavailable(str(refusal)) from None
            if self._refusals and request.mode != "auto":
                raise Unavailable(self._refusals[-1].reason) from None
            if self._directory.left_out:
                raise Unavailable(f"{refusal}; {self._directory.left_out}") from None
            raise
        except Unavailable as problem:
            if (named := self._at_known_address(question)) is not None:
                return named
            if request.mode != "auto":
                raise
            self._refusals.append(NotRun(str(problem), fault=True))
            return Where("here", self.own_name, "", "no-lim")
        where = Where.told(answer, self._directory.left_out)
        if where.verdict == "there":
            home.is_at(where.host, where.address)
        return where

    def _at_known_address(self, question: Json) -> Where | None:
        """The host that the user named, if it can be reached without asking the LIM."""
        host = self._request.host
        if host is None or not (address := self._home.known_address(host)):
            return None
        self._home.notes.placed(self.job.id, question)
        self._charged = True
        return Where("there", host, address, "wanted")

    async def _here(self, where: Where) -> bool:
        request = self._request
        if self._away.host:
            raise Unavailable(self._refusals[-1].reason if self._refusals else where.reason)
        strict = request.mode != "auto" or self._wide.must_leave
        refused = [r for r in self._refusals if strict or r.stage not in NO_CANDIDATE]
        fault = next((item for item in refused if item.fault or item.stage != "admission"), None)
        if refused and (request.has(tags.FLAG_NO_FALLBACK) or strict):
            self._fail(refused[-1].reason, "refused")
            return False
        if fault is not None and self.own_name in request.excluded:
            self._fail(f"{fault.reason}, and --exclude forbids to run here", "refused")
            return False
        if fault is not None:
            while not self._home.cap.take(self.job.id, request.depth):
                await self._home.room.wait(WAIT_POLL_S)
            self._client.warn(f"{fault.reason}; running here")
        self.job.start(self.own_name, where.reason, time.time())
        self._client.here(self.job.id, where.reason, self._wide.here, measure=self.stayed.measured)
        return True

    async def _there(self, where: Where) -> bool:
        """True if DONE was sent; False if nothing ran and another place is to be found."""
        streams = self._home.streams
        if streams is None:
            raise Unavailable("this host has no certificate (lbctl init, lbctl join), so no peers")
        try:
            stamp = None if self._request.is_staged else await self._directory.stamp()
        except Unavailable as problem:
            if self._request.mode != "auto":
                raise
            self._stay = True
            self._note_refusal(NotRun(str(problem), NOT_SHARED[0]), where.host)
            return False
        self._where = where
        place, threads = (where.host, where.address), self._home.threads.of(self._uid)
        self._remote = RemoteRun(self._home.config.lbm, streams, *place, threads)
        wanted = self._request.environment, self._home.denied, self._request.let_through
        environment, kept = outgoing(*wanted)
        self._kept = kept_back(kept)
        request = make_request(self.job, self._request, environment, self._uid, self._peer, stamp)
        if self._request.is_staged:
            self._staging = self._stage_on(where, streams)
            if (refused := await self._staging.open()) is not None:
                return self._turned_down(refused, where)
            self._staging.enter(request)
        return await self._answered(self._remote, await self._remote.start(request))

    async def _go_on(self, remote: RemoteRun) -> bool:
        """Where an earlier LBM stopped. As `_there`."""
        if not self._begun:
            return await self._answered(remote, await remote.answer())
        if remote.is_following:
            return await self._ended(remote, await remote.go_on(self._client))
        return await self._follow(remote)

    async def _answered(self, remote: RemoteRun, answer: lbm_pb2.Started | NotRun) -> bool:
        where = self._where
        if isinstance(answer, NotRun):
            return self._turned_down(answer, where)
        self._begun = True
        self._directory.found(where.host)
        self.job.start(where.host, where.reason, time.time())
        self.job.wrong = self._request.mode == "auto" and self._home.is_no_less_busy(answer)
        note = (f"; {answer.note}" if answer.note else "") + self._kept
        self._client.placed(self.job.id, where.host, where.reason + note)
        ended = remote.ended_already()
        return await (self._ended(remote, ended) if ended else self._follow(remote))

    async def _follow(self, remote: RemoteRun) -> bool:
        ends = self._away.ends or await self._client.descriptors()
        self._away.ends = ends.copy() if may_restart(self._request) else None
        ended = await remote.follow(ends, self._client)
        if ended.cause == "evicted" and self._away.ends is not None:
            return self._evicted(self._where.host)
        return await self._ended(remote, ended)

    async def _ended(self, remote: RemoteRun, ended: lbm_pb2.Ended) -> bool:
        trouble = remote.trouble()
        if self._staging is not None and not trouble:
            trouble = await self._staging.fetch(ended.exit_status)
        if trouble:
            self._fail(f"{trouble}; the command itself ended with {ended.exit_status}", "failed")
            return True
        self._report(ended, self._where.host)
        return True

    def _evicted(self, host: HostId) -> bool:
        """The owner of that host is back. As `_there`."""
        self.let_go()
        self._rename()
        self._begun = False
        self._away.happens(host, time.monotonic())
        self.job.waits_again(f"the owner of {host} is back")
        self._excluded.add(host)
        self._full.names.clear()
        return False

    def _rename(self) -> None:
        """Nothing is begun twice on one host, which goes by the id."""
        home, old = self._home, self.job.id
        home.notes.ended(old, self._where.host, charged=True)
        del home.jobs.running[old], home.commands[old]
        self.job.id = home.new_id()
        home.jobs.add(self.job)
        home.commands[self.job.id] = self

    def _stage_on(self, where: Where, streams: PeerStreams) -> Staging:
        place, caller = (where.host, where.address), (self._uid, self._peer)
        config, pipes = self._home.config, self._client.pipes
        return Staging(config, streams, place, pipes, self.job, self._request, caller)

    def _turned_down(self, answer: NotRun, where: Where) -> bool:
        """Nothing ran there. As `_there`."""
        self.let_go()
        self._home.addresses.pop(where.host, None)
        if answer.fault and not self._asked_lim:
            return False  # it may have moved
        if answer.full and self._request.mode != "host":
            self._full.names.add(where.host)
            self._home.notes.ended(self.job.id, where.host, charged=True)
            return False
        self._note_refusal(answer, where.host)
        if self._request.mode != "host":
            return False
        status = LBRUN_FAILED
        if answer.stage == "exec":
            status = exit_status_of(OSError(answer.errno, ""))
        self.job.host = where.host
        hint = "; --send and --fetch take files along" if answer.stage in NOT_SHARED else ""
        self._fail(answer.reason + hint, "refused", status)
        return True

    def let_go(self) -> None:
        """Of the other host: it ends and removes what is there of this command."""
        if self._remote is not None:
            self._remote.close()
        if self._staging is not None:
            self._staging.close()

    def _report(self, ended: lbm_pb2.Ended, host: HostId) -> None:
        reason = reason_of(ended, self._request, host)
        cpu_s = ended.user_cpu_s + ended.system_cpu_s
        self._client.done(
            CommandEnd(ended.exit_status, ended.cause, host, reason, ended.signal, cpu_s)
        )
        self._home.eligible.ran_there(self._uid, self._request.argv, cpu_s, ended.cause)
        state = JobState.DONE if ended.exit_status == 0 else JobState.FAILED
        self._end_job(state, ended.exit_status, cpu_s, reason)

    def _note_refusal(self, answer: NotRun, host: HostId) -> None:
        self._refusals.append(answer)
        self._excluded.add(host)
        self._directory.refused(answer.stage, host)
        self._home.notes.ended(self.job.id, host, charged=True)
        if answer.fault:
            self._home.notes.trouble(host, answer.reason)

    def _fail(self, reason: str, cause: str, status: int = LBRUN_FAILED) -> None:
        self._client.done(CommandEnd(status, cause, self.job.host, reason))
        state = JobState.LOST if cause == "lost" else JobState.FAILED
        self._end_job(state, status, reason=reason)

    def _end_job(
        self,
        state: JobState,
        status: int | None = None,
        cpu_s: float | None = None,
        reason: str = "",
    ) -> None:
        self._home.jobs.end(self.job.id, state, time.time(), status, cpu_s, reason)
        self._home.notes.ended(self.job.id, self.job.host, charged=self._charged)
        self._home.room.made()

    def ended_here(self, seen_s: float | None = None) -> None:
        """The client's process, which had become the command, has ended."""
        self._home.cap.release(self.job.id)
        status, cpu_s = self.stayed.ended()
        state = JobState.FAILED if status else JobState.DONE
        self._end_job(state, status, seen_s if cpu_s is None else cpu_s)

    def signal(self, number: int) -> None:
        """Pass it on; before the command has begun it ends the wait, if it is one that ends."""
        if self._begun and self._staging is not None and self._staging.signal(number):
            return
        if self._begun and self._remote is not None:
            self._remote.tell(stream.SIGNAL, bytes((number,)))
        elif number in ENDING_SIGNALS and self._task is not None:
            self._interrupted_by = number
            self._task.cancel()

    def tell(self, tag: bytes, body: bytes = b"") -> None:
        """FORCE, RESIZE or GROUND, on to the other host."""
        if self._remote is not None:
            self._remote.tell(tag, body)

    async def flush(self) -> None:
        """Until what was passed on is on its way: no client can send faster than that."""
        if self._remote is not None:
            await self._remote.flush()

    def typed(self, data: bytes) -> None:
        if self._remote is not None:
            self._remote.typed(data)
