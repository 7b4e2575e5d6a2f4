"""A job that a user has ended names that user."""

import pytest

from lbd.dispatch.core.records import Cause, Ending
from lbd.model import JobId
from tests.unit.dispatch.core.test_lifecycle import Table


@pytest.mark.parametrize(
    ("sent", "ended", "said"),
    [
        (0, Ending(Cause.EXITED, 143, 15), "cancelled by ann@h2"),
        (9, Ending(Cause.EXITED, 137, 9), "cancelled by ann@h2"),
        (9, Ending(Cause.EXITED, 124, 9, reason="time limit"), "time limit"),
        (10, Ending(Cause.EXITED, 138, 10), "ended by a signal sent by ann@h2"),
        (10, Ending(Cause.EXITED, 137, 9), ""),
        (10, Ending(Cause.EXITED, 1), ""),
    ],
)
def test_a_job_that_ran(sent, ended, said):
    table = Table()
    begin = table.begin("1")
    table.life.kill(JobId("1"), sent, *table.when, of="ann@h2")
    assert table.ended(begin, ended)[0].reason == said


def test_jobs_that_have_not_started():
    table = Table()
    for name in ("1", "2", "3"):
        table.submit(name)
    said = "cancelled before it ran, by ann@h2"
    (waited,) = table.life.kill(JobId("3"), 0, *table.when, of="ann@h2")
    assert waited.reason == said
    leased = table.life.leased[JobId("1")].lease
    table.life.kill(JobId("1"), 0, *table.when, of="ann@h2")
    refused, *_ = table.life.refused(leased.host, "1", 1, "begin", Ending(Cause.LOST), *table.when)
    assert refused.reason == said


def test_a_signal_to_an_earlier_attempt_does_not_count():
    table = Table()
    begin = table.begin("1")
    table.life.kill(JobId("1"), 10, *table.when, of="ann@h2")
    _, begin, _ = table.ended(begin, Ending(Cause.LOST))
    table.life.begun(begin.host, begin.job, begin.attempt)
    assert table.ended(begin, Ending(Cause.EXITED, 138, 10))[0].reason == ""
