"""What is done to the ledger's tables, written once for every kind of store.

A piece of work is a generator: it yields statements, is sent the rows each of them gave, and
returns its result. A store carries the statements out, those of one piece in one transaction. Work
may be carried out again after a commit whose outcome is not known, so each piece that changes jobs
leaves the same behind however often it is done.

The SQL is what SQLite and PostgreSQL both understand, with `?` for a value.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lbd.dispatch.jobs import Begin, Changed, Fate, Record, Wished
from lbd.dispatch.ledger.rows import (
    Accepted,
    AttemptRow,
    JobRow,
    LedgerTrouble,
    Stored,
    Submission,
    Wanted,
)
from lbd.model import ENDED_STATES, JobId, JobState
from lbd.ranges import merged

ENDED_FATES = {
    Fate.DONE, Fate.FAILED, Fate.CANCELLED, Fate.LOST, Fate.CUT, Fate.CHECKPOINT, Fate.REFUSED
}  # fmt: skip
JOB_COLUMNS = """
    j.id, j.submission, s."user", s.origin, s.name, s.command, s.slots, s.may_restart, s.only_host,
    j.barred, j.array_index, j.state, j.tier, j.attempt, j.crashes, j.reason, j.host, j.submitted,
    j.started, j.finished, j.cpu_s, j.exit_status, j.signal, j.cause,
    s.slots_most, j.slots_held, s.priority, j.requeued, s.uid
    FROM jobs j JOIN submissions s ON s.id = j.submission
