"""Jobs as clients see them: ledger rows as messages, with why each waits and for how long."""

import asyncio
import math
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from lbd.dispatch.array_view import add_end, add_foretold, add_tally, task_of
from lbd.dispatch.core.discipline import Foretold, QueuedJob
from lbd.dispatch.core.ledger_room import until_written
from lbd.dispatch.core.ledger_rows import JobRow, Ledger, Stored, Tally, target_of
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.outlook.forecast import Prediction
from lbd.dispatch.core.outlook.places import Places
from lbd.dispatch.core.records import Live
from lbd.dispatch.core.why_waiting import silent_arrays, waiting_reason
from lbd.dispatch.prediction_info import speedup_info
from lbd.dispatch.predictions import Predictions, is_wait
from lbd.local.long_answers import in_turns
from lbd.model import ENDED_NAMES, Closed, JobId, JobState
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.submitter import request_in
from lbd.process.boot_clock import clock_s
from lbd.text.command_words import shown_of_joined
from lbd.text.job_phrases import (
    BEGINS_ONCE,
    DISPATCHER,
    ENDED_UNRECORDED,
    OVER_UNRECORDED,
    RUNS_UNRECORDED,
    STARTING,
)
from lbd.text.one_line import one_line

FORECAST_KEPT_S = 30.0
DRAIN_CHARS = 200
AHEAD_S_MAX = 8 * 86400.0
ATTEMPTS_SHOWN = 20_000  # in one answer, besides the last one of each job
EXPLAINED_MAX = 100  # jobs in one answer
NOTHING = Prediction(None, "")
FRAME_BYTES = 6  # overhead of each job in a message
WORD_BYTES = 8  # added for each word of its command, so that an answer has not too many fields


@dataclass(slots=True)
class LookedUp:
    """What is the same for many jobs of an answer, looked up once for all of them."""

    until: str  # what has to come about before changes are written; "" if they are
    explained: bool  # whether it is said why each waits
    foretold: bool  # and how many are ahead, and for how long
    # of each array with a target, for its tasks that wait in line and for the others
    targets: dict[tuple[int, bool], pb.TargetInfo] = field(default_factory=dict)
    running: dict[int, Live] = field(default_factory=dict)  # as for `task_of`


