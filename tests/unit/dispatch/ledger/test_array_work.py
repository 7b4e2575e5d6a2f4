"""Questions about arrays as a whole, to either kind of store."""

from dataclasses import replace

import pytest

from lbd.dispatch.core.discipline import Foretold
from lbd.dispatch.core.ledger_rows import Wanted
from lbd.dispatch.core.records import Begin, Cause, Ending, Fate, Updated
from lbd.dispatch.ledger import array_work
from lbd.errors import LbdError
from lbd.model import JobId, JobState
from tests.unit.dispatch.ledger.test_ledger import (
    DONE,
    H1,
    changed,
    ledger,  # noqa: F401  # a fixture
    submission,
)

FAILED = (JobState.FAILED, Fate.FAILED, Ending(Cause.EXITED, 3))


async def test_an_array_is_one_line_with_its_tally(ledger):  # noqa: F811
    await ledger.submit(submission(), 1.0)
    array = await ledger.submit(submission(first_index=1, count=1200), 2.0)
    await ledger.submit(submission(), 3.0)
    listed = submission(first_index=5, count=3, indexes=((5, 5, 1), (10, 20, 10)), at_once=2)
    await ledger.submit(listed, 4.0)
    assert (array.first, array.count) == (2, 1200)
    rows = await ledger.lines(Wanted())
    assert [(row.first, row.indexes, row.at_once, row.command) for row in rows] == [
        (1, "", 0, b"echo\0x"), (2, "1-1200", 0, b"echo\0x"), (1202, "", 0, b"echo\0x"),
        (1203, "5,10-20:10", 2, b"echo\0x"),
    ]  # fmt: skip
    tasks = await ledger.find(Wanted(((1203, 1205),)))
    assert [(row.array_index, row.shown) for row in tasks] == [
        (5, "1203_5"), (10, "1203_10"), (20, "1203_20")]  # fmt: skip

    for job, story in (("2", DONE), ("4", DONE), ("7", FAILED)):
        await ledger.record(
            [Begin(JobId(job), 1, H1, 1, None), changed(job, *story, attempt=1)], 10.0
        )
    await ledger.record(
        [Begin(JobId("5"), 1, H1, 1, None), changed("5", JobState.RUNNING, Fate.RUNNING)], 11.0
    )
    tally = (await ledger.tallies(tasks[:1] + rows[1:2]))[2]
    assert tally.states == {"done": 2, "running": 1, "failed": 1, "pending": 1196}
    assert (tally.open, tally.state, tally.slots) == (1197, "running", 1)
    assert tally.waiting == [(3, 3), (6, 6), (8, 1201)]
    assert [(one.index, one.state) for one in tally.bad] == [(6, "failed")]
    assert (await ledger.lines(Wanted(((2, 1201),), limit=5)))[0].first == 2
    assert [row.id for row in await ledger.lines(Wanted(ended_only=True))] == [7]
    assert await ledger.lines(Wanted(user="nobody")) == []


async def test_why_tasks_could_not_be_started_is_found_with_them(ledger):  # noqa: F811
    await ledger.submit(submission(first_index=1, count=3), 1.0)
    for job, status in (("1", 125), ("2", 1), ("3", 127)):
        ending = Ending(Cause.EXITED, status)
        ended = changed(job, JobState.FAILED, Fate.FAILED, ending, reason=f"why {job}" + "x" * 999)
        await ledger.record([Begin(JobId(job), 1, H1, 1, None), ended], 10.0)
    tally = (await ledger.tallies(await ledger.lines(Wanted(ended_too=True))))[1]
    why = [(one.exit_status, one.reason[:5]) for one in tally.bad]
    assert why == [(125, "why 1"), (1, ""), (127, "why 3")]
    assert len(tally.bad[0].reason) == array_work.REASON_CHARS


async def test_jobs_are_counted_whatever_the_limits(ledger):  # noqa: F811
    await ledger.submit(submission(), 1.0)
    await ledger.submit(submission(first_index=1, count=1200), 2.0)
    await ledger.submit(submission("bob"), 3.0)
    await ledger.record(
        [Begin(JobId("1"), 1, H1, 1, None), changed("1", *DONE, attempt=1)], 4.0
    )  # fmt: skip
    for who, ended_too, jobs, lines in (
        ("", False, 1201, 2), ("", True, 1202, 3), ("ann", True, 1201, 2), ("bob", False, 1, 1),
        ("nobody", True, 0, 0),
    ):  # fmt: skip
        wanted = Wanted(user=who, ended_too=ended_too, limit=5, bytes_max=1)
        counts = [await ledger.count(wanted, by_array=by_array) for by_array in (False, True)]
        assert counts == [jobs, lines], wanted


