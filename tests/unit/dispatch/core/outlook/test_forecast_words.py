"""What a forecast says that it was made from."""

import pytest

from lbd.dispatch.core.discipline import QueuedJob
from lbd.dispatch.core.outlook.forecast import Forecast
from lbd.dispatch.core.outlook.forecast_words import too_few_ended
from lbd.model import HostId, JobId
from tests.unit.dispatch.core.outlook.test_forecast import another, known, predicted
from tests.unit.dispatch.core.test_queues import Table


def test_the_slots_that_are_left_out_are_named_with_the_reason():
    table = Table()
    forecast = known(table)
    table.host("h1", 1)
    table.host("h2", 3)
    table.arrive("a", slots=3)
    busy = "its load of 1.3 is above dispatch.load_ceiling, 1.2"

    def slots(**more):
        how = another(forecast, 2, table.now_s, **more).how
        forecast.forget()
        return how.partition(" ahead, ")[2].partition("; by ")[0]

    assert slots() == "4 slots"
    table.host("h1", 1, open_slots=0, closed=busy)
    assert slots() == f"3 of 4 slots (h1: {busy})"
    assert slots(only=HostId("h2")) == "3 slots"
    table.host("h2", 3, open_slots=2)
    others = "others: taken by commands outside the queue"
    assert slots() == f"2 of 4 slots (h1: {busy}; {others})"
    for name in ("h3", "h4", "h5"):
        table.host(name, 1, open_slots=0, closed="busy")
    assert slots() == f"2 of 7 slots (h1: {busy}; h3: busy; 2 more hosts too; {others})"


def test_no_forecast_is_made_behind_a_job_whose_end_is_unknown():
    table = Table()
    forecast = Forecast(table.queues)
    table.host("h1")
    seen = {"command": "fit", "command_line": 1}
    table.queues.run_times.ended(QueuedJob(JobId("0"), **seen), 50.0)
    for _ in range(3):
        table.queues.resource_times.slots.ended(50.0)
    for name, more in (("a", seen), ("b", {}), ("c", seen)):
        table.arrive(name, **more)
    assert predicted(table, forecast, "b").wait_s == pytest.approx(50.0)
    assert predicted(table, forecast, "b").how == (
        "no job ahead, 1 slot; by ended runs of the same commands"
    )
    assert predicted(table, forecast, "c")[:2] == (None, too_few_ended(3)), "not for want of jobs"
