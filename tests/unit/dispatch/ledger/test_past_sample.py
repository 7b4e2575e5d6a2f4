"""The sample of ended jobs that cutoffs come from."""

from collections import Counter
from random import Random

import pytest

from lbd.dispatch.core.records import Cause, Ending, Fate
from lbd.dispatch.ledger.past_sample import sample
from lbd.dispatch.ledger.work import Ask
from lbd.model import JobState
from tests.unit.dispatch.ledger.test_ledger import changed, ledger, submission

__all__ = ["ledger"]

DAY_S = 86400.0


async def ended(ledger, user, count, unix_s, uid=1000, end=None):
    """An array of `user`, of which the first `end` tasks have ended."""
    array = await ledger.submit(submission(user, uid=uid, first_index=1, count=count), unix_s)
    ids = range(array.first, array.first + (count if end is None else end))
    ending = Ending(Cause.EXITED, 0, cpu_s=1.0)
    await ledger.record(
        [changed(str(at), JobState.DONE, Fate.DONE, ending, attempt=0) for at in ids], unix_s + 1.0
    )
    return ids


def stood_for(found):
    parts = Counter()
    for row, weight in found:
        parts[row.user] += weight
    return parts


async def test_few_jobs_are_all_in_the_sample(ledger):
    for user in ("ann", "eve", "ann"):
        await ended(ledger, user, 3, 10.0)
    await ledger.submit(submission(), 10.0)
    found = await ledger.sample(0.0, 9, Random(1), by_uid=False)
    assert [(row.id, weight) for row, weight in found] == [(n, 1) for n in range(1, 10)]
    assert await ledger.sample(0.0, 9, Random(1), by_uid=True) == found


@pytest.mark.parametrize("by_uid", [False, True])
async def test_nobodys_jobs_push_out_those_of_others_and_each_stands_for_its_part(ledger, by_uid):
    bob = [*await ended(ledger, "bob", 5, 10.0, 1), *await ended(ledger, "bob", 1, 10.0, 1)]
    await ended(ledger, "ann", 10, 11.0, 2)
    await ended(ledger, "eve", 900, 12.0, 3)
    for _ in range(100):
        await ended(ledger, "eve", 1, 13.0, 3)
    found = await ledger.sample(0.0, 30, Random(1), by_uid=by_uid)
    counts = Counter(row.user for row, _ in found)
    assert [row.id for row, _ in found if row.user == "bob"] == bob
    assert (counts["ann"], counts["bob"], counts["eve"]) == (10, 6, pytest.approx(14, abs=1))
    parts = stood_for(found)
    assert (parts["ann"], parts["bob"], parts["eve"]) == (10, 6, pytest.approx(1000, abs=80))


async def test_who_is_alone_has_the_whole_sample(ledger):
    await ended(ledger, "ann", 1000, 10.0)
    found = await ledger.sample(0.0, 100, Random(1), by_uid=False)
    assert (len(found), stood_for(found)) == (100, {"ann": 1000})
    assert [row.id for row, _ in found] == sorted({row.id for row, _ in found})
    others = await ledger.sample(0.0, 100, Random(2), by_uid=False)
    assert {row.id for row, _ in others} != {row.id for row, _ in found}, "nobody can choose them"


async def test_what_waits_takes_no_place_in_the_sample(ledger):
    past = await ended(ledger, "ann", 10, 10.0)
    await ended(ledger, "ann", 1000, 11.0, end=0)
    some = await ended(ledger, "ann", 1000, 11.0, end=5)
    found = await ledger.sample(0.0, 15, Random(1), by_uid=False)
    assert [row.id for row, _ in found] == [*past, *some]


async def test_what_was_submitted_before_is_left_out(ledger):
    await ended(ledger, "ann", 1000, 10.0)
    lately = await ended(ledger, "ann", 20, 10.0 + DAY_S)
    found = await ledger.sample(10.0 + DAY_S, 20, Random(1), by_uid=False)
    assert [(row.id, weight) for row, weight in found] == [(n, 1) for n in lately]


async def test_nothing_on_record_is_an_empty_sample(ledger):
    assert await ledger.sample(0.0, 20, Random(1), by_uid=False) == []


@pytest.mark.parametrize("ledger", ["sqlite"], indirect=True)
async def test_no_submission_is_read_in_full(ledger):
    """A row has a command and an environment of up to some megabytes."""
    await ended(ledger, "ann", 20, 10.0)
    piece, rows, plans = sample(0.0, 10, Random(1), by_uid=True), None, []
    for answer in ([(0,)], [(20,)]):
        ask = piece.send(rows)
        rows = answer
        plans.append(await plan(ledger, ask))
    plans.append(await plan(ledger, piece.send(rows)))
    assert "jobs_by_end" in plans[0]
    for text in plans[1:]:
        assert "COVERING INDEX submissions_by_uid" in text
        assert "jobs_live" in text
        assert "SEARCH waiting" in text


async def plan(ledger, ask):
    def explained():
        rows = yield Ask(f"EXPLAIN QUERY PLAN {ask.sql}", ask.values)
        return " ".join(str(row[3]) for row in rows)

    return await ledger._read(explained)
