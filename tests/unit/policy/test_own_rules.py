"""P2C and PREDICT: how they treat old loads, cores and speeds, and learnt CPU times."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from lbd.config.schema import LimConfig
from lbd.model import HostId, Verdict
from lbd.policy import belief
from lbd.policy.registry import POLICIES, WEIGH_AGE
from lbd.policy.view import NO_SLOT, HostView, Placement, Probe, Reply, View
from lbd.testing.builders import request

OWN = pytest.mark.parametrize("algorithm", WEIGH_AGE)
PARAMS = LimConfig(exchange_period_s=10.0, trust_s=5.0)


def host(
    name, tasks=0.0, cores=1.0, speed=1.0, age_s=0.0, why="", charged=0.0, free_at_s=0.0
):  # fmt: skip
    power = cores * speed
    load = tasks / power
    return HostView(
        HostId(name), load, load + 1 / power, -age_s, True, why, "", cores, speed, charged,
        free_at_s,
    )  # fmt: skip


def seen(*hosts, params=PARAMS):
    """The first host is this one."""
    return View(hosts[0], {one.name: one for one in hosts}, params, 0.0, None)


def step(algorithm, view, replies=(), seed=1, **wish):
    return POLICIES[algorithm].next_step(request(**wish), view, replies, Random(seed))


def picks(algorithm, view, count=200, **wish):
    """Picks with each seed; the hosts asked answer nothing new."""
    found = Counter()
    for seed in range(count):
        replies = ()
        while isinstance(one := step(algorithm, view, replies, seed, **wish), Probe):
            replies += tuple(Reply(name, answered=True) for name in one.hosts)
        found[one.host] += 1
    return found


def asked_first(algorithm, view, count=200):
    found = Counter()
    for seed in range(count):
        one = step(algorithm, view, seed=seed)
        found[one.hosts[0] if isinstance(one, Probe) else ""] += 1
    return found


# -- old loads -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age_s", "period_s", "expected"),
    [(0.0, 10.0, 1.0), (5.0, 10.0, 0.3679), (10.0, 10.0, 0.1353), (600.0, 1.0, 0.6703)],
)
def test_trust_fades_with_age_but_under_short_periods_silence_counts_as_a_report(
    age_s, period_s, expected
):
    params = LimConfig(exchange_period_s=period_s, trust_s=5.0)
    view = seen(host("h1"), host("h2", age_s=age_s), params=params)
    trusts = belief.trusted([view.hosts[HostId("h2")]], view)
    assert trusts == [pytest.approx(expected, abs=1e-4)]


def test_an_old_load_is_assumed_to_be_like_the_others():
    old, new = host("h2", 0.0, age_s=5.0), host("h3", 4.0)
    view = seen(host("h1", 9.0), old, new)
    believed = belief.believed_loads([old, new], belief.trusted([old, new], view))
    assert believed == pytest.approx([2.0 - 2.0 * 0.3679, 4.0], abs=1e-3)


def test_our_own_picks_are_known_however_old_the_load():
    old = host("h2", 3.0, age_s=1000.0, charged=3.0)
    view = seen(host("h1", 9.0), old, host("h3", 0.0, age_s=1000.0))
    assert belief.believed_loads([old], belief.trusted([old], view)) == [pytest.approx(3.0)]


@OWN
def test_fresh_loads_need_no_question(algorithm):
    view = seen(host("h1", 5.0), host("h2", 0.0), host("h3", 2.0), host("h4", 2.0))
    assert asked_first(algorithm, view) == {"": 200}


@OWN
def test_of_hosts_with_old_loads_the_promising_one_is_asked_first(algorithm):
    view = seen(host("h1", 5.0), host("h2", 0.5, age_s=3), host("h3", 4.0, age_s=3))
    asked = asked_first(algorithm, view)
    assert asked["h2"] >= 190
    answered = (Reply(HostId("h2"), answered=True),)
    fresh = seen(host("h1", 5.0), host("h2", 0.5), host("h3", 9.0, age_s=0.5))
    assert step(algorithm, fresh, answered).host == "h2"


@OWN
def test_sometimes_the_host_with_the_oldest_load_is_asked_whatever_it_said(algorithm):
    hosts = [host(f"h{n}", 0.2, age_s=0.1) for n in range(2, 5)]
    view = seen(host("h1", 5.0), *hosts, host("h9", 99.0, age_s=0.4))
    assert 0 < asked_first(algorithm, view, 2000)["h9"] < 100


@OWN
def test_after_its_first_question_only_promising_hosts_are_asked(algorithm):
    hosts = [host(f"h{n}", 0.2, age_s=0.1) for n in range(2, 5)]
    view = seen(host("h1", 5.0), *hosts, host("h9", 99.0, age_s=0.4))
    answered = (Reply(HostId("h5"), answered=True),)
    for seed in range(500):
        assert step(algorithm, view, answered, seed).hosts != ("h9",)


@OWN
def test_no_more_hosts_are_asked_than_the_limit(algorithm):
    hosts = [host(f"h{n}", 3.0, age_s=15) for n in range(2, 20)]
    for seed in range(20):
        replies = ()
        while isinstance(
            one := step(algorithm, seen(host("h1", 5.0), *hosts), replies, seed), Probe
        ):
            replies += tuple(Reply(name, answered=False) for name in one.hosts)
        assert len(replies) == PARAMS.probe_limit
        assert len({reply.host for reply in replies}) == len(replies)
        assert isinstance(one, Placement)


@OWN
def test_the_older_the_loads_the_fewer_hosts_a_decision_looks_at(algorithm):
    def looked_at(age_s):
        hosts = [host(f"h{n}", float(n), age_s=age_s) for n in range(2, 34)]
        view = seen(host("h1", 99.0), *hosts, params=LimConfig(exchange_period_s=60.0))
        lot = belief.drawn(request(), view, set(), Random(1))
        looked_at, trusts = belief.fewer_if_old(lot, view)
        assert trusts == belief.trusted(looked_at, view)
        return len(looked_at)

    assert [looked_at(age_s) for age_s in (0.0, 5.0, 100.0)] == [16, 6, 2]


@OWN
def test_the_choice_does_not_depend_on_whether_others_are_shown(algorithm):
    for seed in range(40):
        rng = Random(seed)
        whys = ("", "", "", NO_SLOT, "drained", "late")
        hosts = [
            host(f"h{n}", rng.choice((0.0, 1.0, 4.0)), age_s=0.01, why=rng.choice(whys))
            for n in range(2, 9)
        ]
        view = seen(host("h1", 5.0), *hosts)
        found = [
            POLICIES[algorithm].next_step(replace(request(), shown=shown), view, (), Random(seed))
            for shown in (True, False)
        ]
        assert [getattr(one, "host", one) for one in found] == [
            getattr(found[0], "host", found[0])
        ] * 2


# -- who may be picked ---------------------------------------------------------------------------


@OWN
def test_it_waits_for_full_hosts_only_if_this_one_is_overloaded(algorithm):
    view = seen(host("h1", 5.0), host("h2", 0.0, why=NO_SLOT))
    assert step(algorithm, view).verdict is Verdict.HERE
    assert step(algorithm, view, may_wait=True).verdict is Verdict.WAIT
    calm = seen(host("h1", 1.0), host("h2", 0.0, why=NO_SLOT))
    assert step(algorithm, calm, may_wait=True).verdict is Verdict.HERE


@OWN
def test_the_only_host_that_accepts_commands_is_found_among_many(algorithm):
    full = [host(f"h{n}", why=NO_SLOT) for n in range(2, 200)]
    assert set(picks(algorithm, seen(host("h1", 9.0), *full, host("h999", 1.0)), 30)) == {"h999"}


@OWN
def test_so_is_the_only_host_that_is_late_and_it_is_asked(algorithm):
    full = [host(f"h{n}", why=NO_SLOT) for n in range(2, 200)]
    view = seen(host("h1", 9.0), *full, host("h999", 1.0, age_s=30.0, why="late"))
    assert asked_first(algorithm, view, 30) == {"h999": 30}


@OWN
def test_a_host_that_cannot_be_better_than_a_known_one_is_not_asked(algorithm):
    old = host("h3", 3.0, age_s=1.0)
    asked = asked_first(algorithm, seen(host("h1", 9.0), host("h2", 0.0), old))
    assert asked["h3"] < 20  # sometimes it is asked anyway
    full = host("h2", 0.0, why="late")
    assert asked_first(algorithm, seen(host("h1", 9.0), full, old))["h3"] > 180


@OWN
def test_a_command_that_must_leave_does(algorithm):
    view = seen(host("h1", 0.0), host("h2", 5.0))
    assert step(algorithm, view, must_leave=True).host == "h2"


# -- PREDICT -------------------------------------------------------------------------------------


@OWN
def test_of_equal_loads_the_host_whose_core_was_free_last_is_preferred(algorithm):
    old, young = host("h2", 1.0, free_at_s=-60.0), host("h3", 1.0, free_at_s=-1.0)
    view = seen(host("h1", 5.0), old, young)
    assert set(picks(algorithm, view)) == {"h3"}


@OWN
def test_a_command_prefers_as_many_short_tasks_to_long_ones(algorithm):
    me, young = host("h1", 1.0, free_at_s=-60.0), host("h2", 1.0, free_at_s=-1.0)
    assert set(picks(algorithm, seen(me, young), cpu_s=5.0)) == {"h2"}
    assert set(picks(algorithm, seen(me, host("h2", 1.0, free_at_s=-59.0)))) == {"h1"}


WIDE_AND_FAST = (host("wide", 0.0, cores=8, speed=0.5), host("fast", 0.0, speed=2.0))


@OWN
def test_a_fast_free_core_is_preferred_where_load_alone_prefers_many_slow_ones(algorithm):
    view = seen(host("h1", 9.0), *WIDE_AND_FAST)
    assert set(picks("GLOBAL", view)) == {"wide"}
    assert set(picks(algorithm, view)) == {"fast"}


@OWN
def test_a_fast_host_does_not_attract_commands_that_would_delay_others_there_by_more(algorithm):
    """Two tasks share the fast core at the speed of the slow one, but one of them was alone."""
    view = seen(host("h1", 9.0), host("fast", 1.0, speed=2.0), host("slow", 0.0, speed=0.9))
    assert set(picks(algorithm, view)) == {"slow"}


@OWN
@pytest.mark.parametrize(
    ("speed", "why", "found"),
    [
        (2.0, "", "h2"),
        (1.05, "", "h1"),  # no more than Δ
        (0.5, "", "h1"),
        (2.0, NO_SLOT, "h1"),
    ],
)
def test_a_lightly_loaded_host_keeps_its_commands_unless_other_cores_are_faster(
    algorithm, speed, why, found
):
    view = seen(host("h1", 0.0), host("h2", 0.0, speed=speed, why=why))
    assert set(picks(algorithm, view, count=20)) == {found}
    assert step("GLOBAL", view).host == "h1"


def test_predict_moves_a_long_command_where_a_short_one_is_not_worth_the_move():
    params = LimConfig(move_cost_s=0.2, local_threshold=0.0, exchange_period_s=10.0)
    view = seen(host("h1", 1.0), host("h2", 0.0), params=params)
    assert step("PREDICT", view, cpu_s=0.05).reason == "no-gain"
    assert step("PREDICT", view, cpu_s=2.0).host == "h2"
    assert step("PREDICT", view).host == "h2"  # nothing is known of it: a second is assumed


def test_a_host_that_is_full_for_one_user_is_considered_for_the_others():
    full = host("h2", why=NO_SLOT)
    full.hog = "ann"
    seen_by_all = seen(host("h1", tasks=5.0), full)
    for user, found in (("ann", []), ("bob", [""]), ("", [])):
        asked = replace(request(), user=user)
        assert [h.why for h in belief.drawn(asked, seen_by_all, set(), Random(1))] == found


def test_hosts_that_the_user_excluded_are_not_considered():
    view = seen(host("h1", tasks=5.0), host("h2"), host("h3"))
    wish = request(excluded=["h2"])
    assert [h.name for h in belief.drawn(wish, view, set(), Random(1))] == ["h3"]


def test_every_host_is_drawn_equally_often_and_none_twice_at_once():
    view = seen(*(host(f"h{n}") for n in range(1, 10)))
    rng, times = Random(1), Counter[str]()
    for _ in range(2000):
        lot = [one.name for one in belief.drawn(request(), view, {HostId("h9")}, rng)]
        assert len(lot) == len(set(lot)) == belief.drawn_max(view)
        times.update(lot)
    assert set(times) == {f"h{n}" for n in range(2, 9)}
    each = 2000 * 4 / 7
    assert all(abs(count - each) < 5 * each**0.5 for count in times.values())


def test_no_host_is_asked_for_less_than_the_minimum_gain():
    view = seen(host("h1", tasks=1.0), params=LimConfig(min_gain=0.1))
    for load, way, asked in ((1.03, 0.0, None), (0.97, 0.0, HostId("h2")), (0.97, 0.2, None)):
        unsure = [host("h2", tasks=load)]
        found = belief.most_promising([], unsure, [belief.SURE - 1e-9], view, Random(1), way)
        assert (found and found.name) == asked


@pytest.mark.parametrize(
    ("may_wait", "tasks", "full"),
    [
        (True, 9.0, ["h2"]),
        (False, 9.0, []),
        (True, PARAMS.hold_above, []),
        (True, 1.0, []),
        (False, 1.0, []),
    ],
)
def test_a_command_that_may_wait_waits_for_full_hosts_if_this_one_is_overloaded(
    may_wait, tasks, full
):  # fmt: skip
    view = seen(host("h1", tasks), host("h2", why=NO_SLOT), host("h3", why="drained"), host("h4"))
    assert belief.full_ones(request(may_wait=may_wait), view) == full


@OWN
def test_of_hosts_that_have_all_answered_the_one_with_the_least_cost_is_taken(algorithm):
    """Not the one with the lowest load, as under Zhou's rules."""
    view = seen(host("h1", 9.0), *WIDE_AND_FAST)
    answered = tuple(Reply(one.name, answered=True) for one in WIDE_AND_FAST)
    assert step(algorithm, view, answered).host == "fast"


