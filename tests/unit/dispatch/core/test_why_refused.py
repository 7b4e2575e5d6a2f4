"""A job that hosts have refused says which, and why each did."""

from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.records import Cause, Ending
from lbd.model import Closed, HostId, JobId
from tests.unit.dispatch.core.test_why_waiting import DICE, reason, submit, table


def test_each_host_that_refused_it_is_named_with_its_reason():
    """Both were `excluded (-x, or it could not begin there)`."""
    life, why = table("h1", "h2"), "sh is not allowed here (admission.programs)"
    submit(life, "1", barred=frozenset({HostId("h1")}))
    life.host_is(HostSlots(HostId("h3"), 0), 0.0, DICE)
    refused = Ending(Cause.LOST, reason=why)
    life.refused(HostId("h2"), JobId("1"), 1, "admission", refused, 0.0, DICE)
    said = f"h1: excluded (-x); h2: {why}"
    assert reason(life, "1") == f"no host takes it now; {said}"
    life.host_is(HostSlots(HostId("h3"), 1), 0.0, DICE)
    submit(life, "2", only=HostId("h3"))
    life.begun(HostId("h3"), JobId("1"), 2)
    life.host_gone(HostId("h3"), 0.0, DICE, Closed.STOPPING)
    lost = Ending(Cause.LOST, reason="h3 was stopped")
    life.ended(HostId("h3"), JobId("1"), 2, lost, 0.0, DICE)
    assert f"h2: {why}" in reason(life, "1")


def test_that_its_host_was_stopped_is_said_once():
    """It was `h2: was stopped; h2 was stopped`."""
    life = table("h1", "h2")
    submit(life, "1", barred=frozenset({HostId("h1")}))
    life.begun(HostId("h2"), JobId("1"), 1)
    life.host_gone(HostId("h2"), 0.0, DICE, None, "was stopped")
    lost = Ending(Cause.LOST, reason="h2 was stopped")
    life.ended(HostId("h2"), JobId("1"), 1, lost, 0.0, DICE)
    assert reason(life, "1").count("was stopped") == 1
