"""The ended jobs of this host in one SQLite file, bounded in rows, bytes and age.

No job waits for anything here, and no failure here may reach a job. What is lost is counted
(gaps.py). A file that is damaged, of another format, or overwritten while we have it
open, is set aside. If it was removed or replaced, we continue with the file that is there.
"""

import contextlib
import logging
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from fnmatch import translate
from operator import attrgetter
from pathlib import Path

from lbd.config.schema import StatsConfig
from lbd.lbm.usage import algorithms, gaps, kept_since
from lbd.lbm.usage.file import UsageFile
from lbd.lbm.usage.gaps import Gap
from lbd.lbm.usage.measures import GROUPS_MAX, LEAST, SIZE_S_MIN, STEPS, Measure, Moments
from lbd.lbm.usage.reading import BUSY_S, FULL, open_to_read, with_logarithm
from lbd.lbm.usage.record import CHECKPOINT, Usage
from lbd.lbm.usage.room import PAGE_BYTES, drop_oldest, is_own_limit, keep_shares, pages_of
from lbd.process.disk_space import is_full
from lbd.process.sqlite_journal import BESIDE, set_journal

log = logging.getLogger("lbd.lbm")

FORMAT = 1
WAL_PAGES = 256
DAY_S = 86400.0
AGE_CHECK_S = 600.0
SLACK = 100  # a hundredth over the limit before the shares are counted
COLUMNS = tuple(item.name for item in fields(Usage))
LOOK_S = 1.0  # limit for one page of past jobs
STEPS_BETWEEN_CLOCKS = 10_000
as_row = attrgetter(*COLUMNS)
SCHEMA = f"""
    CREATE TABLE jobs (number INTEGER PRIMARY KEY, {", ".join(COLUMNS)});
    CREATE INDEX jobs_finished ON jobs (finished);
    CREATE INDEX jobs_id ON jobs (id);
    CREATE INDEX jobs_user ON jobs (user, finished);
    PRAGMA user_version = {FORMAT};
"""
INSERT = f"INSERT INTO jobs ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608  # our own columns
ENDED = f"""
    SELECT *, CASE WHEN cpu_s >= {SIZE_S_MIN}
              THEN max(0.0, response_s - cpu_s) / cpu_s END AS slow FROM jobs
    WHERE finished >= ? AND finished < ?
          AND (? = '' OR CASE WHEN ? IS NULL THEN user = ? ELSE uid = ? END)
          AND (state <> 'unknown' OR response_s IS NOT NULL)
          AND state <> '{CHECKPOINT}'
"""  # noqa: S608  # a number of ours
SUMS = f"""
    count(*), total(failed), total(moved), total(wrong), total(cpu_s),
    count(response_s), total(response_s), total(response_s * response_s),
    count(waiting_s), total(waiting_s), total(waiting_s * waiting_s),
    count(slow), total(slow), total(slow * slow),
    total(max(0.0, response_s - waiting_s) * slots)
    FROM ({ENDED})
"""  # a number of ours
FOREVER = 1e300  # UNIX seconds
GROUPED = ("command", "user", "host")
STEP = f"CAST(round(ln(max({{}}, {LEAST})) * {STEPS}) AS INTEGER)"  # `step_of`
SPREAD = f"""
    SELECT {", ".join(GROUPED)}, {STEP.format("response_s")}, {STEP.format("waiting_s")},
           {STEP.format("slow")}, count(*)
    FROM ({ENDED}) GROUP BY 1, 2, 3, 4, 5, 6
"""  # noqa: S608  # likewise