class JobViews:
    def __init__(
        self,
        life: Lifecycle,
        ledger: Ledger,
        predictions: Predictions,
        host: str = DISPATCHER,
        ran: Container[JobId] = (),
    ) -> None:
        """`host`: the dispatcher's; `ran`: jobs that ran and have ended, not yet on disk."""
        self._life, self._host, self._ran = life, host, ran
        self._ledger = ledger
        self.forecast, self._predictions = predictions.forecast, predictions
        self._forgetting: asyncio.TimerHandle | None = None

    async def of(
        self, rows: Sequence[JobRow], *, explained: bool, foretold: bool
    ) -> list[pb.JobInfo]:
        """Returns the views of the jobs. For very many this takes seconds, and lets hosts be heard
        meanwhile. `foretold`: if explained, also how many are ahead, and for how long each waits:
        for that all that wait are looked at."""
        if foretold and any(row.state == JobState.PENDING.value for row in rows):
            await look_at(self.forecast.places)
        known = self._look_up(explained, foretold)
        view = self._of if explained else self._without_reason
        reply = [view(row, known) async for row in in_turns(rows)]
        if len(rows) == 1 and (speedup := self._predictions.known_of(rows[0])) is not None:
            reply[0].speedup.CopyFrom(speedup_info(speedup))
        if foretold and len(reply) == 1:
            await self.add_interval(reply[0])
        if len(reply) > EXPLAINED_MAX:  # how they were predicted takes more bytes than all the rest
            for job in reply:
                job.ClearField("predicted_by")
        return reply

    async def add_given(self, jobs: Sequence[pb.JobInfo], rows: Sequence[JobRow]) -> None:
        """Adds the submitted options to a single job or array; for many these could be as many
        megabytes. Raises LedgerTrouble."""
        if len(jobs) == len(rows) == 1:
            stored = await self._ledger.spec(rows[0].submission)
            jobs[0].given.CopyFrom(given_info(stored, rows[0]))

    async def add_interval(self, job: pb.JobInfo) -> None:
        """Adds the interval of a job that waits for needs besides slots. That takes long where many
        slots are held, so in a list such jobs have none."""
        registered = self._life.queues.registry.find(JobId(str(job.id)))
        if registered is None or job.predicted_wait_s <= 0 or job.HasField("predicted_low_s"):
            return
        if (interval := self.forecast.interval_of(registered, clock_s())) is None:
            return
        exact = await asyncio.to_thread(interval)
        if exact is not None and math.isfinite(exact[1]):
            job.predicted_low_s, job.predicted_wait_s, job.predicted_high_s = exact

    async def of_lines(
        self, lines: Sequence[tuple[JobRow, Tally | None]], *, explained: bool, foretold: bool
    ) -> list[pb.JobInfo]:
        """Returns the same for jobs and arrays, as `JobFinder.lines` gives them."""
        alone = [row for row, tally in lines if tally is None]
        jobs = iter(await self.of(alone, explained=explained, foretold=foretold))
        has_arrays = explained and len(alone) < len(lines)
        are_foretold = foretold and has_arrays
        if are_foretold and any(tally is not None and tally.waiting for _, tally in lines):
            await look_at(self.forecast.places)
        silent = silent_arrays(self._life, clock_s()) if has_arrays else {}
        found, known = [], self._look_up(explained, foretold)
        async for row, tally in in_turns(lines):
            if tally is None:
                found.append(next(jobs))
                continue
            found.append(self._of_array(row, tally, known))
            if why := silent.get(row.first):
                found[-1].reason = "; ".join(filter(None, (why, found[-1].reason)))
        return found

    def _look_up(self, explained: bool, foretold: bool) -> LookedUp:
        until = until_written(self._ledger.disk(), self._ledger.trouble, self._host)
        return LookedUp(until, explained, foretold)

    def _of_array(self, row: JobRow, tally: Tally, known: LookedUp) -> pb.JobInfo:
        """Returns the view of an array. `row`: one of its tasks. The reason shown is that of its
        first waiting task that is not held, if there is one."""
        live = None
        if known.explained and tally.open:
            live = task_of(row, tally, self._life, known.running)
        if live is None:
            reply = self._without_reason(row, known)
        else:
            reply = self._with_target(self._of_live(row, live, known), live, known)
        unrecorded = "" if tally.waiting else reply.reason
        add_tally(reply, row, tally)
        if live is not None and live.job.target is None and known.foretold:
            add_end(reply, live.job, tally, self._life.queues.registry, self._predictions)
            self._forget_forecast()
        if unrecorded.startswith(ENDED_UNRECORDED):
            reply.reason = unrecorded
        if reply.state == JobState.RUNNING.value and reply.reason.startswith(STARTING):
            reply.reason = ""  # the next task's reason does not apply to the array
        return reply

    def _of(self, row: JobRow, known: LookedUp) -> pb.JobInfo:
        live = self._life.jobs.get(JobId(str(row.id)))
        if live is None:
            return self._without_reason(row, known)
        return self._with_target(self._of_live(row, live, known), live, known)

    def _of_live(self, row: JobRow, live: Live, known: LookedUp) -> pb.JobInfo:
        is_final, until = live.lease is not None and live.lease.cutoff_s is None, known.until
        is_on_disk = live.lease is not None and row.attempt == live.lease.attempt
        stands = f"{BEGINS_ONCE}{until}" if until and not is_on_disk else ""
        registered = self._life.queues.registry.find(live.job.id)
        if registered is None or registered.host is not None:
            reason = waiting_reason(self._life, live, None, time_of_day, clock_s())
            is_blocked = live.lease is None  # held, or waits for something else
            reply = job_info(row, reason if is_blocked else stands or reason, is_final)
            lease, is_old = live.lease, row.state == JobState.PENDING.value
            if until and is_old and lease is not None and lease.begun and not reason:
                self._add_unrecorded(reply, f"{RUNS_UNRECORDED}{lease.host}; ", until)
            return reply
        now_s, place, prediction = clock_s(), None, NOTHING
        if known.foretold:
            place = self.forecast.places.of(registered, now_s)
            prediction = self.forecast.of(registered, now_s)
            self._forget_forecast()
        reason = stands or waiting_reason(self._life, live, place, time_of_day, now_s)
        reply = job_info(row, reason, is_final, prediction)
        self._correct(reply, registered.kind, prediction)
        if isinstance(registered.line, int):  # a tier
            reply.tier = registered.line
        return reply

    def _correct(self, reply: pb.JobInfo, job: QueuedJob, prediction: Prediction) -> None:
        """Corrects the prediction by how such predictions came true lately, if enough did."""
        correction, raw_s = self._predictions.correction, reply.predicted_wait_s
        is_rough = prediction.is_rough
        if raw_s > 0 and not job.needs:
            reply.predicted_by = self._predictions.doubted(reply.predicted_by)
        reply.comparable = self._predictions.comparable(job, raw_s, is_rough=is_rough)
        is_corrected = self._predictions.corrects(job, raw_s, is_rough=is_rough)
        if is_corrected and reply.HasField("predicted_wait_s"):
            wait_s, (low_s, high_s) = correction.corrected(raw_s, prediction.within_s)
            reply.predicted_wait_s = wait_s
            reply.predicted_low_s, reply.predicted_high_s = low_s, high_s

    def _with_target(self, reply: pb.JobInfo, live: Live, known: LookedUp) -> pb.JobInfo:
        if reply.HasField("target") and known.foretold:
            registered = self._life.queues.registry.find(live.job.id)
            key = live.job.array, registered is not None and registered.line is not None
            if key not in known.targets:
                known.targets[key] = self._target_of(live)
            reply.target.MergeFrom(known.targets[key])
        return reply

    def _target_of(self, live: Live) -> pb.TargetInfo:
        """Returns how its array stands. This takes a millisecond."""
        now_s, now = clock_s(), time.time()
        begins = self._predictions.begins(live.job.id, now_s)
        standing = self._life.queues.targets.standing(live.job, now_s, begins)
        if standing is None:
            return pb.TargetInfo(why="it has no slots reserved: that needs dispatch.mode fcfs")
        target = pb.TargetInfo(
            at_once=standing.at_once, running=standing.running,
            left=standing.left, why=standing.why,
        )  # fmt: skip
        if (end := standing.end) is not None:
            target.expected_end = now + end.mean_s
            target.expected_low, target.expected_high = now + end.low_s, now + end.high_s
        return target

    def _without_reason(self, row: JobRow, known: LookedUp) -> pb.JobInfo:
        """Returns the view of a job without why it waits; but if it has ended, which the ledger
        does not know for lack of room, that is said."""
        ledger, job = self._ledger, JobId(str(row.id))
        is_open = row.state not in ENDED_NAMES
        reply = job_info(row, "", is_final=not is_open)
        if known.until and ledger.trouble and is_open and job not in self._life.jobs:
            has_ended = ENDED_UNRECORDED if job in self._ran else OVER_UNRECORDED
            self._add_unrecorded(reply, has_ended, known.until)
        return reply

    def _add_unrecorded(self, reply: pb.JobInfo, what: str, until: str) -> None:
        """Says what the ledger does not know yet. A job that has begun counts as running."""
        reply.reason = f"{what}it can be recorded once {until}"
        if reply.state == JobState.PENDING.value and what != OVER_UNRECORDED:
            reply.state = JobState.RUNNING.value

    def _forget_forecast(self) -> None:
        """Soon, unless questions continue: the data on many jobs takes memory."""
        if self._forgetting is not None:
            self._forgetting.cancel()
        loop = asyncio.get_running_loop()
        self._forgetting = loop.call_later(FORECAST_KEPT_S, self.forecast.forget)


