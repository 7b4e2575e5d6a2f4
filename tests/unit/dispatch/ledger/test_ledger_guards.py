"""What ledger and leadership rest on: the disk, the fence, and answers that are not guessed."""

import asyncio
import os
import sqlite3
from functools import partial
from pathlib import Path

import asyncpg
import pytest

from lbd.dispatch.core.ledger_rows import LedgerTrouble
from lbd.dispatch.core.records import Begin
from lbd.dispatch.core.restore import queued_job
from lbd.dispatch.ledger import connection, schema
from lbd.dispatch.ledger import postgres as writing
from lbd.dispatch.ledger.patience import Seen
from lbd.dispatch.ledger.postgres_leadership import Leadership, migrate
from lbd.dispatch.ledger.sqlite import SqliteLedger, connect
from lbd.model import JobId, JobState
from lbd.process.boot_clock import clock_s
from tests.unit.dispatch.leaders import TERM_S, led
from tests.unit.dispatch.ledger.test_ledger import H1, changed, ledger, submission

__all__ = ("ledger",)  # the fixture

FULL = 2
NOWHERE = "postgresql://lbd@/none?host=/nonexistent"


@pytest.fixture
def database(postgres):
    return postgres.database()


def test_a_commit_in_sqlite_waits_for_the_disk(tmp_path: Path):
    """NORMAL syncs a write-ahead log only now and then: acknowledged jobs could be lost."""
    db = connect(tmp_path / "ledger.sqlite")
    assert db.execute("PRAGMA synchronous").fetchone() == (FULL,)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    db.close()


@pytest.mark.parametrize(
    ("statement", "of"), [("user_version", 1), ("journal_size_limit", 1), ("synchronous", 2)]
)
async def test_a_ledger_that_cannot_be_opened_keeps_no_file_open(
    statement, of, tmp_path: Path, monkeypatch
):
    """A dispatcher tries every two seconds for as long as the disk is full."""
    path = tmp_path / "ledger.sqlite"
    begun = 0

    class OnFullDisk(sqlite3.Connection):
        def execute(self, sql, *values):
            nonlocal begun
            begun += "auto_vacuum" in sql
            if statement in sql and begun % of == 0:
                problem = sqlite3.OperationalError("disk I/O error")
                problem.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
                raise problem
            return super().execute(sql, *values)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=OnFullDisk))
    kept = []
    for _ in range(5):
        with pytest.raises(LedgerTrouble) as trouble:
            SqliteLedger(path)
        kept.append(trouble)  # as do groups of exceptions, until garbage is collected
        assert trouble.value.passes
    files = [os.readlink(one) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    assert [file for file in files if str(path) in file] == []


async def test_hosts_that_a_user_excluded_stay_excluded_after_a_restart(ledger):
    await ledger.submit(submission(excluded=("h2", "h3")), 1.0)
    (row,) = await ledger.live()
    assert row.barred == ("h2", "h3")
    assert not queued_job(row).may_go_to("h2")


# Who leads


async def test_a_standby_does_not_take_over_from_a_leader_that_has_beaten_since(database):
    async with led(database) as (first, _):
        seen = await first._look()
        await first._heartbeat()
        standby = Leadership(database, "h2", TERM_S)
        await standby.first()
        assert not await standby._take(seen)
        assert not await standby._take(Seen(seen.fencing, "h9", seen.heartbeat + 1))
        assert await standby._take(await standby._look())
        await standby.end()
        await standby.close()


async def test_a_leader_of_the_past_does_not_change_the_tables(database, monkeypatch):
    async with led(database) as (first, _), led(database, "h2"):
        late = await connection.Connection(database, "late", TERM_S).get()
        steps = (*schema.STEPS, "CREATE TABLE too_late (id INTEGER);")
        monkeypatch.setattr(schema, "STEPS", steps)
        with pytest.raises(asyncpg.PostgresError, match="is over"):
            await migrate(late, first.fencing, TERM_S)
        found = await late.fetchval("SELECT to_regclass('lbd.too_late')")
        assert found is None
        await late.close()


async def test_a_former_leader_that_ends_does_not_end_the_leadership_of_another(database):
    async with led(database) as (first, _), led(database, "h2") as (second, _):
        await first.end()
        assert (await second._look()).leader == "h2"


class Slow(Leadership):
    """The database is slow to answer a heartbeat."""

    async def _heartbeat(self):
        self.asked_s = clock_s()
        await asyncio.sleep(0.3)
        return True


async def test_a_lease_counts_from_before_the_heartbeat_however_long_that_took():
    leading = Slow(NOWHERE, "h1", 2.0)
    leading.tenure.renewed(clock_s())
    beating = asyncio.ensure_future(leading.keep())
    before_s = leading.tenure.until_s
    async with asyncio.timeout(20):
        while leading.tenure.until_s == before_s:  # noqa: ASYNC110  # nobody says so
            await asyncio.sleep(0.01)
    assert leading.tenure.until_s <= leading.asked_s + 2.0
    beating.cancel()


class SlowToTake(Leadership):
    """There is no leader, and the database is slow to grant the leadership."""

    async def _look(self):
        return Seen(1, "", 0)

    async def _take(self, seen):
        self.asked_s = clock_s()
        await asyncio.sleep(0.3)
        return True


async def test_the_first_lease_counts_from_before_it_was_taken_however_long_that_took():
    leading = SlowToTake(NOWHERE, "h1", 2.0)
    async with asyncio.timeout(60):
        await leading._stand_by(lambda _: None)
    assert leading.tenure.until_s <= leading.asked_s + 2.0


async def test_a_leader_whose_time_is_over_leads_no_more_even_if_the_database_is_away():
    leading = Leadership(NOWHERE, "h1", 60.0)
    leading.tenure.renewed(clock_s())
    assert leading.leads()
    await leading.end()
    assert not leading.leads()


async def test_a_failed_commit_is_not_acknowledged(database, postgres, monkeypatch):
    """The connection is dropped while it commits; then the database takes it back."""
    monkeypatch.setattr(connection.Connection.__init__, "__defaults__", (0.4,))
    monkeypatch.setattr(writing, "REFUSE_S", 0.1)
    name = database.partition("@/")[2].partition("?")[0]
    async with led(database, term_s=30.0) as (_, ledger):
        failing = (
            "CREATE FUNCTION lbd.failing() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_sleep(1); RAISE EXCEPTION 'no'; END $$;"
            "CREATE CONSTRAINT TRIGGER failing AFTER INSERT ON lbd.submissions "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lbd.failing()"
        )
        assert postgres.sql(failing, name).returncode == 0
        async with asyncio.timeout(30):
            with pytest.raises(LedgerTrouble):
                await ledger.submit(submission(), 1.0)
        assert await ledger.live() == []


async def test_records_that_wait_for_the_database_are_written_in_order(ledger):
    await ledger.submit(submission(), 1.0)
    await asyncio.gather(
        ledger.record([Begin(JobId("1"), 1, H1, 1, None)], 2.0),
        ledger.record([changed("1", JobState.PENDING, attempt=1, host=None)], 3.0),
        ledger.record([Begin(JobId("1"), 2, H1, 1, None)], 4.0),
    )
    (row,) = await ledger.live()
    assert (row.attempt, row.host) == (2, "h1")
