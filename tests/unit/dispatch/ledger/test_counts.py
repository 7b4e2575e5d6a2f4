"""What a ledger counts of its writes, and how many commits they take."""

import asyncio

import pytest

from lbd.dispatch.core.ledger_rows import LedgerTrouble, Wanted
from lbd.dispatch.core.records import Begin, Cause, Ending, Fate
from lbd.dispatch.ledger import sqlite
from lbd.dispatch.ledger.counts import LedgerCounts
from lbd.metrics.core.table import TABLE
from lbd.model import JobId, JobState
from tests.unit.dispatch.ledger.test_ledger import H1, changed, opened, submission

DONE = changed("1", JobState.DONE, Fate.DONE, Ending(Cause.EXITED, 0))


def non_zero(rows):
    return [row for row in rows if row[-1]]


@pytest.fixture
async def ledger(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


async def test_a_record_is_counted_once(ledger):
    await ledger.submit(submission(), 1.0)
    begin = Begin(JobId("1"), 1, H1, 1, None)
    await ledger.record([begin, changed("1", JobState.RUNNING, Fate.RUNNING)], 2.0)
    await ledger.record([DONE], 3.0)
    found = ledger.counts.answer()
    assert non_zero(found["jobs_ended"]) == [["done", "queued", 1]]
    assert (found["attempts_begun"], non_zero(found["attempts_ended"])) == (1, [["done", 1]])
    assert found["ledger_commits"] == 3
    assert found["ledger_commit_failures"] == 0
    assert found["ledger_commit_seconds"]["sum"] > 0


async def test_a_lost_attempt_ends_no_job(ledger):
    await ledger.submit(submission(), 1.0)
    await ledger.record([changed("1", JobState.PENDING, Fate.LOST)], 2.0)
    found = ledger.counts.answer()
    assert non_zero(found["jobs_ended"]) == []
    assert non_zero(found["attempts_ended"]) == [["lost", 1]]


@pytest.mark.parametrize(("metric", "labels"), [("jobs_ended", 2), ("attempts_ended", 1)])
def test_what_has_not_happened_yet_is_counted_as_0(metric, labels):
    """A series that begins at 1 has no increase, so the first lost job raised no alert."""
    (found,) = [one for one in TABLE if one.name == metric]
    rows = LedgerCounts().answer()[metric]
    assert {(row[0], row[-1]) for row in rows} == {(name, 0) for name in found.labels[0].values}
    assert {len(row) for row in rows} == {labels + 1}


async def test_a_failed_commit_is_counted_as_failed(ledger, monkeypatch):
    def full(*_):
        raise sqlite.sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(sqlite.SqliteLedger, "_write_group", full)
        with pytest.raises(LedgerTrouble):
            await ledger.submit(submission(), 1.0)
    found = ledger.counts.answer()
    assert (found["ledger_commits"], found["ledger_commit_failures"]) == (0, 1)


async def test_the_start_of_a_job_is_written_with_its_end_if_that_comes_shortly(
    ledger, monkeypatch
):
    """Each commit waits for the disk, and a short job needed three of them."""
    monkeypatch.setattr(sqlite, "LINGER_S", 60.0)
    await ledger.submit(submission(), 1.0)
    await ledger.record([Begin(JobId("1"), 1, H1, 1, None)], 2.0)
    running = changed("1", JobState.RUNNING, Fate.RUNNING)
    begun = ledger.record([running], 3.0)
    await asyncio.sleep(0.0)
    for _ in range(5):  # the writer would have written it by then
        await ledger.live()
    assert not begun.done()
    await ledger.record([DONE], 4.0)
    await begun
    assert ledger.counts.answer()["ledger_commits"] == 3
    (row,) = await ledger.find(Wanted(ended_too=True))
    (attempt,) = await ledger.attempts([JobId("1")])
    assert (row.state, attempt.fate) == ("done", "done")


async def test_the_start_of_a_job_is_written_alone_if_nothing_follows(ledger, monkeypatch):
    monkeypatch.setattr(sqlite, "LINGER_S", 0.001)
    await ledger.submit(submission(), 1.0)
    await ledger.record([Begin(JobId("1"), 1, H1, 1, None)], 2.0)
    await ledger.record([changed("1", JobState.RUNNING, Fate.RUNNING)], 3.0)
    (row,) = await ledger.live()
    assert row.state == "running"
