"""The operations on the ledger's tables, written once for every kind of store.

A piece of work is a generator: it yields statements, is sent the rows of each, and returns its
result. A store executes the statements, those of one piece in one transaction. Work may be repeated
after a commit whose outcome is unknown, so each piece that changes jobs is idempotent.

One file because all of it uses the same columns of the same three tables. The SQL is the common
subset of SQLite and PostgreSQL, with `?` for a value.
"""

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Generic, TypeVar

from lbd.dispatch.core.discipline import NOT_FORETOLD
from lbd.dispatch.core.ledger_rows import (
    ATTEMPTS_KEPT,
    UNREADABLE,
    Accepted,
    AttemptRow,
    JobRow,
    LedgerTrouble,
    Stored,
    Submission,
    Wanted,
)
from lbd.dispatch.core.records import Begin, Changed, Fate, Met, Record, StopAsked, Updated
from lbd.dispatch.core.row_faults import COUNT, NUMBER, fault_of, is_within
from lbd.model import ENDED_STATES, JobId, JobState, quick_value
from lbd.process.job_log import JobLog
from lbd.text.index_list import runs_text
from lbd.text.one_line import one_line
from lbd.text.ranges import merged

job_log = JobLog(logging.getLogger("lbd.dispatch"))

SHOWN_CHARS = 120
STOPS_KEPT = 8  # the first of those written together, and the last

ENDED_FATES = {
    Fate.DONE, Fate.FAILED, Fate.CANCELLED, Fate.LOST, Fate.CUT, Fate.CHECKPOINT, Fate.REFUSED,
    Fate.EVICTED,
}  # fmt: skip
GOES_ON = (Fate.RUNNING, Fate.SUSPENDED)
# What the jobs of an array share is large (a command has up to some megabytes, and reading a column
# behind it goes through it), so it is read once, not for each job.
JOB_COLUMNS = """
    j.id, j.submission, j.barred, j.array_index, j.state, j.tier, j.attempt, j.crashes, j.reason,
    j.host, j.submitted, j.started, j.finished, j.cpu_s, j.exit_status, j.signal, j.cause,
    j.slots_held, j.requeued, j.predicted_s, j.suspended_s, j.suspended, j.met,
    j.foretold_s, j.foretold_low_s, j.foretold_high_s, j.max_rss_bytes FROM jobs j
"""
WITH_USERS = "JOIN submissions s ON s.id = j.submission"
SUBMISSION_COLUMNS = """
    id, "user", uid, origin, name, length(command), slots, may_restart, only_host, slots_most,
    priority, target, deadline, gang, limit_s, parallelism, sigma, work_s, first_job, jobs, indexes,
    at_once, run_after, not_before, needs, spooled, takes_checkpoints FROM submissions
"""
NEW_JOB = (
    "id", "submission", "array_index", "state", "tier", "attempt", "crashes", "barred", "reason",
    "host", "submitted", "signal", "cause", "predicted_s", "foretold_s", "foretold_low_s",
    "foretold_high_s",
)  # fmt: skip
COMMAND_BYTES, FIRST_JOB = 5, 18  # their positions in these columns
VALUES_MAX = 500  # in one statement
PAGE = 1000  # jobs read together, before their size is checked and other queries get in
LIVE_BYTES = 64 << 20  # of commands read together at the start
LARGEST = (1 << 63) - 1

Values = Sequence[object]
Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Ask:
    """One statement, and the rows it returns."""

    sql: str
    values: Values = ()


@dataclass(frozen=True, slots=True)
class Many:
    """One statement for each of these rows, in order; it returns no rows."""

    sql: str
    rows: Iterable[Values]


@dataclass(frozen=True, slots=True)
class Insert(Many):
    """New rows of a table, of which there may be a hundred thousand."""

    table: str
    columns: Sequence[str]


def insert_rows(table: str, columns: Sequence[str], rows: Iterable[Values]) -> Insert:
    sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks(columns)})"  # noqa: S608  # names of ours
    return Insert(sql, rows, table, columns)


Result = TypeVar("Result")
Work = Generator[Ask | Many, Sequence[Row], Result]
MakeWork = Callable[[], Work[Result]]


@dataclass(frozen=True, slots=True)
class Over(Generic[Result]):
    """A piece of work has returned."""

    result: Result


