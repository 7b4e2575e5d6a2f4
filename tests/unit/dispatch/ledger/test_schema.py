"""A ledger's file: one of an older release is brought up to date, any other is left alone."""

import contextlib
import sqlite3

import pytest

from lbd.dispatch.ledger import schema
from lbd.dispatch.ledger.schema import VERSION
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


async def test_a_ledger_of_an_older_release_gets_the_steps_that_it_lacks(tmp_path, monkeypatch):
    path = tmp_path / "ledger.sqlite"
    async with opened(path) as ledger:
        await ledger.submit(submission(), 1.0)
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, "CREATE TABLE later (id INTEGER);"))
    monkeypatch.setattr(schema, "VERSION", VERSION + 1)
    async with opened(path) as ledger:
        assert [row.user for row in await ledger.live()] == ["ann"]
    with contextlib.closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (VERSION + 1,)
        assert db.execute("SELECT * FROM later").fetchall() == []
