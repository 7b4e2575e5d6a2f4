"""The shell of an Execution for a command of another host's user on this host.

One `AttachedJob` serves one conversation with the host where its user waits. If the origin hangs up
or the stream breaks (the caller died, its host is cut off), the `AttachedJob` goes on alone until
the command has ended.

It is one file because the command and its origin each end the other.
"""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable

from lbd.errors import LbdError, PeerError
from lbd.keeper import session_leader as monitor
from lbd.keeper.stdin_watch import IsRead, is_read
from lbd.lbm.core import execution_events as e
from lbd.lbm.core.execution import NOT_SPAWNED, Execution
from lbd.lbm.core.jobs import Claims
from lbd.lbm.core.slots import use_of, variables
from lbd.lbm.handover.fds import NotNow
from lbd.lbm.handover.records import Attached
from lbd.lbm.inbound.context import DRAINED, NOT_YET, InboundContext
from lbd.lbm.inbound.performer import FAULT, Performer, Step, Steps, not_started
from lbd.lbm.inbound.refusal_text import explain
from lbd.lbm.inbound.request import (
    job_of,
    make_order,
    said_of_memory,
    spec_of,
    why_forbidden,
    withheld_here,
)
from lbd.lbm.inbound.stdio import JobStdio
from lbd.lbm.keeper_link import SpawnFailed
from lbd.lbm.link import wire as tags
from lbd.lbm.link.conversation import Conversation
from lbd.local.budget import Share
from lbd.model import HostId, JobId
from lbd.net.gen import lbm_pb2
from lbd.process.job_log import JobLog

job_log = JobLog(logging.getLogger("lbd.lbm"))

PUMP_AFTER_S = 0.002  # output of commands that end sooner is read at their end
LINGER_S = 0.002  # a command as short as this is reported in one message
NOBODY = "nothing is waiting for it any more"
PROTOCOL = "its origin does not follow the protocol"


class Origin:
    """The host where the command's user waits. Until `stop`, each message from it is handled as it
    comes: it becomes an event of the command, or goes to the command's stdio (`ends`)."""

    def __init__(
        self, job: JobId, talk: Conversation, ends: JobStdio, feed: Callable[[e.Event], None]
    ) -> None:
        self._job, self._talk, self._ends, self._feed = job, talk, ends, feed
        self._pumps: tuple[asyncio.Task[None], ...] = ()
        self._to_pump: asyncio.TimerHandle | None = None  # pumps not started yet
        self._is_over = False

    def follow(self, leader: int, is_read: IsRead) -> None:
        """Follows the command with process `leader`; `is_read` as for `JobStdio.begin`."""
        feed = self._feed
        self._ends.begin(leader, lambda: feed(e.KillWanted()), is_read)
        if self._ends.pty is not None:  # somebody watches it
            self._pump()
        else:
            loop = asyncio.get_running_loop()
            self._to_pump = loop.call_later(PUMP_AFTER_S, self._pump)
        self._talk.follow(self._listen, self._lost)

    def _pump(self) -> None:
        self._to_pump, self._pumps = None, self._ends.pump()

    def drain(self) -> list[asyncio.Task[None]]:
        """Returns the pumps that have not reached the end of the output. Its writers are gone."""
        if self._to_pump is not None:
            self._to_pump.cancel()
            self._to_pump, self._pumps = None, self._ends.drain()
        return [pump for pump in self._pumps if not pump.done()]

    def stop(self) -> None:
        self._is_over = True
        if self._to_pump is not None:
            self._to_pump.cancel()
            self._ends.close()
        for pump in self._pumps:
            pump.cancel()
        self._ends.stop()

    def _lost(self, problem: LbdError) -> None:
        if not self._is_over:
            self._feed(e.GivenUp(str(problem)))

    def _listen(self, tag: bytes, body: memoryview) -> None:
        if self._is_over:  # messages after its end are ignored
            return
        try:
            self._hear(tag, body)
        except ValueError:  # a wrong count: its streams would stop for ever
            self._feed(e.GivenUp(PROTOCOL))
        except Exception as fault:  # other commands share the stream
            said = "message %r from its origin was not understood"
            job_log.error(self._job, said, tag, problem=fault)
            self._feed(e.GivenUp(FAULT))

    def _hear(self, tag: bytes, body: memoryview) -> None:
        """Raises ValueError."""
        if tag == tags.SIGNAL and len(body) == 1 and 0 < body[0] < signal.NSIG:
            self._feed(e.Signalled(body[0]))
        elif tag == tags.FORCE:
            self._feed(e.KillWanted())
        elif tag == tags.GROUND and self._ends.pty is not None:
            number = monitor.BACKGROUND if body and body[0] else monitor.FOREGROUND
            self._feed(e.Signalled(number))
        elif tag in tags.FOR_ENDS:
            self._ends.hear(tag, body)
        elif tag != tags.UNKNOWN and self._talk.is_news(tag):
            self._talk.put(tags.UNKNOWN, tag)


