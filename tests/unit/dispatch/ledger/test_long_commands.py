"""Commands of megabytes: each is in memory once, and not too many of them at a time."""

import asyncio

from lbd.dispatch.core.ledger_rows import Wanted
from lbd.dispatch.ledger import array_work, work
from tests.unit.dispatch.ledger.test_ledger import ledger, submission  # noqa: F401  # a fixture


async def test_the_command_of_an_array_is_there_once(ledger):  # noqa: F811
    """It was read and kept once more for each of its jobs: for a hundred thousand with arguments of
    a megabyte, `lbctl kill` took the dispatcher a hundred gigabytes."""
    long = bytes(1 << 20)
    await ledger.submit(submission(count=300, command=long), 1.0)
    await ledger.submit(submission("bob", count=2), 1.0)
    for rows in (await ledger.live(), await ledger.find(Wanted(ended_too=True, limit=1000))):
        assert [row.command == long for row in rows] == [True] * 300 + [False] * 2
        assert len({id(row.command) for row in rows}) == 2
    rows = await ledger.find(Wanted(ended_too=True, commands=False))
    assert {row.command for row in rows} == {b""}


async def test_unended_jobs_are_read_only_as_far_as_there_is_room(ledger):  # noqa: F811
    half = bytes(work.LIVE_BYTES // 16 // 2 + 1)
    for _ in range(36):
        await ledger.submit(submission(count=2, command=half), 1.0)
    found, last = [], 0
    while rows := await ledger.live(last, 100):
        found.append(len(rows))
        last = rows[-1].id
    assert found == [62, 10]


async def test_a_short_question_does_not_wait_for_all_that_a_long_one_reads(ledger):  # noqa: F811
    """One user's hundred thousand jobs were read in one piece, and every `lbrun -q` took 20 s."""
    await ledger.submit(submission(count=10 * work.PAGE), 1.0)
    long = asyncio.create_task(ledger.find(Wanted(ended_too=True, limit=10 * work.PAGE)))
    await asyncio.sleep(0)
    assert [row.id for row in await ledger.find(Wanted(((7, 7),), ended_too=True))] == [7]
    assert not long.done()
    assert [row.id for row in await long] == list(range(1, 10 * work.PAGE + 1))


async def test_tasks_of_many_arrays_are_not_counted_in_one_step(ledger, monkeypatch):  # noqa: F811
    for count in (3, 2, 2, 9):
        await ledger.submit(submission(first_index=0, count=count), 1.0)
    arrays = await ledger.lines(Wanted(ended_too=True, limit=10))
    whole = await ledger.tallies(arrays)
    monkeypatch.setattr(array_work, "TALLIED", 5)
    assert await ledger.tallies(arrays) == whole
    assert [tally.states["pending"] for tally in whole.values()] == [3, 2, 2, 9]
    together = list(array_work.counted_together({1: 3, 2: 2, 3: 2, 4: 9}))
    assert together == [[1, 2], [3], [4]]


async def test_of_long_lists_of_hosts_no_more_are_found_than_there_is_room_for(ledger):  # noqa: F811
    """Twenty thousand jobs that each leave out a thousand hosts took a gigabyte to list. Those of
    an array have one list."""
    for number in range(3):
        excluded = tuple(f"x{number}y{host}" for host in range(100))
        await ledger.submit(submission(count=4, excluded=excluded), 1.0)
    length = len(" ".join(excluded))
    rows = await ledger.find(Wanted(ended_too=True, bytes_max=5 * length))
    assert [row.id for row in rows] == [8, 9, 10, 11, 12]
    assert len({id(row.barred) for row in rows}) == 2
