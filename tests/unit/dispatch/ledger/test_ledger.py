"""What every ledger must do, in SQLite and in PostgreSQL.

One file because the fixture that runs each test on both stores is one.
"""

import asyncio
import contextlib
import sqlite3
from dataclasses import replace

import pytest

from lbd.dispatch.core.discipline import Foretold, Target
from lbd.dispatch.core.ledger_room import Excess
from lbd.dispatch.core.ledger_rows import (
    Accepted,
    LedgerTrouble,
    Stored,
    Submission,
    Wanted,
)
from lbd.dispatch.core.records import Begin, Cause, Changed, Ending, Fate
from lbd.dispatch.core.restore import queued_job
from lbd.dispatch.ledger import retention, sqlite, work
from lbd.dispatch.ledger.sqlite import SqliteLedger
from lbd.model import HostId, JobId, JobState
from tests.unit.dispatch.leaders import led
from tests.unit.until import until

H1 = HostId("h1")


@contextlib.asynccontextmanager
async def opened(path):
    ledger = SqliteLedger(path)
    try:
        yield ledger
    finally:
        await ledger.close()


@pytest.fixture(params=["sqlite", "postgres"])
async def ledger(tmp_path, request):
    if request.param == "sqlite":
        async with opened(tmp_path / "ledger.sqlite") as ledger:
            yield ledger
    else:
        async with led(request.getfixturevalue("postgres").database()) as (_, ledger):
            yield ledger


def submission(user="ann", **more):
    values = {"uid": 1000, "origin": "h1", "name": "name", "command": b"echo\0x", "spec": b"spec"}
    return Submission(user, **values | more)


def changed(job, state, fate=None, ending=None, **more):
    values = {
        "tier": 1,
        "attempt": 1,
        "host": H1,
        "crashes": 0,
        "reason": "",
        "barred": frozenset(),
    }
    values |= more
    return Changed(JobId(job), state, fate=fate, ending=ending, **values)


async def test_ids_rise_and_an_array_has_its_own(ledger):
    first = await ledger.submit(submission(), 1.0)
    array = await ledger.submit(submission(first_index=7, count=3), 2.0)
    after = await ledger.submit(submission(), 3.0)
    assert (first.first, array.first, array.count, after.first) == (1, 2, 3, 5)
    rows = await ledger.live()
    assert [row.id for row in rows] == [1, 2, 3, 4, 5]
    assert [row.array_index for row in rows] == [None, 7, 8, 9, None]
    assert [row.id for row in await ledger.live(2, 2)] == [3, 4]
    assert await ledger.spec(array.submission) == Stored(b"spec", "h1", "ann", 1000)


async def test_the_target_of_an_array_is_kept(ledger):
    await ledger.submit(submission(first_index=1, count=2, target=1e9 + 0.25), 1.0)
    await ledger.submit(submission(first_index=1, count=1, deadline=2e9), 1.0)
    await ledger.submit(submission(), 1.0)
    rows = await ledger.live()
    assert [row.target for row in rows] == [1e9 + 0.25] * 2 + [None] * 2
    assert [row.deadline for row in rows] == [None, None, 2e9, None]
    assert [queued_job(row).target for row in rows[1:]] == [
        Target(1e9 + 0.25), Target(2e9, is_deadline=True), None,
    ]  # fmt: skip


async def test_slots_are_recorded_for_job_and_attempt(ledger):
    await ledger.submit(submission(slots=2, slots_most=8, priority=-3), 1.0)
    (row,) = await ledger.live()
    assert (row.slots, row.slots_most, row.slots_held, row.priority) == (2, 8, None, -3)
    await ledger.record([Begin(JobId("1"), 1, H1, 1, None, 5)], 2.0)
    (row,) = await ledger.live()
    (attempt,) = await ledger.attempts([JobId("1")])
    assert (row.slots, row.slots_held, attempt.slots) == (2, 5, 5)


async def test_what_is_known_of_a_malleable_job_is_kept_with_its_prediction(ledger):
    known = {"slots_most": 8, "speedup": (6.0, 0.5), "work_s": 90.0}
    known["foretold"] = Foretold(10.0, 12.0, 5.0, 20.0)
    await ledger.submit(submission(first_index=1, count=2, **known), 1.0)
    await ledger.submit(submission(), 1.0)
    *array, plain = await ledger.live()
    shown = [(row.foretold_s, row.foretold_low_s, row.foretold_high_s) for row in array]
    assert [row.predicted_s for row in array] == [10.0, None]  # that of its first task
    assert shown == [(12.0, 5.0, 20.0), (None, None, None)]
    assert [row.id for row in await ledger.find(Wanted(foretold_only=True))] == [array[0].id]
    assert [(row.speedup, row.work_s, row.is_malleable) for row in array] == [
        ((6.0, 0.5), 90.0, True)
    ] * 2
    assert (plain.predicted_s, plain.speedup, plain.work_s) == (None, None, None)