class AttachedJob(Performer):
    def __init__(self, host: InboundContext, talk: Conversation, claims: Claims) -> None:
        super().__init__(host, time.monotonic)
        self.id = JobId("")
        self.talk = talk
        self._claims = claims
        self.note = ""
        self.ends: JobStdio | None = None
        self._origin: Origin | None = None  # set once it is listened to
        self._taken: int | None = None
        self.is_alone = False  # nobody waits for it any more
        self._steps = Steps()

    @property
    def is_untouched(self) -> bool:
        return self.ends is not None and self.ends.is_untouched

    @property
    def has_terminal(self) -> bool:
        return self.ends is not None and self.ends.pty is not None

    @property
    def is_done(self) -> bool:
        """Whether there is nothing more to say to its origin."""
        return self.is_alone or self._steps.are_over

    async def serve(self, request: lbm_pb2.RunRequest) -> None:
        """Serves the command until its end is reported, or `give_up`."""
        if self.is_alone:
            return
        try:
            self._claims.take(JobId(request.job_id))
        except PeerError as problem:
            refused = e.ReportRefused(str(problem), "request")
            return self._say_last(tags.REFUSED, refused_of(refused))
        self.request, self.id = request, JobId(request.job_id)
        config = self.host.config
        self.execution = Execution(spec_of(self.request, config.lbm))
        # Before the first await, because its id is taken.
        self.host.jobs.add(job_of(self.request, HostId(config.host.name), time.time()))
        self.host.executions.add(self)
        self.answer(self.admit(), e.Denied(FAULT, "admission"))
        await self._take_steps()

    def left(self, link: tuple[str, str] | None) -> Attached | None:
        """Returns its state for another LBM; no further step of the event loop follows. `link`: the
        link on which it is waited for. None: its request says it all. Raises NotNow."""
        if not self.id or self.execution.phase in NOT_SPAWNED:
            return None
        if self.is_busy:
            raise NotNow
        request, stdio = self.request.SerializeToString(), None
        if link is not None and self.ends is not None:
            stdio = self.ends.left()
        return Attached(self.running(), request, self.note, self.talk.number, link, stdio)

    def adopt(self, left: Attached) -> None:
        """Restores its state. Raises DecodeError, OSError, ValueError."""
        self.request = lbm_pb2.RunRequest.FromString(left.request)
        self.id, self.note = JobId(self.request.job_id), left.note
        self.is_alone = left.link is None
        if left.stdio is not None:
            self.ends = self.make_ends()
            self.ends.restore(left.stdio)
        self.take_up(left.running)

    async def go_on(self) -> None:
        """Continues a command that an earlier LBM has begun, in place of `serve`."""
        if self.execution.process is not None:
            self._follow_ends()
        self.feed(e.Resumed())
        await self._take_steps()

    async def _take_steps(self) -> None:
        """Takes its steps; its pumps and its origin run independently meanwhile."""
        try:
            await self._steps.take()
        finally:
            self.give_up()
            for step in self._steps.left():
                super().go_on_with(step)

    def go_on_with(self, step: Step) -> None:
        if self.is_alone:  # perhaps nobody serves it any more
            super().go_on_with(step)
        else:
            self._steps.add(step)

    def give_up(self, number: int = 0) -> None:
        """Nobody waits for it any more: if it has begun, it is ended by that signal."""
        if not self.is_done:
            self.is_alone = True
            self._steps.end()
            if self.id:  # otherwise it was not looked at
                self._let_go()
                self.feed(e.GivenUp(NOBODY, number))

    async def admit(self) -> e.Event:
        if complaint := workdir_trouble(self):
            return e.Denied(complaint, "admission")
        answer = await super().admit()
        dropped = withheld_here(self.request, self.host.rules.config)
        self.note = "; ".join(filter(None, (self.admitted.note, dropped)))
        complaint = self.host.threads.of(self.request.user).why_stuck()
        admitted = isinstance(answer, e.Admitted)
        return e.Denied(complaint, "admission") if admitted and complaint else answer

    def perform(self, action: e.Action) -> None:
        match action:
            case e.Spawn():
                self.answer(self._spawn(), e.NotStarted(FAULT, "spawn"))
            case e.Drain():
                self._drain()
            case e.ReportQueued():
                self._say(tags.QUEUED, use_of(self.host.slots).encode())
                self.answer(waits_in_vain(self))
            case e.ReportRefused():
                self._report_refused(action)
            case e.ReportBegun():
                self._report_begun()
            case e.ReportStopped() if action.stopped and self.ends is not None:
                self.ends.stopped()
            case e.ReportStill():
                super().perform(action)
                self._say(tags.STILL, action.reason.encode())
            case e.ReportExited():
                self._say(tags.EXITED, bytes((action.signal,)))
            case e.ReportEnded():
                self._report_ended(action.outcome)
            case _:
                super().perform(action)

    def _say(self, tag: bytes, body: bytes = b"", linger_s: float = 0.0) -> None:
        if not self.is_alone:
            self.talk.put(tag, body, linger_s)

    def _say_last(self, tag: bytes, body: bytes) -> None:
        self._say(tag, body)
        self._steps.end()

    # The start

    def make_ends(self) -> JobStdio:
        host, request = self.host, self.request
        share = Share(host.windows, request.origin)
        return JobStdio(request, self.talk, host.threads.of(request.user), share)

    async def _spawn(self) -> e.Event | None:
        """Makes pipes, and has the keeper fork."""
        host, request = self.host, self.request
        try:
            ends = self.make_ends()
            ends.make()
        except (OSError, ValueError) as problem:
            return without_pipes(request, getattr(problem, "errno", 0) or 0)
        self.ends = ends
        try:
            config, run_as = host.rules.config, self.admitted.run_as
            workdir = host.workdirs.path_of(request) if request.HasField("workdir") else b""
            order = make_order(request, run_as, config, workdir, host.link.weighs_cpu)
            if request.slots:
                order.environment[b"LBD_SLOTS"] = b"%d" % host.slots.widths.get(self.id, 1)
            order.environment |= variables(host.slots.pool.grant_of(self.id))
            await self.spawn(order, ends.childs)
        except OSError as problem:
            return without_pipes(request, problem.errno or 0)
        except LbdError as problem:
            return not_started(problem, "keeper")
        finally:
            ends.close_childs()
            if self.is_alone:
                self._let_go()
        return None

    def _report_begun(self) -> None:
        pid = self.show_begun()
        if (job := self.host.jobs.running.get(self.id)) is not None:
            job.started, job.slots = time.time(), self.slots
        self.show_state()
        self.host.changed()
        name, load = self.host.config.host.name, self.host.rules.load
        slots = self.host.slots
        beyond = f"beyond its slots: {use_of(slots)}" if slots.used > slots.total else ""
        note = "; ".join(filter(None, (self.note, beyond)))
        started = lbm_pb2.Started(host=name, pid=pid, note=note, index=load, slots=self.slots)
        self._say(tags.STARTED, started.SerializeToString(), LINGER_S)
        if not self.is_alone:
            self._follow_ends()

    # While it runs

    def _follow_ends(self) -> None:
        assert self.ends is not None
        assert self.execution.process is not None
        self._origin = Origin(self.id, self.talk, self.ends, self.feed)
        self._origin.follow(self.execution.process.pid, self._is_read)

    async def _is_read(self, wanted: set[tuple[int, int]]) -> bool:
        process = self.execution.process
        if self.host.link.uid == os.geteuid() and process is not None:
            return is_read(wanted, process.pid, process.group)
        return await self.host.link.ask_read(self.id, wanted)

    # Its end

    def _drain(self) -> None:
        """Usually all output has been read by now: then its end is reported at once."""
        pumps: list[asyncio.Task[None]] = []
        has_ends = self.ends is not None and not self.is_alone
        if self.ends is not None and has_ends:
            self.ends.writers_gone()
            pumps = self._origin.drain() if self._origin is not None else []
        if pumps or (has_ends and self.request.wants_stdin):
            self.answer(self._drained(pumps), e.OutputsDrained())
        else:
            self.feed(e.OutputsDrained())

    async def _drained(self, pumps: list[asyncio.Task[None]]) -> e.Event:
        if pumps:
            await asyncio.wait(pumps)
        if self.ends is not None and not self.is_alone:
            self._taken = await self.ends.input_taken_bytes()
        return e.OutputsDrained()

    def _let_go(self) -> None:
        (ends, self.ends), (origin, self._origin) = (self.ends, None), (self._origin, None)
        if origin is not None:
            origin.stop()
        elif ends is not None:
            ends.close()

    def _report_refused(self, refused: e.ReportRefused) -> None:
        self._claims.give_back(self.id)
        self.host.jobs.running.pop(self.id, None)
        self._let_go()
        self._say_last(tags.REFUSED, refused_of(refused))

    def _report_ended(self, outcome: e.Outcome) -> None:
        self._let_go()
        self.spawned = None  # it refers to us: cycles are collected only after very many commands
        if outcome.exit is None:
            return self._say_last(tags.FAILED, outcome.reason.encode())
        why = said_of_memory(outcome, self.request, self.host.rules.config)
        self._say_last(tags.ENDED, ended_of(outcome, outcome.exit, why, self._taken))


