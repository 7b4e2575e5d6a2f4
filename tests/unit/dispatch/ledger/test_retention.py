"""How long the ledger keeps ended jobs, and whose."""

import time
from dataclasses import replace

import pytest

from lbd.config.dispatch import DispatchConfig
from lbd.dispatch.core.ledger_room import Excess
from lbd.dispatch.core.ledger_rows import LedgerTrouble, Wanted
from lbd.dispatch.core.records import Fate
from lbd.dispatch.ledger import retention
from lbd.dispatch.ledger.retention import clean_up
from lbd.local.rate_limit import Rates
from lbd.model import JobState
from tests.unit.dispatch.ledger.test_ledger import changed, ledger, submission

__all__ = ["ledger"]

NOBODY = Excess("uid")  # has more than their share


async def excess_of(ledger, weight, keep, *, by_uid=False):
    found = await ledger.on_record(by_uid=by_uid)
    return await ledger.excess(found, weight, keep, by_uid=by_uid)


async def test_old_jobs_are_forgotten_and_their_ids_never_reused(ledger):
    for _ in range(3):
        await ledger.submit(submission(), 1.0)
    for name, at in (("2", 10.0), ("3", 20.0)):
        await ledger.record([changed(name, JobState.DONE, Fate.DONE, attempt=0)], at)
    assert await ledger.forget(15.0, NOBODY, 100) == 1
    assert [row.id for row in await ledger.find(Wanted(ended_too=True))] == [1, 3]
    assert await ledger.forget(99.0, NOBODY, 100) == 1
    assert (await ledger.submit(submission(), 30.0)).first == 4
    with pytest.raises(LedgerTrouble):
        await ledger.spec(2)


