from random import Random

import pytest

from lbd.config import ALGORITHMS, LimConfig
from lbd.model import HostId, Placement, Verdict
from lbd.policy.registry import POLICIES
from lbd.policy.view import NO_SLOT, Ask, Nowhere, Probe, Reply
from lbd.testing.builders import request, view

BUSY = {"h1": 3.0, "h2": 0.5, "h3": 1.0, "h4": 0.05}
ELSEWHERE = Placement(Verdict.THERE, HostId("h2"), "centre-lowest")


def step(algorithm, seen, replies=(), seed=1, **wish):
    return POLICIES[algorithm].next_step(request(**wish), seen, replies, Random(seed))


def answered(*hosts):
    return tuple(Reply(HostId(name), answered=True) for name in hosts)


def silent(*hosts):
    return tuple(Reply(HostId(name), answered=False) for name in hosts)


def test_every_algorithm_of_the_configuration_is_there():
    assert set(POLICIES) == set(ALGORITHMS)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_algorithm_moves_a_command_from_a_host_below_the_threshold(algorithm):
    found = step(algorithm, view({"h1": 0.5, "h2": 0.0}, centre="h2"))
    assert (found.verdict, found.reason) == (Verdict.HERE, "below-threshold")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_obeys_the_user(algorithm):
    seen = view(BUSY, centre="h1")
    assert step(algorithm, seen, wanted="h3").host == "h3"
    assert step(algorithm, seen, must_stay=True).host == "h1"


def test_global_takes_the_lowest_of_its_own_vector():
    assert step("GLOBAL", view(BUSY)).host == "h4"


def test_nolb_moves_only_what_may_not_stay():
    assert step("NOLB", view(BUSY)).reason == "no-balancing"
    assert step("NOLB", view(BUSY), must_leave=True).host == "h4"


# -- CENTRAL -------------------------------------------------------------------------------------


def test_central_asks_the_centre_and_does_as_told():
    seen = view(BUSY, centre="h3")
    assert step("CENTRAL", seen) == Ask(HostId("h3"))
    told = (Reply(HostId("h3"), True, ELSEWHERE),)
    assert step("CENTRAL", seen, told) is ELSEWHERE
    nowhere = Nowhere("no-willing-host")
    assert step("CENTRAL", seen, (Reply(HostId("h3"), True, nowhere),)) is nowhere


def test_central_decides_itself_where_the_centre_is_here():
    assert step("CENTRAL", view(BUSY, centre="h1")).host == "h4"


@pytest.mark.parametrize(("centre", "replies"), [("h3", silent("h3")), (None, ())])
def test_central_without_the_centre_stays_here(centre, replies):
    seen = view(BUSY, centre=centre)
    found = step("CENTRAL", seen, replies)
    assert (found.verdict, found.reason) == (Verdict.HERE, "centre-silent")
    assert step("CENTRAL", seen, replies, must_leave=True).host == "h4"


# -- LOWEST --------------------------------------------------------------------------------------


def test_lowest_asks_one_host_at_a_time_each_once():
    seen = view({"h1": 3.0, "h2": 0.5, "h3": 1.0, "h4": 0.9}, params=LimConfig(probe_limit=3))
    replies = ()
    asked = []
    while isinstance(found := step("LOWEST", seen, replies, seed=len(asked)), Probe):
        (host,) = found.hosts
        asked.append(host)
        replies += answered(host)
    assert sorted(asked) == ["h2", "h3", "h4"]
    assert found.host == "h2"


def test_lowest_stops_at_its_limit_and_picks_among_the_asked():
    seen = view(BUSY, params=LimConfig(probe_limit=2))
    found = step("LOWEST", seen, answered("h2", "h3"))
    assert (found.verdict, found.host) == (Verdict.THERE, "h2")  # h4 is lower, but was not asked


def test_lowest_stops_at_an_empty_host():
    seen = view(BUSY, params=LimConfig(probe_limit=3))
    assert step("LOWEST", seen, answered("h4")).host == "h4"


def test_lowest_counts_the_silent_as_asked_and_shares_the_time():
    seen = view(BUSY, params=LimConfig(probe_limit=3))
    assert step("LOWEST", seen).time_share == pytest.approx(1 / 3)
    assert step("LOWEST", seen, silent("h2")).time_share == pytest.approx(1 / 2)
    found = step("LOWEST", seen, silent("h2", "h3", "h4"))
    assert (found.verdict, found.reason) == (Verdict.HERE, "no-willing-host")


def test_lowest_asks_nobody_who_could_not_take_it():
    whys = {"h2": "drained", "h3": "avoided: x", "h4": NO_SLOT}
    seen = view(BUSY, whys=whys)
    for seed in range(20):
        assert step("LOWEST", seen, seed=seed).hosts == ("h4",)
    assert step("LOWEST", seen, excluded=["h4"]).reason == "no-willing-host"
