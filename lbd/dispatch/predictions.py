"""Predictions of waits: stored with submissions, compared with actual waits, returned in answers.

Slow work runs in a thread: the table for one question, and fitting a line through the outcomes,
which are read from the ledger. So predictions stay the same after a restart of the dispatcher, and
under the next leader.

Such a thread slows the event loop down. So questions are processed one at a time, no user gets more
than a quarter of the time and no host more than half, and the same question repeated soon gets the
same answer.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from lbd.dispatch.core.discipline import Foretold, QueuedJob
from lbd.dispatch.core.ledger_rows import (
    JobRow,
    Ledger,
    LedgerTrouble,
    Submission,
    Wanted,
    command_of,
    share_of,
)
from lbd.dispatch.core.malleable.decision import KnownSpeedup
from lbd.dispatch.core.malleable.prospects import answer
from lbd.dispatch.core.outlook.arrivals import Arrivals
from lbd.dispatch.core.outlook.comers import Came
from lbd.dispatch.core.outlook.forecast import Forecast
from lbd.dispatch.core.outlook.forecast_words import GUESS
from lbd.dispatch.core.outlook.line_maker import NEW, lives_of
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.restore import queued_job
from lbd.dispatch.core.run_times import line_of, name_hash
from lbd.dispatch.core.targets.plan import Begins, Within, slot_times_s
from lbd.dispatch.intake import COMMAND_BYTES_MAX, TEXT_MAX, are_hosts, is_speedup
from lbd.dispatch.prediction_info import (
    Compared,
    calibration_info,
    predict_info,
    warning_of,
    why_uncorrected,
)
from lbd.errors import LbdError
from lbd.model import HostId, JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s
from lbd.text.job_limits import SLOTS_MAX
from lbd.text.needs_words import are_needs, read_needs_text
from lbd.text.units import counted, show_duration
from lbd.theory.calibration import FEWEST, Bias, CameTrue, Correction, Trust, judged, trust

LEARN_EVERY_S = 30.0
LEARN_FROM = 1000  # the last ended jobs
JUDGED = 10_000
WAIT_S_MAX = 1e12
QUANTILES = (0.5, 0.9)
NEVER_ENDED = "no run of this command by you on {} in the queue has come to its own end yet"
BYTES_MAX = 32 << 20  # of the commands read with them
USER_REST, HOST_REST = 3.0, 1.0  # pause after a question, in multiples of its time
QUICK_S = 0.1  # shorter questions cause no pause
RESTING_MAX = 10_000
SAME_MAX, SAME_FOR = 64, 4.0  # cached answers, and for how many times their computing time


class Turns:
    """When the questions of each user of a host, and of each host, may be processed."""

    def __init__(self, clock: Callable[[], float] = clock_s) -> None:
        self._clock = clock
        self._due_s: OrderedDict[tuple[str, ...], float] = OrderedDict()
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def turn(self, host: str, user: str) -> AsyncIterator[None]:
        keys = (host, user), (host,)
        while (wait_s := max(map(self._left_s, keys))) > 0:  # noqa: ASYNC110  # nobody says so
            await asyncio.sleep(wait_s)
        async with self._lock:
            began_s = self._clock()
            try:
                yield
            finally:
                self._rests(keys, self._clock() - began_s)

    def _rests(self, keys: tuple[tuple[str, ...], ...], took_s: float) -> None:
        if took_s <= QUICK_S:
            return
        for key, rest in zip(keys, (USER_REST, HOST_REST), strict=True):
            now_s = self._clock()
            self._due_s[key] = max(now_s, self._due_s.get(key, 0.0)) + rest * took_s
            self._due_s.move_to_end(key)
        while len(self._due_s) > RESTING_MAX:
            self._due_s.popitem(last=False)

    def _left_s(self, key: tuple[str, ...]) -> float:
        return self._due_s.get(key, 0.0) - self._clock()


@dataclass(slots=True)
class Predictions:
    queues: Queues
    ledger: Ledger
    by_uid: bool
    forecast: Forecast = field(init=False)
    arrivals: Arrivals = field(init=False)
    correction: Correction = field(default_factory=Correction)  # of jobs' whole waits
    compared: Compared = field(default_factory=Compared)
    # that predictions hold, as they have not come true; the same wherever it is shown
    doubt: str = ""
    errors: list[object] = field(default_factory=list)  # [quantile, seconds], for metrics
    _learnt: int = -1  # jobs that had ended by then
    turns: Turns = field(default_factory=Turns)
    _same: OrderedDict[bytes, tuple[float, pb.PredictInfo]] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        self.forecast = Forecast(self.queues)
        self.arrivals = Arrivals(self.forecast)

    def of_submission(self, sent: Submission) -> Foretold | None:
        """Returns no prediction for jobs that do not start in turn: a gang, an array with a target
        or a limit, jobs that wait for others or for a time, or may wait for more slots, and all
        while slots are kept for a gang. Their waits would distort the correction."""
        is_steered = sent.target is not None or sent.deadline is not None or sent.at_once > 0
        is_steered = is_steered or bool(sent.after or sent.not_before)
        if sent.gang or is_steered or self.queues.plan is not None:
            return None
        job = self._arriving(sent)
        if self.queues.heads.may_hold_out(job):
            return None
        expected = self.arrivals.of(job, clock_s())
        if expected is None:
            return None
        raw_s, within_s = expected.wait_s, expected.within_s
        if raw_s > 0 and self.corrects(job, raw_s, is_rough=expected.is_rough):
            wait_s, within_s = self.correction.corrected(raw_s, within_s)
            return Foretold(raw_s, wait_s, *within_s)
        # Rough guesses are kept for people only: others must not be corrected by them.
        return Foretold(None if expected.is_rough else raw_s, raw_s, *(within_s or (None, None)))

    def comes(self, sent: Submission) -> Came:
        """It is being written; `arrived` follows."""
        job, known = self._arriving(sent), self.queues.resource_times.slots.lifetimes()
        general, mean_s = known if known is not None else (None, None)
        lives = lives_of(self.queues, job, general)
        return self.forecast.plays.comers.comes(sent.count, sent.slots, lives, mean_s)

    def arrived(self, came: Came) -> None:
        """It is in the queue, or will not be."""
        self.forecast.plays.comers.arrived(came)

    def _arriving(self, sent: Submission) -> QueuedJob:
        return QueuedJob(
            NEW,
            sent.slots,
            slots_most=sent.slots_most,
            only=HostId(sent.only) if sent.only else None,
            barred=frozenset(map(HostId, sent.excluded)),
            user=share_of(sent.user, sent.uid, by_uid=self.by_uid),
            name=sent.name,
            priority=sent.priority,
            limit_s=sent.limit_s,
            command=name_hash(command_of(sent.command)),
            needs=read_needs_text(sent.needs),
            command_line=line_of(sent.command),
        )

    def corrects(self, job: QueuedJob, raw_s: float, *, is_rough: bool) -> bool:
        """Whether a forecast is shown corrected by how such forecasts came true lately. That is
        learnt from waits for slots."""
        return not (job.needs or is_rough) and self.correction.tells_of(raw_s)

    def comparable(self, job: QueuedJob, raw_s: float, *, is_rough: bool) -> int:
        """Returns how many earlier forecasts say how far to trust this one."""
        is_like = not (job.needs or is_rough) and self.correction.is_within(raw_s)
        return self.compared.jobs if is_like else 0

    def begins(self, job: JobId, now_s: float) -> Begins | None:
        """Returns when the array of a waiting task with a target goes on, from now, as it is shown;
        None if unknown, or if the task does not wait in a queue."""
        if (registered := self.queues.registry.find(job)) is None or registered.line is None:
            return None
        if (array := self.queues.targets.arrays.get(registered.kind.array)) is None:
            return None
        played = self.forecast.played(registered.line, now_s)
        next_s = self.forecast.plays.next_of_array(played, registered.kind.array, now_s)
        found = self.forecast.of(self.queues.registry[next(iter(next_s), job)], now_s)
        if found.wait_s is None:
            return None
        wait_s, within_s = found.wait_s, found.within_s
        comparable = self.comparable(registered.kind, wait_s, is_rough=found.is_rough)
        if self.corrects(registered.kind, wait_s, is_rough=found.is_rough):
            wait_s, within_s = self.correction.corrected(wait_s, within_s)
        low_s, high_s = within_s or (wait_s, wait_s)
        first = Within(wait_s, min(low_s, wait_s), max(high_s, wait_s))
        later_s = [wait_s + one_s - min(next_s.values()) for one_s in next_s.values()]
        mean_s = array.batch.mean.mean_s
        slots_s = slot_times_s(later_s or [wait_s], mean_s, array.most)
        return Begins(first, slots_s, is_guess=comparable < FEWEST)

    # Outcomes

    async def learn(self) -> None:
        """Learns from ended jobs periodically, until cancelled."""
        while True:
            count = self.queues.slot_times.count
            if count != self._learnt:
                with contextlib.suppress(LedgerTrouble):
                    self.learn_from(await self._came_true(LEARN_FROM))
                    self._learnt = count
            await asyncio.sleep(LEARN_EVERY_S)

    def learn_from(self, forecasts: Sequence[CameTrue]) -> None:
        bias, lately = Bias(), trust(forecasts)
        for one in forecasts:
            bias.learn(*one.outcome)
        found = judged([one.outcome for one in forecasts])
        self.correction = bias.correction() if found.helps else bias.correction().unused()
        self.compared = Compared.of(found, lately)
        self.doubt = doubt_of(lately) if lately.misleads(was_said=bool(self.doubt)) else ""
        self.errors = [[str(share), off_s] for share, off_s in errors_of(forecasts)]

    async def _came_true(self, limit: int) -> list[CameTrue]:
        wanted = Wanted(ended_only=True, foretold_only=True, limit=limit, bytes_max=BYTES_MAX)
        return came_true(await self.ledger.find(wanted))

    async def calibration(self, host: str = "", user: str = "") -> pb.PredictInfo:
        """Raises LedgerTrouble."""
        async with self.turns.turn(host, user[:TEXT_MAX]):
            forecasts = await self._came_true(JUDGED)
            found = await asyncio.to_thread(judged, [one.outcome for one in forecasts])
            self.learn_from(forecasts[-LEARN_FROM:])
        return pb.PredictInfo(calibration=calibration_info(found, trust(forecasts), self.doubt))

    # Questions

    async def answer(self, asked: pb.PredictAsked, host: str = "") -> pb.PredictInfo:
        """Raises LbdError."""
        job = predicted_job(asked, by_uid=self.by_uid)
        question = asked.SerializeToString(deterministic=True)
        if (same := self._same.get(question)) is not None and clock_s() < same[0]:
            return same[1]
        async with self.turns.turn(host, asked.user):
            began_s = clock_s()
            reply = await self._answer(asked, job)
            self._same[question] = clock_s() + SAME_FOR * (clock_s() - began_s), reply
            self._same.move_to_end(question)
            if len(self._same) > SAME_MAX:
                self._same.popitem(last=False)
        return reply

    async def _answer(self, asked: pb.PredictAsked, job: QueuedJob) -> pb.PredictInfo:
        least, most = job.slots, max(job.slots, job.slots_most)
        knows = job.speedup is not None or job.work_s is not None or job.command
        known = self.queues.heads.known(job) if most > least or knows else None
        is_guess = known is not None and known.is_guess
        now, how = self.forecast.situation(job, self.correction, clock_s())
        if asked.words and least == most and not asked.HasField("work_s"):
            runs_s, is_guess, said = self._run_time(job)
            now, how, known = replace(now, runs_s=runs_s), f"{how}; {said}", None
        found = await asyncio.to_thread(answer, now, least, most, known)
        if now.base_s and not job.needs:
            how = self.doubted(how)
        is_mean = is_guess and known is not None  # of all jobs, if enough have ended
        knows_runs = not is_mean or self.queues.slot_times.lifetimes() is not None
        reply = predict_info(found, now.free, how, known, knows_runs=knows_runs)
        raw_s = [one.raw_s or 0.0 for one in found.prospects]
        why = why_uncorrected(self.correction, self.compared, raw_s, job.needs)
        reply.guess = "" if GUESS in how else why
        is_like = all(map(self.correction.is_within, raw_s)) and now.correction == self.correction
        reply.comparable = self.compared.jobs if is_like else 0
        reply.runs_is_guess = is_guess
        reply.warning = warning_of(asked, known, now.most)
        return reply

    def _run_time(self, job: QueuedJob) -> tuple[float | None, bool, str]:
        """Returns how long similar jobs on as many slots ran, whether this is a guess, and a
        description in words."""
        run_times, all_s = self.queues.run_times, self.queues.resource_times.slots.recent_s
        near, slots = run_times.nearest(job), counted(job.slots, "slot")
        if not near.runs:
            never = NEVER_ENDED.format(slots)
            if not all_s:
                return None, True, f"how long it runs is not known: {never}"
            other = f"it is the median of {counted(len(all_s), 'ended job')} of other commands"
            return median(all_s), True, f"how long it runs is a guess ({other}): {never}"
        run_s, count = median(near.times_s), len(near.times_s)
        like = "this command line" if run_times.has_line(job) else "this command"
        what = "earlier run"
        if near.line:  # one time of each
            like, what = "this program", "other command line"
        runs = f"median of {counted(count, what)}" if count > 1 else f"only {what}"
        taken = f"it is taken to run {show_duration(run_s)}"
        return run_s, False, f"{taken}, as the {runs} of {like} on {slots}"

    def doubted(self, how: str) -> str:
        """Adds to how a prediction was made that such predictions have not come true lately."""
        guess = "" if GUESS in how else f"{GUESS}: "
        return f"{how}; {guess}{self.doubt}" if self.doubt else how

    def known_of(self, row: JobRow) -> KnownSpeedup | None:
        """Returns what is known of a malleable job's speedup; None for any other job."""
        if not row.is_malleable:
            return None
        return self.queues.heads.known(queued_job(row, by_uid=self.by_uid))