async def look_at(places: Places) -> None:
    """Finds how much is ahead of each waiting job. Of very many this takes seconds, and lets hosts
    be heard meanwhile."""
    while not places.look(clock_s()):  # noqa: ASYNC110  # it goes on with it
        await asyncio.sleep(0)


def why_closed(heartbeat: pb.Heartbeat) -> tuple[Closed | None, str]:
    """Returns why the host is closed, and details for `closed_words`."""
    why = Closed.numbered(heartbeat.closed)
    if why is Closed.DRAINED:
        return why, one_line(heartbeat.drain, DRAIN_CHARS)
    return why, opening(heartbeat.opens)


def opening(unix_s: float) -> str:
    """Returns when a host says its hours begin; "" if it does not say, or the time is
    impossible."""
    ahead_s = unix_s - time.time()
    return time_of_day(clock_s() + ahead_s) if 0.0 < ahead_s < AHEAD_S_MAX else ""


def time_of_day(at_s: float) -> str:
    """Formats a time of our own clock, with the date if that is not today."""
    now = time.time()
    # To the second: 17:30 converted from the other clock may be a microsecond earlier.
    at, today = time.localtime(round(now + at_s - clock_s())), time.localtime(now)
    form = "%H:%M:%S" if at.tm_sec else "%H:%M"
    return time.strftime(form if at[:3] == today[:3] else f"%Y-%m-%d {form}", at)


