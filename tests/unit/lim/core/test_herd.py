"""Many commands at the same time, before any load has changed: they must not all go to one host."""

from collections import Counter
from random import Random

import pytest

from lbd.config.schema import LimConfig
from lbd.lim.core import messages as m
from lbd.lim.core.placement import Placer
from lbd.lim.core.reservations import Reservations
from lbd.lim.core.table import Table
from lbd.model import HostId, Verdict
from lbd.policy.view import Probe, Reply
from lbd.testing.builders import member, request, sample, vector

CALLERS = 64
OWN = ("P2C", "PREDICT")


def placer(me, loads, algorithm, seed=1, slots=1000, centre=None):
    """Returns the placer of host `me`, which knows these loads (of hosts with one core)."""
    table = Table(member(me), LimConfig(algorithm=algorithm), 4.0, now_s=0.0)
    for name, load in loads.items():
        if name != me:
            table.add(member(name), listed=True, now_s=0.0)
        table.record(sample(name, 1, vector(load, cores=1.0, slots=(slots, 0))), 0.0)
    made = Placer(table, Reservations(table, Random(seed)), Random(seed))
    made.centre = HostId(centre or me)
    return made


def decide(made, job, now_s=0.0):
    """Decides as the daemon does; every probed host answers what the table knows."""
    wish, replies = request(job), ()
    while isinstance(step := made.next_step(wish, replies, now_s), Probe):
        replies += tuple(Reply(host, answered=True) for host in step.hosts)
    return made.settle(wish, step, now_s, dry=False)


IDLE = [f"h{n}" for n in range(2, 34)]


@pytest.mark.parametrize("algorithm", ["GLOBAL", "DISTED", "CENTRAL"])
def test_commands_of_one_host_fill_the_idle_hosts_evenly(algorithm):
    made = placer("h1", {"h1": 5.0, **dict.fromkeys(IDLE, 0.0)}, algorithm)
    picks = Counter(decide(made, f"h1-{n}").host for n in range(CALLERS))
    assert picks == dict.fromkeys(IDLE, CALLERS // len(IDLE))


@pytest.mark.parametrize("algorithm", ["RANDOM", "THRHLD", "LOWEST", "P2C", "PREDICT"])
def test_if_hosts_are_drawn_at_random_none_gets_them_all(algorithm):
    made = placer("h1", {"h1": 50.0, **dict.fromkeys(IDLE, 0.0)}, algorithm)
    picks = Counter(decide(made, f"h1-{n}").host for n in range(CALLERS))
    del picks["h1"]  # THRHLD keeps those for which it found no light host
    assert max(picks.values()) <= 8
    assert len(picks) > len(IDLE) // 2


def test_a_single_idle_host_gets_only_as_many_as_make_it_as_busy_as_the_others():
    made = placer("h1", {"h1": 9.0, "h2": 0.0, "h3": 4.0, "h4": 4.0}, "GLOBAL")
    picks = Counter(decide(made, f"h1-{n}").host for n in range(12))
    assert set(picks) >= {"h2", "h3", "h4"}
    assert 4 <= picks["h2"] <= 6


def test_a_host_gets_no_more_than_its_slots():
    made = placer("h1", {"h1": 50.0, "h2": 0.0, "h3": 0.0}, "GLOBAL", slots=2)
    decisions = [decide(made, f"h1-{n}") for n in range(CALLERS)]
    there = Counter(d.host for d in decisions if d.verdict is Verdict.THERE)
    assert there == {"h2": 2, "h3": 2}


@pytest.mark.parametrize("algorithm", ["GLOBAL", "DISTED", "LOWEST", "THRHLD", "RANDOM", *OWN])
def test_hosts_that_decide_on_the_same_reports_do_not_all_pick_one(algorithm):
    """There are 64 busy hosts, and none knows of the others' picks."""
    busy = [f"h{n}" for n in range(100, 100 + CALLERS)]
    loads = {**dict.fromkeys(busy, 5.0), **dict.fromkeys(IDLE, 0.0)}
    picks = Counter(
        decide(placer(name, loads, algorithm, seed), f"{name}-1").host
        for seed, name in enumerate(busy)
    )
    assert max(picks.values()) <= 9


@pytest.mark.parametrize("age_s", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("algorithm", OWN)
def test_with_our_own_rules_not_even_the_only_idle_host_attracts_them_all(algorithm, age_s):
    """Its load is the lowest that all of them know, and equally old for all of them."""
    busy = [f"h{n}" for n in range(100, 100 + CALLERS)]
    loads = {**dict.fromkeys(busy, 9.0), "h2": 0.0, **dict.fromkeys(IDLE[1:], 2.0)}
    picks = Counter(
        decide(placer(name, loads, algorithm, seed), f"{name}-1", age_s).host
        for seed, name in enumerate(busy)
    )
    assert picks["h2"] <= CALLERS // 2
    assert len(picks) >= 8


def test_under_central_the_centre_spreads_the_requests_of_64_hosts():
    busy = [f"h{n}" for n in range(100, 100 + CALLERS)]
    loads = {**dict.fromkeys(busy, 5.0), "h1": 5.0, **dict.fromkeys(IDLE, 0.0)}
    centre = placer("h1", loads, "CENTRAL")
    picks = Counter()
    for name in busy:
        own = sample(name, 2, vector(5.0, cores=1.0))
        ask = m.AskCentre(request(f"{name}-1").job, frozenset(), False, False, False, own, 0.0)
        picks[centre.decide_for(HostId(name), ask, 0.0).host] += 1
    assert picks == dict.fromkeys(IDLE, CALLERS // len(IDLE))


def test_loads_that_are_too_old_are_not_trusted():
    made = placer("h1", {"h1": 5.0, "h2": 0.0, "h3": 1.0}, "GLOBAL")
    late_s = made.table.params.stale_after_s + 1
    for name, load in (("h1", 5.0), ("h3", 1.0)):
        made.table.record(sample(name, 2, vector(load, cores=1.0)), late_s)
    found = made.next_step(request(), (), late_s)
    assert found.host == "h3"


def test_a_host_that_failed_is_tried_again():
    made = placer("h1", {"h1": 5.0, "h2": 0.0, "h3": 1.0}, "GLOBAL")
    made.table.avoid(HostId("h2"), "refused", 0.0)
    assert made.next_step(request(), (), 0.1).host == "h3"
    assert made.next_step(request(), (), made.table.params.avoid_s + 0.1).host == "h2"


def test_every_host_is_asked_from_time_to_time():
    made = placer("h1", {"h1": 50.0, **dict.fromkeys(IDLE, 0.5)}, "LOWEST")
    asked = set()
    for n in range(400):
        wish = request(f"h1-{n}")
        asked.update(made.next_step(wish, (), 0.0).hosts)
    assert asked == set(IDLE)