def came_true(rows: Sequence[JobRow]) -> list[CameTrue]:
    """Returns the outcomes of jobs that began once, in the order in which they began. An array
    counts once, by its first task: the others mostly wait for the tasks before them."""
    began = sorted(
        (row for row in rows if row.attempt == 1 and row.requeued is None and is_predicted(row)),
        key=lambda row: row.started or 0.0,
    )
    return [truth_of(row) for row in began if row.started is not None]


def is_predicted(row: JobRow) -> bool:
    is_first = row.array_index is None or row.id == row.first
    # Waiting for a job's needs differs from waiting for slots.
    return is_first and not row.needs and is_wait(row.predicted_s)


def truth_of(row: JobRow) -> CameTrue:
    within_s = None
    if row.foretold_low_s is not None and row.foretold_high_s is not None:
        within_s = row.foretold_low_s, row.foretold_high_s
    actual_s = max(0.0, (row.started or 0.0) - row.submitted)
    shown_s = row.foretold_s if is_wait(row.foretold_s) else None
    return CameTrue(row.predicted_s or 0.0, actual_s, shown_s, within_s)


def is_wait(wait_s: float | None) -> bool:
    return wait_s is not None and 0 <= wait_s <= WAIT_S_MAX  # nor NaN


def doubt_of(lately: Trust) -> str:
    """Describes forecasts that have been misleading."""
    off_by = f"off by a factor of {lately.off_by:.1f} or more"
    return f"half of the last {lately.count} forecasts here were {off_by}"


