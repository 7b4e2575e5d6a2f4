"""A host that falls silent is logged by one host: the coordinator."""

import pytest

from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.testing.builders import published, sample, vector
from tests.unit.lim.core.test_one_bad_host import H2, NOW_S, hear, lim

GONE_S = NOW_S + 31.0


def about_h2(actions):
    return [(one.text, one.warning) for one in actions if isinstance(one, e.Log) and one.peer == H2]


@pytest.mark.parametrize(("me", "says"), [("h1", True), ("h4", False)])
def test_a_silent_host_is_logged_once_and_its_return_too(me, says):
    state = lim(me)
    if not says:
        hear(state, "h1", published(), now_s=GONE_S - 1.0)
    down = about_h2(state.handle(e.Tick(), GONE_S))
    assert down == [("host h2 is down: no sample for over 30 s", True)] * says
    assert about_h2(state.handle(e.Tick(), GONE_S + 2.0)) == []
    hear(state, H2, m.Report(sample("h2", 9, vector(1.0))), now_s=GONE_S + 3.0)
    assert about_h2(state.handle(e.Tick(), GONE_S + 4.0)) == [("host h2 is up again", False)] * says


def test_a_host_that_was_stopped_is_not_reported_again():
    state = lim("h1")
    hear(state, H2, m.Leave())
    assert about_h2(state.handle(e.Tick(), GONE_S)) == []
