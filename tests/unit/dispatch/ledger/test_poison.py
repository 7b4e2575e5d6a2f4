"""A change that the store cannot hold harms no other, in SQLite and in PostgreSQL."""

import asyncio
import math

import pytest

from lbd.dispatch.core.ledger_rows import UNREADABLE, LedgerTrouble, Wanted
from lbd.dispatch.core.records import Begin, Cause, Ending, Fate
from lbd.model import JobId, JobState
from tests.unit.dispatch.leaders import led
from tests.unit.dispatch.ledger.test_ledger import H1, changed, ledger, submission

__all__ = ("ledger",)  # the fixture

POISON = (
    {"first_index": (1 << 63) - 2, "count": 3}, {"first_index": 1 << 70}, {"slots": 1 << 64},
    {"priority": -(1 << 64)}, {"uid": 1 << 63}, {"only": "\ud800"},
)  # fmt: skip


@pytest.mark.parametrize("poison", POISON, ids=str)
async def test_only_the_submission_at_fault_is_refused(ledger, poison):
    """It once took up to a thousand other submissions with it, each time it came."""
    sent = [submission(key=str(n)) for n in range(5)]
    sent.insert(2, submission(**poison))
    outcomes = await asyncio.gather(
        *(ledger.submit(one, 1.0) for one in sent), return_exceptions=True
    )
    (refused,) = [one for one in outcomes if isinstance(one, BaseException)]
    assert isinstance(refused, LedgerTrouble)
    assert refused is outcomes[2]
    assert "\n" not in str(refused)
    assert [row.id for row in await ledger.live()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "ending",
    [
        Ending(Cause.EXITED, 1 << 70, 0, 1.0, "failed"),
        Ending(Cause.EXITED, 1, 1 << 70, 1.0, "failed"),
        Ending(Cause.EXITED, 1, 0, 1.0, "\ud800"),
    ],
    ids=lambda ending: ascii(ending.reason) + str(ending.exit_status),
)
async def test_an_unwritable_record_is_written_without_details_and_blocks_no_other(ledger, ending):
    """Its job has ended; the reason and the details came from the host."""
    for _ in range(3):
        await ledger.submit(submission(), 1.0)
    await ledger.record([Begin(JobId(job), 1, H1, 1, None) for job in "123"], 2.0)
    good = Ending(Cause.EXITED, 0, 0, 1.5)
    async with asyncio.timeout(20):
        *_, accepted = await asyncio.gather(
            ledger.record([changed("1", JobState.DONE, Fate.DONE, good)], 3.0),
            ledger.record([changed("2", JobState.FAILED, Fate.FAILED, ending)], 3.0),
            ledger.record([changed("3", JobState.DONE, Fate.DONE, good)], 3.0),
            ledger.submit(submission(), 3.0),
        )
    assert accepted.first == 4
    rows = await ledger.find(Wanted(((1, 3),), ended_too=True))
    assert [row.state for row in rows] == ["done", "failed", "done"]
    assert [row.exit_status for row in rows] == [0, None, 0]
    assert ledger.trouble == ""


async def test_a_time_that_is_not_a_number_harms_no_other(ledger):
    """SQLite stores it as NULL."""
    await ledger.submit(submission(), 1.0)
    await ledger.record([Begin(JobId("1"), 1, H1, 1, None)], 2.0)
    ending = Ending(Cause.EXITED, 0, 0, math.nan)
    async with asyncio.timeout(20):
        await ledger.record([changed("1", JobState.DONE, Fate.DONE, ending)], 3.0)
    assert (await ledger.submit(submission(), 3.0)).first == 2


NAN, INF = "'NaN'", "'Infinity'"


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("jobs", "submitted", NAN), ("jobs", "suspended_s", NAN), ("jobs", "cpu_s", INF),
        ("jobs", "slots_held", str((1 << 63) - 1)), ("submissions", "slots", "-1"),
        ("submissions", "target", NAN), ("submissions", "not_before", INF),
        ("submissions", "work_s", NAN), ("submissions", "jobs", str(1 << 40)),
        ("submissions", "first_job", str((1 << 63) - 1)), ("attempts", "cutoff_s", NAN),
        ("attempts", "leased", NAN),
    ],
)  # fmt: skip
async def test_a_row_of_numbers_that_cannot_be_is_left_out_of_every_answer(
    postgres, table, column, value
):
    """As in SQLite (test_hostile_rows.py), which has no NaN."""
    database = postgres.database()
    async with led(database) as (_, ledger):
        for _ in range(2):
            await ledger.submit(submission(first_index=0, count=2), 1.0)
        await ledger.record([Begin(JobId(job), 1, H1, 1, None) for job in "1234"], 2.0)
        where = "job = 1" if table == "attempts" else "id = 1"
        sql = f"UPDATE {table} SET {column} = {value} WHERE {where}"  # above
        assert postgres.sql(sql, database.split("/")[3].split("?")[0]).returncode == 0
        left_out = {"jobs": {1}, "submissions": {1, 2}, "attempts": set()}[table]
        whole = Wanted(((1, 4),), ended_too=True)
        for rows in (await ledger.live(), await ledger.find(whole)):
            assert {row.id for row in rows} == {1, 2, 3, 4} - left_out
        lines = await ledger.lines(whole)
        assert {3} <= {row.first for row in lines} <= {1, 3}
        for tally in (await ledger.tallies(lines)).values():
            figures = tally.started, tally.finished, tally.cpu_s, tally.slots
            assert all(figure is None or math.isfinite(figure) for figure in figures)
            assert tally.slots <= 2
        attempts = await ledger.attempts([JobId("1"), JobId("2")])
        unreadable = [row.job for row in attempts if row.fate == UNREADABLE]
        assert unreadable == ([1] if table == "attempts" else [])