async def test_suspended_time_is_not_run_time(ledger):
    """Also if the suspension ends with the job; and each attempt is counted by itself."""
    await ledger.submit(submission(), 1.0)
    states = {
        10.0: changed("1", JobState.RUNNING, Fate.RUNNING),
        20.0: changed("1", JobState.SUSPENDED, Fate.SUSPENDED),
        # reported again by a returning host
        25.0: changed("1", JobState.SUSPENDED, Fate.SUSPENDED),
        50.0: changed("1", JobState.RUNNING, Fate.RUNNING),
        60.0: changed("1", JobState.SUSPENDED, Fate.SUSPENDED),
    }
    for attempt in (1, 2):
        begin = Begin(JobId("1"), attempt, H1, 1, None)
        for at_s, change in ({5.0: begin} | states).items():
            later = at_s + 100.0 * (attempt - 1)
            change = replace(change, attempt=attempt)
            await ledger.record([change], later)
        (row,) = await ledger.live()
        assert (row.suspended - row.started, row.ran_by(1e9), row.run_s) == (50.0, 20.0, None)
        end = changed("1", JobState.PENDING, Fate.EVICTED, attempt=1)
        if attempt == 2:
            end = changed("1", JobState.DONE, Fate.DONE, Ending(Cause.EXITED, 0), attempt=2)
        await ledger.record([end], 70.0 + 100.0 * (attempt - 1))
        if attempt == 1:
            (row,) = await ledger.live()
            assert (row.suspended, row.ran_by(1e9)) == (None, None)
    (row,) = await ledger.find(Wanted(ended_only=True))
    assert (row.finished - row.started, row.suspended_s, row.run_s) == (60.0, 40.0, 20.0)


async def test_a_gang_and_a_time_limit_are_kept(ledger):
    await ledger.submit(submission(gang=3, count=3, first_index=1, limit_s=7.5), 1.0)
    assert [(row.gang, row.limit_s) for row in await ledger.live()] == [(3, 7.5)] * 3


async def test_the_same_key_of_a_user_is_the_same_submission(ledger):
    once = await ledger.submit(submission(key="k"), 1.0)
    again = await ledger.submit(submission(key="k"), 2.0)
    other = await ledger.submit(submission("bob", key="k"), 3.0)
    assert (once.is_new, again.is_new, other.is_new) == (True, False, True)
    assert (again.first, other.first) == (once.first, once.first + 1)
    assert [one.is_other for one in (once, again, other)] == [False, False, False]


@pytest.mark.parametrize("more", [{"command": b"echo\0y"}, {"count": 2, "first_index": 0}])
async def test_a_key_that_is_used_for_something_else_is_reported(ledger, more):
    once = await ledger.submit(submission(key="k"), 1.0)
    other = await ledger.submit(replace(submission(key="k"), **more), 2.0)
    assert (other.first, other.count, other.is_new, other.is_other) == (once.first, 1, False, True)


async def test_a_job_and_its_attempts_from_start_to_end(ledger):
    await ledger.submit(submission(), 1.0)
    await ledger.record([Begin(JobId("1"), 1, H1, 2, 5.0)], 2.0)
    (row,) = await ledger.live()
    assert (row.state, row.attempt, row.tier, row.host, row.started) == (
        "pending",
        1,
        2,
        "h1",
        None,
    )
    await ledger.record([changed("1", JobState.RUNNING, Fate.RUNNING, tier=2)], 3.0)
    lost = Ending(Cause.LOST, reason="gone")
    await ledger.record([changed("1", JobState.PENDING, Fate.LOST, lost, crashes=1)], 4.0)
    (row,) = await ledger.live()
    assert (row.state, row.crashes, row.host, row.started) == ("pending", 1, "", None)
    await ledger.record(
        [
            Begin(JobId("1"), 2, H1, 1, None),
            changed("1", JobState.RUNNING, Fate.RUNNING, attempt=2),
            changed("1", JobState.DONE, Fate.DONE, Ending(Cause.EXITED, 0, 0, 1.5), attempt=2),
        ],
        5.0,
    )
    assert await ledger.live() == []
    (row,) = await ledger.find(Wanted(((1, 1),), ended_too=True))
    assert (row.state, row.exit_status, row.cpu_s, row.finished) == ("done", 0, 1.5, 5.0)
    one, two = await ledger.attempts([JobId("1")])
    assert (one.fate, one.reason, one.cutoff_s, one.leased, one.started) == (
        "lost", "gone", 5.0, 2.0, 3.0,
    )  # fmt: skip
    assert (two.number, two.fate, two.exit_status) == (2, "done", 0)


