"""Finds the jobs that have not ended, and those that ended lately, whatever else is on record."""

from collections.abc import Sequence
from dataclasses import replace

from lbd.dispatch.core.ledger_rows import JobRow, Wanted
from lbd.dispatch.ledger import work
from lbd.dispatch.ledger.work import Ask, Work, conditions, whole
from lbd.text.ranges import ranges_in


def find(wanted: Wanted) -> Work[list[JobRow]]:
    """As `work.find`, but returns first the newest of the jobs that ended since then, and then all
    that have not ended: if an answer has no room for both, the first ones are what it lacks.

    A job that ends in between is found by both questions.
    """
    live = yield from work.find(replace(wanted, ended_since=0.0))
    numbers = {row.id for row in live}
    room = wanted.limit - len(live)
    ids = (yield from ended_since(wanted, room)) if room > 0 else ()
    ended: list[JobRow] = []
    if ids:
        ranges = tuple(ranges_in(ids))
        ended = yield from work.find(
            replace(wanted, ranges=ranges, ended_since=0.0, ended_only=True, limit=room)
        )
    return [*(row for row in ended if row.id not in numbers), *live]


def ended_since(wanted: Wanted, most: int) -> Work[Sequence[int]]:
    """Returns the numbers of the newest jobs that ended since then, read by when they ended: walked
    newest first, a record of millions would be read for a few of them."""
    tables, clauses, values = conditions(replace(wanted, ended_since=0.0, ended_only=True))
    where = " AND ".join([*clauses, "j.finished >= ?"])
    rows = yield Ask(
        f"SELECT j.id FROM jobs j {tables} WHERE {where} ORDER BY j.id + 0 DESC LIMIT ?",  # noqa: S608  # question marks
        (*values, wanted.ended_since, most),
    )
    return [whole(number) for (number,) in rows]
