"""What `lbctl reload` applies of lbd.toml."""

import logging
import time
from dataclasses import replace

import pytest

from lbd.config.schema import Config
from lbd.errors import ConfigError
from lbd.lbm.own_resources import pool_of
from lbd.lbm.owner.rules import InForce
from lbd.lbm.owner.watch import say_owner


def test_resources_features_and_memory_are_applied():
    before, now = Config(), Config()
    now = replace(
        now,
        host=replace(now.host, name="h9", features=("big",), memory="3G"),
        resources=replace(now.resources, amounts={"gpu": 3}),
    )
    rules = InForce(before, lambda: now)
    rules.reload()
    pool = pool_of(rules.config)
    assert (pool.totals, pool.memory_total) == ({"gpu": 3}, 3 << 30)
    assert "big" in pool.features
    assert rules.config.host.name == before.host.name  # this needs a restart


def test_a_reload_says_what_has_changed(caplog):
    caplog.set_level(logging.INFO, "lbd.lbm")
    config = Config()
    rules = InForce(config, lambda: replace(config, admission=replace(config.admission, slots=3)))
    rules.reload()
    rules.reload()
    assert caplog.messages == [
        "reloaded the owner's rules: admission.slots",
        "reloaded the owner's rules: nothing has changed",
    ]


def test_a_reload_names_what_has_changed_but_needs_a_restart(caplog):
    """It said nothing of other sections, as if they were in force."""
    caplog.set_level(logging.INFO, "lbd.lbm")
    config = Config()
    now = replace(
        config,
        users=replace(config.users, map="uid"),
        admin=replace(config.admin, users=("bob",)),
        admission=replace(config.admission, slots=3),
    )
    rules = InForce(config, lambda: now)
    for what in ("admission.slots", "nothing has changed"):
        assert rules.reload() == ["users.map", "admin.users"]
        assert caplog.messages[-1] == (
            f"reloaded the owner's rules: {what}; needs a restart: users.map, admin.users"
        )


def test_the_coming_and_going_of_an_owner_is_in_the_journal(caplog):
    caplog.set_level(logging.INFO, "lbd.lbm")
    say_owner("pts/1 was used 4 s ago")
    say_owner("")
    assert caplog.messages == ["the owner is back: pts/1 was used 4 s ago", "the owner is away"]


def test_nothing_of_an_invalid_file_is_applied():
    def wrong():
        raise ConfigError("lbd.toml: line 3")

    rules = InForce(Config(), wrong)
    with pytest.raises(ConfigError):
        rules.reload()
    assert rules.config == Config()


def test_the_start_of_the_hours_is_known_in_advance():
    now = time.time()
    soon = time.localtime(now + 2 * 3600)
    when = f"{soon.tm_min} {soon.tm_hour} * * *"

    def rules(*windows):
        config = Config()
        admission = replace(config.admission, when=windows)
        return InForce(replace(config, admission=admission), Config)

    assert now < rules(when).opens() <= now + 3 * 3600
    assert rules(when).opens() % 60 == 0
    assert rules().opens() == rules("* * * * *").opens() == rules("* * 31 2 *").opens() == 0.0
    assert "no commands of other hosts until " in rules(when).closed()[1]
