"""Jobs that something else than the lack of slots holds back are not promised to start at once."""

from dataclasses import replace

import pytest

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.ledger_rows import Submission
from lbd.dispatch.core.malleable.prospects import answer
from lbd.dispatch.core.outlook.arrivals import Arrivals
from lbd.dispatch.core.outlook.forecast_words import HOLDS_OUT
from lbd.dispatch.predictions import Predictions
from lbd.model import JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s
from lbd.theory.calibration import Correction
from tests.unit.dispatch.core.malleable.test_heads import SHORT_LIVES_S
from tests.unit.dispatch.core.malleable.test_heads import Table as Malleable
from tests.unit.dispatch.core.outlook.test_forecast import another, arrival, known, predicted
from tests.unit.dispatch.core.test_queues import Table
from tests.unit.dispatch.gangs import Table as Gangs


@pytest.mark.parametrize("rules", [{"user_slots": 2}, {"name_jobs": (("fit", 2),)}])
def test_at_a_limit_a_job_waits_although_slots_are_free(rules):
    table = Table(**rules)
    forecast = known(table)
    ann = {"user": "ann", "name": "fit"}
    table.host("h1", 4)
    table.arrive("a", **ann)
    table.now_s = 4.0
    for name in "bcd":
        table.arrive(name, **ann)
    assert predicted(table, forecast, "c").wait_s == pytest.approx(6.0, rel=0.05)
    assert predicted(table, forecast, "d").wait_s == pytest.approx(10.0, rel=0.05)
    new = another(forecast, 1, 4.0, **ann)
    assert new.wait_s == pytest.approx(16.0, rel=0.05)
    why = table.queues.shares.obstacle(QueuedJob(JobId(""), 1, **ann))
    assert new.how.startswith(f"{why}; 2 jobs ahead, 4 slots; ")
    assert arrival(forecast, 1, 4.0).wait_s == 0.0  # another user's
    job = QueuedJob(JobId(""), 1, **ann)
    assert Arrivals(forecast).of(job, 4.0).wait_s == pytest.approx(16.0, rel=0.05)
    now, _ = forecast.situation(job, Correction(), 4.0)
    (row,) = answer(now, 1, 1, None).prospects
    assert row.raw_s == pytest.approx(16.0, rel=0.05)


def test_more_slots_than_the_limit_are_never_foreseen():
    table = Table(user_slots=2)
    forecast = known(table)
    table.host("h1", 4)
    table.arrive("a", user="ann")
    now, _ = forecast.situation(QueuedJob(JobId(""), user="ann"), Correction(), 0.0)
    first, second, third = (row.raw_s for row in answer(now, 1, 3, None).prospects)
    assert (first, third) == (0.0, None)
    assert second == pytest.approx(10.0, rel=0.05)
    never = another(forecast, 3, 0.0, user="ann")
    assert never[:2] == (None, "it needs 3 slots; the limit per user is 2")


@pytest.mark.parametrize("most", [0, 2])
async def test_slots_kept_for_a_gang_are_not_promised_to_others(most):
    gangs = Gangs()
    gangs.submit()
    gangs.gang(6)
    predictions = Predictions(gangs.life.queues, None, by_uid=False)
    reply = await predictions.answer(pb.PredictAsked(slots=1, slots_most=most, user="ann"))
    assert reply.free > 0
    assert not any(one.HasField("begins_in_s") for one in reply.choices)
    assert not reply.HasField("wait_s")
    assert reply.how == "no estimate while slots are reserved for a gang"


async def test_nothing_is_promised_while_the_head_waits_for_more_slots():
    world = Malleable("pred", lives_s=SHORT_LIVES_S)
    world.host("h1", 4)
    predictions = Predictions(world.queues, None, by_uid=False)
    sent = Submission("ann", 1000, "h1", "", b"true", b"")
    world.arrive("first", slots=3)
    assert predictions.of_submission(sent).wait_s == 0.0
    assert predictions.of_submission(replace(sent, slots_most=4)) is None
    assert world.arrive("wide", slots_most=4, speedup=(4.0, 0.0), work_s=400.0) == []
    world.arrive("behind")
    assert world.hold("wide") is not None
    assert predictions.of_submission(sent) is None
    found = [
        predictions.forecast.of(world.queues.registry[JobId(name)], clock_s())
        for name in ("wide", "behind")
    ]
    assert found == [(None, "", False, None), (None, HOLDS_OUT, False, None)]
    reply = await predictions.answer(pb.PredictAsked(slots=1, user="ann"))
    assert not reply.HasField("wait_s")
    assert reply.how == HOLDS_OUT
