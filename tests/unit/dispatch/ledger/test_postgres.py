"""Who leads with PostgreSQL, and what happens to the ledger while the database fails."""

import asyncio
import ssl
import time

import asyncpg
import pytest

from lbd.dispatch.core.ledger_rows import Deposed, LedgerTrouble, Wanted
from lbd.dispatch.core.records import Begin
from lbd.dispatch.ledger import connection, schema
from lbd.dispatch.ledger import postgres as writing
from lbd.dispatch.ledger.patience import Patience, Seen, Tenure
from lbd.dispatch.ledger.postgres_leadership import Leadership
from lbd.dispatch.ledger.schema import VERSION
from lbd.errors import ConfigError, Unavailable
from lbd.model import HostId, JobId
from tests.unit.dispatch.leaders import TERM_S, led
from tests.unit.dispatch.ledger.test_ledger import all_day, submission

H1 = HostId("h1")


@pytest.fixture
def database(postgres):
    return postgres.database()


@pytest.mark.parametrize(
    ("leader", "looks", "expected"),
    [
        ("h1", [(0.0, 1), (10.0, 1)], [False, False]),
        ("h1", [(0.0, 1), (10.6, 1)], [False, True]),
        ("h1", [(0.0, 1), (10.6, 2), (21.0, 2), (21.3, 2)], [False, False, False, True]),
        ("h2", [(0.0, 1)], [True]),  # what we were before our restart
        ("", [(0.0, 1)], [True]),
    ],
)
def test_a_standby_waits_for_a_heartbeat_longer_than_a_lease(leader, looks, expected):
    patience = Patience("h2", 10.0)
    assert [
        patience.over(Seen(7, leader, heartbeat), at_s) for at_s, heartbeat in looks
    ] == expected


def test_a_standby_waits_for_the_longer_of_both_terms():
    """The setting was lowered, and has not reached the leader, which is cut off from all but its
    hosts."""
    patience = Patience("h2", 1.0)
    looks = [patience.over(Seen(7, "h1", 1, 10.0), at_s) for at_s in (0.0, 1.2, 10.4, 10.6)]
    assert looks == [False, False, False, True]


async def test_a_session_that_the_server_ends_while_its_answer_is_on_its_way_is_begun_anew(
    database, monkeypatch
):
    """The network between them was slow for a moment, so the server saw a leader that hung in a
    transaction. It ended the dispatcher, and with it the lead."""
    execute, begun = asyncpg.Connection.execute, []

    async def delayed(self, query, *values, **options):
        if query == "BEGIN" and not begun:
            begun.append(query)
            # What is read next is the answer and, with it, that the session is over.
            asyncio.get_running_loop().call_soon(time.sleep, connection.IDLE_MIN_S + 0.3)
        return await execute(self, query, *values, **options)

    async with led(database) as (_, ledger):
        await ledger._writing.get()
        monkeypatch.setattr(asyncpg.Connection, "execute", delayed)
        async with asyncio.timeout(5.0):
            accepted = await ledger.submit(submission(), 1.0)
        assert begun
        assert [row.id for row in await ledger.live()] == [accepted.first]
        assert not ledger.over.done()


async def test_the_term_of_a_leader_is_on_record(database):
    async with led(database, term_s=60.0) as (first, _):
        assert (await first._look()).term_s == 60.0
        standby = Leadership(database, "h2", 0.1)
        await standby.first()
        standing_by = asyncio.ensure_future(standby.lead(lambda _: None))
        done, _ = await asyncio.wait({standing_by}, timeout=1.0)
        assert not done
        assert first.leads()
        await first.end()  # as it gives up the lead, nobody waits
        await standing_by
        assert (await standby._look()).term_s == 0.1
        await standby.end()
        await standby.close()


def test_a_leader_counts_its_lease_from_before_its_request():
    tenure = Tenure(10.0, 0.0)
    tenure.renewed(5.0)
    assert (tenure.valid(14.9), tenure.valid(15.0)) == (True, False)