def advance(work: Work[Result], rows: Sequence[Row] | None) -> Ask | Many | Over[Result]:
    """Returns the next statement of the work. `rows`: of the previous one, None at first."""
    try:
        return work.send(rows) if rows is not None else next(work)
    except StopIteration as over:
        return Over(over.value)


# Changes


Arrived = tuple[Submission, float]  # with its time in UNIX seconds


def insert(sent: Submission, unix_s: float) -> Work[Accepted]:
    (made,) = yield from insert_all([(sent, unix_s)])
    return made


def insert_all(group: Sequence[Arrived]) -> Work[list[Accepted]]:
    """Adds submissions, all their jobs by one statement. The thread that writes must wait for the
    interpreter after each statement, so few of them matter more than short ones."""
    found: list[Accepted] = []
    added: list[tuple[Arrived, Accepted]] = []
    following: int | None = None  # the first free number of a job
    for arrived in group:
        sent, _ = arrived
        if known := (yield from accepted(sent)):
            found.append(known)
            continue
        if following is None:
            following = next_job((yield Ask("SELECT value FROM counters WHERE name = 'next_job'")))
        submission = yield from insert_submission(sent, following)
        made = Accepted(submission, following, sent.count, is_new=True)
        following += sent.count
        found.append(made)
        added.append((arrived, made))
    if following is not None:
        yield Ask("UPDATE counters SET value = ? WHERE name = 'next_job'", (following,))
        yield insert_rows("jobs", NEW_JOB, (row for one in added for row in job_values(*one)))
    return found


def job_values(arrived: Arrived, made: Accepted) -> Iterator[Values]:
    (sent, unix_s), submission, barred = arrived, made.submission, arrived[0].barred_text
    for n, index in enumerate(sent.array_indexes()):
        foretold = NOT_FORETOLD if n else sent.foretold
        waits = "pending", 1, 0, 0, barred, "", "", unix_s, 0, ""
        yield (made.first + n, submission, index, *waits, *foretold)


def insert_submission(sent: Submission, first: int) -> Work[int]:
    """Returns its number; `first`: that of its first job."""
    rows = yield Ask(
        'INSERT INTO submissions ("user", origin, name, command, spec, slots, may_restart,'
        " only_host, idempotency_key, first_job, jobs, slots_most, priority, uid, target, deadline,"
        " gang, limit_s, parallelism, sigma, work_s, indexes, at_once, run_after, not_before,"
        " needs, spooled, takes_checkpoints, size_bytes)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
        " ?, ?, ?) RETURNING id",
        (sent.user, sent.origin, sent.name, sent.command, sent.spec, sent.slots,
         int(sent.may_restart), sent.only, sent.key, first, sent.count,
         sent.slots_most, sent.priority, sent.uid, sent.target, sent.deadline, sent.gang,
         sent.limit_s, *(sent.speedup or (None, None)), sent.work_s, runs_text(sent.runs),
         sent.at_once, sent.after, sent.not_before, sent.needs, int(sent.spooled),
         int(sent.takes_checkpoints), sent.size_bytes),
    )  # fmt: skip
    return whole(rows[0][0])


Dated = tuple[Record, float]  # with its time in UNIX seconds


def apply_all(changes: Sequence[Dated]) -> Work[None]:
    """Applies changes: those of one job in order; of different jobs, many of the same kind at
    once."""
    begins: dict[JobId, tuple[Begin, float]] = {}
    others: dict[JobId, list[tuple[Changed, float]]] = {}
    stop_reasons: dict[tuple[JobId, int], StopAsked] = {}
    updates: dict[int, Updated] = {}
    met: list[Met] = []
    for change, unix_s in changes:
        if isinstance(change, Met):
            met.append(change)
            continue
        if isinstance(change, Updated):
            if change.spec is None and (before := updates.get(change.submission)) is not None:
                change = replace(change, spec=before.spec)
            updates[change.submission] = change
            continue
        if isinstance(change, StopAsked):
            stop_reasons[change.job, change.attempt] = change
            continue
        if change.job in begins or (isinstance(change, Begin) and change.job in others):
            yield from together(begins, others)
            begins, others = {}, {}
        if isinstance(change, Begin):
            begins[change.job] = change, unix_s
        else:
            others.setdefault(change.job, []).append((change, unix_s))
    yield from together(begins, others)
    if updates:
        yield Many(
            "UPDATE submissions SET priority = ?, name = ?, limit_s = ?,"
            " spec = COALESCE(?, spec), not_before = ?"
            " WHERE id = ?",
            [
                (c.priority, c.name, c.limit_s, c.spec, c.not_before, c.submission)
                for c in updates.values()
            ],
        )
    if met:
        yield Many("UPDATE jobs SET met = 1 WHERE id = ?", [(int(c.job),) for c in met])
    if stop_reasons:
        yield Many(
            "UPDATE attempts SET stop_reason = ? WHERE job = ? AND number = ?",
            [(c.stop_reason, int(c.job), c.attempt) for c in stop_reasons.values()],
        )


