"""The shell of an Execution for one attempt of a queued job on this host.

The attempt has no caller: its output goes to the spool, its input comes from what was submitted.
What happens to it is reported to the dispatcher by `report`.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from lbd.errors import LbdError
from lbd.keeper.limits.time_limits import limit_frame
from lbd.keeper.spawn_order import Order
from lbd.lbm.core import execution_events as e
from lbd.lbm.core.attempts_ahead import WAIT_S
from lbd.lbm.core.execution import Execution, Phase, Timer
from lbd.lbm.core.execution_events import Treatment
from lbd.lbm.core.jobs import Job
from lbd.lbm.core.slots import granted_text, variables
from lbd.lbm.handover.records import QueuedAttempt
from lbd.lbm.inbound.context import InboundContext
from lbd.lbm.inbound.performer import FAULT, Performer, is_admitted_at_once, job_log
from lbd.lbm.inbound.refusal_text import phase_of
from lbd.lbm.inbound.request import dry_start, make_order, said_of_memory
from lbd.lbm.queue.attempt_outputs import no_room, open_stdio, output_trouble, refused_for
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.lbm.queue.dispatcher_words import refused_report
from lbd.lbm.queue.own_files import own_files, writing_to
from lbd.lbm.staging.attempt_files import STOPPED as FILES_STOPPED
from lbd.lbm.staging.attempt_files import AttemptFiles, result_of
from lbd.lbm.staging.workdirs import FilesRefused
from lbd.model import GANG_MOVES, GANG_SHOWN, HostId, JobId, JobState
from lbd.net.gen import dispatch_pb2, lbm_pb2
from lbd.process.boot_clock import clock_s
from lbd.text.name_patterns import shown_id

DRY_START_S = 10.0
READY, STOPPED = "ready", "stopped"  # events of reports
NO_FILES = e.FilesFailed(FILES_STOPPED, "late")


class Attempt(Performer):
    def __init__(
        self,
        host: InboundContext,
        client: DispatcherClient,
        start: dispatch_pb2.Start,
        report: Callable[[dispatch_pb2.AttemptReport], None],
        lease_until_s: float,
    ) -> None:
        super().__init__(host, clock_s)
        self.id = JobId(f"{start.job}.{start.attempt}")  # for the keeper
        self.start = start
        self.shown = shown_id(start.job, start.array, start.array_index)
        self.which = f"attempt {start.attempt}: "
        self._client, self._report = client, report
        self.common = host.submitted.common(start)
        self.request = self.common.request
        self.files = self._own_files() if self.request.HasField("workdir") else None
        self.said: set[str] = set()  # events reported so far
        self._at_files: asyncio.Task[e.Event] | None = None
        self.execution = Execution.leased(self._spec(), lease_until_s)
        if self.execution.spec.is_of_gang:
            client.spool.when_shown[start.job, start.attempt] = self._report_stopped

    def _own_files(self) -> AttemptFiles:
        """Gives the request names of its own, so that it needs a copy of its own."""
        common, self.request = self.request, lbm_pb2.RunRequest()
        self.request.CopyFrom(common)
        self.request.job_id = self.start.job
        return AttemptFiles(self.host, self._client, self.start, self.request, self.id)

    def _spec(self) -> e.Spec:
        start, request = self.start, self.request
        width = max(1, start.slots)
        return e.Spec(
            self.id,
            e.Kind.QUEUED,
            request.user,
            self.host.config.lbm.kill_grace_s,
            (width, width),
            slot_patience_s=WAIT_S,
            timeout_s=request.timeout_s,
            cutoff_s=start.cutoff_s,
            brings_files=self.files is not None,
            takes_checkpoints=bool(start.spec.checkpoint),
            is_evictable=start.movable,
            is_of_gang=bool(start.gang_hosts),
            needs=self.common.needs,
        )

    def begin(self) -> None:
        self.host.executions.add(self)
        if fault := self.common.fault:
            reason = f"its stored request cannot be run: {fault}"
            self.feed(e.Denied(reason, "request"))
        elif not is_admitted_at_once(self):
            self.answer(self.admit(), e.Denied(FAULT, "admission"))

    def left(self, report: dispatch_pb2.AttemptReport | None) -> QueuedAttempt:
        """Returns its state for another LBM. `report`: of its end, if that is not settled."""
        start, path = self.start.SerializeToString(), self.files.path if self.files else b""
        end = report.SerializeToString() if report is not None else None
        shown, files_s = not self.is_untouched, self.files_s
        return QueuedAttempt(self.running(), start, end, path, STOPPED in self.said, shown, files_s)

    def adopt(self, left: QueuedAttempt) -> None:
        """Continues what an earlier LBM left, in place of `begin`."""
        self.said, self.files_s = {STOPPED} if left.has_stopped else set(), left.files_s
        if left.was_shown:
            self._client.spool.shown.add((self.start.job, self.start.attempt))
        if self.files is not None and left.workdir:
            self.files.adopt(left.workdir)
        self.take_up(left.running)
        self.feed(e.Resumed())

    def perform(self, action: e.Action) -> None:
        match action:  # what most attempts have comes first
            case e.AskSlot() | e.ReportQueued() | e.FreeSlot() | e.Record():
                super().perform(action)
            case e.Spawn():
                self.answer(self._spawn(), e.NotStarted(FAULT, "spawn"))
            case e.ReportBegun():
                self._list()
                self.show_begun()
                self._say(begun_report(self.execution))
            case e.ReportEnded():
                self._say(self._end_of(action.outcome))
            case e.PrepareFiles() if self.files is not None:
                self._at_files = work = asyncio.create_task(self._prepare(self.files))
                self.answer(result_of(work, NO_FILES), e.FilesFailed(FAULT, "stage"))
            case e.CollectFiles() if self.files is not None and self.execution.exit is not None:
                status = self.execution.exit.status
                self._at_files = work = asyncio.create_task(collect(self.files, status))
                stopped = e.FilesCollected(fetch_trouble(FILES_STOPPED, status))
                self.answer(result_of(work, stopped), e.FilesCollected(FAULT))
            case e.StopFiles() if self._at_files is not None:
                self._at_files.cancel()
            case e.DropFiles() if self.files is not None:
                self.files.close()
            case e.ReportRefused():
                self._say(refused_report(action, is_staged=self.files is not None))
            case e.ReportReady():
                self.answer(self._dry_start(), e.NotStarted(FAULT, "spawn"))
            case e.ReportStopped():
                self._report_stopped()
            case e.ReportStill():
                super().perform(action)
                self._report_stopped()
            case _:
                super().perform(action)

    @property
    def is_untouched(self) -> bool:
        """Whether it can start again unnoticed: its input can be read again, and its output can
        be discarded as long as nobody was shown it."""
        return (self.start.job, self.start.attempt) not in self._client.spool.shown

    @property
    def gang_hosts(self) -> tuple[HostId, ...]:
        return tuple(map(HostId, self.start.gang_hosts))

    def stopped_report(self) -> dispatch_pb2.AttemptReport:
        """Whether and why it is suspended and, for a gang, whether all tasks must start again."""
        execution = self.execution
        is_stopped = execution.is_stopped or execution.is_still
        event = STOPPED if is_stopped else "continued"
        self.said.add(event)
        report = dispatch_pb2.AttemptReport(event=event, reason=execution.still_reason)
        report.job, report.attempt = self.start.job, self.start.attempt
        if self.gang_hosts and not self.is_untouched:
            report.stop_reason = GANG_SHOWN
        elif self.gang_hosts and execution.is_still and execution.treatment is Treatment.GO:
            report.stop_reason = GANG_MOVES
        return report

    def _report_stopped(self) -> None:
        self._say(self.stopped_report())

    # Files

    async def _prepare(self, files: AttemptFiles) -> e.Event:
        """Raises no refusal: as a task's exception it would keep the request, by its traceback."""
        began_s = self.clock()
        try:
            await files.open(self.admitted.run_as)
        except FilesRefused as trouble:
            return e.FilesFailed(str(trouble), trouble.phase, trouble.number)
        self.files_s = self.clock() - began_s
        return e.FilesReady()

    # The start

    async def _dry_start(self) -> e.NotStarted | None:
        """Runs before any of its gang begins: what one host forbids stops them all."""
        path = self.files.path if self.files else b""
        order = make_order(self.request, self.admitted.run_as, self.host.rules.config, path)
        order.job = self.id
        refused = await dry_start(self.host.link, self.request, order, DRY_START_S)
        if self.execution.phase is not Phase.HELD:
            return None  # asked to end meanwhile
        if full := no_room(self.start, self.request, self._client.spool):
            return full
        if refused is not None:
            return replace(refused, phase=phase_of(refused.phase))
        self._say(dispatch_pb2.AttemptReport(event=READY))
        return None

    async def _spawn(self) -> e.Event | None:
        descriptors, in_gang = list[int](), self.execution.spec.is_of_gang
        link, run_as, spool = self.host.link, self.admitted.run_as, self._client.spool
        if not in_gang and (full := no_room(self.start, self.request, spool)):
            return full  # a gang has looked before any of it began
        try:
            config, path = self.host.rules.config, self.files.path if self.files else None
            order = self.common.order(self.start, run_as, config, limited_cpu=link.weighs_cpu)
            add_own(order, self, self.host.config.host.name, path)
            order.environment |= own_resources(self)
            until_s = self.execution.timers.get(Timer.LEASE, 0.0)
            order.start_by_ms = int(until_s * 1e3)
            uid = link.uid if run_as is None else run_as.uid
            open_stdio(descriptors, self.start, self.request, uid, spool)
            limit = limit_frame(self.id, until_s, self.start.cutoff_s)
            await self.spawn(order, descriptors, limit)
        except (LbdError, OSError) as trouble:
            return refused_for(trouble, spool, in_gang=in_gang)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return None

    # What is known about it

    def reports(self, *, has_ended: bool) -> Iterator[dispatch_pb2.AttemptReport]:
        """Reports, apart from its end, for a dispatcher that has heard nothing yet."""
        job, number = self.start.job, self.start.attempt
        if READY in self.said and self.execution.phase is Phase.HELD:
            yield dispatch_pb2.AttemptReport(job=job, attempt=number, event=READY)
        if self.execution.process is not None:
            yield begun_report(self.execution, job, number)
        if not has_ended and (STOPPED in self.said or (self.gang_hosts and not self.is_untouched)):
            yield self.stopped_report()

    def _list(self) -> None:
        """Adds it to `lbctl jobs`."""
        request, start, now = self.request, self.start, time.time()
        self.host.jobs.add(
            Job(
                self.id,
                tuple(request.argv),
                request.user,
                HostId(""),
                HostId(self.host.config.host.name),
                submitted=start.requeued or start.spec.submitted or now,
                name=request.name,
                started=now,
                state=JobState.RUNNING,
                foreign=True,
                queued_at=HostId(request.origin),
                queued_as=self.shown,
                slots=self.slots,
            )
        )

    def _end_of(self, outcome: e.Outcome) -> dispatch_pb2.AttemptReport:
        report = dispatch_pb2.AttemptReport(
            event="ended", cause=outcome.cause.value, reason=outcome.reason
        )
        report.at_s = self.execution.exited_s
        report.signal = outcome.signal
        of_memory = said_of_memory(outcome, self.request, self.host.rules.config)
        report.reason = of_memory or report.reason
        if outcome.exit_status is not None:
            report.exit_status = outcome.exit_status
        if outcome.cpu_s is not None:
            report.cpu_s = outcome.cpu_s
        if outcome.exit is not None:
            report.max_rss_bytes = outcome.exit.max_rss_bytes
            where = self.host.config.host.name, self._client.spool, outcome.exit_status
            report.reason = report.reason or output_trouble(self.start, self.request, *where)
        return report

    def _say(self, report: dispatch_pb2.AttemptReport) -> None:
        self.said.add(report.event)
        report.job, report.attempt = self.start.job, self.start.attempt
        if self.execution.is_reported:
            report.stop_reason = self.execution.stop_reason
            self._client.spool.shown.discard((self.start.job, self.start.attempt))
            self._client.spool.when_shown.pop((self.start.job, self.start.attempt), None)
        self._report(report)