def without_pipes(request: lbm_pb2.RunRequest, number: int) -> e.Event:
    return e.NotStarted(explain(request, SpawnFailed("pipes", number)), "pipes", number)


def refused_of(refused: e.ReportRefused) -> bytes:
    return lbm_pb2.Refused(
        reason=refused.reason,
        phase="admission" if refused.phase in ("slot", DRAINED, NOT_YET) else refused.phase,
        try_another=refused.try_another,
        errno=refused.number,
        full=refused.full,
    ).SerializeToString()


def ended_of(outcome: e.Outcome, how: e.Exit, why: str, taken_bytes: int | None) -> bytes:
    """`taken_bytes`: how much input it has read, if known."""
    return lbm_pb2.Ended(
        exit_status=outcome.exit_status,
        signal=outcome.signal,
        reason=why,
        cause=outcome.cause.value,
        user_cpu_s=how.user_cpu_s,
        system_cpu_s=how.system_cpu_s,
        max_rss_bytes=how.max_rss_bytes,
        wall_s=outcome.wall_s,
        input_taken_bytes=taken_bytes,
        heard_signals=how.heard_signals,
    ).SerializeToString()


async def waits_in_vain(job: AttachedJob) -> e.Event | None:
    """Whether the rules on programs will refuse it once it has the slot that it waits for."""
    link, config, run_as = job.host.link, job.host.rules.config, job.admitted.run_as
    why = await why_forbidden(link, job.request, run_as, config, job.id)
    return e.Denied(why, "admission") if why else None


def workdir_trouble(job: AttachedJob) -> str:
    """Why this step of a workdir may not run, "" if it may: steps run one after the other."""
    if not job.request.HasField("workdir"):
        return ""
    if not job.host.workdirs.path_of(job.request):
        return "its working directory no longer exists"
    alive = (live for live in job.host.executions if isinstance(live, AttachedJob))
    name = job.request.workdir.id
    first = next(live for live in alive if live.request.workdir.id == name)
    return "another step in its working directory is in progress" if first is not job else ""