def together(
    begins: dict[JobId, tuple[Begin, float]], others: dict[JobId, list[tuple[Changed, float]]]
) -> Work[None]:
    """Writes both; each job is in exactly one of them."""
    if begins:
        yield from begin(list(begins.values()))
    if others:
        yield from apply([one for own in others.values() for one in in_one(own)])


def begin(changes: Sequence[tuple[Begin, float]]) -> Work[None]:
    yield Many(
        "INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL, NULL, '', ?, '')"
        " ON CONFLICT (job, number) DO NOTHING",
        [
            (int(c.job), c.attempt, c.host, c.tier, c.cutoff_s, Fate.LEASED.value, unix_s, c.slots)
            for c, unix_s in changes
        ],
    )
    long_ago = [
        (int(c.job), c.attempt - ATTEMPTS_KEPT) for c, _ in changes if c.attempt > ATTEMPTS_KEPT
    ]
    if long_ago:
        yield Many("DELETE FROM attempts WHERE job = ? AND number <= ?", long_ago)
    yield Many(
        "UPDATE jobs SET attempt = ?, tier = ?, host = ?, reason = '', slots_held = ?,"
        " suspended_s = 0, suspended = NULL WHERE id = ?",
        [(c.attempt, c.tier, c.host, c.slots, int(c.job)) for c, _ in changes],
    )


@quick_value
class Written:
    """A change to write, with the attempt's start if that is written with it."""

    change: Changed
    unix_s: float
    began_unix_s: float | None

    @property
    def ended_unix_s(self) -> float:
        """The end as the host saw it, as the dispatcher may have heard of it later; not before the
        start."""
        ending = self.change.ending
        ended = self.unix_s if ending is None else self.unix_s - ending.ago_s
        return ended if self.began_unix_s is None else max(ended, self.began_unix_s)


def in_one(changes: Sequence[tuple[Changed, float]]) -> Iterator[Written]:
    """Merges the changes of one job: an attempt's start is written together with its end if both
    are here, as for most short jobs. Of very many stops and resumptions only some are written: in
    PostgreSQL each change of a row takes longer than the one before, until the commit."""
    begun: Written | None = None
    for change, unix_s in without_most_stops(changes):
        if begun is not None and change.fate in ENDED_FATES:
            yield Written(change, unix_s, begun.began_unix_s)
            begun = None
            continue
        if begun is not None:
            yield begun
            begun = None
        if change.fate is Fate.RUNNING:
            begun = Written(change, unix_s, unix_s - change.begun_ago_s)
        else:
            yield Written(change, unix_s, None)
    if begun is not None:
        yield begun


def without_most_stops(
    changes: Sequence[tuple[Changed, float]],
) -> Iterator[tuple[Changed, float]]:
    """Leaves out those between the first and the last ones that follow one another."""
    for goes_on, some in groupby(changes, key=lambda one: one[0].fate in GOES_ON):
        own = list(some)
        if goes_on and len(own) > 2 * STOPS_KEPT:
            own[STOPS_KEPT:-STOPS_KEPT] = []
        yield from own


