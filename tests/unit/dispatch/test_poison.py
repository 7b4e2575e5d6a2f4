"""One change that the store cannot hold harms nobody else's, in SQLite and in PostgreSQL."""

import asyncio
import math

import pytest

from lbd.dispatch.jobs import Begin, Cause, Ending, Fate
from lbd.dispatch.ledger.rows import LedgerTrouble, Wanted
from lbd.model import JobId, JobState
from tests.unit.dispatch.test_ledger import H1, changed, ledger, submission

__all__ = ("ledger",)  # the fixture

POISON = (
    {"first_index": (1 << 63) - 2, "count": 3}, {"first_index": 1 << 70}, {"slots": 1 << 64},
    {"priority": -(1 << 64)}, {"uid": 1 << 63}, {"only": "\ud800"},
)  # fmt: skip


@pytest.mark.parametrize("poison", POISON, ids=str)
async def test_only_the_submission_at_fault_is_refused(ledger, poison):
    """It once took up to a thousand others with it, as often as it came."""
    sent = [submission(key=str(n)) for n in range(5)]
    sent.insert(2, submission(**poison))
    outcomes = await asyncio.gather(
        *(ledger.submit(one, 1.0) for one in sent), return_exceptions=True
    )
    (refused,) = [one for one in outcomes if isinstance(one, BaseException)]
    assert isinstance(refused, LedgerTrouble)
    assert refused is outcomes[2]
    assert "\n" not in str(refused)
    assert [row.id for row in await ledger.live()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "ending",
    [
        Ending(Cause.EXITED, 1 << 70, 0, 1.0, "failed"),
        Ending(Cause.EXITED, 1, 1 << 70, 1.0, "failed"),
        Ending(Cause.EXITED, 1, 0, 1.0, "\ud800"),
    ],
    ids=lambda ending: ascii(ending.reason) + str(ending.exit_status),
)
async def test_a_record_that_cannot_be_written_is_written_bare_and_blocks_no_other(ledger, ending):
    """Its job has ended; why, and how, was the host's to say."""
    for _ in range(3):
        await ledger.submit(submission(), 1.0)
    await ledger.record([Begin(JobId(job), 1, H1, 1, None) for job in "123"], 2.0)
    good = Ending(Cause.EXITED, 0, 0, 1.5)
    async with asyncio.timeout(20):
        *_, accepted = await asyncio.gather(
            ledger.record([changed("1", JobState.DONE, Fate.DONE, good)], 3.0),
            ledger.record([changed("2", JobState.FAILED, Fate.FAILED, ending)], 3.0),
            ledger.record([changed("3", JobState.DONE, Fate.DONE, good)], 3.0),
            ledger.submit(submission(), 3.0),
        )
    assert accepted.first == 4
    rows = await ledger.find(Wanted(((1, 3),), ended_too=True))
    assert [row.state for row in rows] == ["done", "failed", "done"]
    assert [row.exit_status for row in rows] == [0, None, 0]
    assert ledger.trouble == ""


async def test_a_time_that_is_no_number_is_nobody_elses_trouble(ledger):
    """SQLite takes it for nothing at all."""
    await ledger.submit(submission(), 1.0)
    await ledger.record([Begin(JobId("1"), 1, H1, 1, None)], 2.0)
    ending = Ending(Cause.EXITED, 0, 0, math.nan)
    async with asyncio.timeout(20):
        await ledger.record([changed("1", JobState.DONE, Fate.DONE, ending)], 3.0)
    assert (await ledger.submit(submission(), 3.0)).first == 2
