"""What a host has reported begun may have run, whatever it says of it afterwards."""

import pytest

from lbd.dispatch.core.records import Begin, Cause, Ending, Fate, Settle
from lbd.model import JobState
from tests.unit.dispatch.core.test_lifecycle import Table


@pytest.mark.parametrize("phase", ["drained", "slot", "exec", "late", "owner", "request"])
@pytest.mark.parametrize("may_restart", [False, True])
def test_a_job_that_was_begun_and_then_refused_was_lost(phase, may_restart):
    """One with --no-restart started a second time, on another host."""
    table = Table()
    begin = table.begin("1", may_restart=may_restart)
    key, why = (begin.host, begin.job, 1), Ending(Cause.LOST, 2, reason="no")
    lost, *others, settle = table.life.refused(*key, phase, why, *table.when)
    assert settle == Settle(begin.job, 1, begin.host)
    assert (lost.fate, lost.ending.cause, lost.ending.exit_status) == (Fate.LOST, Cause.LOST, None)
    assert f"{begin.host} had reported it begun, then refused it: no" in lost.ending.reason
    assert lost.state is (JobState.PENDING if may_restart else JobState.LOST)
    assert [type(one) for one in others] == ([Begin] if may_restart else [])
    assert table.life.running == 0


def test_one_that_was_to_end_is_cancelled_though_it_was_refused_after_it_had_begun():
    table = Table()
    begin = table.begin("1", may_restart=False)
    table.life.kill(begin.job, 0, *table.when, of="ann@h1")
    key, why = (begin.host, begin.job, 1), Ending(Cause.LOST, reason="no")
    over, _ = table.life.refused(*key, "late", why, *table.when)
    assert (over.state, over.fate) == (JobState.CANCELLED, Fate.CANCELLED)