def apply(written: Sequence[Written]) -> Work[None]:
    attempts = [fate_values(one) for one in written if one.change.fate is not None]
    if attempts:
        yield Many(
            "UPDATE attempts SET fate = ?, started = COALESCE(started, ?),"
            " finished = CASE WHEN ? < started THEN started ELSE ? END, cpu_s = ?,"
            " exit_status = ?, reason = ? WHERE job = ? AND number = ?",
            attempts,
        )
    yield Many(
        "UPDATE jobs SET state = ?, tier = ?, attempt = ?, crashes = ?, barred = ?, reason = ?,"
        " host = CASE WHEN ? THEN '' ELSE COALESCE(?, host) END,"
        " started = CASE WHEN ? THEN NULL ELSE COALESCE(started, ?) END,"
        " finished = CASE WHEN ? < started THEN started ELSE ? END,"
        " cpu_s = ?, max_rss_bytes = ?, exit_status = ?, signal = ?, cause = ?, requeued = ?,"
        " suspended_s = CASE WHEN ? THEN suspended_s"
        " ELSE suspended_s + COALESCE(? - suspended, 0) END,"
        " suspended = CASE WHEN ? THEN COALESCE(suspended, ?) ELSE NULL END WHERE id = ?",
        [state_values(one) for one in written],
    )


def fate_values(written: Written) -> Values:
    change, ending = written.change, written.change.ending
    ended_unix_s = written.ended_unix_s if change.fate in ENDED_FATES else None
    return (
        change.fate.value if change.fate else "",
        written.began_unix_s,
        ended_unix_s,
        ended_unix_s,
        ending.cpu_s if ending else None,
        ending.exit_status if ending else None,
        ending.reason if ending else change.reason,
        int(change.job),
        change.attempt,
    )


def state_values(written: Written) -> Values:
    change = written.change
    waits, ended = change.state is JobState.PENDING, change.state in ENDED_STATES
    ending = change.ending if ended else None
    suspended = change.state is JobState.SUSPENDED
    ended_unix_s = written.ended_unix_s if ended else None
    return (
        change.state.value,
        change.tier,
        change.attempt,
        change.crashes,
        " ".join(sorted(change.barred)),
        change.reason,
        waits,
        change.host,
        waits,
        written.began_unix_s,
        ended_unix_s,
        ended_unix_s,
        ending.cpu_s if ending else None,
        ending.max_rss_bytes if ending else 0,
        ending.exit_status if ending else None,
        ending.signal if ending else 0,
        ending.cause.value if ending else "",
        change.requeued,
        suspended,
        written.unix_s,
        suspended,
        written.unix_s,
        int(change.job),
    )


# Queries


def accepted(sent: Submission) -> Work[Accepted | None]:
    """Returns the submission accepted earlier under the same key."""
    if not sent.key:
        return None
    found = yield Ask(
        "SELECT id, first_job, jobs, command, indexes FROM submissions"
        ' WHERE "user" = ? AND idempotency_key = ?'
        " AND idempotency_key <> ''",
        (sent.user, sent.key),
    )
    if not found:
        return None
    submission, first, count = map(whole, found[0][:3])
    is_other = (*found[0][3:], count) != (sent.command, runs_text(sent.runs), sent.count)
    return Accepted(submission, first, count, is_new=False, is_other=is_other)


def live(after: int = 0, limit: int | None = None) -> Work[list[JobRow]]:
    """With a limit, the commands of the jobs also have a limit in bytes, but at least one job is
    returned."""
    while True:
        last, found = yield from live_page(after, limit)
        if found or last is None:
            return found
        after = last  # none of these rows is valid: continue with the next ones


def live_page(after: int, limit: int | None) -> Work[tuple[int | None, list[JobRow]]]:
    """Also returns the last number read, if there was one."""
    found = f"SELECT {JOB_COLUMNS} WHERE j.finished IS NULL AND j.id > ? ORDER BY j.id"
    rows = yield Ask(f"{found} LIMIT ?", (after, LARGEST if limit is None else limit))
    known: Submissions = {}
    yield from learn(known, rows)
    if limit is not None:
        rows, size, counted = list(rows), 0, set[object]()
        for number, row in enumerate(rows):
            if row[1] not in counted and row[1] in known:
                counted.add(row[1])
                size += whole(known[row[1]][COMMAND_BYTES])
            if number and size > LIVE_BYTES:
                del rows[number:]
                break
    last = whole(rows[-1][0]) if rows else None
    commands: dict[object, bytes] = {}
    yield from learn_commands(commands, rows)
    return last, jobs_of(rows, known, commands)


