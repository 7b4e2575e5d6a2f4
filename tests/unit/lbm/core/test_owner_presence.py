"""When the owner counts as back, and what happens to foreign commands then."""

import pytest

from lbd.config.access import AdmissionConfig
from lbd.lbm.core.execution_events import Treatment
from lbd.lbm.core.owner_presence import CALM_S, Presence, Seen

IDLE = Seen(None, "", 0.0)


def presence(**config):
    return Presence(AdmissionConfig(**config))


def test_presence_is_not_watched_by_default():
    assert not presence().is_watched
    assert presence().why == ""


@pytest.mark.parametrize(
    ("config", "watched", "asks"),
    [
        ({}, False, False),
        ({"owner_load": 0.5}, True, False),
        ({"owner_idle_s": 60.0}, True, True),
        ({"owner_idle_s": 60.0, "owner_load": 0.5}, True, True),
    ],
)
def test_only_what_a_rule_is_about_is_watched(config, watched, asks):
    """Terminals are checked only where their use counts."""
    owner = presence(**config)
    assert (owner.is_watched, owner.asks_for_input) == (watched, asks)


@pytest.mark.parametrize(("idle_s", "back"), [(0.0, True), (299.0, True), (300.0, False)])
def test_a_recently_used_terminal(idle_s, back):
    owner = presence(owner_idle_s=300.0)
    owner.tick(Seen(idle_s, "pts/3", 9.0), 1.0)
    assert bool(owner.why) is back
    assert "pts/3" in owner.why or not back


def test_load_with_pauses_still_counts_as_that_of_the_owner():
    owner = presence(owner_load=0.5)
    owner.tick(Seen(None, "", 0.6), 10.0)
    assert "admission.owner_load" in owner.why
    owner.tick(IDLE, 10.0 + CALM_S - 0.1)
    assert owner.why
    owner.tick(IDLE, 10.0 + CALM_S)
    assert owner.why == ""


@pytest.mark.parametrize(
    ("kind", "at_once", "after_grace"),
    [
        ("keep", Treatment.NONE, Treatment.NONE),
        ("nice", Treatment.NICE, Treatment.NICE),
        ("suspend", Treatment.STILL, Treatment.STILL),
        ("evict", Treatment.NONE, Treatment.GO),
    ],
)
def test_what_happens_to_foreign_commands(kind, at_once, after_grace):
    owner = presence(owner_idle_s=60.0, owner_is_back=kind, evict_grace_s=10.0)
    owner.tick(IDLE, 0.0)
    assert owner.treatment(0.0) is Treatment.NONE
    owner.tick(Seen(1.0, "pts/3", 0.0), 5.0)
    assert owner.treatment(5.0) is at_once
    owner.tick(Seen(9.0, "pts/3", 0.0), 15.0)
    assert owner.treatment(15.0) is after_grace
    owner.tick(Seen(60.0, "pts/3", 0.0), 66.0)
    assert owner.treatment(66.0) is Treatment.NONE


def test_changed_rules_count_from_the_next_look_on():
    owner = presence()
    owner.tick(Seen(1.0, "pts/3", 0.0), 1.0)
    assert (owner.is_watched, owner.why) == (False, "")
    owner.change(AdmissionConfig(owner_idle_s=60.0))
    owner.tick(Seen(1.0, "pts/3", 0.0), 2.0)
    assert owner.is_watched
    assert "pts/3" in owner.why