RUNNING = (JobState.RUNNING, Fate.RUNNING)
DONE = (JobState.DONE, Fate.DONE, Ending(Cause.EXITED, 0, 0, 1.5))
STORY = [
    *(Begin(JobId(job), 1, H1, 1, None) for job in "123"),
    changed("1", *RUNNING),
    changed("2", *RUNNING),
    changed("1", *DONE, host=None),
    Begin(JobId("4"), 1, H1, 1, None),
    changed("2", JobState.PENDING, Fate.LOST, Ending(Cause.LOST, reason="gone"), host=None),
    Begin(JobId("2"), 2, H1, 1, None),
    changed("3", *RUNNING),
    changed("3", JobState.SUSPENDED, Fate.SUSPENDED),
    changed("2", *RUNNING, attempt=2),
    changed("3", *DONE, host=None),
    changed("4", *RUNNING),
]


async def test_a_group_of_writes_equals_the_same_writes_one_by_one(ledger):
    """Twice, for jobs 1 to 4 and 5 to 8: equal except for the names."""
    for _ in range(8):
        await ledger.submit(submission(), 1.0)
    for change in STORY:
        await ledger.record([change], 2.0)
    await ledger.record([replace(one, job=JobId(str(int(one.job) + 4))) for one in STORY], 2.0)
    rows = await ledger.find(Wanted(ended_too=True))
    unnamed = [replace(row, id=0, submission=0, first=0) for row in rows]
    assert unnamed[:4] == unnamed[4:]
    assert [row.state for row in rows[:4]] == ["done", "running", "done", "running"]
    assert [row.started for row in rows[:4]] == [2.0] * 4
    attempts = [await ledger.attempts([JobId(str(job))]) for job in range(1, 9)]
    told = [[replace(one, job=0) for one in own] for own in attempts]
    assert told[:4] == told[4:]
    assert [one.fate for own in told[:4] for one in own] == [
        "done", "lost", "running", "done", "running",
    ]  # fmt: skip


async def test_the_time_of_a_requeue_is_kept_until_the_next(ledger):
    await ledger.submit(submission(), 1.0)
    (row,) = await ledger.live()
    assert row.requeued is None
    again = [changed("1", JobState.PENDING, requeued=50.0), Begin(JobId("1"), 2, H1, 1, None)]
    for change in (*again, changed("1", *DONE, attempt=2, requeued=50.0)):
        await ledger.record([change], 60.0)
        (row,) = await ledger.find(Wanted(ended_too=True))
        assert (row.submitted, row.requeued) == (1.0, 50.0)


async def test_a_submission_accepted_under_a_key_is_found_by_it(ledger):
    for sent in (submission(), submission(key="k", count=3), submission("bob", key="k")):
        await ledger.submit(sent, 1.0)
    assert await ledger.accepted(submission()) is None
    assert await ledger.accepted(submission(key="other")) is None
    assert await ledger.accepted(submission(key="k", count=3)) == Accepted(2, 2, 3, is_new=False)
    bobs = await ledger.accepted(submission("bob", key="k", count=2))
    assert bobs == Accepted(3, 5, 1, is_new=False, is_other=True)


async def test_questions_are_filtered(ledger):
    for user in ("ann", "bob", "ann"):
        await ledger.submit(submission(user), 1.0)
    await ledger.record([changed("3", JobState.CANCELLED, attempt=0, host=None)], 2.0)

    async def ids(*ranges, **more):
        return [row.id for row in await ledger.find(Wanted(ranges, **more))]

    assert await ids() == [1, 2]
    assert await ids(ended_too=True, user="ann") == [1, 3]
    assert await ids((2, 9), ended_too=True) == [2, 3]
    assert await ids((1, 1), (3, 3), ended_too=True) == [1, 3]
    assert await ids((3, 9), (1, 1), (7, 8), ended_too=True) == [1, 3]
    assert await ids((3, 3), (8, 8)) == []
    spread = [(job, job + 1) for job in range(2, 6000, 3)]
    assert await ids(*spread, ended_too=True) == [2, 3]
    assert await ids(ended_only=True) == [3]
    assert await ids(ended_too=True, limit=1) == [3]


