"""A copy of the ledger is complete while others write, and starts nothing by itself."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from lbd.dispatch.core.ledger_rows import Wanted
from lbd.dispatch.core.records import Begin, Fate
from lbd.dispatch.ledger.snapshot import NUMBERS_SKIPPED, Restored, begin_again, copy_ledger
from lbd.errors import ConfigError
from lbd.model import JobId, JobState
from tests.book import blocks
from tests.unit.dispatch.leaders import led
from tests.unit.dispatch.ledger.test_ledger import DONE, H1, changed, opened, submission

PAGE = Path(__file__).resolve().parents[4] / "docs/how-to/back-up.md"


async def begin(ledger, job):
    change = changed(job, JobState.RUNNING, Fate.RUNNING)
    await ledger.record([Begin(JobId(job), 1, H1, 1, None), change], 10.0)


async def fill(ledger):
    """One has ended, two run, two wait: two of these must not run twice, one is held."""
    for may_restart in (True, True, False, False):
        await ledger.submit(submission(may_restart=may_restart), 1.0)
    await ledger.record([Begin(JobId("1"), 1, H1, 1, None), changed("1", *DONE)], 9.0)
    for job in ("2", "3"):
        await begin(ledger, job)
    await ledger.submit(submission(), 9.5)
    await ledger.record([changed("5", JobState.PENDING, reason="held by ann")], 10.0)


async def check_begun_again(ledger):
    rows = {row.id: row for row in await ledger.find(Wanted(((1, 99),), ended_too=True))}
    assert [rows[job].state for job in (1, 2, 3, 4)] == ["done", "pending", "lost", "pending"]
    assert [rows[job].reason for job in (2, 3, 4, 5)] == [
        "held: restored", "restored", "held: restored", "held by ann",
    ]  # fmt: skip
    attempts = await ledger.attempts([JobId(str(job)) for job in (1, 2, 3)])
    assert [(one.job, one.fate) for one in attempts] == [(1, "done"), (2, "lost"), (3, "lost")]
    assert (await ledger.submit(submission(), 21.0)).first == 6 + NUMBERS_SKIPPED


async def test_unended_jobs_are_held_and_those_that_must_not_run_twice_are_lost(tmp_path):
    copy = tmp_path / "copy.sqlite"
    async with opened(tmp_path / "ledger.sqlite") as ledger:
        await fill(ledger)
        copy_ledger(tmp_path / "ledger.sqlite", copy)
        await ledger.submit(submission(), 11.0)  # the original continues
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy.sqlite"]

    assert begin_again(copy, "restored", 20.0) == Restored(held=3, lost=1)
    async with opened(copy) as ledger:
        await check_begun_again(ledger)


async def test_the_page_on_backing_up_does_the_same_with_a_postgresql_dump(postgres):
    (sql,) = (block.text for block in blocks(PAGE) if block.language == "sql")
    database = postgres.database()
    async with led(database) as (_, ledger):
        await fill(ledger)
    database_name = database.partition("@/")[2].partition("?")[0]
    done = postgres.sql(sql, database_name)
    assert done.returncode == 0, done.stderr
    async with led(database) as (_, ledger):
        await check_begun_again(ledger)


def test_a_file_that_is_no_ledger_is_refused(tmp_path):
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"not a database, but long enough to be looked at as if it were one" * 20)
    with pytest.raises(ConfigError, match="not a database"):
        begin_again(path, "restored", 1.0)
    path.unlink()
    sqlite3.connect(path).execute("PRAGMA user_version = 99999").connection.close()
    with pytest.raises(ConfigError, match="of a newer lbd"):
        begin_again(path, "restored", 1.0)
    path.unlink()
    with pytest.raises(ConfigError, match="a damaged ledger"):
        begin_again(path, "restored", 1.0)


async def test_a_copy_brings_no_program_along(tmp_path):
    """It would run as root during the restore, or in the dispatcher from then on."""
    path = tmp_path / "ledger.sqlite"
    async with opened(path) as ledger:
        await ledger.submit(submission(), 1.0)
    with contextlib.closing(sqlite3.connect(path)) as rewritten:
        rewritten.execute("CREATE TRIGGER t AFTER UPDATE ON jobs BEGIN DELETE FROM jobs; END")
    with pytest.raises(ConfigError, match="it has triggers or views"):
        begin_again(path, "restored", 1.0)