def find(wanted: Wanted) -> Work[list[JobRow]]:
    tables, clauses, values = conditions(wanted)
    tables = JOB_COLUMNS + tables
    pages: list[list[JobRow]] = []
    known: Submissions = {}
    commands: dict[object, bytes] = {}
    count = size = 0
    parts_of_it = Parts(wanted)
    while (part := (yield from parts_of_it.following())) is not None:
        if count >= wanted.limit or not has_room(wanted.bytes_max, size):
            break
        clause, ends = part
        where = " AND ".join([*clauses, *filter(None, (clause,)), "j.id <= ?"])
        newest_first = f"SELECT {tables} WHERE {where} ORDER BY j.id DESC LIMIT ?"
        last = LARGEST
        while count < wanted.limit and has_room(wanted.bytes_max, size):
            most = min(PAGE, wanted.limit - count)  # other queries get in between two pages
            more = yield Ask(newest_first, (*values, *ends, last, most))
            yield from learn(known, more)
            page: list[Row] = []
            for row in more:
                if has_room(wanted.bytes_max, size) and row[1] in known:
                    page.append(row)
                    size += whole(known[row[1]][COMMAND_BYTES]) + len(str(row[2]))
            if wanted.commands:
                yield from learn_commands(commands, page)
            count += len(page)
            pages.append(jobs_of(page[::-1], known, commands))
            if len(more) < most:
                break
            last = whole(more[-1][0]) - 1
    return [job for page in reversed(pages) for job in page]


def count(wanted: Wanted, *, by_array: bool) -> Work[int]:
    """Returns how many jobs these are, whatever the limits; or how many jobs and arrays. With ended
    ones it counts what was submitted, also tasks that are no longer on record: there may be ten
    million."""
    if wanted.ended_too:
        what = "COUNT(*)" if by_array else "CAST(COALESCE(SUM(jobs), 0) AS BIGINT)"
        where, values = "", list[object]()
        if wanted.user:
            where = ' WHERE "user" = ?' if wanted.uid is None else " WHERE uid = ?"
            values = [wanted.user if wanted.uid is None else wanted.uid]
        sql = f"SELECT {what} FROM submissions{where}"  # noqa: S608  # question marks
    else:
        tables, clauses, values = conditions(wanted)
        what = "COUNT(DISTINCT j.submission)" if by_array else "COUNT(*)"
        sql = f"SELECT {what} FROM jobs j {tables} WHERE {' AND '.join(clauses)}"  # noqa: S608  # as in `find`
    ((number,),) = yield Ask(sql, values)
    return whole(number)


def conditions(wanted: Wanted) -> tuple[str, list[str], list[object]]:
    """Returns the conditions except for ids: a further table, clauses and their values."""
    clauses, values = list[str](), list[object]()
    if wanted.foretold_only:
        clauses.append("j.predicted_s IS NOT NULL")
    if wanted.ended_only:
        clauses.append("j.finished IS NOT NULL")
    elif wanted.ended_since:
        clauses.append("(j.finished IS NULL OR j.finished >= ?)")
        values.append(wanted.ended_since)
    elif not wanted.ended_too:
        clauses.append("j.finished IS NULL")
    # Jobs must be walked newest first, rather than sorting all of a user's submissions: so these
    # comparisons are written so that no index is used.
    if wanted.user and wanted.uid is not None:
        clauses.append("s.uid + 0 = ?")
        values.append(wanted.uid)
    elif wanted.user:
        clauses.append("""s."user" || '' = ?""")
        values.append(wanted.user)
    return WITH_USERS if wanted.user else "", clauses, values


Part = tuple[str, list[int]]  # a condition on job ids, and its values
OF_UID = "SELECT id, first_job, jobs FROM submissions WHERE uid = ?"
OF_USER = 'SELECT id, first_job, jobs FROM submissions WHERE "user" = ?'


