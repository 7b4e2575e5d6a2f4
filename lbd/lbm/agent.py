"""A foreign job on this host: admit it, give it a slot, start it, move its bytes, report its end.

One `ForeignJob` serves one conversation. If the origin hangs up or the stream breaks (the caller
died, its host is cut off) the whole tree is ended; the slot is free again only when the keeper has
reported that. It is one file because that life is one.
"""

import asyncio
import contextlib
import os
import signal
import time

from lbd.errors import LbdError, PeerError
from lbd.lbm import keeper_protocol as keeper
from lbd.lbm import monitor
from lbd.lbm.conversation import INBOX_BYTES, Conversation
from lbd.lbm.ends import JobEnds
from lbd.lbm.host import Host
from lbd.lbm.link import Begun, Exit, NotStarted, Spawned
from lbd.lbm.orders import explain, make_order, over_memory, stage_of
from lbd.lbm.readers import command_of, is_read
from lbd.lbm.run_request import read_run_request
from lbd.lbm.state import Claims, Job
from lbd.lbm.users import Admit, Refuse
from lbd.model import HostId, JobId, JobState
from lbd.rpc import job_stream as tags
from lbd.rpc.gen import lbm_pb2

DRAINED_S = 0.2  # it has ended: by then its output has gone, unless somebody reads slowly
LINGER_S = 0.002  # a command as short as this is reported in one message