async def test_writes_of_a_deposed_leader_are_refused_by_the_database(database):
    async with led(database) as (first, old):
        await old.submit(submission(), 1.0)
        async with led(database, "h2") as (second, new):  # the first one sends no heartbeats
            assert second.fencing > first.fencing
            assert not first.leads()
            recording = asyncio.ensure_future(old.record([Begin(JobId("1"), 1, H1, 1, None)], 2.0))
            with pytest.raises(Deposed):
                await old.submit(submission(), 2.0)
            with pytest.raises(Deposed):
                async with asyncio.timeout(60):
                    await first.keep()
            with pytest.raises(Deposed):
                await old.over
            assert len(await new.live()) == 1
            assert await new.attempts([JobId("1")]) == []
            assert (await new.submit(submission(), 3.0)).first == 2
            assert not recording.done()
            recording.cancel()


async def test_a_leader_with_heartbeats_is_left_alone_and_one_that_ends_is_not_waited_for(database):
    standby = Leadership(database, "h2", TERM_S)
    told = []
    async with led(database) as (first, _):
        beating = asyncio.ensure_future(first.keep())
        standing_by = asyncio.ensure_future(standby.lead(told.append))
        done, _ = await asyncio.wait({standing_by}, timeout=2.5 * TERM_S)
        assert not done
        assert told == ["h1"]
        assert first.leads()
        beating.cancel()
    await standing_by
    assert standby.leads()
    await standby.end()
    await standby.close()


async def test_a_leader_that_hangs_in_a_transaction_does_not_keep_the_lead(database):
    async with led(database) as (first, _):
        hanging = connection.Connection(database, "hanging", TERM_S)
        await hanging.first()
        inside = await hanging.get()
        await inside.execute("BEGIN")
        await inside.fetchval("SELECT fence($1)", first.fencing)
        async with led(database, "h2") as (second, _):
            assert second.leads()
        hanging.drop()


async def test_while_the_database_is_away_records_wait_and_submissions_are_refused(
    postgres, monkeypatch
):
    monkeypatch.setattr(writing, "REFUSE_S", 0.3)
    async with led(postgres.database()) as (_, ledger):
        await ledger.submit(submission(), 1.0)
        postgres.stop()
        recording = asyncio.ensure_future(ledger.record([Begin(JobId("1"), 1, H1, 1, None)], 2.0))
        with pytest.raises(LedgerTrouble, match=r"postgresql://lbd@/ledger\d+\?host=/"):
            await ledger.submit(submission(), 2.0)
        with pytest.raises(LedgerTrouble):
            await ledger.find(Wanted())
        assert not recording.done()
        postgres.start()
        await asyncio.wait_for(recording, 20.0)
        assert [row.attempt for row in await ledger.live()] == [1]


async def test_a_database_that_hangs_delays_nobody_for_long(postgres, monkeypatch):
    monkeypatch.setattr(writing, "REFUSE_S", 0.3)
    monkeypatch.setattr(connection, "CONNECT_S", 0.5)
    monkeypatch.setattr(connection.Connection.__init__, "__defaults__", (0.5,))
    async with led(postgres.database(), term_s=30.0) as (_, ledger):
        await ledger.submit(submission(), 1.0)
        postgres.pause()
        try:
            asking = [asyncio.ensure_future(ledger.submit(submission(), 2.0)) for _ in range(3)]
            for outcome in await asyncio.gather(*asking, return_exceptions=True):
                assert isinstance(outcome, LedgerTrouble)
                assert "\n" not in str(outcome)
        finally:
            postgres.resume()
        assert len(await ledger.live()) == 1


