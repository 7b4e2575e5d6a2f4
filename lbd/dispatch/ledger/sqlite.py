"""The ledger in one SQLite file: full sync, one writer thread that commits in groups.

Queries run on a second connection in a thread of their own. They never hold up writes, and take
turns after each slow statement, so no query waits for all the rows of another.
"""

import asyncio
import contextlib
import logging
import os
import queue
import sqlite3
import threading
import time
from pathlib import Path

from lbd.dispatch.core.ledger_room import Disk, Excess
from lbd.dispatch.core.ledger_rows import LedgerTrouble
from lbd.dispatch.ledger.schema import VERSION, missing_steps
from lbd.dispatch.ledger.store import GROUP_MAX, Request, Store, next_group, pieces, steps
from lbd.dispatch.ledger.work import Ask, MakeWork, Over, Result, Row, Work, advance
from lbd.errors import ConfigError
from lbd.model import ENDED_NAMES
from lbd.process.disk_space import is_full
from lbd.process.own_directory import FULL
from lbd.process.sqlite_journal import set_journal
from lbd.process.steady_threads import SteadyThreads
from lbd.process.units import why_not_written
from lbd.text.dispatcher_phrases import FULL_DISK

log = logging.getLogger("lbd.dispatch")

LINGER_S = 0.01  # a commit takes some milliseconds
# After a commit that was shared the next one waits as long as that took, but no longer than this,
# to be shared by more: those who were answered may have more to write. One caller never waits.
GATHER_S = 0.002
LOOKED_THROUGH = 10 * GROUP_MAX  # requests, for those to write together
RETRY_S = 0.5
BUSY_S = 5.0
TURN_S = 0.002  # a query whose statements take less is answered in one turn
# Errors about a value, which a retry cannot fix; all others are about the disk or the file.
FAULTS = (
    sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError,
    ArithmeticError, ValueError, TypeError, LookupError,
)  # fmt: skip
LEAST_BYTES = 1 << 20  # free, for SQLite to open a ledger
LOG_BYTES = 64 << 20  # of the write-ahead log
VACUUM_PAGES = 2000  # returned to the disk at a time, after jobs were deleted


