"""The ledger in one SQLite file: WAL, full sync, one writer thread.

The thread takes whatever has been asked for since its last commit, does it all in one transaction
and commits once, so many callers share one wait for the disk. If a commit fails nothing of it is
acknowledged: submissions are refused, and what must not be lost (`record`) is tried again until it
is on disk, since the daemon has nothing better to do with it.

Questions are answered from a second connection in a thread of its own; they never hold up writing.
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from lbd.dispatch.jobs import ENDED_STATES, Begin, Changed, Fate, JobState
from lbd.dispatch.ledger.rows import (
    Accepted,
    AttemptRow,
    JobRow,
    LedgerTrouble,
    Submission,
    Wanted,
)
from lbd.dispatch.ledger.schema import STEPS, VERSION
from lbd.errors import ConfigError
from lbd.model import JobId

RETRY_S = 0.5
BUSY_S = 5.0
GROUP_MAX = 1000  # requests in one transaction
ENDED_FATES = {
    Fate.DONE, Fate.FAILED, Fate.CANCELLED, Fate.LOST, Fate.CUT, Fate.REFUSED
}  # fmt: skip
JOB_COLUMNS = """
    j.id, j.submission, s.user, s.origin, s.name, s.command, s.slots, s.may_restart, s.only_host,
    j.barred, j.array_index, j.state, j.tier, j.attempt, j.crashes, j.reason, j.host, j.submitted,
    j.started, j.finished, j.cpu_s, j.exit_status, j.signal, j.cause
    FROM jobs j JOIN submissions s ON s.id = j.submission
