"""Who is a member, as one host sees it: what it says to others and believes of them."""

from dataclasses import replace

import pytest

from lbd.config.schema import LimConfig
from lbd.lim.core import messages as m
from lbd.lim.core.events import SaveIncarnation
from lbd.lim.core.membership import (
    CLOCK_WRONG_MS,
    FIRST_ASKED,
    GREETED_FIRST,
    INTRODUCED_MAX,
    TOO_HIGH,
    Membership,
)
from lbd.lim.core.table import Table
from lbd.lim.core.ways_in import WaysIn
from lbd.model import HostState
from lbd.testing.builders import host, member, sample

H1, H2, H3, H9 = map(host, (1, 2, 3, 9))
PARAMS = LimConfig(max_hosts=4)


@pytest.fixture
def ours():
    """h1, started as number 5, with the configured h2; h3 has joined as number 7."""
    me = member("h1", 0, 5)
    table = Table(me, PARAMS, 4.0, now_s=0.0)
    table.add(member("h2", 1, 0), listed=True, now_s=0.0)
    made = Membership(me, table, WaysIn(""), 0.0)
    assert made.hello_from(m.Hello(member("h3", 2, 7), False), 1.0)[0] is None
    return made


def message(name, incarnation, body=m.Probe()):  # noqa: B008 (immutable)
    return m.Message("test", host(int(name[1:])), incarnation, body)


def test_the_best_ranked_hosts_are_greeted_first_and_a_few_of_them_asked_for_others():
    table = Table(member("h1"), LimConfig(), 4.0, now_s=0.0)
    for number in range(2, GREETED_FIRST + 5):
        table.add(member(f"h{number}", 1000 - number), listed=True, now_s=0.0)
    sent = Membership(member("h1"), table, WaysIn("10.0.0.2:7901"), 0.0).first_hellos()
    last = GREETED_FIRST + 4
    assert [one.to for one in sent] == [
        *(f"h{number}" for number in range(last, last - GREETED_FIRST, -1)), "",
    ]  # fmt: skip
    asked = [one.body.wants_members for one in sent]
    assert asked == [True] * FIRST_ASKED + [False] * (GREETED_FIRST - FIRST_ASKED) + [True]
    assert sent[-1].target == "10.0.0.2:7901"


@pytest.mark.parametrize(
    ("known", "after_hello", "incarnation"),
    [
        (0, True, 5), (4, True, 5), (5, False, 5), (5, True, 6), (6, False, 7),
        (5 + CLOCK_WRONG_MS - 1, False, 5 + CLOCK_WRONG_MS), (5 + CLOCK_WRONG_MS, False, 5),
    ],
)  # fmt: skip
def test_where_we_are_known_as_started_later_we_say_hello_as_started_later_still(
    ours, known, after_hello, incarnation
):
    changed, (*others, hello) = ours.unknown_at(H2, known, after_hello)
    assert changed == (incarnation != 5)
    if changed:
        assert others == [SaveIncarnation(incarnation)], "its next start must be above that"
    else:
        assert [one.text for one in others] == [TOO_HIGH.format(H2)] * (known >= 5 + CLOCK_WRONG_MS)
    assert ours.me.incarnation == ours._table.entries[H1].member.incarnation == incarnation
    assert (hello.to, hello.body.self, hello.body.wants_members) == (H2, ours.me, True)
    ours.hello_answered(H3, H3)
    (hello,) = ours.unknown_at(H2, 0, False)[1]
    assert not hello.body.wants_members, "some host has taken us in"


def test_how_high_others_can_make_us_go_is_by_the_clock_and_no_more_with_each_start():
    """One host could lock another out for good: one whose clock was set back later."""
    clock_ms = 10 * CLOCK_WRONG_MS
    me = member("h1", 0, clock_ms + CLOCK_WRONG_MS)  # above what others knew at its last start
    ours = Membership(me, Table(me, PARAMS, 4.0, now_s=0.0), WaysIn("h2:1"), 0.0, clock_ms)
    changed, (said, _) = ours.unknown_at(H2, me.incarnation, True)
    assert (changed, said.text, ours.me) == (False, TOO_HIGH.format(H2), me)


def test_nobody_can_make_us_say_hello_without_end(ours):
    said = [len(ours.unknown_at(H2, 0, False)[1]) for _ in range(INTRODUCED_MAX + 3)]
    assert said == [1] * INTRODUCED_MAX + [0] * 3
    assert len(ours.unknown_at(H3, 0, False)[1]) == 1
    ours._introduced.clear()  # as with each keep-alive
    assert len(ours.unknown_at(H2, 0, False)[1]) == 1


def test_a_host_that_mentions_strangers_is_asked_for_them_once_a_keep_alive(ours):
    later_s = (0.0, PARAMS.keepalive_s - 0.1, PARAMS.keepalive_s)
    sent = [ours.ask_members(H2, 100.0 + more_s) for more_s in later_s]
    assert [len(actions) for actions in sent] == [1, 0, 1]
    assert (sent[0][0].to, sent[0][0].body.wants_members) == (H2, True)


