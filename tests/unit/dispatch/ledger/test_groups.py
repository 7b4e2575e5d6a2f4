"""What one commit of the ledger takes together."""

import asyncio
from dataclasses import replace
from unittest.mock import ANY

import pytest

from lbd.dispatch.core.records import Begin, Changed, Fate, StopAsked, Updated
from lbd.dispatch.ledger import sqlite, work
from lbd.dispatch.ledger.connection import ROWS_AT_ONCE, rows_of
from lbd.dispatch.ledger.store import ROWS_MAX, Request, next_group
from lbd.model import JobId, JobState
from tests.unit.dispatch.leaders import led
from tests.unit.dispatch.ledger.test_ledger import H1, ledger, submission  # noqa: F401  # a fixture

JOB = JobId("1")
STOPPED_OR_NOT = (JobState.SUSPENDED, Fate.SUSPENDED), (JobState.RUNNING, Fate.RUNNING)


async def test_submissions_that_come_together_are_added_together(tmp_path):
    db = sqlite.connect(tmp_path / "ledger.sqlite")
    sqlite.migrate(db, tmp_path / "ledger.sqlite")
    done = []
    db.set_trace_callback(lambda text: done.append(text.split()[:3]))
    group = [submission(), submission(key="k", first_index=0, count=3), submission()]
    again = [submission(key="k", first_index=0, count=3), submission()]
    found = sqlite.carry_out(db, work.insert_all([(one, 1.0) for one in group + again]))
    first, array, third, same, last = found
    assert [one.first for one in found] == [1, 2, 5, 2, 6]
    assert (same.submission, same.is_new, array.is_new) == (array.submission, False, True)
    assert done.count(["SELECT", "value", "FROM"]) == done.count(["UPDATE", "counters", "SET"]) == 1
    rows = sqlite.carry_out(db, work.live())
    assert [(row.id, row.submission, row.array_index) for row in rows] == [
        (1, first.submission, None), *((2 + n, array.submission, n) for n in range(3)),
        (5, third.submission, None), (6, last.submission, None),
    ]  # fmt: skip
    assert sqlite.carry_out(db, work.insert(submission(), 1.0)).first == 7
    db.close()


async def test_a_group_of_submissions_and_changes_gives_each_its_own_result(ledger):  # noqa: F811
    waits = [
        ledger.submit(submission(), 1.0), ledger.submit(submission(key="k"), 1.0),
        ledger.record([Begin(JobId("1"), 1, H1, 1, None)], 2.0), ledger.submit(submission(), 3.0),
        ledger.submit(submission(key="k"), 3.0),
    ]  # fmt: skip
    found = await asyncio.gather(*waits)
    assert [one and (one.first, one.is_new) for one in found] == [
        (1, True), (2, True), None, (3, True), (2, False),
    ]  # fmt: skip


def array(count):
    return Request(None, make=list, arrived=(submission(first_index=0, count=count), 1.0))


def record(count=1):
    return Request(None, make=None, changes=[None] * count)


def test_nobody_waits_for_more_than_one_large_array():
    """Seven arrays of 100,000 tasks in one group, and nobody else could submit or end a job."""
    large, small, change = [array(100_000) for _ in range(3)], array(1), record()
    assert next_group(large) == (large[:1], large[1:])
    found, rest = next_group([*large, small, change])
    assert (found, rest) == ([small, change], large)
    found, rest = next_group([*rest, small])
    assert (found, rest) == ([large[0]], [*large[1:], small])
    found, rest = next_group([*rest, change])
    assert (found, rest) == ([small, change], large[1:])
    assert next_group([*rest, small])[0] == [large[1]]
    assert next_group([record() for _ in range(9)], rows_max=4)[0] == 4 * [ANY]


def test_records_stay_in_their_order():
    one, many, last, sent = record(), record(ROWS_MAX), record(), array(1)
    assert next_group([one, many, last, sent]) == ([one, many], [last, sent])


