"""Attempts that are proved not to be alive: a host names the same keeper and does not hold them."""

import pytest

from lbd.dispatch.core.records import Fate
from tests.unit.dispatch.core.test_lifecycle import H1, H2
from tests.unit.dispatch.core.test_lifecycle import Table as PlainTable


class Table(PlainTable):
    def sent(self, name, keeper=None):
        """Sends it over a connection whose heartbeats name that keeper."""
        for host in (H1, H2) if keeper is not None else ():
            self.beats(host, [], keeper, is_first=True)
        (begin,) = self.submit(name)
        assert self.life.sending(begin.job, begin.attempt, self.now_s)
        self.life.begun(begin.host, begin.job, begin.attempt)
        return begin

    def beats(self, host, holds, keeper, *, is_first=False, said_s=None):
        """`said_s`: by the host's clock; by default later than all before."""
        self.said_s = getattr(self, "said_s", 0.0) + 1.0
        proof = keeper, self.said_s if said_s is None else said_s
        return self.life.no_longer_held(host, holds, *proof, *self.when, is_first=is_first)


def test_what_a_keeper_no_longer_has_is_over_at_once():
    """The host's LBM was killed; the next one names the same keeper, which runs nothing."""
    table = Table(lease_s=10.0)
    begin = table.sent("1", keeper="k1")
    assert table.beats(begin.host, [], "", is_first=True) == []  # it does not know yet
    changed, again = table.beats(begin.host, [], "k1")
    assert (changed.fate, again.attempt) == (Fate.LOST, 2)
    assert changed.ending.reason == (
        f"{begin.host} no longer has it: its LBM was killed or lost contact; the job begins again"
    )


@pytest.mark.parametrize(
    ("sent_by", "named_by", "is_first", "held"),
    [
        ("k1", "k2", True, False),  # another process: perhaps another machine of that name
        ("k1", "", True, False),  # something of an earlier LBM is alive
        ("", "k1", True, False),
        ("", "", True, False),
        ("k1", "k1", False, False),  # the attempt may still be on its way over this connection
        ("k1", "k1", True, True),
    ],
)
def test_without_a_proof_an_attempt_has_its_lease(sent_by, named_by, is_first, held):
    table = Table(lease_s=10.0)
    begin = table.sent("1", keeper=sent_by)
    holds = [(begin.job, 1)] if held else []
    for _ in range(2):
        assert table.beats(begin.host, holds, named_by, is_first=is_first) == []
        is_first = False
    assert table.life.holder(begin.host, begin.job, 1)


@pytest.mark.parametrize("is_restored", [False, True])
def test_what_a_named_keeper_was_seen_to_have_is_over_once_it_has_it_no_longer(is_restored):
    """The order was sent before the host named its keeper, or by another dispatcher."""
    table = Table(lease_s=10.0)
    begin = table.sent("1", keeper="")
    if is_restored:
        table.life.leased[begin.job].lease.sent = None
    assert table.beats(begin.host, [(begin.job, 1)], "k1") == []
    assert table.beats(begin.host, [], "k1") == []  # over the same connection
    changed, _ = table.beats(begin.host, [], "k1", is_first=True)
    assert changed.fate is Fate.LOST


def test_what_another_keeper_ran_proves_nothing():
    table = Table(lease_s=10.0)
    begin = table.sent("1", keeper="k0")
    assert table.beats(begin.host, [(begin.job, 1)], "k1") == []
    assert table.beats(begin.host, [], "k1", is_first=True) == []
    assert table.life.holder(begin.host, begin.job, 1)


def test_an_attempt_of_an_earlier_dispatcher_has_its_lease():
    table = Table(lease_s=10.0)
    begin = table.begin("1")
    table.life.leased[begin.job].lease.sent = None  # as restored
    assert table.beats(begin.host, [], "k1", is_first=True) == []
    assert table.life.holder(begin.host, begin.job, 1)


def test_what_is_sent_over_a_connection_is_not_judged_by_its_own_heartbeats():
    table = Table(lease_s=10.0)
    table.beats(H1, [], "k1", is_first=True)
    table.beats(H2, [], "k1", is_first=True)
    begin = table.sent("1")
    assert table.beats(begin.host, [], "k1") == []
    changed, _ = table.beats(begin.host, [], "k1", is_first=True)  # the next connection
    assert changed.fate is Fate.LOST


def test_what_was_said_before_the_order_was_sent_proves_nothing():
    """Connections overtake each other: an earlier LBM's first heartbeat may arrive after the one
    over whose connection the attempt was sent."""
    table = Table(lease_s=10.0)
    begin = table.sent("1", keeper="k1")
    assert table.beats(begin.host, [], "k1", is_first=True, said_s=0.5) == []
    assert table.life.holder(begin.host, begin.job, 1)
    changed, _ = table.beats(begin.host, [], "k1", is_first=True)
    assert changed.fate is Fate.LOST