"""
Found = TypeVar("Found")
Work = Callable[[sqlite3.Connection], object]


@dataclass(slots=True)
class Request:
    """Something to be written; `must`: until it is."""

    work: Work
    done: "asyncio.Future[object]"
    must: bool
    result: object = field(default=None)


class SqliteLedger:
    def __init__(self, path: Path) -> None:
        """Raises ConfigError if it is no ledger, or one of a newer version."""
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(0o600)  # commands, environments, inputs; its -wal and -shm get the same
            connection = connect(path)
            migrate(connection, path)
        except (OSError, sqlite3.Error) as problem:
            raise ConfigError(f"dispatch.store {path}: {problem}") from problem
        self._reader = connect(path)
        self._reading = ThreadPoolExecutor(1, "ledger-reader")
        self._writer = threading.Thread(target=self._write, args=(connection,), name="ledger")
        self._writer.start()

    async def live(self) -> list[JobRow]:
        return await self._read(
            lambda db: jobs_of(
                db.execute(f"SELECT {JOB_COLUMNS} WHERE j.finished IS NULL ORDER BY j.id")
            )
        )

    async def submit(self, submission: Submission, unix_s: float) -> Accepted:
        accepted = await self._ask(lambda db: insert(db, submission, unix_s), must=False)
        assert isinstance(accepted, Accepted)
        return accepted

    async def record(self, changes: Sequence[Begin | Changed], unix_s: float) -> None:
        await self._ask(lambda db: apply_all(db, changes, unix_s), must=True)

    async def find(self, wanted: Wanted) -> list[JobRow]:
        return await self._read(lambda db: find(db, wanted))

    async def attempts(self, jobs: Sequence[JobId]) -> list[AttemptRow]:
        def read(db: sqlite3.Connection) -> list[AttemptRow]:
            rows: list[AttemptRow] = []
            for job in jobs:
                found = db.execute(
                    "SELECT * FROM attempts WHERE job = ? ORDER BY number", (int(job),)
                )
                rows += [AttemptRow(*row) for row in found]
            return rows

        return await self._read(read)

    async def spec(self, submission: int) -> bytes:
        def read(db: sqlite3.Connection) -> bytes:
            row = db.execute("SELECT spec FROM submissions WHERE id = ?", (submission,)).fetchone()
            if row is None:
                raise LedgerTrouble(f"submission {submission} is not in the ledger any more")
            return bytes(row[0])

        return await self._read(read)

    async def forget(self, before_unix_s: float, limit: int) -> int:
        count = await self._ask(lambda db: forget(db, before_unix_s, limit), must=False)
        assert isinstance(count, int)
        return count

    async def close(self) -> None:
        self._stopping.set()
        self._requests.put(None)
        await asyncio.to_thread(self._writer.join)
        self._reading.shutdown()
        self._reader.close()

    async def _read(self, ask: "Callable[[sqlite3.Connection], Found]") -> "Found":
        try:
            return await self._loop.run_in_executor(self._reading, ask, self._reader)
        except sqlite3.Error as problem:
            raise LedgerTrouble(f"{self._path}: {problem}") from problem

    async def _ask(self, work: Work, *, must: bool) -> object:
        request = Request(work, self._loop.create_future(), must)
        self._requests.put(request)
        return await request.done

    # In the writer's thread

    def _write(self, db: sqlite3.Connection) -> None:
        waiting: list[Request] = []
        stopped = False
        while not stopped or (waiting and not self._stopping.is_set()):
            if not waiting:
                first = self._requests.get()
                stopped = first is None
                waiting = [first] if first is not None else []
            with contextlib.suppress(queue.Empty):
                while len(waiting) < GROUP_MAX:
                    more = self._requests.get_nowait()
                    if more is None:
                        stopped = True
                        break
                    waiting.append(more)
            if waiting:
                waiting = self._commit(db, waiting)
                if waiting:
                    time.sleep(RETRY_S)
        db.close()

    def _commit(self, db: sqlite3.Connection, group: list[Request]) -> list[Request]:
        """Those that are to be tried again."""
        try:
            db.execute("BEGIN IMMEDIATE")
            for request in group:
                request.result = request.work(db)
            db.execute("COMMIT")
        except (sqlite3.Error, ArithmeticError, ValueError) as problem:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            trouble = LedgerTrouble(f"{self._path}: {problem}")
            self._tell([(request, trouble) for request in group if not request.must])
            return [request for request in group if request.must]
        self._tell([(request, None) for request in group])
        return []

    def _tell(self, outcomes: list[tuple[Request, LedgerTrouble | None]]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(settle, outcomes)


def settle(outcomes: list[tuple[Request, LedgerTrouble | None]]) -> None:
    for request, trouble in outcomes:
        if request.done.done():
            continue
        if trouble is not None:
            request.done.set_exception(trouble)
        else:
            request.done.set_result(request.result)


def connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    return db


def migrate(db: sqlite3.Connection, path: Path) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise ConfigError(
            f"dispatch.store {path}: of a newer lbd (schema {version}, ours is {VERSION}); "
            "install that version, or name another file"
        )
    for number, step in enumerate(STEPS[version:], version + 1):
        db.executescript(f"BEGIN; {step} PRAGMA user_version = {number}; COMMIT;")


def insert(db: sqlite3.Connection, sent: Submission, unix_s: float) -> Accepted:
    if sent.key:
        found = db.execute(
            "SELECT id, first_job, jobs FROM submissions WHERE user = ? AND idempotency_key = ?",
            (sent.user, sent.key),
        ).fetchone()
        if found is not None:
            submission, first, count = found
            return Accepted(submission, first, count, is_new=False)
    (first,) = db.execute("SELECT value FROM counters WHERE name = 'next_job'").fetchone()
    db.execute("UPDATE counters SET value = ? WHERE name = 'next_job'", (first + sent.count,))
    submission = db.execute(
        "INSERT INTO submissions VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (sent.user, sent.origin, sent.name, sent.command, sent.spec, sent.slots, sent.may_restart,
         sent.only, sent.key, first, sent.count),
    ).lastrowid  # fmt: skip
    assert submission is not None
    barred, start = " ".join(sent.excluded), sent.first_index
    db.executemany(
        "INSERT INTO jobs VALUES (?, ?, ?, 'pending', 1, 0, 0, ?, '', '', ?, NULL, NULL, NULL,"
        " NULL, 0, '')",
        ((first + n, submission, None if start is None else start + n, barred, unix_s)
         for n in range(sent.count)),
    )  # fmt: skip
    return Accepted(submission, first, sent.count, is_new=True)


def apply_all(db: sqlite3.Connection, changes: Sequence[Begin | Changed], unix_s: float) -> None:
    for change in changes:
        if isinstance(change, Begin):
            begin(db, change, unix_s)
        else:
            apply(db, change, unix_s)


def begin(db: sqlite3.Connection, change: Begin, unix_s: float) -> None:
    job = int(change.job)
    db.execute(
        "INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL, NULL, '')",
        (job, change.attempt, change.host, change.tier, change.cutoff_s, Fate.LEASED.value, unix_s),
    )
    db.execute(
        "UPDATE jobs SET attempt = ?, tier = ?, host = ?, reason = '' WHERE id = ?",
        (change.attempt, change.tier, change.host, job),
    )


def apply(db: sqlite3.Connection, change: Changed, unix_s: float) -> None:
    job, ending = int(change.job), change.ending
    status = ending.exit_status if ending else None
    cpu_s = ending.cpu_s if ending else None
    if change.fate is not None:
        over = unix_s if change.fate in ENDED_FATES else None
        began = unix_s if change.fate is Fate.RUNNING else None
        db.execute(
            "UPDATE attempts SET fate = ?, started = COALESCE(started, ?), finished = ?, cpu_s = ?,"
            " exit_status = ?, reason = ? WHERE job = ? AND number = ?",
            (change.fate.value, began, over, cpu_s, status,
             ending.reason if ending else change.reason, job, change.attempt),
        )  # fmt: skip
    ended = change.state in ENDED_STATES
    began = unix_s if change.state is JobState.RUNNING else None
    waits = change.state is JobState.PENDING
    db.execute(
        "UPDATE jobs SET state = ?, tier = ?, attempt = ?, crashes = ?, barred = ?, reason = ?,"
        " host = CASE WHEN ? THEN '' ELSE COALESCE(?, host) END,"
        " started = CASE WHEN ? THEN NULL ELSE COALESCE(started, ?) END,"
        " finished = ?, cpu_s = ?, exit_status = ?, signal = ?, cause = ? WHERE id = ?",
        (change.state.value, change.tier, change.attempt, change.crashes,
         " ".join(sorted(change.barred)), change.reason, waits, change.host, waits, began,
         unix_s if ended else None, cpu_s if ended else None, status if ended else None,
         ending.signal if ending and ended else 0, ending.cause.value if ending and ended else "",
         job),
    )  # fmt: skip


def jobs_of(cursor: sqlite3.Cursor) -> list[JobRow]:
    found = []
    for row in cursor:
        values = list(row)
        values[7], values[9] = bool(row[7]), tuple(row[9].split())
        found.append(JobRow(*values))
    return found


def find(db: sqlite3.Connection, wanted: Wanted) -> list[JobRow]:
    clauses, values = [], list[object]()
    if not wanted.ended_too:
        clauses.append("j.finished IS NULL")
    if wanted.user:
        clauses.append("s.user = ?")
        values.append(wanted.user)
    if wanted.ranges:
        clauses.append("(" + " OR ".join("j.id BETWEEN ? AND ?" for _ in wanted.ranges) + ")")
        values += [end for pair in wanted.ranges for end in pair]
    where = f"WHERE {' AND '.join(clauses)}" if clauses else ""
    newest_first = f"SELECT {JOB_COLUMNS} {where} ORDER BY j.id DESC LIMIT ?"
    return jobs_of(db.execute(newest_first, (*values, wanted.limit)))[::-1]


def forget(db: sqlite3.Connection, before_unix_s: float, limit: int) -> int:
    old = db.execute(
        "SELECT id, submission FROM jobs WHERE finished < ? LIMIT ?", (before_unix_s, limit)
    ).fetchall()
    db.executemany("DELETE FROM attempts WHERE job = ?", ((job,) for job, _ in old))
    db.executemany("DELETE FROM jobs WHERE id = ?", ((job,) for job, _ in old))
    db.executemany(
        "DELETE FROM submissions WHERE id = ? AND NOT EXISTS"
        " (SELECT 1 FROM jobs WHERE submission = submissions.id)",
        {(submission,) for _, submission in old},
    )
    return len(old)
