"""What is said of a job that has come since the line was last played, of which a play serves for a
second. Arrays take turns: a job stands before the later tasks of all."""

import pytest

from lbd.dispatch.core.outlook.allowance import Allowance
from lbd.model import HostId
from tests.unit.dispatch.core.outlook.test_array_ends import ArrayRun


def asked(run, number, **more):
    """Submits a job, and returns it as it waits."""
    run.arrive(number, 6.0, user="bob", command=2, command_line=2, **more)
    return run.table.queues.registry.find(f"{number}")


@pytest.mark.parametrize(
    ("has_room", "more"), [(True, {}), (True, {"only": HostId("h1")}), (False, {})]
)
def test_a_job_just_submitted_is_not_said_to_wait_for_all_of_an_array(monkeypatch, has_room, more):
    """Of 29 `in nine cases out of ten`, 9 said 2 to 5 minutes for jobs that began within one.
    `has_room`: whether the time for forecasts allows to play the line again."""
    run = ArrayRun(3, 100, 4, "varied", "jobs", runs=24)
    assert run.forecast.of(run.own[-1], run.table.now_s).wait_s > 60
    job = asked(run, 5000, **more)
    monkeypatch.setattr(Allowance, "has", lambda *_: has_room)
    said = run.forecast.of(job, run.table.now_s)
    monkeypatch.undo()
    run.forecast.forget()
    again = run.forecast.of(job, run.table.now_s)
    assert said.wait_s == pytest.approx(again.wait_s, rel=0.25)
    assert said.within_s[0] <= again.wait_s <= said.within_s[1]
    assert again.wait_s < 40


def test_behind_the_last_it_is_counted_behind_the_last():
    run = ArrayRun(3, 4, 4, "varied", "jobs", runs=24)
    run.forecast.of(run.own[-1], 0.0)
    said = run.forecast.of(asked(run, 5000), 0.0).wait_s
    run.forecast.forget()
    again = run.forecast.of(run.table.queues.registry.find("5000"), 0.0).wait_s
    assert said == pytest.approx(again, rel=0.25)
