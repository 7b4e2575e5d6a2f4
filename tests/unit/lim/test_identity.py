"""A LIM's identity according to its configuration."""

import pytest

from lbd.config.schema import ClusterConfig, Config, HostConfig
from lbd.lim.identity import join_target


@pytest.mark.parametrize(("join", "target"), [
    ("10.0.0.1:7901", "10.0.0.1:7901"),
    ("10.0.0.2:7901", ""),
])  # fmt: skip
def test_a_host_does_not_join_by_itself(join, target):
    """A shared configuration may tell it to. Its LIM ended with "the name h2 is taken"."""
    host = HostConfig(name="h2", address="10.0.0.2")
    assert join_target(Config(cluster=ClusterConfig(join=join), host=host)) == target
