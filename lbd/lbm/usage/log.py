"""The LBM's side of the accounting: ended jobs are gathered, and a thread of its own writes them.

A job's end costs an append. Jobs gathered within a moment are written together. While the file
cannot be written they are kept in memory, also by the next LBM if this one hands over. What is lost
nevertheless is counted and recorded as soon as possible; `lbctl stats` and `history` say it.
"""

import asyncio
import contextlib
import logging
import math
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from lbd.config.schema import Config
from lbd.errors import Unavailable
from lbd.lbm.core.execution_events import REQUEUED, Cause
from lbd.lbm.core.jobs import Job, Jobs
from lbd.lbm.usage.backlog import Unrecorded
from lbd.lbm.usage.gaps import Gap, gap_of, joined
from lbd.lbm.usage.measures import SIZE_S_MIN
from lbd.lbm.usage.record import job_of, usage_of
from lbd.lbm.usage.store import PastJobs, UsageStore
from lbd.lbm.usage.thread import AccountingThread
from lbd.lbm.usage.writer import CANNOT_BE, UsageWriter
from lbd.metrics.core.histogram import Histogram
from lbd.metrics.core.table import OUTCOMES, SLOWDOWNS, TIMES_S
from lbd.model import JobState
from lbd.text.placement_phrases import PLACED

log = logging.getLogger("lbd.lbm")

PAUSE_S = 1.0
PENDING_MAX = 20_000  # jobs that wait for the thread
CLOSE_S = 2.0
ATTACHED, QUEUED = "attached", "queued"
# Reasons of an attempt that was not its job's last
BEGUN_ANEW = (*(one.value for one in (Cause.LOST, Cause.CUT, Cause.EVICTED)), REQUEUED)
UNSEEN_END = "lbd on {host} was stopped while it ran, so how it ended, or whether, is not known"

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
    def __init__(self, config: Config) -> None:
        self._config = config.stats
        self._own = config.host.name
        self._writer = UsageWriter(Path(config.host.state_dir), config.stats)
        self._lock = threading.Lock()  # of what is gathered, which the thread takes
        self._gathered: list[Job] = []
        self._too_many: Gap | None = None  # lost, as too many were gathered
        self._is_handing_on = False  # the thread has not taken it yet
        self._timer: asyncio.TimerHandle | None = None
        self._thread = AccountingThread(self._own, self._writer)
        self._algorithm = ""  # the last one recorded
        self.ended_jobs = EndedJobs()
        self.is_stopping = False

    @property
    def lost(self) -> int:
        return self._writer.lost

    @property
    def trouble(self) -> str:
        return self._writer.trouble

    def begin(self, left: Unrecorded | None = None) -> None:
        """Makes the file if there is none: its record begins now, not with the first job. `left`:
        as for `UsageWriter.begin`."""
        if self._config.max_rows:
            self._thread.do(partial(self._writer.begin, left))

    def algorithm_is(self, name: object) -> None:
        """Records the algorithm that places commands now, according to the LIM."""
        if not isinstance(name, str) or name == self._algorithm or not self._config.max_rows:
            return
        now_s = time.time()

        def write() -> None:
            try:
                self._writer.store.note_algorithm(name, now_s)
            except (sqlite3.Error, OSError) as problem:
                self._writer.store.let_go(problem)
                self._algorithm = ""  # so that it is recorded when the LIM repeats it

        self._algorithm = name
        if not self._thread.do(write):
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
            if job.is_placed_by_us:
                why_here = job.reason.partition(PLACED)[2] or job.reason
                job.reason = f"{UNSEEN_END.format(host=job.host)}{PLACED}{why_here}"
        with self._lock:
            if len(self._gathered) >= PENDING_MAX:
                self._too_many = joined(self._too_many, gap_of([job.finished or job.submitted]))
                self._writer.complain("the disk cannot keep up")
                return
            self._gathered.append(job)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PAUSE_S, self._flush)

    def _flush(self) -> None:
        """Has the thread take what is gathered, when it comes to it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._gathered or self._is_handing_on:
            return
        self._is_handing_on = True
        if not self._thread.do(self._take):
            self._is_handing_on = False
            self._timer = asyncio.get_running_loop().call_later(PAUSE_S, self._flush)

    def _take(self) -> None:
        """Runs in the thread."""
        with self._lock:
            gathered, self._gathered = self._gathered, []
            too_many, self._too_many = self._too_many, None
            self._is_handing_on = False
        self._writer.take(gathered, too_many)

    def gaps(self) -> list[Gap]:
        """What is not on record. For a question."""
        return self._writer.gaps()

    async def ask(self, question: Callable[[UsageStore], Found]) -> Found:
        """Returns the store's answer, with all jobs ended so far. Raises Unavailable."""
        if not self._config.max_rows:
            raise Unavailable("no accounting is kept here (stats.max_rows = 0)")
        self._flush()
        return await self._thread.ask(partial(self._answer, question))

    def _answer(self, question: Callable[[UsageStore], Found]) -> Found:
        """Runs in the thread. Raises Unavailable."""
        if self._writer.is_behind:
            self._writer.write()
        try:
            return question(self._writer.store)
        except (sqlite3.Error, OSError) as problem:
            self._writer.store.let_go(problem)
            why = self._writer.store.why(problem)
            raise Unavailable(f"{self._own}'s accounting cannot be read now: {why}") from None
        except CANNOT_BE as problem:
            raise Unavailable(f"{self._own}'s accounting cannot answer this: {problem}") from None
        finally:
            self._writer.store.answered()

    async def recall(self, jobs: Jobs, most: int) -> None:
        """Gives `jobs` what ended here under earlier LBMs, for `lbctl jobs --all`."""
        asked = PastJobs(most, origin=self._own)
        with contextlib.suppress(Unavailable):
            rows, _ = await self.ask(lambda store: store.latest(asked))
            jobs.recall(job for _, usage in rows if (job := job_of(usage)) is not None)

    async def close(self) -> None:
        """Writes what is not written yet, if that is possible soon."""
        if not await asyncio.to_thread(self._end):
            log.warning("the job accounting is not written to the end: the disk does not answer")

    def finish(self) -> Unrecorded | None:
        """The same without an event loop. Returns what is not written, for the next LBM; None if
        that is not known, because the disk hangs."""
        if not self._end():
            return None
        self._writer.keep(map(usage_of, self._gathered), self._too_many)
        self._gathered, self._too_many = [], None
        return self._writer.left()

    def _end(self) -> bool:
        """Returns False if the thread did not end in time."""
        if self._gathered:
            self._thread.do(self._take)
        return self._thread.end(CLOSE_S)
