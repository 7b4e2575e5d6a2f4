import math
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from lbd.config.schema import LimConfig
from lbd.model import Closed, HostId, Placement, Verdict
from lbd.policy.needs import Unmet
from lbd.policy.ranking import TIE, choose, ranked, settled_early
from lbd.policy.view import NO_SLOT, Nowhere
from lbd.testing.builders import request, view
from lbd.text.closed_words import WORDS

PARAMS = LimConfig(local_threshold=0.7, min_gain=0.1, hold_above=1.5)


def decide(wish, seen):
    return settled_early(wish, seen) or choose(wish, seen, Random(1))


@pytest.mark.parametrize(
    ("loads", "whys", "wish", "verdict", "host", "reason"),
    [
        # at or below T_l commands stay, whatever the load of the others
        ({"h1": 0.7, "h2": 0.0}, {}, {}, Verdict.HERE, "h1", "below-threshold"),
        ({"h1": 0.71, "h2": 0.0}, {}, {}, Verdict.THERE, "h2", "lowest"),
        ({"h1": 2.0, "h2": 1.0, "h3": 0.5}, {}, {}, Verdict.THERE, "h3", "lowest"),
        # lower by more than the minimum gain, or it stays
        ({"h1": 2.0, "h2": 1.91}, {}, {}, Verdict.HERE, "h1", "no-gain"),
        ({"h1": 2.0, "h2": 1.89}, {}, {}, Verdict.THERE, "h2", "lowest"),
        ({"h1": 2.0, "h2": 0.0}, {"h2": "late"}, {}, Verdict.HERE, "h1", "no-willing-host"),
        ({"h1": 2.0, "h2": 0.0}, {"h2": "drained"}, {}, Verdict.HERE, "h1", "no-willing-host"),
        # full is said where some are only full
        ({"h1": 1.2, "h2": 0.0}, {"h2": NO_SLOT}, {}, Verdict.HERE, "h1", "no-free-slot"),
        (
            {"h1": 1.2, "h2": 0.0, "h3": 0.0},
            {"h2": "drained", "h3": NO_SLOT},
            {},
            Verdict.HERE,
            "h1",
            "no-free-slot",
        ),
        # excluded, must stay, must leave
        ({"h1": 2.0, "h2": 0.0}, {}, {"excluded": ["h2"]}, Verdict.HERE, "h1", "no-willing-host"),
        ({"h1": 9.0, "h2": 0.0}, {}, {"must_stay": True}, Verdict.HERE, "h1", "asked-to-stay"),
        ({"h1": 0.0, "h2": 5.0}, {}, {"must_leave": True}, Verdict.THERE, "h2", "lowest"),
        ({"h1": 0.0, "h2": 5.0}, {}, {"excluded": ["h1"]}, Verdict.THERE, "h2", "lowest"),
        # drained: away if any host accepts it, otherwise here after all
        ({"h1": 0.0, "h2": 5.0}, {"h1": "drained"}, {}, Verdict.THERE, "h2", "lowest"),
        (
            {"h1": 0.0, "h2": 5.0},
            {"h1": "drained", "h2": "late"},
            {},
            Verdict.HERE,
            "h1",
            "no-willing-host",
        ),
        # a named host, whatever the load and the slots
        ({"h1": 0.0, "h2": 9.0}, {}, {"wanted": "h2"}, Verdict.THERE, "h2", "wanted"),
        ({"h1": 0.0, "h2": 9.0}, {"h2": NO_SLOT}, {"wanted": "h2"}, Verdict.THERE, "h2", "wanted"),
        (
            {"h1": 0.0, "h2": 9.0},
            {"h2": "avoided: x"},
            {"wanted": "h2"},
            Verdict.THERE,
            "h2",
            "wanted",
        ),
        ({"h1": 0.0, "h2": 9.0}, {"h2": "late"}, {"wanted": "h2"}, Verdict.THERE, "h2", "wanted"),
        ({"h1": 9.0, "h2": 0.0}, {}, {"wanted": "h1"}, Verdict.HERE, "h1", "wanted"),
        # no other host at all
        ({"h1": 9.0}, {}, {}, Verdict.HERE, "h1", "no-peer"),
    ],
)
def test_decisions(loads, whys, wish, verdict, host, reason):
    found = decide(request(**wish), view(loads, whys=whys, params=PARAMS))
    assert isinstance(found, Placement)
    assert (found.verdict, found.host, found.reason) == (verdict, host, reason)


