"""Hosts that say that the name of a host which starts is taken by another."""

from dataclasses import replace

from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.model import HostId
from lbd.testing.builders import lim_state

H1, H2, BAD = map(HostId, ("h1", "h2", "h3"))
ALL = ("h1", "h2", "h3", "h4")


def reports_taken(state, answer):
    sent, reply = m.Hello(state.membership.me, True), m.Ack(error="taken", name_taken=True)
    return state.handle(e.Replied(answer, sent, m.Message("test", answer, 1, reply)), 1.0)


def test_no_single_host_stops_a_lim_that_starts():
    state = lim_state("h4", ALL)
    for _ in range(3):
        assert not [a for a in reports_taken(state, BAD) if isinstance(a, e.Stop)]
    assert [a for a in reports_taken(state, H2) if isinstance(a, e.Stop)]
    two = lim_state("h1", ("h1", "h2"))
    assert [a for a in reports_taken(two, H2) if isinstance(a, e.Stop)]


def test_no_hosts_together_stop_a_lim_whose_name_is_proved():
    """Two bad hosts, or the only other one, could once keep a LIM from starting for ever."""
    for state in (lim_state("h4", ALL), lim_state("h1", ("h1", "h2"))):
        state.identity = replace(state.identity, is_proved=True)
        for name in (BAD, H2, H1):
            said = reports_taken(state, name)
            assert [type(action) for action in said] == [e.Log]
