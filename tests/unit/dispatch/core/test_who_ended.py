"""A job that a user has ended names that user."""

import pytest

from lbd.dispatch.core.ledger_rows import AttemptRow
from lbd.dispatch.core.lifecycle import cancelled
from lbd.dispatch.core.records import Cause, Ending
from lbd.dispatch.core.restore import live_job
from lbd.dispatch.ledger.array_work import common_reason
from lbd.model import JobId
from tests.unit.dispatch.core.test_cutoffs import row as a_row
from tests.unit.dispatch.core.test_lifecycle import Table


@pytest.mark.parametrize(
    ("sent", "ended", "said"),
    [
        (0, Ending(Cause.EXITED, 143, 15), "cancelled by ann@h2"),
        (9, Ending(Cause.EXITED, 137, 9), "cancelled by ann@h2"),
        (
            0,
            Ending(Cause.CHECKPOINT, 85, reason="it stopped at a checkpoint"),
            "cancelled by ann@h2",
        ),
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


def test_a_job_that_waits_again_after_an_attempt():
    """It was said to have been cancelled before it ran, beneath an attempt of 15 s."""
    table = Table(crash_limit=2)
    begin = table.begin("1")
    while not table.life.jobs[JobId("1")].held:
        _, *begun, _ = table.ended(begin, Ending(Cause.LOST))
        begin = begun[0] if begun else begin
    (over,) = table.life.kill(JobId("1"), 0, *table.when, of="ann@h2")
    assert begin.attempt > 1
    said = f"cancelled while held, after attempt {begin.attempt} was lost, by ann@h2"
    assert over.reason == said


@pytest.mark.parametrize(
    ("number", "fate", "said"),
    [
        (1, "lost", "cancelled while it waited, after attempt 1 was lost, by ann@h2"),
        (2, "cancelled", "cancelled while it waited, after attempt 2, by ann@h2"),  # requeued
        (2, "refused", "cancelled while it waited, after attempt 1, by ann@h2"),
        (1, "refused", "cancelled before it ran, by ann@h2"),
        (1, "leased", "cancelled before it ran, by ann@h2"),
    ],
)
def test_what_is_known_of_a_job_from_the_ledger(number, fate, said):
    last = AttemptRow(1, number, "h1", 1, None, fate, 0.0, None, None, None, None, "")
    live, _ = live_job(a_row(attempt=number, state="pending"), last)
    assert cancelled(live, "ann@h2") == said


def test_a_signal_to_an_earlier_attempt_does_not_count():
    table = Table()
    begin = table.begin("1")
    table.life.kill(JobId("1"), 10, *table.when, of="ann@h2")
    _, begin, _ = table.ended(begin, Ending(Cause.LOST))
    table.life.begun(begin.host, begin.job, begin.attempt)
    assert table.ended(begin, Ending(Cause.EXITED, 138, 10))[0].reason == ""


def test_a_job_that_a_signal_has_stopped_says_so():
    """It was suspended without a reason."""
    table = Table()
    begin = table.begin("1")

    def after(stopped, **why):
        (told,) = table.life.stopped(begin.host, begin.job, 1, stopped, table.now_s, **why)
        return told.reason

    assert after(True) == "stopped by a signal"
    assert after(False) == ""
    table.life.kill(JobId("1"), 19, *table.when, of="ann@h2")
    assert after(True) == "stopped by a signal of ann@h2"
    table.life.kill(JobId("1"), 18, *table.when, of="ann@h2")
    assert after(False) == ""
    assert after(True) == "stopped by a signal"
    assert after(True, reason="h1's owner is back") == "h1's owner is back"


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        ((), ""),
        (("it was waiting for 3",), "it was waiting for 3"),
        (("cancelled by ann@h2", "cancelled before it ran, by ann@h2"), "cancelled by ann@h2"),
        (("cancelled by ann@h2", "cancelled by root@h2"), ""),
        (("cancelled by ann@h2", "cancelled"), ""),
    ],
)
def test_an_array_says_who_cancelled_it(reasons, said):
    assert common_reason(reasons) == said