"""
VALUES_MAX = 500  # in one statement
PAGE = 1000  # jobs that are read before it is looked how large they are
LARGEST = (1 << 63) - 1

Values = Sequence[object]
Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Ask:
    """One statement, and the rows it gives."""

    sql: str
    values: Values = ()


@dataclass(frozen=True, slots=True)
class Many:
    """The same statement for each of these, in their order; it gives no rows."""

    sql: str
    rows: Iterable[Values]


Result = TypeVar("Result")
Work = Generator[Ask | Many, Sequence[Row], Result]
MakeWork = Callable[[], Work[Result]]


# What changes it


def insert(sent: Submission, unix_s: float) -> Work[Accepted]:
    if known := (yield from accepted(sent)):
        return known
    rows = yield Ask("SELECT value FROM counters WHERE name = 'next_job'")
    first = whole(rows[0][0])
    yield Ask("UPDATE counters SET value = ? WHERE name = 'next_job'", (first + sent.count,))
    rows = yield Ask(
        'INSERT INTO submissions ("user", origin, name, command, spec, slots, may_restart,'
        " only_host, idempotency_key, first_job, jobs, slots_most, priority, uid)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        (sent.user, sent.origin, sent.name, sent.command, sent.spec, sent.slots,
         int(sent.may_restart), sent.only, sent.key, first, sent.count,
         sent.slots_most, sent.priority, sent.uid),
    )  # fmt: skip
    submission = whole(rows[0][0])
    barred, start = " ".join(sent.excluded), sent.first_index
    yield Many(
        "INSERT INTO jobs VALUES (?, ?, ?, 'pending', 1, 0, 0, ?, '', '', ?, NULL, NULL, NULL,"
        " NULL, 0, '', NULL, NULL)",
        ((first + n, submission, None if start is None else start + n, barred, unix_s)
         for n in range(sent.count)),
    )  # fmt: skip
    return Accepted(submission, first, sent.count, is_new=True)


Dated = tuple[Record, float]  # and when, in UNIX seconds


def apply_all(changes: Sequence[Dated]) -> Work[None]:
    """Those of one job in their order; of different jobs, many of the same kind at once."""
    begins: dict[JobId, tuple[Begin, float]] = {}
    others: dict[JobId, list[tuple[Changed, float]]] = {}
    wishes: list[Wished] = []
    for change, unix_s in changes:
        if isinstance(change, Wished):
            wishes.append(change)
            continue
        if change.job in begins or (isinstance(change, Begin) and change.job in others):
            yield from together(begins, others)
            begins, others = {}, {}
        if isinstance(change, Begin):
            begins[change.job] = change, unix_s
        else:
            others.setdefault(change.job, []).append((change, unix_s))
    yield from together(begins, others)
    if wishes:
        yield Many(
            "UPDATE attempts SET wish = ? WHERE job = ? AND number = ?",
            [(c.wish, int(c.job), c.attempt) for c in wishes],
        )


def together(
    begins: dict[JobId, tuple[Begin, float]], others: dict[JobId, list[tuple[Changed, float]]]
) -> Work[None]:
    """Each job is in one of the two."""
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
    yield Many(
        "UPDATE jobs SET attempt = ?, tier = ?, host = ?, reason = '', slots_held = ? WHERE id = ?",
        [(c.attempt, c.tier, c.host, c.slots, int(c.job)) for c, _ in changes],
    )


@dataclass(frozen=True, slots=True)
class Written:
    """A change as it is written, and when the attempt began if that is written with it."""

    change: Changed
    unix_s: float
    began_unix_s: float | None


def in_one(changes: Sequence[tuple[Changed, float]]) -> Iterator[Written]:
    """Those of one job: the beginning of an attempt is written with its end if that is here, too,
    as it is for most short jobs."""
    begun: Written | None = None
    for change, unix_s in changes:
        if begun is not None and change.fate in ENDED_FATES:
            yield Written(change, unix_s, begun.unix_s)
            begun = None
            continue
        if begun is not None:
            yield begun
            begun = None
        if change.fate is Fate.RUNNING:
            begun = Written(change, unix_s, unix_s)
        else:
            yield Written(change, unix_s, None)
    if begun is not None:
        yield begun


def apply(written: Sequence[Written]) -> Work[None]:
    attempts = [fate_values(one) for one in written if one.change.fate is not None]
    if attempts:
        yield Many(
            "UPDATE attempts SET fate = ?, started = COALESCE(started, ?), finished = ?, cpu_s = ?,"
            " exit_status = ?, reason = ? WHERE job = ? AND number = ?",
            attempts,
        )
    yield Many(
        "UPDATE jobs SET state = ?, tier = ?, attempt = ?, crashes = ?, barred = ?, reason = ?,"
        " host = CASE WHEN ? THEN '' ELSE COALESCE(?, host) END,"
        " started = CASE WHEN ? THEN NULL ELSE COALESCE(started, ?) END,"
        " finished = ?, cpu_s = ?, exit_status = ?, signal = ?, cause = ?,"
        " requeued = ? WHERE id = ?",
        [state_values(one) for one in written],
    )


def fate_values(written: Written) -> Values:
    change, ending = written.change, written.change.ending
    return (
        change.fate.value if change.fate else "",
        written.began_unix_s,
        written.unix_s if change.fate in ENDED_FATES else None,
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
        written.unix_s if ended else None,
        ending.cpu_s if ending else None,
        ending.exit_status if ending else None,
        ending.signal if ending else 0,
        ending.cause.value if ending else "",
        change.requeued,
        int(change.job),
    )


def forget(before_unix_s: float, keep: int, limit: int) -> Work[int]:
    """Jobs that ended before then, and of older ones than the last `keep` those that have ended."""
    old = list(
        (
            yield Ask(
                "SELECT id, submission FROM jobs WHERE finished < ? ORDER BY finished LIMIT ?",
                (before_unix_s, limit),
            )
        )
    )
    if len(old) < limit:
        rows = yield Ask("SELECT value FROM counters WHERE name = 'next_job'")
        old += yield Ask(
            "SELECT id, submission FROM jobs WHERE id < ? AND finished >= ? ORDER BY id LIMIT ?",
            (whole(rows[0][0]) - keep, before_unix_s, limit - len(old)),
        )
    yield Many("DELETE FROM attempts WHERE job = ?", [row[:1] for row in old])
    yield Many("DELETE FROM jobs WHERE id = ?", [row[:1] for row in old])
    yield Many(
        "DELETE FROM submissions WHERE id = ? AND NOT EXISTS"
        " (SELECT 1 FROM jobs WHERE submission = submissions.id)",
        [(submission,) for submission in sorted({whole(row[1]) for row in old})],
    )
    return len(old)


# What asks


def accepted(sent: Submission) -> Work[Accepted | None]:
    """What came before with the same key."""
    if not sent.key:
        return None
    found = yield Ask(
        "SELECT id, first_job, jobs, command FROM submissions"
        ' WHERE "user" = ? AND idempotency_key = ?'
        " AND idempotency_key <> ''",
        (sent.user, sent.key),
    )
    if not found:
        return None
    submission, first, count = map(whole, found[0][:3])
    is_other = (found[0][3], count) != (sent.command, sent.count)
    return Accepted(submission, first, count, is_new=False, is_other=is_other)


def live(after: int = 0, limit: int | None = None) -> Work[list[JobRow]]:
    found = f"SELECT {JOB_COLUMNS} WHERE j.finished IS NULL AND j.id > ? ORDER BY j.id"
    rows = yield Ask(f"{found} LIMIT ?", (after, LARGEST if limit is None else limit))
    return jobs_of(rows)


def find(wanted: Wanted) -> Work[list[JobRow]]:
    clauses, values = [], list[object]()
    if wanted.ended_only:
        clauses.append("j.finished IS NOT NULL")
    elif not wanted.ended_too:
        clauses.append("j.finished IS NULL")
    if wanted.user and wanted.uid is not None:
        clauses.append('(s.uid = ? OR (s.uid IS NULL AND s."user" = ?))')
        values += [wanted.uid, wanted.user]
    elif wanted.user:
        clauses.append('s."user" = ?')
        values.append(wanted.user)
    found: list[JobRow] = []
    size, page = 0, PAGE if wanted.bytes_max else wanted.limit
    for clause, ends in within(wanted.ranges) if wanted.ranges else [("", [])]:
        where = " AND ".join([*clauses, *filter(None, (clause,)), "j.id <= ?"])
        newest_first = f"SELECT {JOB_COLUMNS} WHERE {where} ORDER BY j.id DESC LIMIT ?"
        last = LARGEST
        while len(found) < wanted.limit and has_room(wanted.bytes_max, size):
            count = min(page, wanted.limit - len(found))
            more = jobs_of((yield Ask(newest_first, (*values, *ends, last, count))))
            found += more
            size += sum(len(row.command) for row in more)
            if len(more) < count:
                break
            last = more[-1].id - 1
    return found[::-1]


def has_room(bytes_max: int, size: int) -> bool:
    """`bytes_max`: 0 = any number."""
    return not bytes_max or size < bytes_max


def within(ranges: Sequence[tuple[int, int]]) -> Iterator[tuple[str, list[int]]]:
    """That an id is in one of these, from the highest down: a condition and its values for each
    statement.

    Each range has a statement of its own, so that the store looks at no job but those that are
    meant. Of many alternatives in one it tries each with every job between the lowest and the
    highest: some thousand, which any user can ask for in a line, once held up all questions for
    minutes.
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
    return f"j.id IN ({', '.join('?' * len(ids))})"