@pytest.mark.parametrize(
    ("loads", "whys", "shown"),
    [
        ({"h1": 2.0, "h2": 1.95, "h3": 3.0}, {}, ["h1", "h2"]),
        ({"h1": 2.0, "h2": 0.5, "h3": 3.0}, {}, ["h2", "h1"]),
        ({"h1": 1.2, "h2": 0.5, "h3": 0.5}, {"h2": "drained", "h3": NO_SLOT}, ["h1", "h3"]),
        ({"h1": 1.2, "h2": 0.5}, {"h2": "drained"}, ["h1", "h2"]),
        ({"h1": 1.2} | {f"h{n}": 0.5 for n in range(2, 9)}, {f"h{n}": NO_SLOT for n in range(2, 9)},
         ["h1", "h2", "h3", "h4"]),
    ],
)  # fmt: skip
def test_an_answer_has_the_hosts_that_were_compared_but_not_all(loads, whys, shown):
    found = decide(replace(request(), shown=False), view(loads, whys=whys, params=PARAMS))
    assert [candidate.name for candidate in found.candidates] == shown


@pytest.mark.parametrize(
    ("local", "may_wait", "verdict"),
    [(1.6, True, Verdict.WAIT), (1.5, True, Verdict.HERE), (1.6, False, Verdict.HERE)],
)
def test_it_waits_for_a_slot_only_if_this_host_is_overloaded(local, may_wait, verdict):
    seen = view({"h1": local, "h2": 0.3}, whys={"h2": NO_SLOT}, params=PARAMS)
    found = decide(request(may_wait=may_wait), seen)
    assert found.verdict is verdict


@pytest.mark.parametrize(
    ("why", "may_wait", "outcome"),
    [
        (NO_SLOT, True, "no-free-slot"),
        (NO_SLOT, False, "no other host can take it now"),
        ("late", True, "no other host can take it now"),
    ],
)
def test_must_leave_with_no_willing_host(why, may_wait, outcome):
    seen = view({"h1": 0.0, "h2": 0.3}, whys={"h2": why}, params=PARAMS)
    found = decide(request(must_leave=True, may_wait=may_wait), seen)
    assert found.reason == outcome
    assert isinstance(found, Nowhere) == (outcome != "no-free-slot")


def test_all_hosts_that_are_up_may_be_excluded():
    seen = view({"h1": 0.0, "h2": 0.3, "h3": math.inf}, whys={"h3": "down"}, dead=["h3"])
    for excluded in ({"h1", "h2", "h3"}, {"h1", "h2"}):
        found = decide(request(excluded=frozenset(excluded)), seen)
        assert found.reason == "all hosts are excluded"
    assert decide(request(must_leave=True, excluded=frozenset({"h2"})), seen).reason == (
        "all other hosts are excluded"
    )


def test_must_leave_with_no_other_host():
    seen = view({"h1": 0.0, "h2": math.inf}, whys={"h2": "down"}, dead=["h2"])
    found = decide(request(must_leave=True), seen)
    assert isinstance(found, Nowhere)
    assert "no other host is up" in found.reason


@pytest.mark.parametrize("why", ["down", "drained", WORDS[Closed.NO_LBM], "not heard from yet"])
def test_a_named_host_is_asked_itself_whatever_is_believed_of_it(why):
    seen = view({"h1": 0.0, "h2": math.inf}, whys={"h2": why}, dead=["h2"])
    found = decide(request(wanted="h2"), seen)
    assert (found.verdict, found.host, found.reason) == (Verdict.THERE, "h2", "wanted")


def test_this_host_itself_is_named_and_drained():
    seen = view({"h1": 0.0, "h2": 0.0}, whys={"h1": "drained"})
    assert decide(request(wanted="h1"), seen) == Nowhere("h1 cannot take it: drained")


def test_equal_hosts_are_drawn_at_random_and_noise_counts_as_equal():
    seen = view({"h1": 5.0, "h2": 0.0, "h3": 0.015, "h4": 0.0, "h5": 0.5})
    rng = Random(7)
    picked = Counter(choose(request(), seen, rng).host for _ in range(3000))
    assert set(picked) == {"h2", "h3", "h4"}
    assert all(900 < count < 1100 for count in picked.values())


