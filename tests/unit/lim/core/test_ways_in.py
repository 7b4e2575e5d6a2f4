"""How a host that no configuration lists finds its cluster."""

import pytest

from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.lim.core.table import Entry
from lbd.lim.core.ways_in import WaysIn
from lbd.model import HostId
from lbd.testing.builders import host, lim_state, member, sample

H2, H3, H4 = map(host, (2, 3, 4))


def known(*names, left=()):
    found = {name: Entry(member(name), listed=False, known_since_s=0.0) for name in names}
    for name in left:
        found[name].left = True
    return found


def names(members):
    return [one.name for one in members]


@pytest.mark.parametrize(
    ("accepted", "answered_by", "entries", "is_open"),
    [
        (False, "", known(), True),
        (False, H2, known(H2), True),  # it may have refused us
        (True, H2, known(H2), False),
        (True, H2, known(H2, left=[H2]), True),  # back, it may know no host
        (True, H2, known(H3), True),
        (True, "", known(H3), True),
    ],
)
def test_the_address_is_tried_until_the_host_there_has_taken_us_in(
    accepted, answered_by, entries, is_open
):
    ways_in = WaysIn("10.0.0.2:7901")
    ways_in.answered(answered_by)
    assert ways_in.is_open(entries, accepted=accepted) == is_open
    assert ways_in.has_more(entries, accepted=accepted) == is_open
    without = WaysIn("")
    without.answered(answered_by)
    assert not without.is_open(entries, accepted=accepted)
    assert not without.has_more(entries, accepted=accepted)


def test_remembered_hosts_are_asked_in_turn_until_one_has_taken_us_in_and_once_more():
    ways_in = WaysIn("", map(member, (H2, H3, H4)))
    assert ways_in.has_more({}, accepted=True)
    assert names(ways_in.take(2, {}, accepted=False)) == [H2, H3]
    assert names(ways_in.take(2, {}, accepted=False)) == [H4, H2]
    assert names(ways_in.take(2, {}, accepted=True)) == [H3, H4]
    assert names(ways_in.take(2, {}, accepted=True)) == [H2]
    assert not ways_in.has_more({}, accepted=True)


def test_remembered_hosts_of_which_we_were_told_are_not_asked():
    ways_in = WaysIn("", map(member, (H2, H3)))
    assert ways_in.has_more(known(H2), accepted=True)
    assert names(ways_in.take(2, known(H2), accepted=False)) == [H3]
    assert not ways_in.has_more(known(H3), accepted=True)


def test_what_answers_at_an_address_may_not_speak_as_another_host():
    """It answered as h1, with an incarnation that h1 can never reach: the newcomer was deaf to h1
    until it was started again."""
    state = lim_state("h4", ("h4",))
    hello = m.Hello(state.membership.me, wants_members=True)

    def answers(name, incarnation, body):
        reply = m.Message("test", name, incarnation, body)
        return state.handle(e.Replied(HostId(""), hello, reply), 1.0)

    told = m.Members((member("h1"), member(H2)), m.Settings())
    greeted = {one.to for one in answers("zz", 1, told) if isinstance(one, e.Send)}
    assert greeted == {"h1", H2}, "by names, which they must prove"
    answers("h1", m.COUNTER_MAX, told)
    state.handle(e.Received(m.Message("test", "h1", 1, m.Report(sample("h1", 1)))), 2.0)
    assert state.table.entries["h1"].sample is not None
