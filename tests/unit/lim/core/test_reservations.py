from random import Random

import pytest

from lbd.config.schema import LimConfig
from lbd.lim.core import messages as m
from lbd.lim.core.reservations import Reservations
from lbd.lim.core.table import Table
from lbd.model import HostId
from lbd.testing.builders import member, sample, vector

H2, H3 = HostId("h2"), HostId("h3")


class Ours:
    """The reservations of h1, and what it knows of h2 and h3."""

    def __init__(self, local=0.0, **loads):
        params = LimConfig(algorithm="RESERVE", reservations=2)
        self.table = Table(member("h1"), params, 4.0, now_s=0.0)
        self.number = 0
        for name in ("h2", "h3", "h4"):
            self.table.add(member(name), listed=True, now_s=0.0)
        self.load(h1=local, h2=0.0, h3=0.0, h4=0.0)
        self.load(**loads)
        self.reservations = Reservations(self.table, Random(1))

    def load(self, **loads):
        self.number += 1
        for name, load in loads.items():
            self.table.record(sample(name, self.number, vector(load)), 0.0)

    def said(self):
        return self.reservations.exchange(self.table.own_sample(0.0), 0.0)

    def asked(self):
        said = self.said()
        assert all(isinstance(body, m.Reserve) for _, body in said)
        return {name for name, _ in said}


def test_nobody_reserves_in_an_idle_cluster():
    assert not Ours().said()


def test_a_light_host_reserves_with_those_it_believes_loaded():
    ours = Ours(h3=3.0)
    assert ours.asked() == {H3}
    ours.reservations.answered(H3, m.ReserveReply(True, sample("h3", 1)))
    assert not ours.said()  # it has one there
    ours.reservations.used(H3)
    assert ours.asked() == {H3}


def test_after_a_departure_it_also_asks_others_up_to_r():
    ours = Ours(h3=3.0)
    ours.reservations.departed()
    asked = ours.asked()
    assert H3 in asked
    assert len(asked) == 2
    assert ours.asked() == {H3}


def test_a_drop_in_load_counts_as_a_departure():
    ours = Ours(local=2.0)
    assert not ours.said()
    ours.load(h1=0.3)
    assert len(ours.asked()) == 2


def test_a_loaded_host_waits_once_it_has_cancelled_everything():
    ours = Ours(local=2.0)
    assert not ours.reservations.wait()  # it was not asked before
    assert not ours.said()
    assert ours.reservations.wait()
    ours.reservations.answered(H3, m.ReserveReply(True, sample("h3", 1)))  # asked for long ago
    assert not ours.reservations.wait()
    assert ours.said() == [(H3, m.Unreserve())]
    assert ours.reservations.wait()
    ours.load(h1=0.3)
    assert not ours.reservations.wait()


def test_a_rise_in_load_cancels_everything():
    ours = Ours(h3=3.0)
    ours.reservations.answered(H3, m.ReserveReply(True, sample("h3", 1)))
    ours.load(h1=2.0)
    assert ours.said() == [(H3, m.Unreserve())]
    assert not ours.said()


def test_one_that_has_left_before_its_answer_came_is_told_nothing():
    """Nobody knows its address any more: that ended the LIM."""
    ours = Ours(h3=3.0)
    ours.table.remove(H3)
    ours.reservations.answered(H3, m.ReserveReply(True, sample("h3", 1)))
    ours.load(h1=2.0)
    assert not ours.said()
    assert not ours.reservations.made


def test_a_refusal_is_no_reservation():
    ours = Ours(h3=3.0)
    ours.reservations.answered(H3, m.ReserveReply(False, sample("h3", 1)))
    assert not ours.reservations.made


def test_reservations_are_accepted_only_by_a_loaded_host_newest_last():
    ours = Ours(local=2.0)
    assert ours.reservations.asked(H2)
    assert ours.reservations.asked(H3)
    assert ours.reservations.asked(H2)  # again
    assert ours.reservations.held == [H3, H2]
    ours.reservations.cancelled(H3)
    assert ours.reservations.held == [H2]
    ours.load(h1=0.2)
    assert not ours.reservations.asked(H3)


def test_under_another_algorithm_none_is_accepted():
    ours = Ours(local=2.0)
    ours.table.set_params(LimConfig(algorithm="GLOBAL"), 4.0, {})
    assert not ours.reservations.asked(H2)


def test_a_reservation_with_a_host_that_is_down_no_longer_counts():
    ours = Ours(h2=3.0, h3=3.0)
    for name in ours.asked():
        ours.reservations.answered(name, m.ReserveReply(True, sample(name, 1)))
    assert not ours.said()
    ours.table.leave(H2)
    ours.load(h4=3.0)
    assert ours.asked() == {HostId("h4")}
    assert ours.reservations.made == {H3}


@pytest.mark.parametrize("changed", [{"drained": True}, {"load": vector(0.0, accepting=False)}])
def test_a_host_that_accepts_no_jobs_cancels_everything(changed):
    ours = Ours(h3=3.0)
    ours.reservations.answered(H3, m.ReserveReply(True, sample("h3", 1)))
    ours.table.record(sample("h1", 9, **changed), 0.0)
    assert ours.said() == [(H3, m.Unreserve())]


def test_no_reservation_is_left_in_either_direction_with_a_forgotten_host():
    ours = Ours(local=2.0)
    assert ours.reservations.asked(H2)
    ours.reservations.answered(H2, m.ReserveReply(True, sample("h2", 1)))
    ours.reservations.forget(H2)
    assert (ours.reservations.held, ours.reservations.made) == ([], set())


def test_a_host_that_is_down_is_not_asked():
    ours = Ours(h2=3.0, h3=3.0)
    ours.table.leave(H2)
    assert ours.asked() == {H3}