def let_go(attempt: Attempt) -> None:
    """Lets an attempt that has ended go of what refers to it, so that its order, megabytes perhaps,
    is freed at once: cycles are collected only after a great many attempts."""
    attempt.spawned = attempt._at_files = None


async def collect(files: AttemptFiles, status: int) -> e.Event:
    """`status`: exit status of the command."""
    complaint = await files.collect(status)
    return e.FilesCollected(fetch_trouble(complaint, status) if complaint else "")


def fetch_trouble(complaint: str, status: int) -> str:
    return f"--fetch {complaint}; the command itself exited with {status}"


def begun_report(
    execution: Execution, job: str = "", attempt: int = 0
) -> dispatch_pb2.AttemptReport:
    at_s = execution.process.began_s if execution.process is not None else 0.0
    return dispatch_pb2.AttemptReport(job=job, attempt=attempt, event="begun", at_s=at_s)


def own_resources(attempt: Attempt) -> dict[bytes, bytes]:
    """Returns the variables for its grant, and logs the grant."""
    if not (grant := attempt.host.slots.pool.grant_of(attempt.id)):
        return {}
    if got := granted_text(grant):
        job_log.debug(attempt.shown, "%sgot %s", attempt.which, got)
    return variables(grant)


def add_own(order: Order, attempt: Attempt, host: str, directory: bytes | None) -> None:
    """Adds what the attempt does not share with others of its submission. `directory`: its workdir,
    if it brings files along."""
    start = attempt.start
    environment, spec = order.environment, start.spec
    order.job = attempt.id
    order.copies_input = bool(spec.input)
    environment[b"LBD_JOB_ID"] = attempt.shown.encode()
    if start.cutoff_s:  # how much CPU time it may use
        environment[b"LBD_CUTOFF_S"] = b"%g" % start.cutoff_s
    if spec.checkpoint:  # where it may leave its state
        environment[b"LBD_CHECKPOINT"] = spec.checkpoint
    if start.HasField("array_index"):
        environment[b"LBD_ARRAY_INDEX"] = b"%d" % start.array_index
    if start.gang_hosts:
        environment[b"LBD_GANG_HOSTS"] = ",".join(start.gang_hosts).encode()
    if directory is not None:
        order.directory = environment[b"PWD"] = directory
    output, error = own_files(start, host)
    if output or error:
        order.subject = order.argv[0]
        goes_on = spec.append or (bool(spec.checkpoint) and start.attempt > 1)
        order.argv = writing_to(
            output, error, order.argv, appends=goes_on, odd_names=attempt.common.has_odd_names
        )
