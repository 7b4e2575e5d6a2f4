"""A host that says Hello: it is told what it needs at once, and we hear of it at once."""

import pytest

from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.testing.builders import member
from tests.unit.lim.core.test_one_bad_host import H1, H2, NOW_S, hear, lim


def reports_at(state, now_s):
    """Returns to whom a report is sent at that moment."""
    return [one.to for one in state.handle(e.Tick(), now_s)
            if isinstance(getattr(one, "body", None), m.Report)]  # fmt: skip


@pytest.mark.parametrize(("name", "told"), [(H1, [(H1,)]), (H2, [])])
def test_a_centre_that_is_back_is_told_our_load_at_once(name, told):
    """It has no other host to ask. The others get it from the centre."""
    state = lim("h4")
    state.handle(e.Tick(), NOW_S)
    hear(state, name, m.Hello(member(name, 0 if name == H1 else 1, 2), wants_members=False),
         now_s=NOW_S + 0.1)  # fmt: skip
    assert reports_at(state, NOW_S + 0.1) == told


@pytest.mark.parametrize("wants_members", [True, False])
def test_a_newcomer_is_told_of_the_others_if_it_asks(wants_members):
    state = lim("h4")
    reply = hear(state, "h9", m.Hello(member("h9", 9), wants_members=wants_members))
    if wants_members:
        assert {one.name for one in reply.members} == set(state.table.entries)
    else:
        assert reply == m.Ack()
    assert "h9" in state.table.entries
