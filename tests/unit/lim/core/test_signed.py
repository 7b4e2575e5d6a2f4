"""Which of two policies applies. Seals are assumed valid here: `lim.policy_guard` checks them."""

import itertools
from dataclasses import replace
from random import Random

import pytest

from lbd.config.schema import LimConfig, LoadConfig
from lbd.errors import ConfigError, PeerError
from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.lim.core.settings import InForce, changed, in_force
from lbd.lim.core.signed import (
    contradicts,
    described,
    has_policy,
    lacking,
    merged,
    next_counter,
    policy_version,
    signed_text,
    trial_digest,
    vetted,
)
from lbd.testing.builders import lim_state

BASE = InForce(LimConfig(), LoadConfig())
NOTE = {"h3": m.DrainNote("disk", "ann", 1.0)}


def signed(settings, counter, author="h1"):
    return replace(settings, seal=m.Seal(counter, author, trial_digest(settings), b"c", b"s"))


def policy(gain, counter, author="h1", before=None, *, save=False):
    """Returns the next settings, made and signed by that host."""
    change = e.ChangeSettings(None, {"lim.min_gain": gain}, save=save)
    made = replace(change, seal=m.Seal(counter, author)).applied_to(before or m.Settings(), author)
    return signed(made, counter, author)


def gain(settings):
    return in_force(BASE, settings).lim.min_gain


def test_the_signed_text_is_the_same_on_every_host_and_names_the_cluster():
    seal = m.Seal(3, "h1", b"\1" * 32)
    one = m.Settings(saved={"b": "1", "a": "é"})
    other = m.Settings(9, "h2", saved={"a": "é", "b": "1"}, drains={"h3": True})
    assert signed_text("lbd", seal, one) == signed_text("lbd", seal, other)
    assert signed_text("lbd", seal, one) != signed_text("other", seal, one)
    assert signed_text("lbd", seal, one) != signed_text("lbd", replace(seal, counter=4), one)
    assert signed_text("lbd", seal, one) != signed_text("lbd", replace(seal, author="h2"), one)
    assert trial_digest(m.Settings(params={"a": 1, "b": 0.1})) == trial_digest(
        m.Settings(params={"b": 0.1, "a": 1.0})
    )
    assert trial_digest(m.Settings(algorithm="LOWEST")) != trial_digest(m.Settings())


def test_replaying_an_older_policy_changes_nothing():
    old = policy(0.5, 1)
    new = policy(0.7, 2, before=old)
    replayed = replace(old, counter=99, author="h9")
    found = merged(BASE, new, replayed)
    assert (gain(found), found.seal) == (0.7, new.seal)
    assert found.version == (99, "h9"), "of drains it may be the newer one"


def test_once_a_policy_was_signed_no_unsigned_one_counts():
    ours = policy(0.5, 1)
    unsigned = m.Settings(99, "h9", "LOWEST", {"lim.min_gain": 9.0}, drain_notes=NOTE)
    found = merged(BASE, ours, unsigned)
    assert (gain(found), found.algorithm, found.drain_notes) == (0.5, "", NOTE)


@pytest.mark.parametrize(("is_strict", "taken"), [(False, 9.0), (True, BASE.lim.min_gain)])
def test_before_that_an_unsigned_one_counts_unless_only_some_hosts_may_change_settings(
    is_strict, taken
):
    """As of a release that signs none, in a cluster that is upgraded host by host."""
    unsigned = m.Settings(7, "h9", params={"lim.min_gain": 9.0})
    assert gain(merged(BASE, m.Settings(), unsigned, is_strict=is_strict)) == taken


def test_a_policy_is_accepted_even_from_a_host_that_knows_less_of_drains():
    ours = m.Settings(50, "h9", drain_notes=NOTE)
    found = merged(BASE, ours, policy(0.5, 1))
    assert (gain(found), found.version, found.drain_notes) == (0.5, (50, "h9"), NOTE)


