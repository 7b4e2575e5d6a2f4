"""A host that floods with calls is kept away; one that has many for good reason is not."""

import pytest

from lbd.net import guarded_calls
from lbd.net.call_floods import (
    ADDRESSES_MAX,
    ANY_PORT,
    AWAY_S,
    AWAY_S_MAX,
    LEFT_MAX,
    CallFloods,
    Flood,
)

H2, H3 = ("10.0.0.2", 40_000), ("10.0.0.3", 40_000)
FROM_H2 = ("10.0.0.2", ANY_PORT)


def flood(floods, now_s, place=H2, begun=0):
    """Floods until it is noticed; returns when that was, and the outcome."""
    for _ in range(100):
        now_s, begun = now_s + 0.1, begun + 1500
        if found := floods.look({place: begun}, now_s):
            return now_s, found
    pytest.fail("not seen")


def test_whose_calls_are_left_again_and_again_is_kept_away():
    floods = CallFloods()
    now_s, found = flood(floods, 0.0)
    assert found == [Flood(FROM_H2, AWAY_S)]
    assert now_s < 1
    assert floods.away(now_s) == {FROM_H2}
    assert floods.away(now_s + AWAY_S) == set()


def test_its_connections_count_together_also_those_that_are_gone():
    floods, seen = CallFloods(), []
    for n in range(40):
        seen += floods.look({("10.0.0.2", 40_000 + n): 600}, n / 10)
    assert [one.source for one in seen] == [FROM_H2]


def test_a_host_may_have_as_many_calls_at_once_as_it_may_have_under_way():
    """All `lbrun -q` of an LBM ask again as soon as the dispatcher is back."""
    floods, left = CallFloods(), 0
    for n in range(8):
        left += LEFT_MAX // 8
        assert floods.look({H2: left}, n / 10) == []
    assert floods.look({H2: 0}, 0.9) == []
    assert floods.is_calm
    assert LEFT_MAX == guarded_calls.CALLS_MAX


def test_calls_that_arrived_while_the_process_was_stopped_are_no_flood():
    """Calls were given up and repeated: gRPC has started them all, and their clients have left."""
    floods = CallFloods()
    for n in range(100):
        assert floods.look({H2: 100_000, H3: 3}, 60 + n / 10) == []
    assert floods.is_calm


def test_calls_that_grpc_ended_during_the_flood_of_another_are_forgiven():
    floods = CallFloods()
    for second in range(1, 600):
        assert floods.look({H3: 400 * second}, float(second)) == []


def test_a_host_that_floods_again_is_noticed_sooner_and_kept_away_longer():
    floods = CallFloods()
    now_s, (first,) = flood(floods, 0.0)
    stays, looks = [first.away_s], []
    for _ in range(6):
        back_s = now_s + stays[-1] + 1
        now_s, (again,) = flood(floods, back_s)
        stays.append(again.away_s)
        looks.append(round((now_s - back_s) / 0.1))
    assert stays[:3] == [AWAY_S, 2 * AWAY_S, 4 * AWAY_S]
    assert stays[-1] == AWAY_S_MAX
    assert max(looks) <= 3


def test_a_host_that_has_behaved_for_that_long_starts_afresh():
    floods = CallFloods()
    now_s, _ = flood(floods, 0.0)
    assert not floods.is_calm
    later_s = now_s + 2 * AWAY_S + 1
    floods.look({}, later_s)
    assert floods.is_calm
    assert flood(floods, later_s)[1] == [Flood(FROM_H2, AWAY_S)]


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9", "::1"])
def test_on_loopback_a_connection_counts_and_not_its_address(address):
    """Hosts of a lab, and users of a host, have the same address."""
    floods = CallFloods()
    _, (found,) = flood(floods, 0.0, (address, 40_000))
    assert found.source == (address, 40_000)


def test_a_limited_number_is_remembered():
    floods = CallFloods()
    for n in range(ADDRESSES_MAX + 20):
        flood(floods, n / 1e6, (f"10.0.{n // 250}.{n % 250}", 1))
    assert len(floods.away(1.0)) <= ADDRESSES_MAX