def attempts(jobs: Sequence[JobId]) -> Work[list[AttemptRow]]:
    found: list[AttemptRow] = []
    for at in range(0, len(jobs), VALUES_MAX):
        some = sorted(map(int, jobs[at : at + VALUES_MAX]))
        marks = ", ".join("?" * len(some))
        rows = yield Ask(
            f"SELECT * FROM attempts WHERE job IN ({marks}) ORDER BY job, number",  # noqa: S608  # question marks
            some,
        )
        found += [AttemptRow(*row) for row in rows]  # type: ignore[arg-type]  # the schema says so
    return found


def spec(submission: int) -> Work[Stored]:
    rows = yield Ask(
        'SELECT spec, origin, "user", uid FROM submissions WHERE id = ?', (submission,)
    )
    if not rows:
        raise LedgerTrouble(f"submission {submission} is not in the ledger any more")
    return Stored(*rows[0])  # type: ignore[arg-type]  # the schema says so


def jobs_of(rows: Iterable[Row]) -> list[JobRow]:
    found = []
    for row in rows:
        values = list(row)
        values[7], values[9] = bool(row[7]), tuple(str(row[9]).split())
        found.append(JobRow(*values))  # type: ignore[arg-type]  # the schema says so
    return found


def whole(value: object) -> int:
    assert isinstance(value, int)
    return value
