"""A host that reports hosts that do not exist: real ones get into the table all the same."""

from dataclasses import replace
from random import Random

import pytest

from lbd.config.schema import LimConfig
from lbd.lim.core import messages as m
from lbd.lim.core.events import Send
from lbd.lim.core.membership import (
    FIRST_NEWS_S,
    GREETED_FIRST,
    GREETED_LATER,
    Membership,
    awaits_news,
    told_of,
)
from lbd.lim.core.table import Table
from lbd.lim.core.ways_in import WaysIn
from lbd.model import HostId
from lbd.testing.builders import member, sample

ROOM = 8


@pytest.fixture
def ours():
    """Returns the members of h1, greeted by the configured h2 and by h3."""
    me = member("h1")
    table = Table(me, LimConfig(max_hosts=ROOM), 4.0, now_s=0.0)
    table.add(member("h2"), listed=True, now_s=0.0)
    made = Membership(me, table, WaysIn(""), 0.0)
    assert made.hello_from(m.Hello(member("h3"), False), 1.0)[0] is None
    return made


def names(ours):
    return set(ours._table.entries)


def made_up(count):
    return [replace(member(f"ghost{n}"), rank=1 << 20) for n in range(count)]


def test_the_table_is_bounded(ours):
    ours.members_from(made_up(1000), 2.0)
    assert len(names(ours)) == ROOM
    ours.members_from(made_up(2000), 3.0)
    assert len(names(ours)) == ROOM


def test_hosts_heard_of_are_greeted_a_few_at_a_time():
    """Each greeting is a connection, to an address that the reporting host chose."""
    me = member("h1")
    table = Table(me, LimConfig(max_hosts=2000), 4.0, now_s=0.0)
    ours = Membership(me, table, WaysIn(""), 0.0)
    at_once = ours.members_from(made_up(1000), 2.0)
    assert [type(action) for action in at_once] == [Send] * GREETED_FIRST
    assert ours.members_from(made_up(1000), 3.0) == []  # they are known by now
    assert len(names(ours)) == 1001
    rng, greeted = Random(7), {action.to for action in at_once}
    for _ in range(2000):
        later = ours.greet_again(4.0, rng)
        assert len(later) <= GREETED_LATER
        greeted |= {action.to for action in later}
        if len(greeted) == 1000:
            return
    pytest.fail(f"only {len(greeted)} were ever greeted")


def test_who_speaks_for_itself_takes_the_place_of_one_that_never_has(ours):
    ours.members_from(made_up(1000), 2.0)
    for number in range(4, 4 + ROOM - 3):
        refusal, _ = ours.hello_from(m.Hello(member(f"h{number}"), False), float(number))
        assert refusal is None
        assert len(names(ours)) == ROOM
        ours.members_from(made_up(1000), number + 0.5)
    real = {HostId(f"h{number}") for number in range(1, ROOM + 1)}
    assert names(ours) == real
    refusal, _ = ours.hello_from(m.Hello(member("h99"), False), 99.0)
    assert refusal is not None
    assert "is full" in refusal.error
    assert names(ours) == real


def test_a_false_address_of_a_host_is_corrected_when_that_host_speaks(ours):
    ours.members_from([replace(member("h4"), address="192.0.2.66")], 2.0)
    truth = member("h4")
    assert ours.hello_from(m.Hello(truth, False), 2.5)[0] is None
    assert ours._table.entries[HostId("h4")].member.lim_target == truth.lim_target
    ours.members_from([replace(truth, address="192.0.2.66")], 3.0)
    assert ours._table.entries[HostId("h4")].member.lim_target == truth.lim_target


def test_who_has_spoken_is_told_of_before_who_was_heard_of(ours):
    """A list that is too long for a message loses its end."""
    table = ours._table
    table.remove(HostId("h2"))
    ours.members_from([member("ghost")], 2.0)
    table.add(member("h2"), listed=True, now_s=3.0)
    table.record(sample("h2", 1), 4.0)
    table.record(sample("h1", 1), 4.0)
    assert [one.name for one in told_of(table)] == ["h1", "h3", "h2", "ghost"]


def test_at_first_hosts_that_are_up_may_not_have_been_heard_of(ours):
    table, h3 = ours._table, ours._table.entries[HostId("h3")]
    assert awaits_news(ours, table, 0.1)
    assert not awaits_news(ours, table, ours.started_at_s + FIRST_NEWS_S), "by then they have been"
    for name in ("h1", "h2"):
        table.record(sample(name, 1), 0.1)
    assert awaits_news(ours, table, 0.1)
    table.skewed(h3.member.name, "too old")
    assert not awaits_news(ours, table, 0.1), "of that one nothing will be heard"
    h3.skew, h3.left = "", True
    assert not awaits_news(ours, table, 0.1)
    h3.left = False
    table.record(sample("h3", 1), 0.1)
    assert not awaits_news(ours, table, 0.1)