def test_what_was_not_saved_counts_only_as_it_was_signed():
    """After a restart of all LIMs only saved settings exist; adding to them is a forgery."""
    whole = policy(0.5, 4, before=policy(0.25, 3, save=True))
    assert policy_version(whole) > policy_version(policy(0.75, 3))
    lasting = whole.lasting
    assert policy_version(policy(0.75, 3)) < policy_version(lasting) < policy_version(whole)
    forged = replace(lasting, counter=99, algorithm="LOWEST", params={"lim.min_gain": 9.0})
    found = merged(BASE, m.Settings(), forged)
    assert (gain(found), found.algorithm, found.seal) == (0.25, "", whole.seal)
    assert gain(merged(BASE, whole, forged)) == 0.5
    assert gain(merged(BASE, found, whole)) == 0.5, "who has not been stopped has the newer one"


def test_a_policy_follows_settings_that_are_numbered_as_high_as_can_be():
    """One bad host may number them this way: nobody could have changed a setting any more."""
    last = replace(policy(0.5, 1), counter=m.COUNTER_MAX, author="h9")
    assert gain(merged(BASE, last, policy(0.7, 2, before=last))) == 0.7
    with pytest.raises(ConfigError, match="at its maximum"):
        changed(last, "h1", None, {}, notes=NOTE)


def test_counters_follow_the_clock_and_never_go_back():
    assert next_counter(m.Settings(), 1.7e9) == 1_700_000_000
    assert next_counter(policy(0.5, 1_700_000_005), 1.7e9) == 1_700_000_006
    with pytest.raises(ConfigError, match="at its maximum"):
        next_counter(policy(0.5, m.COUNTER_MAX), 1.7e9)


def test_a_log_says_whose_settings_they_are_as_far_as_is_known():
    signed = policy(0.5, 5)
    assert described(signed) == "settings 1 of h1, signed by h1"
    assert described(replace(signed, counter=0, author="")) == "settings 0, signed by h1"
    assert described(m.Settings(7, "h9")) == "settings 7 of h9"


def test_which_of_two_hosts_lacks_what():
    ours = policy(0.5, 5)  # version (1, "h1")
    assert lacking(ours, (1, "h1"), policy_version(ours)) == (False, False)
    assert lacking(ours, (1, "h1"), (4, "h1")) == (True, False)
    assert lacking(ours, (1, "h1"), (6, "h1")) == (False, True)
    assert lacking(ours, (1, "h1"), (0, "")) == (False, False), "it has refused ours"
    assert lacking(ours, (0, ""), (6, "h1")) == (True, True)
    old = m.Ack(settings_version=(1, "h1"), policy_version=(4, "h1"))
    assert not has_policy(old, (1, "h1"), (5, "h1"))
    signed = m.Ack(settings_version=(0, ""), policy_version=(5, "h1"))
    assert has_policy(signed, (1, "h1"), (5, "h1")), "that of the drains is another matter"
    assert not has_policy(signed, (1, "h1"), (0, "")), "where it is not signed"


@pytest.mark.parametrize("seed", range(20))
def test_all_hosts_end_with_the_same_in_any_order(seed):
    """Changes of policies and drains on hosts that do not hear of each other, in any order."""
    rng = Random(seed)
    hosts = [m.Settings() for _ in range(4)]
    for number in range(12):
        at = rng.randrange(4)
        me, ours = f"h{at}", hosts[at]
        if rng.random() < 0.5:
            counter = max(ours.seal.counter, rng.randrange(5)) + 1
            save = rng.random() < 0.5
            hosts[at] = policy(number / 10, counter, me, ours, save=save)
        else:
            hosts[at] = changed(ours, me, None, {}, notes={f"x{number}": NOTE["h3"]})
        if rng.random() < 0.2:
            hosts[at] = merged(BASE, hosts[at].lasting, hosts[at])
        one, other = rng.sample(range(4), 2)
        hosts[other] = merged(BASE, hosts[other], hosts[one])
    for _, (one, other) in itertools.product(range(2), itertools.permutations(range(4), 2)):
        hosts[other] = merged(BASE, hosts[other], hosts[one])
    assert all(one == hosts[0] for one in hosts), f"seed {seed}"


def test_a_centre_that_lies_tunes_only_what_a_centre_tunes():
    tuned = {"lim.min_gain": 0.9, "lim.probe_timeout_s": 60.0, "log.level": 3.0}
    assert in_force(BASE, m.Settings(1, "h9", tuned=tuned)) == BASE, "lim.adaptive is off"
    on = InForce(replace(BASE.lim, adaptive=True), BASE.load)
    found = in_force(on, m.Settings(1, "h9", tuned=tuned))
    assert found == replace(on, lim=replace(on.lim, min_gain=0.9))


