from random import Random

import pytest

from lbd.config.schema import ALGORITHMS, LimConfig
from lbd.model import HostId, Placement, Verdict
from lbd.policy.lowest import EMPTY
from lbd.policy.needs import Unmet
from lbd.policy.registry import POLICIES, WEIGH_AGE
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


def test_every_algorithm_in_the_configuration_exists():
    assert set(POLICIES) == set(ALGORITHMS)
    assert set(WEIGH_AGE) < set(POLICIES)
    of_changes = {name for name, policy in POLICIES.items() if policy.reporting.of_changes}
    assert of_changes == {"GLOBAL", "DISTED", "CENTRAL", "P2C", "PREDICT"}


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


def test_nolb_moves_only_commands_that_must_leave():
    assert step("NOLB", view(BUSY)).reason == "no-balancing"
    assert step("NOLB", view(BUSY), must_leave=True).host == "h4"


# -- CENTRAL -------------------------------------------------------------------------------------


def test_central_asks_the_centre_and_follows_it():
    seen = view(BUSY, centre="h3")
    assert step("CENTRAL", seen) == Ask(HostId("h3"))
    told = (Reply(HostId("h3"), True, ELSEWHERE),)
    assert step("CENTRAL", seen, told) is ELSEWHERE
    nowhere = Nowhere("no-willing-host")
    assert step("CENTRAL", seen, (Reply(HostId("h3"), True, nowhere),)) is nowhere


def test_central_decides_itself_at_the_centre():
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


def test_lowest_stops_at_its_limit_and_picks_among_those_asked():
    seen = view(BUSY, params=LimConfig(probe_limit=2))
    found = step("LOWEST", seen, answered("h2", "h3"))
    assert (found.verdict, found.host) == (Verdict.THERE, "h2")  # h4 is lower, but was not asked


@pytest.mark.parametrize(("load", "stops"), [(0.0, True), (EMPTY, True), (EMPTY + 0.01, False)])
def test_lowest_stops_at_an_empty_host(load, stops):
    seen = view(BUSY | {"h4": load}, params=LimConfig(probe_limit=3))
    assert isinstance(step("LOWEST", seen, answered("h4")), Placement) == stops


def test_lowest_counts_silent_hosts_as_asked_and_divides_the_time():
    seen = view(BUSY, params=LimConfig(probe_limit=3))
    for seed in range(20):
        assert step("LOWEST", seen, seed=seed).time_share == pytest.approx(1 / 3)
        assert step("LOWEST", seen, silent("h2"), seed).time_share == pytest.approx(1 / 2)
    found = step("LOWEST", seen, silent("h2", "h3", "h4"))
    assert (found.verdict, found.reason) == (Verdict.HERE, "no-willing-host")


def test_lowest_asks_no_host_that_could_not_accept_it():
    whys = {"h2": "drained", "h3": "avoided: x", "h4": NO_SLOT}
    seen = view(BUSY, whys=whys)
    for seed in range(20):
        assert step("LOWEST", seen, seed=seed).hosts == ("h4",)
    assert step("LOWEST", seen, excluded=["h4"]).reason == "no-willing-host"


# -- RANDOM --------------------------------------------------------------------------------------


def test_random_considers_no_load():
    seen = view({"h1": 3.0, "h2": 9.0, "h3": 0.0, "h4": 1.0}, whys={"h4": "drained"})
    found = [step("RANDOM", seen, seed=seed) for seed in range(40)]
    assert {placement.host for placement in found} == {"h2", "h3"}
    assert {placement.reason for placement in found} == {"random"}


def test_random_stays_or_waits_if_no_host_would_accept_it():
    seen = view({"h1": 3.0, "h2": 0.0}, whys={"h2": NO_SLOT})
    assert step("RANDOM", seen).reason == "no-free-slot"
    assert step("RANDOM", seen, may_wait=True).verdict is Verdict.WAIT
    assert isinstance(step("RANDOM", seen, must_leave=True), Nowhere)


# -- THRHLD --------------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [0.0, 0.7])
def test_thrhld_takes_the_first_below_the_threshold(threshold):
    seen = view(BUSY, params=LimConfig(local_threshold=threshold))
    assert step("THRHLD", seen, answered("h3", "h2")).host == "h2"
    assert step("THRHLD", seen, answered("h2", "h4")).host == "h2"  # though h4 is lower


def test_thrhld_asks_no_more_than_its_limit_and_then_stays():
    seen = view({"h1": 3.0, "h2": 1.0, "h3": 1.2, "h4": 0.0}, params=LimConfig(probe_limit=2))
    assert isinstance(step("THRHLD", seen, answered("h2")), Probe)
    found = step("THRHLD", seen, answered("h2", "h3"))
    assert (found.verdict, found.reason) == (Verdict.HERE, "none-below-threshold")
    assert step("THRHLD", seen, answered("h2", "h3"), must_leave=True).host == "h2"
    assert step("THRHLD", seen, silent("h2", "h3")).reason == "none-below-threshold"


