"""The LBM's side of the accounting: ended jobs are gathered, and a thread of its own writes them.

A job's end costs an append. Jobs gathered within a moment are written together. While the file
cannot be written they are kept in memory, also by the next LBM if this one hands over. What is lost
nevertheless is counted and recorded as soon as possible; `lbctl stats` and `history` say it.
"""

import asyncio
import contextlib
import logging
import math
import queue
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from lbd.config.schema import Config
from lbd.errors import Unavailable
from lbd.lbm.core.execution_events import REQUEUED, Cause
from lbd.lbm.core.jobs import Job
from lbd.lbm.usage.backlog import Backlog, Unrecorded
from lbd.lbm.usage.gap_file import GapFile
from lbd.lbm.usage.gaps import Gap, gap_of, joined
from lbd.lbm.usage.measures import SIZE_S_MIN
from lbd.lbm.usage.record import usage_of
from lbd.lbm.usage.store import UsageStore
from lbd.local.unwanted_descriptors import is_started
from lbd.metrics.core.histogram import Histogram
from lbd.metrics.core.table import OUTCOMES, SLOWDOWNS, TIMES_S
from lbd.model import JobState
from lbd.process.job_log import JobLog

log = logging.getLogger("lbd.lbm")
job_log = JobLog(log)

PAUSE_S = 1.0
PENDING_MAX = 20_000  # jobs that wait for the thread
TOGETHER = 1000  # jobs in one transaction
RETRY_S = 5.0
WORKS_MAX = 64  # tasks that wait for the thread
ANSWER_S = 10.0
CLOSE_S = 2.0
FILE, GAP_FILE = "usage.sqlite", "usage.gap"
ATTACHED, QUEUED = "attached", "queued"
# SQLite cannot store such a number or such a text.
CANNOT_BE = (OverflowError, ValueError)
# Reasons of an attempt that was not its job's last
BEGUN_ANEW = (*(one.value for one in (Cause.LOST, Cause.CUT, Cause.EVICTED)), REQUEUED)

Found = TypeVar("Found")


def slowdown(response_s: float, cpu_s: float) -> float:
    """NaN for a job that used hardly any CPU time."""
    return max(0.0, response_s - cpu_s) / cpu_s if cpu_s >= SIZE_S_MIN else math.nan


@dataclass(slots=True)
class Times:
    waiting: Histogram = field(default_factory=lambda: Histogram(TIMES_S))
    response: Histogram = field(default_factory=lambda: Histogram(TIMES_S))
    slowdown: Histogram = field(default_factory=lambda: Histogram(SLOWDOWNS))
    cpu_s: float = 0.0


@dataclass(slots=True)
class EndedJobs:
    """What is counted of each job's end, for metrics.

    These are jobs of users of this host and, of the queue's, those that ran here. The dispatcher
    counts how queued jobs ended; how long they waited and took is known only here.
    """

    # Of attached jobs; 0 for what has not happened yet, as in LedgerCounts.
    outcomes: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(OUTCOMES, 0)))
    here: int = 0
    elsewhere: int = 0
    wrong: int = 0
    times: dict[str, Times] = field(default_factory=lambda: {ATTACHED: Times(), QUEUED: Times()})

    def note(self, job: Job) -> None:
        if not job.queued_at:
            self.outcomes[job.state.value] += 1
            if job.started is not None:
                self._picked(job)
        if job.started is None or job.finished is None:
            return
        times = self.times[QUEUED if job.queued_at else ATTACHED]
        response_s = max(0.0, job.finished - job.submitted)
        times.waiting.note(max(0.0, job.started - job.submitted))
        times.response.note(response_s)
        cpu_s = job.cpu_s or 0.0
        if cpu_s > 0.0 and math.isfinite(cpu_s):  # reported by another host
            times.cpu_s += cpu_s
            if not math.isnan(found := slowdown(response_s, cpu_s)):
                times.slowdown.note(found)

    def _picked(self, job: Job) -> None:
        if job.host == job.origin:
            self.here += 1
        else:
            self.elsewhere += 1
            self.wrong += job.wrong

    def answer(self) -> dict[str, object]:
        return {
            "jobs_ended": [[state, ATTACHED, count] for state, count in self.outcomes.items()],
            "picks": [["here", self.here], ["elsewhere", self.elsewhere]],
            "wrong_picks": self.wrong,
            "job_waiting_seconds": [[kind, t.waiting.answer()] for kind, t in self.times.items()],
            "job_response_seconds": [[kind, t.response.answer()] for kind, t in self.times.items()],
            "job_slowdown": [[kind, t.slowdown.answer()] for kind, t in self.times.items()],
            "job_cpu_seconds": [[kind, t.cpu_s] for kind, t in self.times.items()],
        }