@pytest.mark.parametrize(
    ("name", "incarnation", "known"),
    [("h9", 1, False), ("h3", 6, False), ("h3", 7, True), ("h3", 8, True), ("h1", 5, False)],
)
def test_whose_messages_count(ours, name, incarnation, known):
    assert ours.knows(name, incarnation, 50.0) == known
    if known:
        entry = ours._table.entries[H3]
        assert (entry.heard_at_s, entry.member.incarnation) == (50.0, incarnation)
        assert entry.before_s == (1.0 if incarnation == 8 else -float("inf"))
        # it may have another address now, and says which in its Hello
        assert entry.has_said_hello == (incarnation != 8)


def test_a_host_that_has_left_is_known_again_after_its_next_start(ours):
    ours.left(H3, for_good=False)
    assert ours._table.state(H3, 2.0)[0] is HostState.DOWN
    assert not ours.knows(H3, 7, 2.0)
    assert ours.knows(H3, 8, 2.0), "whether or not its Hello has arrived"


def test_a_joined_host_that_leaves_for_good_is_forgotten_and_a_configured_one_is_not(ours):
    assert [one.text for one in ours.left(H3, for_good=True)] == ["host h3 has left"]
    assert [one.text for one in ours.left(H2, for_good=True)] == ["host h2 has left"]
    assert set(ours._table.entries) == {H1, H2}
    assert ours._table.entries[H2].left
    assert ours.left(H9, for_good=True) == []
    # messages that were under way do not bring it back
    assert ours.unknown(H3) == m.Ack(unknown_sender=True, known_incarnation=7)
    refusal, _ = ours.hello_from(m.Hello(member("h3", 2, 7), False), 3.0)
    assert refusal == m.Ack(unknown_sender=True, known_incarnation=7)
    assert ours.members_from([member("h3", 2, 7)], 3.0) == []
    assert H3 not in ours._table.entries
    assert ours.hello_from(m.Hello(member("h3", 2, 8), False), 4.0)[0] is None
    assert ours.unknown(H9) == m.Ack(unknown_sender=True, known_incarnation=0)


def test_an_older_start_of_a_host_is_told_which_is_known(ours):
    refusal, said = ours.hello_from(m.Hello(member("h3", 2, 6), False), 100.0)
    assert (refusal, said) == (m.Ack(unknown_sender=True, known_incarnation=7), [])


def test_a_full_table_takes_nobody_in(ours):
    assert ours.hello_from(m.Hello(member("h4"), False), 1.0)[0] is None
    refusal, _ = ours.hello_from(m.Hello(member("h9"), False), 1.0)
    assert refusal.error == "the table of h1 is full (lim.max_hosts = 4)"
    (said,) = ours.members_from([member("h8"), member("h9")], 1.0)
    assert said.warning
    assert len(ours._table.entries) == 4


def test_a_joined_host_is_forgotten_when_it_was_not_heard_for_long(ours):
    limit_s = 1.0 + PARAMS.forget_after_s
    assert ours.forget_the_lost(limit_s) == []
    assert [one.peer for one in ours.forget_the_lost(limit_s + 0.1)] == [H3]
    assert ours.forget_the_lost(limit_s + 0.1) == []
    assert set(ours._table.entries) == {H1, H2}


def test_only_a_known_host_that_is_not_heard_is_lost(ours):
    ours._table.record(sample("h3", 1, incarnation=7), 10.0)
    for now_s, lost in (
        (10.0, [H2]), (10.0 + PARAMS.stale_after_s - 0.1, [H2]),
        (10.0 + PARAMS.stale_after_s, [H2, H3]), (10.0 + PARAMS.down_after_s, [H2, H3]),
    ):  # fmt: skip
        assert [name for name in (H1, H2, H3, H9) if ours.is_lost(name, now_s)] == lost
        for name in (H1, H2, H3, H9):
            gone = ours.gone(message("h2", 1, m.Forget(name)), now_s)
            assert gone == (name if name in (*lost, H9) else None)
    assert ours.gone(message("h2", 1, m.Leave()), 10.0) == H2


def test_a_refusal_is_logged_with_who_refused(ours):
    (said,) = ours.refused(H2, m.Ack(error="full"), 1.0, is_proved=False)
    assert (said.text, said.warning, said.peer) == ("refused by h2: full", True, H2)
    ours.ways_in.target = "10.0.0.2:7901"
    (said,) = ours.refused(host(0)[:0], m.Ack(error="full"), 1.0, is_proved=False)
    assert said.text == "refused by 10.0.0.2:7901: full"


def test_what_a_host_says_of_itself_replaces_what_others_said(ours):
    before = ours._table.entries[H3].member
    moved = replace(before, incarnation=8, address="10.9.9.9")
    (said,) = ours.hello_from(m.Hello(moved, False), 100.0)[1]
    assert said.text == "host h3 is here address=10.9.9.9:7901"
    assert ours._table.entries[H3].member == moved
    assert ours.hello_from(m.Hello(moved, False), 101.0)[1] == [], "that is no news"
