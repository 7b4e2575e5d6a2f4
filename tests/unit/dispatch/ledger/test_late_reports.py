"""A late report counts from when the host saw the event, in SQLite and in PostgreSQL."""

import pytest

from lbd.dispatch.core.ledger_rows import Wanted
from lbd.dispatch.core.records import Begin, Cause, Ending, Fate
from lbd.model import JobId, JobState
from tests.unit.dispatch.ledger.test_ledger import H1, changed, ledger, submission

__all__ = ["ledger"]


@pytest.mark.parametrize("at_once", [True, False])
async def test_it_ran_when_its_host_saw_it_run(ledger, at_once):
    """The dispatcher was away, and heard of the start and the end later."""
    await ledger.submit(submission(), 1.0)
    await ledger.record([Begin(JobId("1"), 1, H1, 1, None)], 10.0)
    ending = Ending(Cause.EXITED, 0, 0, 1.5, ago_s=15.0)
    begun = changed("1", JobState.RUNNING, Fate.RUNNING, begun_ago_s=18.0)
    ended = changed("1", JobState.DONE, Fate.DONE, ending)
    for changes in [[begun, ended]] if at_once else [[begun], [ended]]:
        await ledger.record(changes, 30.0)
    (row,) = await ledger.find(Wanted(((1, 1),), ended_too=True))
    assert (row.started, row.finished, row.run_s) == (12.0, 15.0, 3.0)
    (attempt,) = await ledger.attempts([JobId("1")])
    assert (attempt.started, attempt.finished) == (12.0, 15.0)


@pytest.mark.parametrize("at_once", [True, False])
async def test_no_host_makes_a_job_end_before_it_started(ledger, at_once):
    await ledger.submit(submission(), 1.0)
    await ledger.record([Begin(JobId("1"), 1, H1, 1, None)], 10.0)
    begun = changed("1", JobState.RUNNING, Fate.RUNNING)
    ended = changed("1", JobState.DONE, Fate.DONE, Ending(Cause.EXITED, 0, 0, 1.5, ago_s=100.0))
    for changes in [[begun, ended]] if at_once else [[begun], [ended]]:
        await ledger.record(changes, 30.0)
    (row,) = await ledger.find(Wanted(((1, 1),), ended_too=True))
    assert (row.started, row.finished) == (30.0, 30.0)
    (attempt,) = await ledger.attempts([JobId("1")])
    assert (attempt.started, attempt.finished) == (30.0, 30.0)