async def test_the_held_tasks_of_an_array_are_counted_apart(ledger):  # noqa: F811
    """Those that are tried again by themselves are not among them."""
    await ledger.submit(submission(first_index=1, count=9), 1.0)
    reasons = {1: "held by ann", 2: "held: its attempts were lost 5 times", 4: "held by ann",
               5: "held for a while: h1 cannot be reached", 6: "not started"}  # fmt: skip
    for job, reason in reasons.items():
        await ledger.record([replace(changed(str(job), JobState.PENDING), reason=reason)], 2.0)
    rows = await ledger.lines(Wanted())
    tally = (await ledger.tallies(rows))[1]
    assert (tally.states, tally.held_count) == ({"pending": 9}, 3)
    assert (tally.waiting, tally.held) == ([(1, 9)], [(1, 2), (4, 4)])
    for job in range(1, 10):
        await ledger.record([replace(changed(str(job), JobState.PENDING), reason="held")], 3.0)
    tally = (await ledger.tallies(rows))[1]
    assert (tally.held_count, tally.held) == (9, [(1, 9)])


async def test_of_an_array_the_prediction_of_its_first_task_is_kept(ledger):  # noqa: F811
    """It was said that nothing was predicted, while its first task showed the prediction."""
    foretold = Foretold(66.0, 70.0, 39.0, 108.0)
    await ledger.submit(submission(first_index=1, count=9, foretold=foretold), 1.0)
    await ledger.submit(submission(first_index=1, count=2), 2.0)
    await ledger.record([Begin(JobId("1"), 1, H1, 1, None), changed("1", *FAILED, attempt=1)], 2.0)
    tallies = await ledger.tallies(await ledger.lines(Wanted()))
    assert tallies[1].foretold == foretold
    assert tallies[10].foretold == Foretold(None)


async def test_whom_a_number_belongs_to(ledger):  # noqa: F811
    await ledger.submit(submission(), 1.0)
    await ledger.submit(submission(first_index=0, count=30), 1.0)
    found = await ledger.arrays([1, 2, 17, 31, 32, 99, *range(2000, 3000)])
    assert {number: (one.first, one.last, one.indexes) for number, one in found.items()} == {
        1: (1, 1, ""), 2: (2, 31, "0-29"), 17: (2, 31, "0-29"), 31: (2, 31, "0-29")
    }  # fmt: skip
    assert await ledger.arrays([]) == {}


async def test_long_lists_of_indexes_are_read_once_and_not_without_end(ledger, monkeypatch):  # noqa: F811
    """A question of some ten thousand tasks of one array read its list as often."""
    odd = (1, 9, 2), (20, 20, 1), (22, 22, 1), (24, 24, 1)
    for _ in range(3):
        await ledger.submit(submission(first_index=1, count=8, indexes=odd), 1.0)
    monkeypatch.setattr(array_work, "INDEXES_CHARS_MAX", 2 * len("1-9:2,20,22,24"))
    found = await ledger.arrays(range(1, 17))
    assert len({id(one.indexes) for one in found.values()}) == 2
    with pytest.raises(LbdError, match="too many ranges of indexes; name fewer"):
        await ledger.arrays(range(1, 25))


async def test_changes_to_waiting_jobs_are_kept(ledger):  # noqa: F811
    accepted = await ledger.submit(submission(first_index=1, count=2, priority=3), 1.0)
    await ledger.record([Updated(accepted.submission, -4, "other", 9.5, b"spec")], 2.0)
    rows = await ledger.live()
    assert [(row.priority, row.name, row.limit_s) for row in rows] == [(-4, "other", 9.5)] * 2
    assert (await ledger.spec(accepted.submission)).spec == b"spec"


async def test_the_tasks_of_very_many_arrays_are_counted_together(ledger, monkeypatch):  # noqa: F811
    monkeypatch.setattr(array_work, "LOOKED_INTO", 2)
    for _ in range(3):
        await ledger.submit(submission(first_index=1, count=2), 1.0)
    await ledger.record([Begin(JobId("3"), 1, H1, 1, None), changed("3", *DONE, attempt=1)], 10.0)
    rows = await ledger.lines(Wanted(ended_too=True))
    found = await ledger.tallies(rows)
    assert {first: tally.states for first, tally in found.items()} == {
        1: {"pending": 2}, 3: {"pending": 1, "done": 1}, 5: {"pending": 2}
    }  # fmt: skip
    assert found[1].waiting == ()
    assert (await ledger.tallies(rows[:2]))[3].waiting == [(4, 4)]
