"""Which hosts are given jobs: one that fails several in a row is set aside, longer each time."""

import pytest

from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.hosts import HostTable, Terms
from lbd.model import Closed, HostId

H1, H2 = HostId("h1"), HostId("h2")
TERMS = Terms(lease_s=20.0, host_failures=3, aside_s=10.0, aside_max_s=30.0)


@pytest.fixture
def hosts():
    table = HostTable(TERMS)
    assert all(table.heard(HostSlots(name, 2), 0.0) for name in (H1, H2))
    return table


def failures(table, count, now_s=0.0):
    return [table.failed(H1, now_s) for _ in range(count)]


def test_a_host_is_set_aside_after_several_failures_in_a_row(hosts):
    assert failures(hosts, 3) == [False, False, True]
    assert hosts.aside() == [H1]
    assert not hosts.heard(HostSlots(H1, 2), 0.0)
    assert hosts.full(H1, 1) is None
    assert hosts.full(H2, 1).open_slots == 1


def test_failures_while_it_is_aside_do_not_keep_it_aside_longer(hosts):
    failures(hosts, 3)
    assert failures(hosts, 2, now_s=9.0) == [False, False]
    assert [host.name for host in hosts.returning(10.0)] == [H1]


def test_each_time_is_longer_up_to_the_maximum_until_it_has_succeeded(hosts):
    now_s, pauses = 0.0, []
    failures(hosts, 2)
    for worked in (False, False, False, True, False):
        if worked:
            hosts.worked(H1)
            failures(hosts, 2)
        assert failures(hosts, 1, now_s) == [True]
        began_s = now_s
        while not list(hosts.returning(now_s)):
            now_s += 1.0
        pauses.append(now_s - began_s)
    assert pauses == [10.0, 20.0, 30.0, 10.0, 20.0]


def test_a_host_that_was_removed_is_known_no_longer_unless_it_is_connected(hosts):
    hosts.gone(H2, Closed.DRAINED)
    hosts.removed([H1, H2])
    assert list(hosts.known) == [H1, H2]
    hosts.gone(H1, None)
    hosts.removed([HostId("h9")])
    assert hosts.out_of_contact() == [H1]
    hosts.removed([H1, H2])
    assert list(hosts.known) == [H2]
    hosts.heard(HostSlots(H1, 2), 0.0)
    assert H1 in hosts.known