def test_candidates_come_best_first_with_reasons_for_exclusion():
    seen = view({"h1": 2.0, "h2": 0.5, "h3": 0.1, "h4": 0.0}, whys={"h4": "drained"}, params=PARAMS)
    found = ranked(request(excluded=["h3"]), seen)
    assert [(c.name, c.willing, c.why) for c in found] == [
        ("h2", True, ""),
        ("h1", True, ""),
        ("h4", False, "drained"),
        ("h3", False, "excluded"),
    ]
    assert [c.name for c in ranked(request(), seen, limit=2)] == ["h3", "h2"]
    stays_no_more = ranked(request(must_leave=True), seen)[-1]
    assert (stays_no_more.name, stays_no_more.why) == ("h1", "the command must leave")


def test_a_candidate_shows_the_age_of_its_load_which_is_never_negative():
    seen = view({"h1": 2.0, "h2": 0.5}, params=PARAMS)
    for host in seen.hosts.values():
        host.sampled_at_s = 2.0
    for now_s, age_s in ((7.0, 5.0), (2.0, 0.0), (1.0, 0.0)):
        seen.now_s = now_s
        assert {c.age_s for c in ranked(request(), seen)} == {age_s}


def test_the_chosen_host_heads_the_candidates():
    seen = view({"h1": 5.0, "h2": 0.0, "h3": 0.01})
    for seed in range(20):
        found = choose(request(), seen, Random(seed))
        assert found.candidates[0].name == found.host
        assert len(found.candidates) == 3


def test_a_gain_that_only_equals_the_minimum_is_not_enough():
    seen = view({"h1": 2.0, "h2": 1.5}, params=LimConfig(min_gain=0.5))
    assert decide(request(), seen).reason == "no-gain"


def test_hosts_within_a_tie_are_equal():
    seen = view({"h1": 5.0, "h2": 0.0, "h3": TIE})
    assert {choose(request(), seen, Random(seed)).host for seed in range(30)} == {"h2", "h3"}


@pytest.mark.parametrize(
    ("hog", "user", "why", "found"),
    [
        ("ann", "bob", NO_SLOT, ""), ("ann", "ann", NO_SLOT, NO_SLOT),
        ("ann", "", NO_SLOT, NO_SLOT),
        ("", "bob", NO_SLOT, NO_SLOT), ("ann", "bob", "drained", "drained"),
    ],
)  # fmt: skip
def test_a_host_is_full_for_the_user_who_fills_it(hog, user, why, found):
    host = view({"h1": 0.0, "h2": 0.0}, whys={"h2": why}).hosts["h2"]
    host.hog = hog
    assert host.for_user(user).why == found


@pytest.mark.parametrize(("load", "host"), [(0.7, "h1"), (0.71, "h2")])
def test_if_no_host_has_the_memory_a_lightly_loaded_one_keeps_the_command(load, host):
    seen = view({"h1": load, "h2": 0.0}, params=PARAMS)
    hosts = {name: one.short("too little memory") for name, one in seen.hosts.items()}
    found = choose(request(), replace(seen, me=hosts[seen.me.name], hosts=hosts), Random(1))
    assert found.host == host


@pytest.mark.parametrize(("may_wait", "verdict"), [(True, Verdict.WAIT), (False, None)])
def test_a_command_that_names_this_host_waits_there_for_resources_in_use(may_wait, verdict):
    seen = view({"h1": 9.0, "h2": 0.0}, params=PARAMS)
    me = seen.me.needing(Unmet("its gpu is in use", later=True))
    seen = replace(seen, me=me, hosts={**seen.hosts, me.name: me})
    found = decide(request(wanted="h1", may_wait=may_wait), seen)
    if verdict is None:
        assert found == Nowhere("h1 cannot take it: its gpu is in use")
    else:
        assert (found.verdict, found.host, found.reason) == (verdict, "h1", "needs-taken")
        assert [one.name for one in found.candidates] == ["h1"]


GONE, TAKEN = Unmet("no gpu", later=False), Unmet("its gpu is in use", later=True)