def test_thrhld_waits_if_those_it_asked_are_full():
    seen = view({"h1": 3.0, "h2": 0.0}, whys={"h2": NO_SLOT}, params=LimConfig(probe_limit=1))
    assert step("THRHLD", seen, answered("h2"), may_wait=True).verdict is Verdict.WAIT


# -- RESERVE -------------------------------------------------------------------------------------


def reserved(*names, **more):
    seen = view(BUSY, **more)
    seen.reserved = tuple(map(HostId, names))
    return seen


def test_reserve_tries_the_newest_reservation_first():
    seen = reserved("h3", "h2")
    assert step("RESERVE", seen) == Probe((HostId("h3"),), pytest.approx(1 / 3))
    # h3 is no longer lightly loaded
    assert step("RESERVE", seen, answered("h3")) == Probe((HostId("h2"),), pytest.approx(1 / 2))
    found = step("RESERVE", seen, answered("h3", "h2"))
    assert (found.verdict, found.host) == (Verdict.THERE, "h2")


def test_reserve_tries_the_next_if_the_newest_accepts_nothing():
    seen = reserved("h4", "h2", whys={"h4": "drained"})
    assert step("RESERVE", seen, answered("h4")).hosts == ("h2",)


def test_reserve_without_a_reservation_stays():
    found = step("RESERVE", reserved())
    assert (found.verdict, found.reason) == (Verdict.HERE, "no-reservation")
    assert step("RESERVE", reserved(), must_leave=True).host == "h4"
    assert step("RESERVE", reserved("h4"), excluded=["h4"]).reason == "no-reservation"


def test_reserve_tries_no_more_than_its_limit():
    seen = reserved("h4", "h3", "h2", params=LimConfig(probe_limit=2))
    assert step("RESERVE", seen, silent("h4", "h3")).reason == "no-reservation"


# -- switching -----------------------------------------------------------------------------------

SO_FAR = [
    (), answered("h2"), silent("h2"), answered("h3", "h4"), silent("h2", "h3", "h4"),
    (Reply(HostId("h3"), True, ELSEWHERE),), (Reply(HostId("h3"), answered=False),),
]  # fmt: skip


@pytest.mark.parametrize("replies", SO_FAR)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_algorithm_continues_from_what_another_has_asked(algorithm, replies):
    """It may be changed while a command's questions are in progress."""
    seen = reserved("h2", "h3", centre="h3")
    for seed in range(10):
        found, more = None, replies
        for _ in range(10):
            found = step(algorithm, seen, more, seed=seed)
            if isinstance(found, Placement):
                break
            names = found.hosts if isinstance(found, Probe) else (found.centre,)
            more += answered(*names)
        assert isinstance(found, Placement)


def test_lowest_does_not_stop_at_an_empty_host_that_accepts_nothing():
    seen = view({"h1": 3.0, "h2": 0.0, "h3": 2.0}, whys={"h2": NO_SLOT})
    assert step("LOWEST", seen, answered("h2")).hosts == ("h3",)


def test_a_host_that_is_late_is_worth_asking():
    seen = view({"h1": 3.0, "h2": 0.0}, whys={"h2": "late"})
    assert step("LOWEST", seen).hosts == ("h2",)


@pytest.mark.parametrize("algorithm", ["LOWEST", "THRHLD"])
def test_a_dead_host_is_not_asked(algorithm):
    seen = view({"h1": 3.0, "h2": 0.0, "h3": 0.0}, dead=["h2"])
    asked = {step(algorithm, seen, seed=seed).hosts for seed in range(20)}
    assert asked == {("h3",)}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_host_that_answered_may_be_forgotten_by_now(algorithm):
    seen = view(BUSY, params=LimConfig(probe_limit=1))
    assert step(algorithm, seen, answered("h9")) is not None


def test_a_host_is_worth_asking_if_its_resources_are_in_use_by_others():
    """They may have been given back since."""
    taken = Unmet("its gpu is in use", later=True)
    for lack, found in ((taken, Probe(("h2",), 1 / 3)), (Unmet("no gpu", later=False), None)):
        seen = view({"h1": 3.0, "h2": 0.5}, params=LimConfig(probe_limit=3))
        h2 = HostId("h2")
        seen.hosts[h2] = seen.hosts[h2].needing(lack)
        asked = step("LOWEST", seen)
        assert (asked if isinstance(asked, Probe) else None) == found


def test_thrhld_takes_no_host_that_did_not_answer():
    """However light it was believed to be."""
    seen = view({"h1": 2.0, "h2": 0.0})
    assert step("THRHLD", seen, silent("h2")).verdict is Verdict.HERE
    assert step("THRHLD", seen, answered("h2")).host == "h2"