def test_two_policies_that_an_author_has_given_one_counter_are_ordered_as_well():
    """A host told each of two others a policy of its own. Neither lacked any, so each obeyed its
    own for good: in one of them another host was the dispatcher's."""
    one, other = sorted((policy(0.5, 5), policy(0.7, 5)), key=policy_version)
    assert contradicts(one, other)
    assert contradicts(other.lasting, one)
    assert not contradicts(one, one.lasting)
    for first, second in ((one, other), (other, one)):
        assert gain(merged(BASE, first, second)) == gain(other)
    assert lacking(one, one.version, policy_version(other)) == (False, True)
    assert lacking(other, one.version, policy_version(one)) == (True, False)
    kept, left = (each.lasting for each in (one, other))
    assert policy_version(kept) != policy_version(left), "after a restart of all LIMs, too"


def test_a_delta_names_the_current_policy():
    state = lim_state("h1", others=("h2",))
    state.settings = policy(0.5, 7)
    delta = state._load_sender.publication.delta(0, state.settings, 0.0)
    assert (delta.settings_version, delta.policy_version) == (
        (1, "h1"),
        policy_version(state.settings),
    )


@pytest.mark.parametrize(
    ("change", "is_of_policy"),
    [
        ({}, False), ({"drains": {"h2": True}}, False), ({"algorithm": "NOLB"}, True),
        ({"params": {"lim.min_gain": 0.5}}, True), ({"save": True}, True),
        ({"reset": frozenset({"lim.min_gain"})}, True), ({"shared": {"users.map": "uid"}}, True),
    ],
)  # fmt: skip
def test_a_drain_is_not_a_change_of_policy(change, is_of_policy):
    made = e.ChangeSettings(**{"algorithm": None, "params": {}} | change)
    assert made.is_of_policy is is_of_policy


def test_if_nobody_can_check_them_seals_are_removed_from_all_settings_in_a_message():
    sealed, bare = policy(0.5, 5), replace(policy(0.5, 5), seal=m.NO_SEAL)
    assert (m.unsealed(sealed), m.unsealed(bare)) == (bare, bare)
    for body, expected in (
        (sealed, bare), (m.Members((), sealed), m.Members((), bare)), (m.Ping(), m.Ping())
    ):  # fmt: skip
        message = m.Message("c", "h2", 3, body)
        assert m.with_settings(message, m.unsealed) == replace(message, body=expected)


def unsigned(counter, value):
    return m.Settings(counter, "h9", params={"lim.min_gain": value})


@pytest.mark.parametrize(
    ("theirs", "is_strict", "why"),
    [
        (unsigned(99, 9.0), False, "they are not signed"),  # ours are
        (unsigned(1, 9.0), True, ""),  # it is no news
        (policy(0.7, 6), True, ""),
        (policy(0.7, 4), True, ""),  # older, so it is not even checked
    ],
)
def test_a_policy_is_rejected_with_its_reason(theirs, is_strict, why):
    checked = []
    ours = replace(policy(0.5, 5), counter=1, author="h9")
    found = vetted(ours, theirs, is_strict=is_strict, check=checked.append)
    assert found == (theirs, why)
    assert checked == ([theirs] if theirs.seal.counter == 6 else [])


def test_a_policy_without_a_valid_seal_is_replaced_by_ours():
    def check(settings):
        raise PeerError("the signature is invalid")

    ours, theirs = policy(0.5, 5), replace(policy(0.7, 6), drain_notes=NOTE)
    found, why = vetted(ours, theirs, is_strict=False, check=check)
    assert why == "the signature is invalid"
    assert (gain(found), found.seal, found.drain_notes) == (0.5, ours.seal, NOTE)


def test_before_any_policy_was_signed_an_unsigned_one_is_taken_unless_that_is_forbidden():
    ours, theirs = unsigned(1, 0.5), unsigned(2, 0.7)
    for is_strict, why in ((False, ""), (True, "they are not signed")):
        assert vetted(ours, theirs, is_strict=is_strict, check=lambda _: None) == (theirs, why)
    same = replace(ours, counter=2)
    assert vetted(ours, same, is_strict=True, check=lambda _: None) == (same, "")
