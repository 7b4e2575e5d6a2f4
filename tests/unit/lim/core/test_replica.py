"""What a host keeps of what others publish."""

import pytest

from lbd.lim.core.replica import COPIES_MAX, Replica
from lbd.model import HostId
from lbd.testing.builders import host, published, sample, vector
from tests.unit.lim.core.test_publication import H1, H3, H4, SETTINGS, Wire, arrived


@pytest.fixture
def wire():
    made = Wire()
    made.exchange()
    return made


def test_of_a_sender_that_is_not_the_centre_only_its_own_load_is_kept(wire):
    """Hosts of which there are thousands, and one that has thousands of slots."""
    names = [HostId(f"stranger{number}") for number in range(500)] + [H3] * 500
    told = [sample(name, number, vector(1.0)) for number, name in enumerate(names)]
    lie = published(*told)
    assert wire.hand_over(lie, believed=False, sender=H3) == lie.version
    (kept,) = [line.sample for line in wire.replica._copies[H3].lines.values()]
    assert kept == told[-1]
    assert wire.load(H3) == 1.0
    assert not wire.replica.has_strangers, "nobody is asked who the strangers are"


def test_the_load_of_an_acting_centre_follows_what_it_sends(wire):
    other = Wire()
    for load in (1.0, 1.5, 2.5):
        other.hears(H1, load)
        other.hears(H3, load)
        (delta,) = other.period()
        known = wire.hand_over(delta, believed=False)
        other.acknowledge(known)
        assert (known, wire.load(H1), wire.load(H3)) == (delta.version, load, 0.0)


def test_a_sender_that_becomes_the_centre_is_asked_for_everything(wire):
    wire.replica = Replica(wire.table)
    whole = arrived(wire.publication.delta(0, SETTINGS, wire.now_s))
    wire.acknowledge(wire.hand_over(whole, believed=False))
    wire.hears(H3, 1.5)
    (delta,) = wire.period()
    assert wire.replica.has_part_of(H1)
    assert wire.hand_over(delta) == 0
    assert not wire.replica.has_part_of(H1)
    whole = arrived(wire.publication.delta(0, SETTINGS, wire.now_s))
    assert wire.hand_over(whole) == whole.version
    assert wire.load(H3) == 1.5


def test_few_copies_are_kept_and_only_the_centres_is_whole(wire):
    (delta,) = Wire().period()
    for number in range(10, 20):
        wire.hand_over(delta, believed=False, sender=host(number))
    assert len(wire.replica._copies) == COPIES_MAX
    for sender in (H3, H4):
        wire.hand_over(delta, sender=sender)
        assert [name for name, one in wire.replica._copies.items() if one.only is None] == [sender]