def errors_of(forecasts: Sequence[CameTrue]) -> list[tuple[float, float]]:
    """Returns the errors in seconds that half, and nine tenths, of the predicted waits did not
    exceed."""
    off_s = sorted(abs(one.actual_s - one.predicted_s) for one in forecasts)
    return [(share, off_s[int(share * (len(off_s) - 1))]) for share in QUANTILES if off_s]


def predicted_job(asked: pb.PredictAsked, *, by_uid: bool) -> QueuedJob:
    """Returns the job that the question is about. Raises LbdError."""
    speedup = (asked.parallelism, asked.sigma) if asked.HasField("parallelism") else None
    work_s = asked.work_s if asked.HasField("work_s") else None
    rules = {
        "slots": max(asked.slots, asked.slots_most) <= SLOTS_MAX,
        "speedup, work": is_speedup(speedup, work_s),
        "user, command": max(len(asked.user), len(asked.command)) <= TEXT_MAX,
        "needs": are_needs(asked.needs),
        "words": len(asked.words) <= COMMAND_BYTES_MAX,
        "hosts": len(asked.only) <= TEXT_MAX and are_hosts(asked.excluded),
    }
    if fault := ", ".join(name for name, holds in rules.items() if not holds):
        raise LbdError(f"this cannot be predicted: {fault}")
    uid, least = asked.uid if asked.HasField("uid") else None, asked.slots or 1
    return QueuedJob(
        JobId(""),
        least,
        slots_most=asked.slots_most if asked.slots_most > least else 0,
        user=share_of(asked.user, uid, by_uid=by_uid),
        speedup=speedup,
        work_s=work_s,
        command=name_hash(asked.command),
        needs=read_needs_text(asked.needs),
        only=HostId(asked.only) if asked.only else None,
        barred=frozenset(map(HostId, asked.excluded)),
        command_line=line_of(asked.words) if asked.words else 0,
    )