def given_info(stored: Stored, row: JobRow) -> pb.GivenInfo:
    spec = pb.StoredSpec.FromString(stored.spec)
    given = pb.GivenInfo(
        output=spec.output, error=spec.error, key=stored.key, may_restart=row.may_restart,
        begin=row.not_before, notify=spec.notify,
    )  # fmt: skip
    if (request := request_in(spec)) is not None:
        if request.HasField("workdir"):
            given.submitted_in = request.directory
            given.fetch.extend(request.workdir.fetch)
        else:
            given.directory = request.directory
        given.timeout_s, given.memory_bytes = request.timeout_s, request.memory_bytes
    return given


def job_info(
    row: JobRow, reason: str, is_final: bool, prediction: Prediction = NOTHING
) -> pb.JobInfo:
    """`reason`: why the job waits, if it does; `prediction`: for how long."""
    held = row.slots_held if row.state != "pending" else None
    low_s, high_s = prediction.within_s or (None, None)
    reply = pb.JobInfo(
        id=row.id,
        name=row.name,
        command=shown_of_joined(row.command),
        user=row.user,
        origin=row.origin,
        host=row.host,
        state=row.state,
        attempt=row.attempt,
        tier=row.tier,
        submitted=row.submitted,
        started=row.started or 0.0,
        finished=row.finished or 0.0,
        slots=held or row.slots,
        slots_least=row.slots,
        slots_most=row.slots_most,
        needs=row.needs,
        priority=row.priority,
        reason=reason or row.reason,
        signal=row.signal,
        cause=row.cause,
        is_final=is_final,
        predicted_wait_s=prediction.wait_s,
        predicted_low_s=low_s if is_wait(high_s) else None,
        predicted_high_s=high_s if is_wait(high_s) else None,
        predicted_by=prediction.how,
        uid=row.uid,
        gang=row.gang,
        exit_status=row.exit_status,
        cpu_s=row.cpu_s,
        max_rss_bytes=row.max_rss_bytes,
        array_index=row.array_index,
    )
    kept = row.predicted_s, row.foretold_s, row.foretold_low_s, row.foretold_high_s
    add_foretold(reply, Foretold(*kept))
    if row.array_index is not None:
        reply.array_id = row.first
    if (target := target_of(row.target, row.deadline)) is not None:
        reply.target.by, reply.target.is_deadline = target
    return reply


def cost_bytes(job: pb.JobInfo) -> int:
    return job.ByteSize() + FRAME_BYTES + WORD_BYTES * len(job.command)


def in_pieces(jobs: Sequence[pb.JobInfo], bytes_max: int) -> list[list[pb.JobInfo]]:
    """Splits jobs into pieces of at most `bytes_max`, or of one job; one empty piece if none."""
    pieces: list[list[pb.JobInfo]] = [[]]
    size = 0
    for job in jobs:
        own = cost_bytes(job)
        if pieces[-1] and size + own > bytes_max:
            pieces.append([])
            size = 0
        pieces[-1].append(job)
        size += own
    return pieces


async def newest_of(jobs: Sequence[pb.JobInfo], bytes_max: int) -> list[pb.JobInfo]:
    """Returns the last of the jobs that take at most `bytes_max`, at least one of any."""
    found, size = list[pb.JobInfo](), 0
    async for job in in_turns(reversed(jobs)):
        size += cost_bytes(job)
        if found and size > bytes_max:
            break
        found.append(job)
    return found[::-1]


async def encoded(jobs: Sequence[pb.JobInfo], absent: Sequence[str]) -> bytes:
    """Returns an answer with these jobs as bytes: those of its parts, one behind the other."""
    parts = [pb.JobsInfo(jobs=[job]).SerializeToString() async for job in in_turns(jobs)]
    return b"".join([*parts, pb.JobsInfo(absent=absent).SerializeToString()])


async def add_attempts(jobs: Sequence[pb.JobInfo], ledger: Ledger) -> None:
    """Adds the last attempts of each job: one may have as many as its user has requeued it."""
    by_id = {job.id: job for job in jobs}
    most = max(1, ATTEMPTS_SHOWN // max(1, len(jobs)))
    rows = await ledger.attempts([JobId(str(job)) for job in by_id], most)
    async for row in in_turns(rows):
        by_id[row.job].attempts.add(
            number=row.number,
            host=row.host,
            tier=row.tier,
            state=row.fate,
            cutoff_s=row.cutoff_s or 0.0,
            started=row.started or 0.0,
            finished=row.finished or 0.0,
            reason=row.reason,
            slots=row.slots,
            exit_status=row.exit_status,
            cpu_s=row.cpu_s,
        )
