"""Queries about arrays as a whole: one row for each in a list, and the totals of its tasks.

The tasks of an array have consecutive numbers, so every query about one array is a walk along the
primary key, and a list steps over the tasks it does not show.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lbd.dispatch.core.discipline import Foretold
from lbd.dispatch.core.ledger_rows import BadTask, JobRow, SubmissionRange, Tally, Wanted
from lbd.dispatch.core.row_faults import NUMBER_OR_0, SIGNED, SUM_S, UNIX_S, Range, is_within
from lbd.dispatch.ledger.work import (
    COMMAND_BYTES,
    FIRST_JOB,
    LARGEST,
    VALUES_MAX,
    Ask,
    Parts,
    Row,
    Submissions,
    Work,
    are_numbers,
    conditions,
    find,
    has_room,
    learn,
    marks,
    parts,
    whole,
)
from lbd.errors import LbdError
from lbd.text.array_phrases import ALL_SHOWN, NOT_STARTED
from lbd.text.job_limits import SLOTS_MAX
from lbd.text.job_phrases import HELD, HELD_FOR_A_WHILE

PAGE = 500  # jobs read together before those of an array are skipped
LOOKED_INTO = 100  # arrays in one answer that get details
TALLIED = 50_000  # tasks counted together
SHOWN = 8  # runs of waiting tasks
INDEXES_CHARS_MAX = 8 << 20  # read for one question
REASONS, REASONS_READ = 4, 1000  # of cancelled tasks that are compared
REASON_CHARS = 500  # of why a task could not be started
IS_HELD = (  # as `job_phrases.is_held`
    f"state = 'pending' AND SUBSTR(reason, 1, {len(HELD)}) = '{HELD}'"
    f" AND SUBSTR(reason, 1, {len(HELD_FOR_A_WHILE)}) <> '{HELD_FOR_A_WHILE}'"
)
Ends = tuple[int, int]  # job numbers, both included


def lines(wanted: Wanted) -> Work[list[JobRow]]:
    """As `find`, but returns only one task of each array."""
    tables, clauses, values = conditions(wanted)
    ids: list[int] = []
    known: Submissions = {}
    size, seen = 0, set[object]()
    parts_of_it = Parts(wanted)
    while (part := (yield from parts_of_it.following())) is not None:
        if len(ids) >= wanted.limit or not has_room(wanted.bytes_max, size):
            break
        clause, ends = part
        where = " AND ".join([*clauses, *filter(None, (clause,)), "j.id <= ?"])
        newest_first = (
            f"SELECT j.id, j.submission, j.array_index FROM jobs j {tables} WHERE {where}"  # noqa: S608  # as in `find`
            " ORDER BY j.id DESC LIMIT ?"
        )
        last = LARGEST
        while len(ids) < wanted.limit and has_room(wanted.bytes_max, size):
            rows = yield Ask(newest_first, (*values, *ends, last, PAGE))
            yield from learn(known, rows)
            full = len(rows) == PAGE
            for row in rows:
                number = whole(row[0])
                if number > last or (submission := known.get(row[1])) is None:
                    continue
                is_task = row[2] is not None
                last = min(number, whole(submission[FIRST_JOB]) if is_task else number) - 1
                if is_task and row[1] in seen:
                    continue
                if len(ids) < wanted.limit and has_room(wanted.bytes_max, size):
                    ids.append(number)
                    seen.add(row[1])
                    size += whole(submission[COMMAND_BYTES])
            if not full:
                break
    found: list[JobRow] = []
    for some in parts(sorted(ids)):
        ranges = tuple((number, number) for number in some)
        found += yield from find(
            Wanted(ranges, ended_too=True, limit=len(ranges), commands=wanted.commands)
        )
    return found


def tallies(arrays: Sequence[JobRow]) -> Work[dict[int, Tally]]:
    """Returns the tallies by array id; each array is given by one row. Without details if there are
    very many: anybody may submit them by the thousand, and each takes further queries for
    details."""
    found: dict[int, Tally] = {}
    for some in counted_together({row.submission: row.count for row in arrays}):
        rows = yield Ask(
            "SELECT submission, state, COUNT(*), MIN(started), MAX(finished), SUM(cpu_s),"  # noqa: S608  # question marks
            " CAST(SUM(CASE WHEN finished IS NULL AND state <> 'pending'"
            f" AND slots_held BETWEEN 0 AND {SLOTS_MAX} THEN slots_held ELSE 0 END) AS BIGINT),"
            f" SUM(CASE WHEN {IS_HELD} THEN 1 ELSE 0 END),"
            " MAX(predicted_s), MAX(foretold_s), MAX(foretold_low_s), MAX(foretold_high_s),"
            " MAX(max_rss_bytes)"
            f" FROM jobs WHERE submission IN ({marks(some)}) GROUP BY submission, state",
            some,
        )
        by_submission: dict[int, list[Row]] = {}
        for row in rows:
            by_submission.setdefault(whole(row[0]), []).append(row[1:])
        for number, own in by_submission.items():
            found[number] = tally_of(own)
    known = {row.first: found.get(row.submission, tally_of(())) for row in arrays}
    if len(known) <= LOOKED_INTO:
        for first, count in sorted({(row.first, row.count) for row in arrays}):
            known[first] = yield from looked_into(known[first], first, count)
    return known


def counted_together(tasks: dict[int, int]) -> Iterator[Sequence[int]]:
    """Yields the submissions for each statement, in groups that let other queries in between.
    `tasks`: the number of tasks of each."""
    some, count = list[int](), 0
    for submission, own in sorted(tasks.items()):
        if some and (count + own > TALLIED or len(some) == VALUES_MAX):
            yield some
            some, count = [], 0
        some.append(submission)
        count += own
    if some:
        yield some


def tally_of(rows: Sequence[Row]) -> Tally:
    """`rows`: by state the count, the times, the use, and the predicted wait of the first task, the
    only one that has one."""
    foretold = (most([row[column] for row in rows]) for column in (7, 8, 9, 10))
    return Tally(
        {str(row[0]): whole(row[1]) for row in rows},
        least([row[2] for row in rows]),
        most([row[3] for row in rows]),
        total([row[4] for row in rows]),
        sum(whole(row[5]) for row in rows),
        sum(whole(row[6]) for row in rows),
        foretold=Foretold(*foretold),
        max_rss_bytes=int(max(within_range([row[11] for row in rows], NUMBER_OR_0), default=0)),
    )


def looked_into(tally: Tally, first: int, count: int) -> Work[Tally]:
    """Adds the first waiting tasks, the first held and failed ones, why the first suspended one is
    suspended, and why tasks were cancelled."""
    ends = first, first + count - 1
    bad, suspended, cancelled = list[Row](), list[Row](), list[Row]()
    waiting, held = list[Ends](), list[Ends]()
    if tally.states.get("pending"):
        waiting = yield from runs_of("state = 'pending'", ends)
    if tally.held_count:
        held = yield from runs_of(IS_HELD, ends)
    if tally.states.get("suspended"):
        suspended += yield Ask(
            "SELECT reason FROM jobs WHERE id BETWEEN ? AND ? AND state = 'suspended'"
            " ORDER BY id LIMIT 1",
            ends,
        )
    if tally.state == "cancelled":
        cancelled += yield Ask(
            "SELECT DISTINCT reason FROM (SELECT reason FROM jobs WHERE id BETWEEN ? AND ?"
            " AND state = 'cancelled' ORDER BY id LIMIT ?) AS of_some LIMIT ?",
            (*ends, REASONS_READ, REASONS + 1),
        )
    if tally.states.get("failed") or tally.states.get("lost"):
        bad += yield Ask(
            "SELECT array_index, state, exit_status, signal, cause, CASE WHEN exit_status"  # noqa: S608  # constants
            f" IN {NOT_STARTED} THEN substr(reason, 1, {REASON_CHARS}) ELSE '' END FROM jobs"
            " WHERE id BETWEEN ? AND ? AND state IN ('failed', 'lost')"
            " ORDER BY id LIMIT ?",
            (*ends, ALL_SHOWN),
        )
    return replace(
        tally,
        waiting=waiting,
        held=held,
        bad=[task for row in bad if (task := bad_task(row)) is not None],
        suspended_for="".join(str(row[0]) for row in suspended),
        cancelled_for=common_reason([str(row[0]) for row in cancelled]),
    )


def common_reason(reasons: Sequence[str]) -> str:
    """Returns the one reason, or by whom all were cancelled; "" if they differ."""
    if len(reasons) < 2:
        return "".join(reasons)
    who = {reason.rpartition(" by ")[2] if " by " in reason else "" for reason in reasons}
    return f"cancelled by {who.pop()}" if len(who) == 1 and all(who) else ""


def runs_of(condition: str, ends: Ends) -> Work[list[Ends]]:
    """Returns the first runs of consecutive tasks of an array for which the condition holds."""
    rows = yield Ask(
        "SELECT MIN(id), MAX(id) FROM (SELECT id, id - ROW_NUMBER() OVER (ORDER BY id) AS run"  # noqa: S608  # a constant
        f" FROM jobs WHERE id BETWEEN ? AND ? AND {condition}) AS chosen"
        " GROUP BY run ORDER BY 1 LIMIT ?",
        (*ends, SHOWN + 1),
    )
    return [(whole(low), whole(high)) for low, high in rows]


def bad_task(row: Row) -> BadTask | None:
    """Returns None if the row is invalid."""
    match tuple(row):
        case [int(index), str(state), int() | None as status, int(signal), str(cause), str(why)]:
            if all(is_within(number, SIGNED) for number in (status or 0, signal)):
                return BadTask(index, state, status, signal, cause, why)
    return None


def is_of(number: object, _: object, first: object, count: object) -> bool:
    """Whether a submission of `count` jobs from `first` has the job with this number."""
    return are_numbers(first, count) and whole(number) < whole(first) + whole(count)


def arrays(numbers: Sequence[int]) -> Work[dict[int, SubmissionRange]]:
    """Returns, by number, the submissions that are on record. Raises LbdError if their lists of
    indexes are too long."""
    found: dict[int, SubmissionRange] = {}
    lists, chars = dict[int, str](), 0
    for some in parts(sorted(set(numbers))):
        values = ", ".join(["(CAST(? AS BIGINT))"] * len(some))
        sql = (
            "SELECT n.column1, s.id, s.first_job, s.jobs, length(s.indexes)"  # noqa: S608  # question marks
            f" FROM (VALUES {values}) AS n JOIN submissions s ON s.id = (SELECT id FROM submissions"
            " WHERE first_job <= n.column1 ORDER BY first_job DESC LIMIT 1)"
        )
        rows = yield Ask(sql, some)
        rows = [one for one in rows if is_of(*one[:4])]
        fresh = {whole(row[1]): whole(row[4]) for row in rows if row[1] not in lists}
        chars += sum(fresh.values())
        if chars > INDEXES_CHARS_MAX:
            raise LbdError("these arrays have too many ranges of indexes; name fewer at a time")
        lists |= dict.fromkeys(fresh, "")
        for those in parts([one for one, size in fresh.items() if size]):
            texts = yield Ask(
                f"SELECT id, indexes FROM submissions WHERE id IN ({marks(those)})",  # noqa: S608
                those,
            )
            lists |= {whole(one): str(text) for one, text in texts}
        for number, submission, first, count, _ in rows:
            text = lists[whole(submission)]
            found[whole(number)] = SubmissionRange(whole(first), whole(count), text)
    return found


def least(values: Sequence[object]) -> float | None:
    return min(within_range(values, UNIX_S), default=None)


def most(values: Sequence[object]) -> float | None:
    return max(within_range(values, UNIX_S), default=None)


def total(values: Sequence[object]) -> float | None:
    known = within_range(values, SUM_S)
    return sum(known) if known else None


def within_range(values: Sequence[object], allowed: Range) -> list[float]:
    """Drops values that no valid row can have."""
    numbers = [value for value in values if isinstance(value, int | float)]
    return [float(number) for number in numbers if is_within(number, allowed)]
