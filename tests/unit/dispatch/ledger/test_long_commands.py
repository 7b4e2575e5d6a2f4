"""Commands of megabytes: they are in memory once, and not too many of them at a time."""

from lbd.dispatch.core.ledger_rows import Wanted
from lbd.dispatch.ledger import work
from tests.unit.dispatch.ledger.test_ledger import ledger, submission  # noqa: F401  # a fixture


async def test_the_command_of_an_array_is_there_once(ledger):  # noqa: F811
    """For each of its jobs it was read, and kept, once more: of a hundred thousand with arguments
    of a megabyte, `lbctl kill` took the dispatcher a hundred gigabytes."""
    long = bytes(1 << 20)
    await ledger.submit(submission(count=300, command=long), 1.0)
    await ledger.submit(submission("bob", count=2), 1.0)
    for rows in (await ledger.live(), await ledger.find(Wanted(ended_too=True, limit=1000))):
        assert [row.command == long for row in rows] == [True] * 300 + [False] * 2
        assert len({id(row.command) for row in rows}) == 2
    rows = await ledger.find(Wanted(ended_too=True, commands=False))
    assert {row.command for row in rows} == {b""}


async def test_of_what_has_not_ended_no_more_is_read_at_once_than_there_is_room_for(ledger):  # noqa: F811
    half = bytes(work.LIVE_BYTES // 16 // 2 + 1)
    for _ in range(36):
        await ledger.submit(submission(count=2, command=half), 1.0)
    found, last = [], 0
    while rows := await ledger.live(last, 100):
        found.append(len(rows))
        last = rows[-1].id
    assert found == [62, 10]