async def test_only_the_last_ended_jobs_are_kept(ledger):
    await ledger.submit(submission(first_index=0, count=10), 1.0)
    for name in ("1", "3", "9"):
        await ledger.record([changed(name, JobState.DONE, attempt=0)], 10.0)
    excess = await excess_of(ledger, "jobs", 5)
    assert await ledger.forget(0.0, excess, 1) == 1
    assert await ledger.forget(0.0, excess, 100) == 1
    assert await ledger.forget(0.0, excess, 100) == 0
    rows = await ledger.find(Wanted(ended_too=True))
    assert [row.id for row in rows] == [2, 4, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize("by_uid", [False, True])
async def test_who_has_most_on_record_loses_their_own_oldest_and_nobody_elses(ledger, by_uid):
    users = {False: ("ann", "eve", "bob"), True: ("same", "same", "same")}[by_uid]
    ann, eve, bob = (submission(user, uid=uid) for user, uid in zip(users, (1, 2, 3), strict=True))
    await ledger.submit(ann, 1.0)
    await ledger.submit(replace(eve, first_index=0, count=6), 1.0)
    await ledger.submit(replace(eve, first_index=0, count=20), 1.0)  # 8 to 27
    for _ in range(2):
        await ledger.submit(bob, 1.0)
    ended = [str(job) for job in range(1, 30) if job != 2]
    await ledger.record(
        [changed(job, JobState.CANCELLED, Fate.CANCELLED, attempt=0) for job in ended], 10.0
    )
    excess = await excess_of(ledger, "jobs", 10, by_uid=by_uid)
    assert [first for *_, first in excess.first_kept] == [21]
    assert await ledger.forget(0.0, excess, 100) == 18
    kept = await ledger.find(Wanted(ended_too=True))
    assert [row.id for row in kept] == [1, 2, *range(21, 30)]
    assert (await excess_of(ledger, "jobs", 29, by_uid=by_uid)).first_kept == ()


@pytest.mark.parametrize("by_uid", [False, True])
async def test_a_host_pushes_none_but_its_own_off_the_record_by_users_that_it_makes_up(
    ledger, by_uid
):
    """Four hundred users with ten cancelled jobs each were enough, within a minute."""
    await ledger.submit(submission(first_index=0, count=8), 1.0)
    for user in range(20):
        made_up = replace(submission(f"u{user}", uid=2000 + user), origin="h2")
        await ledger.submit(replace(made_up, first_index=0, count=2), 1.0)
    ended = map(str, range(1, 49))
    await ledger.record(
        [changed(job, JobState.CANCELLED, Fate.CANCELLED, attempt=0) for job in ended], 10.0
    )
    excess = await excess_of(ledger, "jobs", 20, by_uid=by_uid)
    assert {origin for _, origin, _ in excess.first_kept} == {"h2"}
    await ledger.forget(0.0, excess, 100)
    kept = [row.id for row in await ledger.find(Wanted(ended_too=True))]
    assert kept[:8] == [*range(1, 9)]
    assert len(kept) <= 20


@pytest.mark.parametrize("by_uid", [False, True])
async def test_the_user_with_the_most_bytes_on_record_loses_their_own_oldest(ledger, by_uid):
    small = replace(submission("ann", uid=1), spec=b"x" * 10)
    large = replace(small, user="eve", uid=2, spec=b"x" * 1000, count=2, first_index=1)
    for one in (small, large, large, large, small):
        await ledger.submit(one, 1.0)  # jobs 1, 2 to 3, 4 to 5, 6 to 7, 8
    ended = [str(job) for job in range(1, 9)]
    await ledger.record([changed(job, JobState.DONE, Fate.DONE, attempt=0) for job in ended], 10.0)
    found = await ledger.on_record(by_uid=by_uid)
    assert large.size_bytes > small.size_bytes + 1000
    assert sorted((one.user, one.origin, one.jobs, one.size_bytes) for one in found) == sorted([
        ("uid 1" if by_uid else "ann", "h1", 2, 2 * small.size_bytes),
        ("uid 2" if by_uid else "eve", "h1", 6, 3 * large.size_bytes),
    ])  # fmt: skip
    keep = 2 * small.size_bytes + 2 * large.size_bytes + 100
    excess = await excess_of(ledger, "bytes", keep, by_uid=by_uid)
    assert [first for *_, first in excess.first_kept] == [4]
    assert await ledger.forget(0.0, excess, 100) == 2
    kept = await ledger.find(Wanted(ended_too=True))
    assert [row.id for row in kept] == [1, *range(4, 9)]
    assert (await excess_of(ledger, "bytes", keep, by_uid=by_uid)).first_kept == ()


def test_everything_that_comes_with_a_submission_counts():
    """Indexes of other arrays that it waits for took megabytes, and counted for nothing."""
    plain = submission(first_index=1, count=10)
    indexes = tuple((number, number, 1) for number in range(0, 900, 3))
    for more in (
        {"after": "x" * 1000}, {"needs": "x" * 1000}, {"excluded": ("x" * 100,)},
        {"key": "x" * 1000}, {"indexes": indexes},
    ):  # fmt: skip
        assert replace(plain, **more).size_bytes >= plain.size_bytes + 1000
    assert replace(plain, count=1000).size_bytes >= plain.size_bytes + 990 * 100


async def test_what_is_dropped_for_lack_of_room_is_logged(ledger, caplog, monkeypatch):
    """Jobs were gone from the record, and nothing said why."""
    for _ in range(4):
        await ledger.submit(submission(), time.time())
    done = [changed(str(job), JobState.DONE, Fate.DONE, attempt=0) for job in (1, 2, 3)]
    await ledger.record(done, time.time())
    size_bytes = sum(one.size_bytes for one in await ledger.on_record(by_uid=False))
    monkeypatch.setattr(retention, "DROPPED_LINES", Rates(1 / 3600.0, 1.0))
    monkeypatch.setattr(ledger.room, "ended_bytes", lambda *_: size_bytes // 2)
    for kept in ([3, 4], [4]):
        await clean_up(ledger, DispatchConfig(), by_uid=False)
        assert [row.id for row in await ledger.find(Wanted(ended_too=True))] == kept
        monkeypatch.setattr(ledger.room, "ended_bytes", lambda *_: 0)
    (line,) = [one.getMessage() for one in caplog.records]
    assert line.startswith("dropped 2 ended jobs early: there is room for "), "once an hour"