class SqliteLedger(Store):
    def __init__(self, path: Path) -> None:
        """Raises ConfigError if it is not a ledger, or one of another version; LedgerTrouble if its
        disk is full."""
        super().__init__()
        self._path = path
        self._file, self._directory = str(path), str(path.parent)  # it is asked with each start
        self._loop = asyncio.get_running_loop()
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # it holds commands, environments, inputs; its -wal and -shm get the same mode
            path.touch(0o600)
            # SQLite keeps the file of each unused connection until the last one is closed.
            with contextlib.ExitStack() as unused:
                connection = unused.enter_context(contextlib.closing(connect(path)))
                migrate(connection, path)
                self._reader = connect(path)
                unused.pop_all()
        except OSError as problem:
            raise why_not_opened(path, problem) from problem
        except sqlite3.Error as problem:
            if may_pass(problem):
                has_room = not is_full(path.parent, LEAST_BYTES)
                why = f"dispatch.store {path}: {problem}" if has_room else no_space(path)
                raise LedgerTrouble(why, passes=True) from problem
            raise ConfigError(f"dispatch.store {path}: {problem}") from problem
        self._reading = SteadyThreads(1, "ledger-reader")
        self._writer = threading.Thread(target=self._write, args=(connection,), name="ledger")
        self._writer.start()

    async def close(self) -> None:
        self._requests.put(None)
        await asyncio.to_thread(self._writer.join)
        self._reading.shutdown()
        self._reader.close()

    def disk(self) -> Disk | None:
        try:
            found = os.statvfs(self._file)
        except OSError:
            return None
        block_bytes = found.f_frsize
        sizes = found.f_bavail * block_bytes, found.f_blocks * block_bytes
        return Disk(*sizes, self._directory)

    async def forget(self, before_unix_s: float, excess: Excess, limit: int) -> int:
        count = await super().forget(before_unix_s, excess, limit)
        if count:
            await self._ask(give_back)
        return count

    async def _read(self, make: MakeWork[Result]) -> Result:
        rows: list[Row] | None = None
        try:
            question = make()
            while True:
                reply = await self._loop.run_in_executor(
                    self._reading, carry_on, self._reader, question, rows
                )
                if isinstance(reply, Over):
                    return reply.result
                rows = reply
        except (sqlite3.Error, *FAULTS) as problem:
            raise LedgerTrouble(f"{self._path}: {problem}") from problem

    def _put(self, request: Request) -> None:
        self._requests.put(request)

    # In the writer's thread

    def _write(self, db: sqlite3.Connection) -> None:
        waiting: list[Request] = []
        stopped, gather_s = False, 0.0
        while waiting or not stopped:
            if not waiting:
                try:
                    first = self._requests.get(timeout=RETRY_S if self.trouble else None)
                except queue.Empty:
                    self._commit(db, [])
                    continue
                stopped = first is None
                waiting = [first] if first is not None else []
            if gather_s:
                time.sleep(gather_s)
            lingers = bool(waiting) and all(request.may_linger for request in waiting)
            pause_s = LINGER_S if lingers else 0.0
            with contextlib.suppress(queue.Empty):
                while len(waiting) < LOOKED_THROUGH:
                    more = self._requests.get(timeout=pause_s)
                    pause_s = 0.0
                    if more is None:
                        stopped = True
                        break
                    waiting.append(more)
            if waiting:
                group, waiting = next_group(waiting)
                began_s = time.monotonic()
                again = self._commit(db, group)
                gather_s = min(time.monotonic() - began_s, GATHER_S) if len(group) > 1 else 0.0
                waiting[:0] = again
                if again and stopped:
                    break
                if again:
                    time.sleep(RETRY_S)
        db.close()

    def _commit(self, db: sqlite3.Connection, group: list[Request]) -> list[Request]:
        """Returns the requests that must be retried."""
        refused: dict[Request, LedgerTrouble] = {}
        began_s = time.monotonic()
        try:
            try:
                self._write_group(db, group)
            except FAULTS:
                roll_back(db)
                refused = self._write_apart(db, group)
        except (sqlite3.Error, *FAULTS) as problem:
            roll_back(db)
            self.counts.failures += 1
            trouble = LedgerTrouble(f"{self._path}: {problem}")
            self._say(str(trouble))  # before anybody hears that a request failed
            self._report([(request, trouble) for request in group if not request.must])
            return [request for request in group if request.must]
        self._say("")
        self.counts.commits.note(time.monotonic() - began_s)
        self._report([(request, refused.get(request)) for request in group])
        return []

    def _write_group(self, db: sqlite3.Connection, group: list[Request]) -> None:
        db.execute("BEGIN IMMEDIATE")
        if self.trouble:  # the group may write nothing, and would prove nothing
            db.execute(f"PRAGMA user_version = {VERSION}")
        for make, requests in pieces(group):
            for request, result in zip(requests, carry_out(db, make()), strict=True):
                request.result = result
        db.execute("COMMIT")

    def _write_apart(
        self, db: sqlite3.Connection, group: list[Request]
    ) -> dict[Request, LedgerTrouble]:
        """Writes in one transaction again. Returns the requests whose own values are at fault, and
        why."""
        refused: dict[Request, LedgerTrouble] = {}
        db.execute("BEGIN IMMEDIATE")
        for step in steps(group):
            db.execute("SAVEPOINT step")
            try:
                step.request.result = carry_out(db, step.make())
            except FAULTS as problem:
                db.execute("ROLLBACK TO step")
                if step.instead is None:
                    refused[step.request] = LedgerTrouble(f"{self._path}: {problem}")
                else:
                    log.error("%s: wrote a record without its reason: %s", self._path, problem)
                    carry_out(db, step.instead())
            db.execute("RELEASE step")
        db.execute("COMMIT")
        return refused

    def _report(self, outcomes: list[tuple[Request, LedgerTrouble | None]]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._settle, outcomes)