class Parts:
    """The parts of a query, from the highest ids down, each answered by one statement.

    A user's jobs, including ended ones, are found through the user's submissions: there may be
    millions of others' in between, and this user may have none. (Jobs that have not ended have
    their own index, and are not so many.)
    """

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        too = wanted.ended_too or wanted.ended_only
        self._of_user = bool(wanted.user and too and not wanted.ranges)
        self._parts: Iterator[Part] = iter([("", [])])
        if wanted.ranges or self._of_user:
            self._parts = within(wanted.ranges)
        # submissions still to be read
        self._before: int | None = LARGEST if self._of_user else None

    def following(self) -> Work[Part | None]:
        while (part := next(self._parts, None)) is None and self._before is not None:
            rows = yield from self._submissions(self._before)
            self._before = whole(rows[-1][0]) if len(rows) == VALUES_MAX else None
            starts = ((whole(first), whole(count)) for _, first, count in rows)
            self._parts = within([(first, first + count - 1) for first, count in starts])
        return part

    def _submissions(self, before: int) -> Work[Sequence[Row]]:
        """Returns the newest of the user's submissions before this one."""
        user, uid = self._wanted.user, self._wanted.uid
        rest = " AND id < ? ORDER BY id DESC LIMIT ?"
        of_whom, who = (OF_USER, user) if uid is None else (OF_UID, uid)
        return (yield Ask(of_whom + rest, (who, before, VALUES_MAX)))


Submissions = dict[object, Row]  # by id


def learn(known: Submissions, rows: Sequence[Row]) -> Work[None]:
    """Adds what the jobs share with others of their submissions."""
    wanted = sorted(submissions_of(rows) - known.keys())
    for some in parts(wanted):
        found = yield Ask(f"SELECT {SUBMISSION_COLUMNS} WHERE id IN ({marks(some)})", some)
        known |= {row[0]: row for row in found if is_place(row)}


def submissions_of(rows: Sequence[Row]) -> set[int]:
    """Returns the submission numbers of these jobs."""
    found = set[int]()
    for row in rows:
        if isinstance(row[1], int):
            found.add(row[1])
        else:
            report(one_line(str(row[0]), SHOWN_CHARS), "it has no submission")
    return found


def is_place(submission: Row) -> bool:
    """Whether its jobs can be determined."""
    if are_numbers(submission[FIRST_JOB], submission[FIRST_JOB + 1]):
        return True
    report(f"of submission {submission[0]}", "it has no first job, or no number of jobs")
    return False


def are_numbers(first: object, count: object) -> bool:
    """Whether these are valid numbers for the jobs of a submission."""
    if not (isinstance(first, int) and isinstance(count, int)):
        return False
    return is_within(first, NUMBER) and 0 < count <= COUNT[1]


def learn_commands(commands: dict[object, bytes], rows: Sequence[Row]) -> Work[None]:
    """Adds the commands by submission: all jobs of an array share one."""
    for some in parts(sorted(submissions_of(rows) - commands.keys())):
        sql = f"SELECT id, command FROM submissions WHERE id IN ({marks(some)})"  # noqa: S608  # question marks
        commands |= dict((yield Ask(sql, some)))  # type: ignore[arg-type]  # the schema says so


def parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    """Splits the ids into as many as one statement takes."""
    for at in range(0, len(ids), VALUES_MAX):
        yield ids[at : at + VALUES_MAX]


def marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def has_room(bytes_max: int, size: int) -> bool:
    """Returns whether there is room; `bytes_max` = 0 means no limit."""
    return not bytes_max or size < bytes_max


def within(ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[str, list[int]]]:
    """Yields conditions that an id is in one of the ranges, highest first, with their values, for
    one statement each.

    Each range has its own statement, so that the store reads only the requested jobs. With many
    alternatives in one statement it tests each of them on every job between the lowest and the
    highest: some thousand alternatives, which any user can request in one line, once blocked all
    queries for minutes.
    """
    singles: list[int] = []
    for first, last in reversed(merged(ranges)):
        if singles and (first != last or len(singles) == VALUES_MAX):
            yield one_of(singles), singles
            singles = []
        if first == last:
            singles.append(first)
        else:
            yield "j.id BETWEEN ? AND ?", [first, last]
    if singles:
        yield one_of(singles), singles


def one_of(ids: Sequence[int]) -> str:
    return f"j.id IN ({marks(ids)})"


def attempts(jobs: Sequence[JobId], most: int = ATTEMPTS_KEPT) -> Work[list[AttemptRow]]:
    """Returns the last attempts of each job."""
    found: list[AttemptRow] = []
    for at in range(0, len(jobs), VALUES_MAX):
        some = sorted(map(int, jobs[at : at + VALUES_MAX]))
        rows = yield Ask(
            f"SELECT * FROM attempts WHERE job IN ({marks(some)}) AND number >"  # noqa: S608  # question marks
            " (SELECT MAX(own.number) FROM attempts own WHERE own.job = attempts.job) - ?"
            " ORDER BY job, number",
            [*some, most],
        )
        found += map(attempt_of, rows)
    return found