@pytest.mark.parametrize(
    ("lacks", "reason"),
    [
        ({"h1": GONE, "h2": GONE}, "only-one-fits"),
        ({"h1": GONE, "h2": TAKEN}, "lowest"),
        ({"h1": TAKEN, "h2": GONE}, "lowest"),
        ({"h1": GONE}, "lowest"),
    ],
)
def test_where_one_host_alone_has_what_is_needed_that_is_the_reason(lacks, reason):
    seen = view({"h1": 0.0, "h2": 0.0, "h3": 1.0}, params=PARAMS)
    hosts = {name: one.needing(lacks.get(name)) for name, one in seen.hosts.items()}
    chosen = choose(request(), replace(seen, me=hosts[seen.me.name], hosts=hosts), Random(1))
    assert chosen.reason == reason
    if reason == "only-one-fits":
        assert chosen.host == "h3"


def test_a_command_that_must_stay_says_what_this_host_lacks():
    seen = view({"h1": 0.0, "h2": 0.0}, params=PARAMS)
    for lack, may_wait, found in (
        (GONE, True, Nowhere), (TAKEN, False, Nowhere), (TAKEN, True, Placement),
    ):  # fmt: skip
        me = seen.me.needing(lack)
        lacking = replace(seen, me=me, hosts={**seen.hosts, me.name: me})
        decision = decide(request(must_stay=True, may_wait=may_wait), lacking)
        assert type(decision) is found
        if found is Placement:
            assert (decision.verdict, decision.reason) == (Verdict.WAIT, "needs-taken")
        else:
            assert decision.reason == "no suitable host: none has what it needs"


def test_a_command_that_must_leave_is_not_refused_for_its_learnt_peak_alone():
    seen = view({"h1": 0.0, "h2": 0.0}, params=PARAMS)
    hosts = {name: one.short("too little memory") for name, one in seen.hosts.items()}
    short = replace(seen, me=hosts[seen.me.name], hosts=hosts)
    found = decide(request(must_leave=True), short)
    assert (found.verdict, found.host, found.reason) == (Verdict.THERE, "h2", "lowest")


def test_nobody_waits_for_a_host_that_is_full_for_another_user_only():
    seen = view({"h1": 2.0, "h2": 1.95}, whys={"h2": NO_SLOT}, params=PARAMS)
    seen.hosts[HostId("h2")].hog = "ann"
    for user, verdict in (("ann", Verdict.WAIT), ("bob", Verdict.HERE)):
        found = decide(replace(request(may_wait=True), user=user), seen)
        assert found.verdict is verdict


def test_a_host_that_is_down_stays_down_whatever_it_lacks():
    seen = view({"h1": 0.0, "h2": 0.0}, whys={"h2": "down"}, dead=["h2"])
    for lack in (GONE, TAKEN):
        down = seen.hosts[HostId("h2")].needing(lack)
        assert (down.why, down.fits, down.is_taken, down.is_full) == ("down", False, False, False)


@pytest.mark.parametrize(
    ("why", "lack", "said"),
    [
        ("", GONE, "no gpu"), (NO_SLOT, GONE, "no gpu"), ("drained", GONE, "no gpu"),
        ("", TAKEN, "its gpu is in use"), (NO_SLOT, TAKEN, "its gpu is in use"),
        ("drained", TAKEN, "drained"),
    ],
)  # fmt: skip
def test_of_several_reasons_the_most_lasting_is_named(why, lack, said):
    seen = view({"h1": 0.0, "h2": 0.0}, whys={"h2": why})
    found = seen.hosts[HostId("h2")].needing(lack)
    assert (found.why, found.is_taken) == (said, lack.later and said == lack.why)


def test_what_a_host_has_but_others_hold_is_not_said_to_exist_nowhere():
    seen = view({"h1": 0.0, "h2": 0.0}, params=PARAMS)
    for there, reason in (
        (TAKEN, "no other host can take it now"),
        (GONE, "no suitable host: none has what it needs"),
    ):
        me, other = seen.me.needing(GONE), seen.hosts[HostId("h2")].needing(there)
        found = decide(request(), replace(seen, me=me, hosts={"h1": me, "h2": other}))
        assert found.reason == reason


@pytest.mark.parametrize(("why", "found"), [("", "short"), ("drained", "drained")])
def test_a_lack_of_memory_for_a_learnt_peak_is_the_least_of_reasons(why, found):
    host = view({"h1": 0.0, "h2": 0.0}, whys={"h2": why}).hosts[HostId("h2")]
    assert host.short("short").why == found
    assert host.short("") is host