async def test_no_statement_takes_more_rows_than_the_database_writes_in_time():
    taken = []

    class Database:
        async def executemany(self, sql, rows):
            taken.append(len(rows))

        async def copy_records_to_table(self, table, *, records, columns):
            taken.append((table, len(records), columns))

    rows = [(n,) for n in range(2 * ROWS_AT_ONCE + 1)]
    assert await rows_of(Database(), work.Many("UPDATE", iter(rows))) == ()
    assert taken == [ROWS_AT_ONCE, ROWS_AT_ONCE, 1]
    taken.clear()
    await rows_of(Database(), work.insert_rows("t", ["a"], iter(rows[: ROWS_AT_ONCE + 1])))
    assert taken == [("t", ROWS_AT_ONCE, ["a"]), 1]


def still(n):
    """A job that is stopped, and goes on, each second."""
    state, fate = STOPPED_OR_NOT[n % 2]
    return Changed(JOB, state, 1, 1, H1, fate, None, 0, "", frozenset()), 100.0 + n


def test_what_is_asked_again_and_again_is_one_row():
    updates = [Updated(1, n, "a", 0.0, b"spec" if n == 3 else None) for n in range(9)]
    stops = [StopAsked(JOB, 1, f"reason {n}") for n in range(9)]
    asked = list(work.apply_all([(one, 1.0) for one in (*updates, *stops)]))
    assert [list(one.rows) for one in asked] == [
        [(8, "a", 0.0, b"spec", 0.0, 1)], [("reason 8", 1, 1)],
    ]  # fmt: skip


@pytest.mark.parametrize("count", [1, 15, 16, 17, 5000])
def test_of_stops_without_end_the_first_and_the_last_are_written(tmp_path, count):
    db = sqlite.connect(tmp_path / "ledger.sqlite")
    sqlite.migrate(db, tmp_path / "ledger.sqlite")
    sqlite.carry_out(db, work.insert(submission(), 1.0))
    sqlite.carry_out(db, work.apply_all([(Begin(JOB, 1, H1, 1, None), 2.0)]))
    changes = [still(n) for n in range(count)]
    asked = list(work.apply_all(changes))
    assert sum(len(one.rows) for one in asked) <= 2 * 2 * work.STOPS_KEPT  # and of its attempt
    sqlite.carry_out(db, work.apply_all(changes))
    (row,) = sqlite.carry_out(db, work.live())
    assert row.state == changes[-1][0].state.value
    if count < 2 * work.STOPS_KEPT:
        assert row.suspended_s == count // 2
    db.close()


async def test_a_host_that_stops_a_job_without_end_keeps_no_others_from_the_database(postgres):
    """In PostgreSQL each change of a row goes through all that the transaction made before."""
    async with led(postgres.database()) as (_, its_ledger):
        await its_ledger.submit(submission(), 1.0)
        await its_ledger.record([Begin(JOB, 1, H1, 1, None)], 2.0)
        flood = [its_ledger.record([still(n)[0] for n in range(256)], 3.0) for _ in range(200)]
        accepted = await its_ledger.submit(submission(), 4.0)
        await asyncio.gather(*flood)
        assert (accepted.first, its_ledger.counts.failures) == (2, 0)


async def test_a_large_array_is_written_as_a_small_one(ledger):  # noqa: F811
    """In PostgreSQL, most of it is copied, and the rest inserted."""
    count = ROWS_AT_ONCE + 2
    accepted = await ledger.submit(submission(first_index=5, count=count), 7.0)
    rows = await ledger.live()
    assert [row.id for row in rows] == list(range(accepted.first, accepted.first + count))
    assert [row.array_index for row in rows] == list(range(5, 5 + count))
    first, *_, last = rows
    assert replace(last, id=first.id, array_index=5) == first
    assert (first.state, first.tier, first.submitted) == ("pending", 1, 7.0)