class UsageStore:
    """The store. Used by one thread. Every method may raise sqlite3.Error or OSError."""

    def __init__(self, path: Path, config: StatsConfig) -> None:
        self._path = path
        self._config = config
        self._database: sqlite3.Connection | None = None
        self._file: UsageFile | None = None
        self._only_reads = False  # opened for one question
        self._age_checked_s = -AGE_CHECK_S
        self._since_trim = config.max_rows

    def _open(self) -> sqlite3.Connection:
        self.answered()
        self._look()
        if self._database is not None:
            return self._database
        try:
            self._database = self._opened()
        except sqlite3.DatabaseError as problem:
            if not is_damage(problem):  # a full disk or no permission: may pass
                raise
            self._set_aside(str(problem))
            self._database = self._opened()
        return self._database

    def _to_read(self) -> sqlite3.Connection:
        """Opens it for a question, also where it cannot be written."""
        if self._only_reads and self._database is not None:
            return self._database
        try:
            return self._open()
        except (sqlite3.Error, OSError):
            if not is_full(self._path.parent):
                raise
        self._database, self._only_reads = open_to_read(self._path), True
        return self._database

    def answered(self) -> None:
        """Lets others use a file that was opened for one question."""
        if self._only_reads:
            self.close()

    def why(self, problem: Exception) -> str:
        """Returns why it cannot be used. For most of what SQLite cannot do on a full disk, it has
        the words of a broken one."""
        return FULL if is_full(self._path.parent) else str(problem)

    def _look(self) -> None:
        """Checks whether another process has changed the file."""
        changed = self._file.changed() if self._database is not None and self._file else ""
        if changed == "overwritten":
            self._set_aside("overwritten by another process")
        elif changed:
            log.warning("%s: %s by another process; its contents are lost", self._path, changed)
            self.close()
            self._drop_log()

    def _opened(self) -> sqlite3.Connection:
        file = self._file = UsageFile(self._path)
        database = sqlite3.connect(self._path, BUSY_S, isolation_level=None)
        try:
            database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            set_journal(database, self._path)
            (version,) = database.execute("PRAGMA user_version").fetchone()
            (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            names = {row[1] for row in database.execute("PRAGMA table_info(jobs)")}
            if tables and (version != FORMAT or not names.issuperset(COLUMNS)):
                raise sqlite3.DatabaseError("not in a format that this release knows")
            database.execute("PRAGMA synchronous = NORMAL")
            with_logarithm(database)
            database.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")
            database.execute(f"PRAGMA journal_size_limit = {WAL_PAGES * PAGE_BYTES}")
            if not tables:
                database.executescript(SCHEMA)
            kept_since.begin(database)
            algorithms.begin(database)
            gaps.begin(database)
            self._bound(database)
            file.mark(database)
        except BaseException:
            database.close()
            self.close()
            raise
        return database

    def _bound(self, database: sqlite3.Connection) -> None:
        """Applies the limit in bytes of the configuration, which may have become smaller."""
        pages = self._config.max_bytes // PAGE_BYTES
        while pages_of(database) > pages and drop_oldest(database):
            database.execute("VACUUM")
        database.execute(f"PRAGMA max_page_count = {pages}")

    def _set_aside(self, why: str) -> None:
        aside = self._path.with_suffix(".damaged")
        log.warning("%s: %s; set aside as %s", self._path, why[:200], aside.name)
        self._path.replace(aside)  # first, because SQLite would write what it still has to it
        self.close()
        self._drop_log()

    def _drop_log(self) -> None:
        """Removes the log or journal, which SQLite would apply to whatever file it finds."""
        for suffix in BESIDE:
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    def let_go(self, problem: Exception) -> None:
        """Closes after a failed question: the next one opens the file as it is then."""
        if isinstance(problem, sqlite3.Error) and is_damage(problem):
            with contextlib.suppress(OSError):
                self._set_aside(str(problem))
        self.close()

    def close(self) -> None:
        self._only_reads = False
        if self._database is not None:
            with contextlib.suppress(sqlite3.Error):
                self._database.close()
            self._database = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def add(self, usages: Sequence[Usage], lost: Gap | None = None) -> None:
        """Adds all of them or none, and that others were lost."""
        try:
            self._add(usages, lost)
        except sqlite3.DatabaseError as problem:
            if is_damage(problem):
                self._set_aside(str(problem))
            elif problem.sqlite_errorcode == sqlite3.SQLITE_FULL and is_own_limit(
                self._open(), usages
            ):
                drop_oldest(self._open())
            else:
                raise
            self._add(usages, lost)

    def _add(self, usages: Sequence[Usage], lost: Gap | None) -> None:
        database = self._open()
        with transaction(database):
            database.executemany(INSERT, map(as_row, usages))
            if lost is not None:
                gaps.note(database, lost)
            self._since_trim += len(usages)
            if self._since_trim > self._config.max_rows // SLACK:
                keep_shares(database, self._config.max_rows)
                self._since_trim = 0
            if time.monotonic() - self._age_checked_s >= AGE_CHECK_S:
                oldest = time.time() - self._config.keep_days * DAY_S
                database.execute("DELETE FROM jobs WHERE finished < ?", (oldest,))
                self._age_checked_s = time.monotonic()

    def summary(
        self, since: float, user: str, uid: int | None = None, until: float = 0.0
    ) -> tuple[Measure, dict[str, dict[str, Measure]]]:
        """All jobs that ended from `since` on (of one user, or of all for ""), and those of each
        kind. `until`: and before then; 0: up to now."""
        database, which = self._to_read(), (since, until or FOREVER, user, uid, user, uid)
        (row,) = database.execute(f"SELECT {SUMS}", which)
        groups: dict[str, dict[str, Measure]] = {}
        for column in GROUPED:
            found = database.execute(
                f"SELECT {column}, {SUMS} WHERE {column} <> '' GROUP BY 1 ORDER BY 2 DESC, 1 "
                f"LIMIT {GROUPS_MAX}",
                which,
            )
            groups[column] = {key: measure_of(sums) for key, *sums in found}
        total = measure_of(row)
        for command, ran_for, host, *steps, count in database.execute(SPREAD, which):
            spread(total, steps, count)
            for column, key in zip(GROUPED, (command, ran_for, host), strict=True):
                if key in groups[column]:
                    spread(groups[column][key], steps, count)
        return total, groups

    def kept_since(self) -> float:
        """All jobs that ended from then on are on record."""
        return kept_since.kept_since(self._to_read())

    def gaps(self) -> list[Gap]:
        """What was lost, the oldest first."""
        return gaps.gaps(self._to_read())

    def note_algorithm(self, name: str, unix_s: float) -> None:
        algorithms.note(self._open(), name, unix_s)

    def algorithms(self, limit: int) -> list[tuple[float, str]]:
        """Since when and which, the oldest first."""
        return algorithms.latest(self._to_read(), limit)

    def page(self, since: float, after: int, limit: int) -> list[tuple[int, Usage]]:
        """Jobs that have run, with numbers above `after`, the oldest first."""
        found = self._to_read().execute(
            f"SELECT number, {', '.join(COLUMNS)} FROM jobs "  # noqa: S608  # our own columns
            "WHERE number > ? AND finished >= ? AND response_s IS NOT NULL ORDER BY number LIMIT ?",
            (after, since, limit),
        )
        return [(number, Usage(*values)) for number, *values in found]

    def by_id(self, job: str) -> tuple[int, Usage] | None:
        """The last job that ended under this id."""
        found = self._to_read().execute(
            f"SELECT number, {', '.join(COLUMNS)} FROM jobs WHERE id = ? "  # noqa: S608  # ours
            "ORDER BY number DESC LIMIT 1",
            (job,),
        )
        return next(((number, Usage(*values)) for number, *values in found), None)

    def latest(self, asked: "PastJobs") -> tuple[list[tuple[int, Usage]], bool]:
        """Returns the requested jobs, the last to end first, and whether there may be more."""
        database, (conditions, values) = self._to_read(), asked.in_sql()
        give_up_s = time.monotonic() + LOOK_S
        rows: list[tuple[int, Usage]] = []
        # fnmatchcase would keep 32,768 patterns, of up to 22 KB each; re keeps 512.
        matches = re.compile(translate(asked.name or "*")).match
        database.set_progress_handler(lambda: time.monotonic() > give_up_s, STEPS_BETWEEN_CLOCKS)
        try:
            for number, *columns in database.execute(
                f"SELECT number, {', '.join(COLUMNS)} FROM jobs WHERE {conditions} "  # noqa: S608
                "ORDER BY finished DESC, number DESC",
                values,
            ):
                if time.monotonic() > give_up_s:
                    return rows, True
                usage = Usage(*columns)
                if matches(usage.name):
                    rows.append((number, usage))
                if len(rows) >= asked.limit:
                    break
        except sqlite3.OperationalError:
            if time.monotonic() <= give_up_s:
                raise
            return rows, True
        finally:
            database.set_progress_handler(None, 0)
        return rows, len(rows) >= asked.limit


@dataclass(frozen=True, slots=True)
class PastJobs:
    """A selection of past jobs. Empty texts and zeros: any."""

    limit: int
    user: str = ""
    uid: int | None = None  # of `user`, if the name may be another user's on other hosts
    origin: str = ""
    name: str = ""  # a shell pattern; not matched in SQL, where one may take for ever
    states: tuple[str, ...] = ()
    host: str = ""
    since: float = 0.0  # submitted from then on
    until: float = 0.0  # submitted no later
    before: tuple[float, int] = (0.0, 0)  # end and number of a job
    ids: tuple[str, ...] = ()

    def in_sql(self) -> tuple[str, list[object]]:
        """Returns a condition, and the values for its question marks."""
        given: dict[str, object] = {
            "submitted >= ?": self.since,
            "submitted <= ?": self.until,
            "user = ?": self.user if self.uid is None else "",
            "origin = ?": self.origin,
            "host = ?": self.host,
        }
        given = {part: value for part, value in given.items() if value}
        if self.uid is not None:
            given["uid = ?"] = self.uid
        # A job submitted since then has ended later.
        parts, values = ["finished >= ?", *given], [self.since, *given.values()]
        if self.states:
            parts.append(f"state IN ({', '.join('?' * len(self.states))})")
            values += self.states
        if self.ids:
            parts.append(f"id IN ({', '.join('?' * len(self.ids))})")
            values += self.ids
        if self.before[0]:
            parts.append("(finished < ? OR (finished = ? AND number < ?))")
            values += [self.before[0], *self.before]
        return " AND ".join(parts), values


@contextlib.contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def is_damage(problem: sqlite3.Error) -> bool:
    """Whether the file is not ours, or not any more. Other errors have their own classes."""
    return type(problem) is sqlite3.DatabaseError


def spread(measure: Measure, steps: Sequence[int | None], count: int) -> None:
    """Adds jobs whose response, waiting and slowdown are on these steps."""
    for moments, step in zip(
        (measure.response, measure.waiting, measure.slowdown), steps, strict=True
    ):
        if step is not None:
            moments.steps[step] = moments.steps.get(step, 0) + count


def measure_of(sums: Sequence[float]) -> Measure:
    jobs, failed, moved, wrong, cpu_s, *rest = sums
    response, waiting, slow = (
        Moments(int(rest[at]), float(rest[at + 1]), float(rest[at + 2])) for at in (0, 3, 6)
    )
    counts = int(jobs), int(failed), int(moved), int(wrong)
    return Measure(*counts, float(cpu_s), response, waiting, slow, float(rest[9]))