class ForeignJob:
    """One command of another host's user, from its request to its end."""

    def __init__(self, host: Host, talk: Conversation, caller: str, claims: Claims) -> None:
        """`caller`: the host at the other end, "" = it may be any."""
        self._host = host
        self._talk = talk
        self._caller = caller
        self._claims = claims
        self._id = JobId("")
        self._spawned: Spawned | None = None
        self._began_s = 0.0
        self._cause = ""
        self._is_stopped = False
        self._ends: JobEnds | None = None
        self._note = ""
        self._kill_at_s = 0.0  # it has had TERM
        self.is_spawning = False
        self._is_hearing = False

    @property
    def talk(self) -> Conversation:
        return self._talk

    @property
    def id(self) -> JobId:
        return self._id

    @property
    def is_busy(self) -> bool:
        """Half done with something that is over in a moment?"""
        return self.is_spawning or self._is_hearing

    async def serve(self, message: memoryview) -> None:
        """`message`: the RunRequest as it came. Cancelled when nobody waits for it any more."""
        try:
            limit_bytes = self._host.config.lbm.max_request_bytes
            self._request = read_run_request(message, limit_bytes, self._caller)
            self._id = JobId(self._request.job_id)
            self._claims.take(self._id)
        except PeerError as problem:
            self._refuse(str(problem), "request", try_another=True)
            return
        job = self._named(time.time())
        self._host.jobs.add(job)  # before anything is waited for: its id is taken
        try:
            await self._admit(job)
        except LbdError as problem:
            self._talk.put(tags.FAILED, str(problem).encode())
        finally:
            if self._spawned is None:
                self._claims.give_back(self._id)
                self._host.jobs.running.pop(self._id, None)
                self._free_slot()
            elif not self._spawned.exited.done():
                self._end("lost")

    def _named(self, submitted: float) -> Job:
        return Job(
            self._id,
            tuple(self._request.argv),
            self._request.user,
            HostId(self._request.origin),
            HostId(self._host.config.host.name),
            submitted=submitted,
            name=self._request.name,
            foreign=True,
            uid=self._request.uid,
        )

    async def _admit(self, job: Job) -> None:
        """By the owner's rules, then to a slot."""
        if self._request.HasField("stage") and not self._stage_path():
            self._refuse("its stage is gone", "admission", try_another=True)
            return
        admitted = await self._host.admit(
            self._request.user, self._request.uid, self._request.origin
        )
        if isinstance(admitted, Refuse):
            self._refuse(admitted.reason, "admission", admitted.try_another)
            return
        await self._with_slot(admitted, job)

    def _stage_path(self) -> bytes:
        stage = self._host.stages.of(self._request)
        return stage.path if stage is not None else b""

    def _refuse(
        self, reason: str, stage: str, try_another: bool, number: int = 0, *, full: bool = False
    ) -> None:
        refused = lbm_pb2.Refused(
            reason=reason, stage=stage, try_another=try_another, errno=number, full=full
        )
        self._talk.put(tags.REFUSED, refused.SerializeToString())

    async def _with_slot(self, admitted: Admit, job: Job) -> None:
        request, slots = self._request, self._host.slots
        nested = request.hops > 0
        wide = request.slots or 1, request.slots_most or 1
        if wide[0] > slots.total:
            few = f"it has {slots.total} slots, not {wide[0]}"
            self._refuse(few, "admission", try_another=True)
            return
        # What belongs to a stage has been let in with it.
        beyond = nested if request.forced else request.HasField("stage")
        if request.stage.step in ("unpack", "pack"):  # a program of ours, one a stage
            slots.hold(self._id, request.user)
        elif not slots.take(self._id, request.user, beyond=beyond, slots=wide):
            if not request.forced:
                few = "no free slot" if wide[0] < 2 else f"fewer than {wide[0]} free slots"
                self._refuse(few, "admission", try_another=True, full=True)
                return
            if not slots.enqueue(self._id, request.user, wide[0]):
                self._refuse("too many commands wait here", "admission", try_another=True)
                return
            if not await self._wait_for_slot(nested=nested):
                few = f"no free slot: no more than {slots.total + slots.beyond} commands run there"
                few += " (admission.slots)" if not slots.beyond else " (lbm.beyond_slots)"
                self._refuse(few, "admission", try_another=True, full=True)
                return
        self._host.changed()
        try:
            await self._start(admitted)
        except NotStarted as trouble:
            reason, number = explain(request, trouble), trouble.number
            self._refuse(reason, stage_of(trouble), try_another=True, number=number)
            return
        job.state, job.started = JobState.RUNNING, time.time()
        if request.may_restart:
            self._host.evictable[self._id] = self._evict
        self._host.changed()
        await self._follow()

    async def _wait_for_slot(self, *, nested: bool) -> bool:
        """Or may go beyond them. A nested one's parent may hold the very slot it waits for."""
        granted = self._host.slot_events[self._id] = asyncio.Event()
        self._talk.put(tags.QUEUED)
        lbm = self._host.config.lbm
        wait_s = lbm.named_wait_s
        give_up_s = time.monotonic() + (wait_s if nested else max(wait_s, lbm.named_limit_s))
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await granted.wait()
            if granted.is_set() or self._host.slots.exceed(self._id):
                return True
            if time.monotonic() >= give_up_s:
                return False
            wait_s = max(lbm.named_wait_s, 0.5)  # there may be room beyond the slots

    async def _start(self, admitted: Admit) -> None:
        """The command begun, and the bookkeeping that its end undoes. Raises NotStarted."""
        self._note, self.is_spawning = admitted.note, True
        try:
            spawned = await self._spawn(admitted)
            self.is_spawning = False
            begun = await self._wait_until_begun(spawned)
        except BaseException:  # our ends of the pipes will never run
            self.is_spawning = False
            if self._ends is not None:
                self._ends.close()
            raise
        self._has_begun(begun, time.monotonic())
        self._say_that_it_began()

    def _say_that_it_began(self) -> None:
        started = lbm_pb2.Started(
            host=self._host.config.host.name,
            pid=self._pid,
            note=self._note,
            index=self._host.rules.load,
        )
        self._talk.put(tags.STARTED, started.SerializeToString(), LINGER_S)
        self._tell_stopped()

    def _has_begun(self, begun: Begun, began_s: float) -> None:
        self._began_s = began_s
        self._begun = begun
        self._talk.ahead_bytes = INBOX_BYTES
        has_terminal = self._ends is not None and self._ends.pty is not None
        self._pid = command_of(begun.pid, begun.group) if has_terminal else begun.pid
        self._host.job_began(self._id, self._pid, begun.group)

    async def _spawn(self, admitted: Admit) -> Spawned:
        """Pipes, and the keeper's fork. Raises NotStarted."""
        run_as = admitted.run_as
        try:
            ends = JobEnds(self._request, self._talk, self._host.config.lbm.chunk_bytes)
            ends.make()
        except (OSError, ValueError) as trouble:
            raise NotStarted("pipes", getattr(trouble, "errno", 0) or 0) from None
        self._ends = ends
        try:
            config = self._host.rules.config
            order = make_order(
                self._request, run_as, config, self._stage_path(), self._host.link.weighs_cpu
            )
            if self._request.slots:
                order.environment[b"LBD_SLOTS"] = b"%d" % self._host.slots.widths.get(self._id, 1)
            self._spawned = await self._host.link.spawn(order, ends.childs, self._stopped)
        except OSError as trouble:
            raise NotStarted("pipes", trouble.errno or 0) from None
        finally:
            ends.close_childs()
        self._spawned.exited.add_done_callback(self._over)
        return self._spawned

    async def _wait_until_begun(self, spawned: Spawned) -> Begun:
        try:
            return await spawned.begun
        except NotStarted:
            self._spawned = None
            raise

    async def _follow(self) -> None:
        assert self._spawned is not None
        assert self._ends is not None
        exited, ends = self._spawned.exited, self._ends
        pumps = ends.pump(self._begun.pid, self._kill, self._is_read)
        listening = asyncio.create_task(self._listen(ends))
        timer = None
        if self._request.timeout_s > 0:
            loop = asyncio.get_running_loop()
            left_s = self._began_s + self._request.timeout_s - time.monotonic()
            timer = loop.call_later(left_s, self._end, "timeout")
        try:
            ended = await asyncio.shield(exited)
            ends.writers_gone()
            if pumps and (await asyncio.wait(pumps, timeout=DRAINED_S))[1]:
                self._talk.put(tags.EXITED, bytes((ended.signal,)))
            if pumps:
                await asyncio.wait(pumps)
            self._talk.put(tags.ENDED, self._ended(ended).SerializeToString())
        finally:
            if timer is not None:
                timer.cancel()
            for task in (listening, *pumps):
                task.cancel()
            ends.stop()

    def _ended(self, ended: Exit) -> lbm_pb2.Ended:
        cause = self._cause or ("signalled" if ended.signal else "exited")
        status = 124 if cause == "timeout" else ended.status
        number, reason = ended.signal, ""
        if ended.out_of_memory and not self._cause:  # what was killed for it may be a child
            cause, number, status = "memory", signal.SIGKILL, 128 + signal.SIGKILL
            reason = over_memory(self._request, self._host.rules.config)
        return lbm_pb2.Ended(
            exit_status=status,
            signal=number,
            reason=reason,
            cause=cause,
            user_cpu_s=ended.user_cpu_s,
            system_cpu_s=ended.system_cpu_s,
            max_rss_bytes=ended.max_rss_bytes,
            wall_s=time.monotonic() - self._began_s,
            input_taken_bytes=self._ends.input_taken_bytes() if self._ends is not None else None,
        )

    async def _listen(self, ends: JobEnds) -> None:
        """What the origin says while the command runs; its hanging up cancels `serve` itself."""
        while True:
            received = await self._talk.read()
            self._is_hearing = True
            for tag, body in received:
                try:
                    await self._hear(ends, tag, body)
                except ValueError:  # it counts wrongly: its streams would stand still for ever
                    self._end("lost")
            self._is_hearing = False

    async def _hear(self, ends: JobEnds, tag: bytes, body: memoryview) -> None:
        if tag == tags.SIGNAL and len(body) == 1 and 0 < body[0] < signal.NSIG:
            await self._host.link.tell(keeper.SIGNAL, self._id, body[0])
        elif tag == tags.FORCE:
            self._kill()
        elif tag == tags.GROUND and ends.pty is not None:
            number = monitor.BACKGROUND if body and body[0] else monitor.FOREGROUND
            await self._host.link.tell(keeper.SIGNAL, self._id, number)
        elif tag in tags.FOR_ENDS:
            ends.hear(tag, body)
        elif tag != tags.UNKNOWN:
            self._talk.put(tags.UNKNOWN, tag)

    async def _is_read(self, wanted: set[tuple[int, int]]) -> bool:
        if self._host.link.uid == os.geteuid():
            return is_read(wanted, self._begun.pid, self._begun.group)
        return await self._host.link.ask_read(self._id, wanted)

    def _kill(self) -> None:
        """The user has had enough of it."""
        self._cause = self._cause or "killed"
        task = asyncio.create_task(self._host.link.tell(keeper.END_TREE, self._id))
        ENDING.add(task)
        task.add_done_callback(ENDING.discard)

    def _evict(self) -> bool:
        if self._cause or self._ends is None or not self._ends.is_untouched:
            return False
        self._kill()
        self._cause = "evicted"
        return True

    def _stopped(self, stopped: bool) -> None:
        job = self._host.jobs.running.get(self._id)
        if job is not None:
            job.state = JobState.SUSPENDED if stopped else JobState.RUNNING
        self._is_stopped = stopped
        self._tell_stopped()

    def _tell_stopped(self) -> None:
        """After STARTED: it may have stopped before the keeper has seen that it began."""
        if self._is_stopped and self._ends is not None and self._began_s:
            self._ends.stopped()

    def _end(self, cause: str) -> None:
        """TERM now, KILL after the grace; the keeper's report of the end frees the slot."""
        self._cause = cause
        self._kill_at_s = time.monotonic() + self._host.config.lbm.kill_grace_s
        self._see_to_its_end(terminate=True)

    def _see_to_its_end(self, *, terminate: bool) -> None:
        self._host.ending[self._id] = self
        link = self._host.link

        async def end() -> None:
            assert self._spawned is not None
            if terminate:
                await link.tell(keeper.SIGNAL, self._id, signal.SIGTERM)
                await link.tell(keeper.SIGNAL, self._id, signal.SIGCONT)
            left_s = max(0.0, self._kill_at_s - time.monotonic())
            await asyncio.wait([self._spawned.exited], timeout=left_s)
            await link.tell(keeper.END_TREE, self._id)

        task = asyncio.create_task(end(), name=f"end {self._id}")
        ENDING.add(task)
        task.add_done_callback(ENDING.discard)

    def _over(self, exited: "asyncio.Future[Exit]") -> None:
        """The keeper has reported the end, or is gone itself."""
        if exited.cancelled() or exited.exception() is not None:
            self._give_back(JobState.LOST)
            return
        ended = exited.result()
        ok = ended.status == 0 and not self._cause
        state = JobState.DONE if ok else JobState.FAILED
        if self._cause in ("lost", "killed", "evicted"):
            state = JobState.CANCELLED
        self._give_back(state, ended.status, ended.user_cpu_s + ended.system_cpu_s)

    def _give_back(
        self, state: JobState, status: int | None = None, cpu_s: float | None = None
    ) -> None:
        self._host.jobs.end(self._id, state, time.time(), status, cpu_s, self._cause)
        self._host.job_ended(self._id)
        self._host.ending.pop(self._id, None)
        self._host.evictable.pop(self._id, None)
        self._free_slot()

    def _free_slot(self) -> None:
        self._host.slot_events.pop(self._id, None)
        for job in self._host.slots.release(self._id):
            self._host.slot_events[job].set()
        self._host.changed()


# Tasks that outlive the stream they belong to; the loop itself keeps only weak references.
ENDING: "set[asyncio.Task[None]]" = set()