class UsageLog:
    """The event loop gathers jobs and asks; all else is the thread's, until it has ended."""

    def __init__(self, config: Config) -> None:
        self._config = config.stats
        state = Path(config.host.state_dir)
        self._store = UsageStore(state / FILE, config.stats)
        self._gap_file = GapFile(state / GAP_FILE)
        self._backlog = Backlog()
        self._gathered: list[Job] = []
        self._too_many: Gap | None = None  # lost, as too many were gathered
        self._timer: asyncio.TimerHandle | None = None
        self._works: queue.Queue[Callable[[], None] | None] = queue.Queue(WORKS_MAX)
        self._thread: threading.Thread | None = None
        self._algorithm = ""  # the last one recorded
        self._lost_on_record = 0
        self.ended_jobs = EndedJobs()
        self.is_stopping = False
        self.trouble = ""  # why jobs cannot be recorded now

    @property
    def lost(self) -> int:
        """Jobs that are in no record, as far back as the file goes."""
        return self._lost_on_record + (lost.commands if (lost := self._backlog.lost) else 0)

    def begin(self, left: Unrecorded | None = None) -> None:
        """Makes the file if there is none: its record begins now, not with the first job. `left`:
        by the LBM before; None: it was killed, or has lost what it could not write."""
        if not self._config.max_rows:
            return

        def write() -> None:
            if left is None:
                self._backlog.lose(self._gap_file.read())
            else:
                self._backlog.lose(left.lost)
                for usage in left.usages:
                    self._backlog.add(usage)
            self._write()

        self._do(write)

    def algorithm_is(self, name: object) -> None:
        """Records the algorithm that places commands now, according to the LIM."""
        if not isinstance(name, str) or name == self._algorithm or not self._config.max_rows:
            return
        now_s = time.time()

        def write() -> None:
            try:
                self._store.note_algorithm(name, now_s)
            except (sqlite3.Error, OSError) as problem:
                self._store.let_go(problem)
                self._algorithm = ""  # so that it is recorded when the LIM repeats it

        self._algorithm = name
        if not self._do(write):
            self._algorithm = ""

    def note(self, job: Job) -> None:
        """Records an ended job. Jobs of other hosts' users are recorded there."""
        if job.foreign and (not job.queued_at or job.reason in BEGUN_ANEW):
            return
        if not job.is_continued:
            self.ended_jobs.note(job)
        if not self._config.max_rows:
            return
        if self.is_stopping and job.host == job.origin:  # it continues, and nobody will see its end
            job.state, job.finished, job.exit_status = JobState.UNKNOWN, None, None
        if len(self._gathered) >= PENDING_MAX:
            self._too_many = joined(self._too_many, gap_of([job.finished or job.submitted]))
            self._complain("the disk cannot keep up")
            return
        self._gathered.append(job)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PAUSE_S, self._flush)

    def _flush(self) -> None:
        """Hands over the gathered jobs; while the thread is behind they stay gathered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._gathered and self._do(self._writer()):
            self._gathered, self._too_many = [], None
        elif self._gathered:
            self._timer = asyncio.get_running_loop().call_later(PAUSE_S, self._flush)

    def _writer(self) -> Callable[[], None]:
        jobs, lost = self._gathered, self._too_many

        def write() -> None:
            was_complete = self._backlog.lost is None
            for job in jobs:
                self._backlog.add(usage_of(job))
            self._backlog.lose(lost)
            if was_complete and self._backlog.lost is not None:
                log.warning("too many jobs wait to be recorded; further ones are only counted")
            self._write()

        return write

    def _write(self) -> None:
        """Writes all that is not on record yet, as far as possible."""
        try:
            self._write_backlog()
            self._lost_on_record = sum(gap.commands for gap in self._store.gaps())
            self.trouble = ""
        except (sqlite3.Error, OSError) as problem:
            self._store.close()  # the next attempt opens the file as it is then
            self._complain(str(problem))
        self._gap_file.write(self._backlog.in_danger())

    def _write_backlog(self) -> None:
        """Raises sqlite3.Error, OSError."""
        backlog, together = self._backlog, TOGETHER
        while not backlog.is_empty:
            batch = backlog.first(together)
            try:
                self._store.add(batch, backlog.lost)
            except CANNOT_BE as problem:
                if len(batch) > 1:
                    together = 1  # so that only the faulty one is lost
                    continue
                job_log.warning(batch[0].id or "", "cannot be recorded: %s", problem)
                backlog.lose_first()
                together = TOGETHER
            else:
                backlog.written(len(batch))

    def gaps(self, store: UsageStore) -> list[Gap]:
        """What is not on record: lost, or still to be recorded. For a question."""
        found = [*store.gaps(), self._backlog.lost, self._backlog.kept()]
        return [gap for gap in found if gap is not None]

    def _complain(self, why: str) -> None:
        if why != self.trouble:
            log.warning("cannot record jobs in the accounting: %s", why)
        self.trouble = why

    def _do(self, work: Callable[[], None]) -> bool:
        """Gives the thread a task. Returns False if it is too far behind, or does not start."""
        if self._thread is None:
            # A daemon thread, because a disk that hangs must not keep us from ending.
            thread = threading.Thread(target=self._run, name="accounting", daemon=True)
            if not is_started(thread):
                return False
            self._thread = thread
        try:
            self._works.put_nowait(work)
        except queue.Full:
            return False
        return True

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except Exception:  # the next tasks are unrelated
                log.exception("error in the job accounting")
        self._store.close()

    def _next(self) -> Callable[[], None] | None:
        try:
            return self._works.get(timeout=None if self._backlog.is_empty else RETRY_S)
        except queue.Empty:
            return self._write

    async def ask(self, question: Callable[[UsageStore], Found]) -> Found:
        """Returns the store's answer, with all jobs ended so far. Raises Unavailable."""
        if not self._config.max_rows:
            raise Unavailable("no accounting is kept here (stats.max_rows = 0)")
        self._flush()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Found] = loop.create_future()

        def settle(found: Found | None, problem: Exception | None) -> None:
            if answer.done():
                return
            if problem is not None:
                answer.set_exception(problem)
            else:
                answer.set_result(found)  # type: ignore[arg-type]  # one of the two is there

        def work() -> None:
            found: Found | None = None
            trouble: Exception | None = None
            if not self._backlog.is_empty:
                self._write()
            try:
                found = question(self._store)
            except (sqlite3.Error, OSError) as problem:
                self._store.let_go(problem)
                trouble = Unavailable(f"its accounting cannot be read: {problem}")
            except CANNOT_BE as problem:
                trouble = Unavailable(f"its accounting cannot answer this: {problem}")
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(settle, found, trouble)

        if not self._do(work):
            raise Unavailable("its accounting is too far behind")
        try:
            async with asyncio.timeout(ANSWER_S):
                return await answer
        except TimeoutError:
            raise Unavailable("its accounting does not answer") from None

    async def close(self) -> None:
        """Writes what is not written yet, if that is possible soon."""
        if (thread := self._last_words()) is not None:
            await asyncio.to_thread(thread.join, CLOSE_S)

    def finish(self) -> Unrecorded | None:
        """The same without an event loop. Returns what is not written, for the next LBM; None if
        that is not known, because the disk hangs."""
        if (thread := self._last_words()) is not None:
            thread.join(CLOSE_S)
            if thread.is_alive():
                return None
            self._thread = None  # the LBM goes on if it cannot hand over
        return self._backlog.left()

    def _last_words(self) -> threading.Thread | None:
        if self._gathered:
            self._do(self._writer())
            self._gathered, self._too_many = [], None
        if self._thread is not None:
            with contextlib.suppress(queue.Full):
                self._works.put_nowait(None)
        return self._thread
