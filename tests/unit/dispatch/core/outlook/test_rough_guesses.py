"""Forecasts behind, or of, jobs that do not start as their line is played: rough guesses."""

import pytest

from lbd.dispatch.core.discipline import Foretold, QueuedJob
from lbd.dispatch.core.ledger_rows import Submission
from lbd.dispatch.core.malleable.prospects import answer
from lbd.dispatch.core.outlook.array_ends import end_of
from lbd.dispatch.core.outlook.forecast import Forecast
from lbd.dispatch.core.outlook.forecast_words import GUESS, MAY_HOLD_OUT, SHARES
from lbd.dispatch.core.outlook.novelty import GANG_AHEAD
from lbd.dispatch.core.shares import Rules
from lbd.dispatch.predictions import Predictions
from lbd.model import JobId
from lbd.process.boot_clock import clock_s
from lbd.theory.calibration import Correction
from tests.unit.dispatch.core.malleable.test_heads import WIDE
from tests.unit.dispatch.core.malleable.test_heads import Table as MalleableTable
from tests.unit.dispatch.gangs import H1, H2, Table

KNOWN_S = [10.0 + n / 10 for n in range(20)]
SENT = Submission("ann", 1000, "h1", "", b"true", b"")


def full(lives_s=KNOWN_S, **more):
    """Returns a full cluster where enough jobs have ended for intervals."""
    table = Table(hosts=(H1, H2), **more)
    table.now_s = clock_s()
    for life_s in lives_s:
        table.life.queues.resource_times.slots.ended(life_s)
    for _ in range(4):
        table.submit(user="ann")
    return table


def forecast_of(table, job):
    queues = table.life.queues
    return Forecast(queues).of(queues.registry[JobId(job)], table.now_s)


def asked(table, most):
    """Returns what `lbctl predict` says of a job of 1 to `most` slots."""
    queues, job = table.life.queues, QueuedJob(JobId(""), slots_most=most)
    now, how = Forecast(queues).situation(job, Correction(), table.now_s)
    return how, answer(now, 1, most, queues.heads.known(job)).prospects


def test_behind_a_gang_in_line_a_forecast_is_a_rough_guess():
    """It was said to come true in nine cases out of ten, as its tasks were played one by one."""
    table = full()
    table.submit(user="ann")  # job 5, which the gang waits behind
    table.gang(4, user="ann")
    table.submit(user="ann")  # job 10
    before, behind = forecast_of(table, "5"), forecast_of(table, "10")
    assert not before.is_rough
    assert before.within_s is not None
    assert (behind.is_rough, behind.within_s) == (True, None)
    assert behind.how.endswith(GANG_AHEAD.format(6))
    kept = Predictions(table.life.queues, None, by_uid=False).of_submission(SENT)
    assert kept.is_rough  # so it is not compared with what happens
    assert kept == Foretold(None, pytest.approx(behind.wait_s, abs=30.0))


@pytest.mark.parametrize("most", [1, 2])
def test_the_table_of_predict_has_no_interval_behind_it_either(most):
    table = full()
    _, firm = asked(table, most)
    assert None not in [one.interval_90_s for one in firm]
    table.submit(user="ann")
    table.gang(4, user="ann")
    how, rough = asked(table, most)
    assert GUESS in how
    assert [one.interval_90_s for one in rough] == [None] * most
    assert None not in [one.begins_in_s for one in rough]


def test_so_is_the_end_of_an_array_behind_it():
    table = full()
    table.submit(user="ann")
    table.gang(4, user="ann")
    table.submit(array=10)
    last = table.life.queues.registry[JobId("10")]
    found = end_of(Forecast(table.life.queues), last.job, 0, 1, last, table.now_s)
    assert (found.is_rough, found.within_s) == (True, None)


@pytest.mark.parametrize("strategy", ["free", "avg", "pred", "heur"])
def test_a_job_that_may_wait_for_more_slots_may_begin_later(strategy):
    """Its start on the fewest was said to come true in nine cases out of ten, and it let that
    slot go by."""
    table = MalleableTable(strategy, lives_s=KNOWN_S)
    table.host("h1")
    for name in "abcd":
        table.arrive(name)
    table.arrive("wide", **WIDE)
    queues = table.queues
    found = Forecast(queues).of(queues.registry[JobId("wide")], 0.0)
    assert found.wait_s == pytest.approx(10.0, rel=0.2)
    waits = strategy in ("pred", "heur")
    assert (found.is_rough, found.within_s is None) == (waits, waits)
    assert found.how.endswith(MAY_HOLD_OUT) == waits


def test_while_others_pass_a_gang_it_may_have_the_next_slots():
    """It is in no line then, and drains hosts again later."""
    table = full(gang_drain_s=0.0)
    table.gang(4, user="ann")
    assert table.life.queues.plan is None
    table.submit(user="ann")
    found = forecast_of(table, "9")
    assert found.how.endswith(GANG_AHEAD.format(5))
    assert (found.is_rough, found.within_s) == (True, None)


def test_a_job_of_higher_priority_than_all_in_line_is_foretold_to_be_next():
    """What was kept of it said the wait of the last, as only jobs of another rank were in line."""
    table = full(rules=Rules(priorities=True))
    for _ in range(8):
        table.submit(user="ann", priority=-10)
    job = QueuedJob(JobId(""), user="bob", command=1)
    found = Forecast(table.life.queues).of_new(job, table.now_s)
    assert found.how.startswith("no job ahead")
    kept = Predictions(table.life.queues, None, by_uid=False).of_submission(SENT)
    assert kept.wait_s == pytest.approx(found.wait_s, abs=1.0)


def test_where_users_take_turns_by_their_shares_a_forecast_is_a_rough_guess():
    """The order of a line changes with what each user holds, so one next in line waited 18 s."""
    table = full(rules=Rules(fair_share_s=600.0))
    for _ in range(8):
        table.submit(user="ann")
    assert not forecast_of(table, "12").is_rough
    table.submit(user="bob")
    for job in ("12", "13"):
        found = forecast_of(table, job)
        assert (found.is_rough, found.within_s) == (True, None)
        assert found.how.endswith(SHARES)