def roll_back(db: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error):
        db.execute("ROLLBACK")


def connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        db.text_factory = readable
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")  # effective only in a new file
        set_journal(db, path)
        db.execute("PRAGMA synchronous = FULL")
        db.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")  # applied after a large change
    except BaseException:
        db.close()
        raise
    return db


def may_pass(problem: sqlite3.Error) -> bool:
    """Whether the disk is at fault. On a full one its own files beside the ledger cannot grow, for
    which SQLite has no other word than for a broken one."""
    primary = getattr(problem, "sqlite_errorcode", 0) & 0xFF
    return primary in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def why_not_opened(path: Path, problem: OSError) -> LedgerTrouble | ConfigError:
    """Returns what to raise if the file, or one beside it, cannot be made or written."""
    if problem.errno in FULL:
        return LedgerTrouble(no_space(path), passes=True)
    return ConfigError(f"dispatch.store {path}: {why_not_written(problem, path.parent)}")


def no_space(path: Path) -> str:
    return f"{FULL_DISK}: free some space in {path.parent}"


def readable(text: bytes) -> str:
    """SQLite stores any bytes as text; an undecodable value would fail a whole list."""
    return str(text, "utf-8", "replace")


def migrate(db: sqlite3.Connection, path: Path) -> None:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    for number, step in missing_steps(version, f"dispatch.store {path}"):
        db.executescript(f"BEGIN; {step} PRAGMA user_version = {number}; COMMIT;")


def carry_out(db: sqlite3.Connection, work: Work[Result]) -> Result:
    rows: list[Row] | None = None
    while not isinstance(reply := carry_on(db, work, rows), Over):
        rows = reply
    return reply.result


def carry_on(
    db: sqlite3.Connection, work: Work[Result], rows: list[Row] | None
) -> list[Row] | Over[Result]:
    """Returns the result of the work, or the rows of the statement that ended its turn. `rows`: of
    the previous statement, None at first."""
    until_s = time.monotonic() + TURN_S
    while not isinstance(step := advance(work, rows), Over):
        if isinstance(step, Ask):
            rows = db.execute(step.sql, step.values).fetchall()
        else:
            db.executemany(step.sql, step.rows)
            rows = []
        if time.monotonic() > until_s:
            return rows
    return step


def give_back() -> Work[None]:
    yield Ask(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")


def open_jobs(path: Path) -> int:
    """Returns how many jobs have not ended in a ledger that is not in use; 0 if there is no
    ledger."""
    try:
        counts = read_unused(path, "SELECT state, count(*) FROM jobs GROUP BY state")
    except sqlite3.Error:
        return 0
    return sum(int(str(count)) for state, count in counts if state not in ENDED_NAMES)


def has_open_jobs(path: Path) -> bool:
    """Returns whether a ledger that is not in use has jobs that have not ended; also True if it
    cannot be read, False if there is none."""
    if not path.exists():
        return False
    try:
        return bool(read_unused(path, "SELECT 1 FROM jobs WHERE finished IS NULL LIMIT 1"))
    except sqlite3.Error:
        return True


def read_unused(path: Path, question: str) -> list[tuple[object, ...]]:
    """Reads a ledger that is not in use. Where nobody may write beside it, as outside the
    directories of a unit, SQLite opens it only as immutable, which would leave out what is in a
    -wal, and take what is in a -journal for written. Raises sqlite3.Error."""
    place = f"{path.absolute().as_uri()}?mode=ro"
    try:
        return rows_of(place, question)
    except sqlite3.OperationalError:
        if any(path.with_name(path.name + beside).exists() for beside in ("-wal", "-journal")):
            raise
        return rows_of(f"{place}&immutable=1", question)


def rows_of(place: str, question: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(place, uri=True)) as file:
        return file.execute(question).fetchall()