def attempt_of(row: Row) -> AttemptRow:
    attempt = AttemptRow(*row)  # type: ignore[arg-type]  # `fault_of` looks
    if fault := fault_of(attempt, tuple(row)):
        report(str(attempt.job), one_line(f"its attempt: {fault}", SHOWN_CHARS))
        return AttemptRow(
            attempt.job, 0, "", 1, None, UNREADABLE, 0.0, None, None, None, None, UNREADABLE
        )
    return attempt


def ended_otherwise(first: int, last: int) -> Work[tuple[int, bool]]:
    """Returns how many of these jobs exist, and whether one did not end successfully."""
    rows = yield Ask(
        "SELECT COUNT(*), COUNT(CASE WHEN finished IS NOT NULL AND state <> 'done' THEN 1 END)"
        " FROM jobs WHERE id BETWEEN ? AND ?",
        (first, last),
    )
    return whole(rows[0][0]), whole(rows[0][1]) > 0


def spec(submission: int) -> Work[Stored]:
    rows = yield Ask(
        'SELECT spec, origin, "user", uid, idempotency_key FROM submissions WHERE id = ?',
        (submission,),
    )
    if not rows:
        raise LedgerTrouble(f"submission {submission} is no longer in the ledger")
    return Stored(*rows[0])  # type: ignore[arg-type]  # the schema says so


def counter(name: str) -> Work[int | None]:
    rows = yield Ask("SELECT value FROM counters WHERE name = ?", (name,))
    return whole(rows[0][0]) if rows else None


def set_counter(name: str, value: int) -> Work[None]:
    yield Ask(
        "INSERT INTO counters (name, value) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, value),
    )


def next_job(rows: Sequence[Row]) -> int:
    """Raises ValueError."""
    if not rows:
        raise ValueError("the number of the next job is not in the ledger (counters, next_job)")
    return whole(rows[0][0])


@lru_cache(maxsize=1000)  # each fault is logged once
def report(job: str, fault: str) -> None:
    job_log.error(job, "left out: its row in the ledger is malformed: %s", fault)


@lru_cache(maxsize=64)  # the tasks of an array come one after another
def names_in(text: str) -> tuple[str, ...]:
    """Returns the excluded hosts; equal lists are one tuple."""
    return tuple(text.split())


def jobs_of(
    rows: Iterable[Row], known: Submissions, commands: Mapping[object, bytes]
) -> list[JobRow]:
    """Builds the rows, without jobs deleted between two statements, and without invalid rows."""
    found = []
    for row in rows:
        if (shared := known.get(row[1])) is None:
            continue
        _, user, uid, origin, name, _, slots, may_restart, only, slots_most, priority, *others = (
            shared
        )
        target, deadline, gang, limit_s, *most_of_them, spooled, takes_checkpoints = others
        *speedup_and_array, after, not_before, needs = most_of_them
        number, submission, barred, *most_of_it, met, wait_s, low_s, high_s, rss_bytes = row
        *middle, held, requeued, predicted_s, still_s, since = most_of_it
        own = bool(may_restart), only, names_in(str(barred)), *middle
        values = (
            number, submission, user, uid, origin, name, commands.get(submission, b""), slots, *own,
            slots_most, held, priority, requeued, target, deadline, gang, limit_s,
            predicted_s, *speedup_and_array, needs, bool(spooled), bool(takes_checkpoints),
            still_s, since, after, not_before, bool(met), wait_s, low_s, high_s, rss_bytes,
        )  # fmt: skip
        job = JobRow(*values)  # type: ignore[arg-type]  # `fault_of` looks
        if fault := fault_of(job, values):
            report(one_line(str(number), SHOWN_CHARS), one_line(fault, SHOWN_CHARS))
        else:
            found.append(job)
    return found


def whole(value: object) -> int:
    """Raises ValueError."""
    if not isinstance(value, int):
        raise ValueError(one_line(f"{value!r} is not a whole number", SHOWN_CHARS))
    return value