async def test_of_jobs_that_take_too_much_room_the_newest_are_found(ledger):
    await ledger.submit(submission(count=3 * work.PAGE), 1.0)  # of six bytes each
    page = work.PAGE
    for bytes_max, found in (
        (1, 1),
        (6 * page, page),
        (6 * page + 1, page + 1),
        (1 << 30, 3 * page),
    ):
        rows = await ledger.find(Wanted(ended_too=True, bytes_max=bytes_max))
        ids = [row.id for row in rows]
        assert ids == list(range(3 * page - found + 1, 3 * page + 1))


async def test_acknowledged_jobs_outlive_the_ledger(tmp_path):
    path = tmp_path / "ledger.sqlite"
    async with opened(path) as ledger:
        await asyncio.gather(*(ledger.submit(submission(), 1.0) for _ in range(50)))
    async with opened(path) as ledger:
        assert len(await ledger.live()) == 50
        assert (await ledger.submit(submission(), 2.0)).first == 51


async def test_nobody_else_can_read_it(tmp_path):
    async with opened(tmp_path / "ledger.sqlite") as ledger:
        await ledger.submit(submission(), 1.0)
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {f"ledger.sqlite{tail}": 0o600 for tail in ("", "-wal", "-shm")}


async def test_a_record_may_be_written_twice(ledger):
    """As happens when it is unknown whether the first attempt succeeded."""
    await ledger.submit(submission(), 1.0)
    changes = [
        Begin(JobId("1"), 1, H1, 1, None),
        changed("1", JobState.DONE, Fate.DONE, Ending(Cause.EXITED, 0)),
    ]
    for _ in range(2):
        await ledger.record(changes, 2.0)
    assert len(await ledger.attempts([JobId("1")])) == 1
    assert await ledger.live() == []


def all_day():
    """Returns the questions that are asked again and again."""
    return [
        work.live(),
        work.find(Wanted(((5, 9),), ended_too=True)),
        work.find(Wanted(tuple((job, job) for job in range(5, 90, 2)), ended_too=True)),
        work.find(Wanted(((5, 9), (12, 12), (20, 29)), ended_too=True)),
        work.find(Wanted(limit=10)),
        work.find(Wanted(ended_only=True, limit=10)),
        work.insert(submission(key="k"), 1.0),
        retention.forget(1.0, Excess("uid", ((7, "h1", 5),)), 10),
        work.attempts([JobId("1")]),
        work.spec(1),
    ]


async def test_ended_jobs_are_never_scanned(tmp_path):
    """The frequent questions use an index, however many jobs have ended."""
    path = tmp_path / "ledger.sqlite"
    async with opened(path):
        pass
    with contextlib.closing(sqlite3.connect(path)) as db:
        for piece in all_day():
            step = next(piece)
            plan = db.execute(f"EXPLAIN QUERY PLAN {step.sql}", step.values).fetchall()
            lines = [text for *_, text in plan]
            # Without ids to look for, it ends after a few.
            newest_first = "SCAN j" in lines and "LIMIT" in step.sql and len(step.values) == 1
            scans = [line for line in lines if line.startswith("SCAN") and "INDEX" not in line]
            assert newest_first or not scans, (step.sql, lines)


@pytest.mark.parametrize("ledger", ["sqlite"], indirect=True)
async def test_a_full_disk_refuses_submissions_and_keeps_records(ledger, monkeypatch):
    monkeypatch.setattr(sqlite, "RETRY_S", 0.01)
    await ledger.submit(submission(), 1.0)
    real, full = work.apply_all, [True]

    def apply_all(*arguments):
        if full:
            raise sqlite3.OperationalError("database or disk is full")
        return real(*arguments)

    def insert(*_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(work, "apply_all", apply_all)
    with monkeypatch.context() as patch:
        patch.setattr(work, "insert", insert)
        recording = asyncio.ensure_future(
            ledger.record([changed("1", JobState.DONE, Fate.DONE)], 2.0)
        )
        with pytest.raises(LedgerTrouble, match="disk is full"):
            await ledger.submit(submission(), 2.0)
    assert not recording.done()
    full.clear()
    await recording
    assert await ledger.live() == []


async def test_a_ledger_that_refused_a_job_is_in_trouble_until_it_can_be_written(
    tmp_path, monkeypatch
):
    """Nothing waits to be written, so it is tried."""
    ledger, full = SqliteLedger(tmp_path / "ledger.sqlite"), [True]

    def write_group(self, db, group):
        if full:
            raise sqlite3.OperationalError("disk I/O error")
        return writes(self, db, group)

    writes = SqliteLedger._write_group
    monkeypatch.setattr(SqliteLedger, "_write_group", write_group)
    with pytest.raises(LedgerTrouble, match="disk I/O error"):
        await ledger.submit(submission(), 2.0)
    assert "disk I/O error" in ledger.trouble
    full.clear()
    await until(lambda: not ledger.trouble)
    await ledger.close()