@OWN
def test_what_it_is_told_when_it_must_leave_does_not_depend_on_whether_others_are_shown(algorithm):
    for whys in (("drained", "late"), (NO_SLOT, "drained"), ("late", "late")):
        for may_wait in (True, False):
            view = seen(host("h1"), *(host(f"h{n}", why=why) for n, why in enumerate(whys, 2)))
            wish = request(must_leave=True, may_wait=may_wait)
            rule = POLICIES[algorithm]
            replies = tuple(Reply(name, answered=False) for name in view.hosts)
            whole, part = (
                rule.next_step(replace(wish, shown=shown), view, replies, Random(1))
                for shown in (True, False)
            )
            assert type(whole) is type(part)
            assert whole.reason == part.reason


@pytest.mark.parametrize("is_known", [True, False])
def test_the_way_there_counts_for_every_host_alike(is_known):
    """Whether it has answered, or its load is fresh, or it would still have to be asked."""
    fresh, unsure = host("h2"), host("h3", speed=2.0)
    view = seen(host("h1", tasks=9.0), params=LimConfig(min_gain=0.1))
    known, picked, trusts = ([fresh], [unsure], [0.5]) if is_known else (
        [], [fresh, unsure], [1.0, 0.5],
    )  # fmt: skip
    for way in (0.0, 0.3):
        found = belief.most_promising(known, picked, trusts, view, Random(1), way)
        assert found is unsure
    for slow in (host("h3"), host("h3", speed=1.1)):  # 1 / 1.1 is better by less than Δ
        picked = [*picked[:-1], slow]
        for way in (0.0, 0.3):
            assert belief.most_promising(known, picked, trusts, view, Random(1), way) is None


def test_a_question_gets_its_share_of_the_remaining_time():
    params = replace(PARAMS, probe_limit=4)
    view = seen(host("h1", 9.0), *(host(f"h{n}", age_s=60.0) for n in (2, 3, 4)), params=params)
    for seed in range(200):  # some of them ask for the oldest load
        first = step("P2C", view, seed=seed)
        assert isinstance(first, Probe)
        assert first.time_share == pytest.approx(1 / 4)


@OWN
def test_a_user_is_shown_all_hosts_not_only_those_that_were_drawn(algorithm):
    view = seen(host("h1", 9.0), *(host(f"h{n}", float(n)) for n in range(2, 12)))
    found = step(algorithm, view)
    assert {one.name for one in found.candidates} == set(view.hosts)
