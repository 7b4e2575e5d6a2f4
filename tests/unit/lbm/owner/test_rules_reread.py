"""What `lbctl reload` takes up of lbd.toml."""

from dataclasses import replace

import pytest

from lbd.config.schema import Config
from lbd.errors import ConfigError
from lbd.lbm.own_resources import pool_of
from lbd.lbm.owner.rules import InForce


def test_resources_features_and_memory_are_taken_up():
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
    assert rules.config.host.name == before.host.name  # which needs a restart


def test_nothing_is_taken_up_of_a_file_that_is_wrong():
    def wrong():
        raise ConfigError("lbd.toml: line 3")

    rules = InForce(Config(), wrong)
    with pytest.raises(ConfigError):
        rules.reload()
    assert rules.config == Config()
