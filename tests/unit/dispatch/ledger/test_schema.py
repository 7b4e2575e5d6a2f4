"""A ledger's file: one of an older release is brought up to date, any other is left alone."""

import contextlib
import sqlite3

import pytest

from lbd.dispatch.core.ledger_rows import Wanted
from lbd.dispatch.ledger.schema import STEPS, VERSION
from lbd.dispatch.ledger.sqlite import SqliteLedger
from lbd.errors import ConfigError
from tests.unit.dispatch.ledger.test_ledger import opened, submission


async def test_a_ledger_of_a_newer_version_is_left_alone(tmp_path):
    path = tmp_path / "ledger.sqlite"
    async with opened(path):
        pass
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(ConfigError, match="of a newer lbd"):
        SqliteLedger(path)


async def test_a_file_that_is_no_ledger_is_reported(tmp_path):
    path = tmp_path / "ledger.sqlite"
    path.write_text("This is no database, and long enough to be one. " * 100)
    with pytest.raises(ConfigError, match="not a database"):
        SqliteLedger(path)
    with pytest.raises(ConfigError, match=r"ledger.sqlite/x/y: Not a directory$"):
        SqliteLedger(path / "x" / "y")


OLD_JOB = """
    INSERT INTO submissions ("user", origin, name, command, spec, slots, may_restart, only_host,
        idempotency_key, first_job, jobs) VALUES ('old', 'h1', '', '', '', 3, 1, '', '', 1, 1);
    INSERT INTO jobs (id, submission, state, tier, attempt, crashes, barred, reason, host,
        submitted, signal, cause) VALUES (1, 1, 'pending', 1, 0, 0, '', '', '', 5.0, 0, '');
    UPDATE counters SET value = 2 WHERE name = 'next_job';
"""
OLD_SQLITE_JOB = OLD_JOB.replace("'h1', '', '', ''", "'h1', '', X'', X''")


async def check_brought_up(ledger, version):
    """Checks that it has its old job, if it had tables for one, and room for another."""
    await ledger.submit(submission(), 1.0)
    rows = await ledger.live()
    if version:
        old = rows.pop(0)
        assert (old.user, old.slots, old.submitted, old.priority) == ("old", 3, 5.0, 0)
        assert (old.slots_held, old.requeued) == (None, None)
    assert [row.user for row in rows] == ["ann"]


@pytest.mark.parametrize("version", range(len(STEPS)))
async def test_an_older_ledger_is_brought_up_to_date(tmp_path, version):
    path = tmp_path / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as db:
        for number, step in enumerate(STEPS[:version], 1):
            db.executescript(f"{step} PRAGMA user_version = {number};")
        if version:
            db.executescript(OLD_SQLITE_JOB)
    async with opened(path) as ledger:
        await check_brought_up(ledger, version)


OLD_ARRAY = """
    INSERT INTO submissions (id, "user", origin, name, command, spec, slots, may_restart, only_host,
                             idempotency_key, first_job, jobs)
        VALUES (2, 'old', 'h1', '', X'', X'', 1, 1, '', '', 10, 4);
    INSERT INTO jobs (id, submission, array_index, state, tier, attempt, crashes, barred, reason,
                      host, submitted, signal, cause)
        SELECT 11 + n, 2, 8 + n, 'pending', 1, 0, 0, '', '', '', 5.0, 0, ''
        FROM (SELECT 0 AS n UNION SELECT 1 UNION SELECT 2);
"""


async def test_an_array_of_an_older_ledger_keeps_its_indexes(tmp_path):
    """Its first job has been forgotten since."""
    path = tmp_path / "ledger.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as db:
        for number, step in enumerate(STEPS[:8], 1):
            db.executescript(f"{step} PRAGMA user_version = {number};")
        db.executescript(OLD_SQLITE_JOB + OLD_ARRAY)
    async with opened(path) as ledger:
        (line,) = [row for row in await ledger.lines(Wanted()) if row.first == 10]
        assert (line.indexes, line.count, line.shown) == ("7-10", 4, "10_10")
        placed = await ledger.arrays([1, 12])
        assert (placed[1].indexes, placed[12].first, placed[12].indexes) == ("", 10, "7-10")
