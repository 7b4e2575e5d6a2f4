"""Which hosts are given jobs: one that fails several in a row is set aside, longer each time."""

import pytest

from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.core.hosts import RECORDS_MAX, HostTable, Terms
from lbd.model import Closed, HostId

H1, H2 = HostId("h1"), HostId("h2")
TERMS = Terms(lease_s=20.0, host_failures=3, aside_s=10.0, aside_max_s=30.0)


@pytest.fixture
def hosts():
    table = HostTable(TERMS)
    assert all(table.heard(HostSlots(name, 2)) for name in (H1, H2))
    return table


def failures(table, count, now_s=0.0):
    return [table.failed(H1, now_s) for _ in range(count)]


def test_a_host_is_set_aside_after_several_failures_in_a_row(hosts):
    assert failures(hosts, 3) == [False, False, True]
    assert hosts.aside() == [H1]
    assert not hosts.heard(HostSlots(H1, 2))
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
    hosts.heard(HostSlots(H1, 2))
    assert H1 in hosts.known


def removed(table, name=H1):
    table.gone(name, None)
    assert table.removed([name])


def test_who_joins_again_is_held_to_what_it_did_before_for_the_longest_pause(hosts):
    failures(hosts, 3)
    removed(hosts)
    assert not hosts.heard(HostSlots(H1, 2))
    assert list(hosts.returning(10.0))
    assert failures(hosts, 1, now_s=10.0) == [True], "for 20 s"
    removed(hosts)
    assert not list(hosts.returning(39.0))
    assert not hosts.heard(HostSlots(H1, 2))
    removed(hosts)
    assert not list(hosts.returning(40.0))
    assert hosts.heard(HostSlots(H1, 2))
    assert failures(hosts, 3, now_s=40.0) == [False, False, True]


def test_of_those_that_have_left_so_many_are_remembered_and_no_more(hosts):
    names = [HostId(f"h{number}") for number in range(RECORDS_MAX + 1)]
    for name in names:
        hosts.failed(name, 0.0)
        removed(hosts, name)
    assert list(hosts.departed) == names[1:]