async def test_ended_jobs_are_never_scanned(database):
    """As with SQLite; but PostgreSQL's planner would rather scan tables this small."""
    async with led(database):
        asking = connection.Connection(database, "plans", TERM_S)
        await asking.first()
        asked = await asking.get()
        await asked.execute("SET enable_seqscan = off")
        for piece in all_day():
            step = next(piece)
            plan = await asked.fetch(f"EXPLAIN {connection.numbered(step.sql)}", *step.values)
            assert not [line for (line,) in plan if "Seq Scan" in line], (step.sql, plan)
        await asking.close()


async def test_a_commit_waits_for_the_disk_whatever_the_settings_of_the_database(
    database, postgres
):
    postgres.sql("ALTER ROLE lbd SET synchronous_commit = off", "postgres")
    made = connection.Connection(database, "commits", TERM_S)
    await made.first()
    assert await (await made.get()).fetchval("SHOW synchronous_commit") == "on"
    await made.close()


async def test_the_outcome_of_an_interrupted_commit_is_queried(database, postgres, monkeypatch):
    """The outcome is what the database says, not what the connection suggested."""
    monkeypatch.setattr(connection.Connection.__init__, "__defaults__", (0.4,))
    name = database.partition("@/")[2].partition("?")[0]
    async with led(database, term_s=30.0) as (_, ledger):
        slow = (
            "CREATE FUNCTION lbd.slow() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$;"
            "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON lbd.submissions "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lbd.slow()"
        )
        assert postgres.sql(slow, name).returncode == 0
        accepted = await ledger.submit(submission(), 1.0)
        assert [row.id for row in await ledger.live()] == [accepted.first]


async def test_a_database_of_an_older_release_gets_the_steps_that_it_lacks(
    database, postgres, monkeypatch
):
    async with led(database) as (_, ledger):
        await ledger.submit(submission(), 1.0)
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, "CREATE TABLE later (id INTEGER);"))
    monkeypatch.setattr(schema, "VERSION", VERSION + 1)
    async with led(database) as (_, ledger):
        assert [row.user for row in await ledger.live()] == ["ann"]
    name = database.partition("@/")[2].partition("?")[0]
    assert postgres.sql("SELECT * FROM lbd.later", name).returncode == 0


async def test_an_untrusted_certificate_is_reported(monkeypatch):
    async def connect(*_, **__):
        raise ssl.SSLCertVerificationError(1, "not valid for '10.0.0.3'")

    monkeypatch.setattr(connection.asyncpg, "connect", connect)
    found = connection.Connection("postgresql://lbd@10.0.0.3/lbd", "test", 30.0)
    with pytest.raises(ConfigError, match=r"lbd@10\.0\.0\.3/lbd: [^(]*not valid for"):
        await found.first()


async def test_a_database_of_a_newer_version_is_left_alone(database, postgres):
    async with led(database):
        pass
    name = database.partition("@/")[2].partition("?")[0]
    postgres.sql(f"UPDATE lbd.leadership SET version = {VERSION + 1}", name)
    with pytest.raises(ConfigError, match="of a newer lbd"):
        async with led(database):
            pass


@pytest.mark.parametrize(
    ("url", "kind", "says"),
    [
        ("postgresql://lbd:secret@/nowhere?host={root}", ConfigError, '"nowhere" does not exist'),
        ("postgresql://lbd:secret@/x?host=/nonexistent", Unavailable, "does not answer"),
        ("postgresql://lbd:secret@127.0.0.1:1/x", Unavailable, "does not answer"),
        ("postgresql://nobody:secret@/postgres?host={root}", ConfigError, '"nobody"'),
        ("postgresql://lbd:secret@h:port/x", ConfigError, "not a URL like postgresql://user@"),
    ],
)
async def test_an_unsuitable_store_is_reported_in_one_line(postgres, url, kind, says):
    share = Leadership(url.format(root=postgres.root), "h1", TERM_S)
    with pytest.raises(kind, match=says) as raised:
        await share.first()
    text = str(raised.value)
    assert "\n" not in text
    assert "secret" not in text
