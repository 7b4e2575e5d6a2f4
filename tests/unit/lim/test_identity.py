"""A LIM's identity according to its configuration."""

import pytest

from lbd.config.schema import ClusterConfig, Config, HostConfig
from lbd.lim.identity import identity_of, join_target
from lbd.lim.settings_file import SettingsFile


@pytest.mark.parametrize(("join", "target"), [
    ("10.0.0.1:7901", "10.0.0.1:7901"),
    ("10.0.0.2:7901", ""),
])  # fmt: skip
def test_a_host_does_not_join_by_itself(join, target):
    """A shared configuration may tell it to. Its LIM ended with "the name h2 is taken"."""
    host = HostConfig(name="h2", address="10.0.0.2")
    assert join_target(Config(cluster=ClusterConfig(join=join), host=host)) == target


@pytest.mark.parametrize("signs", [False, True])
def test_a_host_with_a_certificate_has_proved_its_name(tmp_path, signs):
    host = HostConfig(name="h2", address="10.0.0.2", state_dir=str(tmp_path), speed=1.0)
    identity = identity_of(
        Config(host=host), SettingsFile(tmp_path), cores=1.0, alone=False, signs=signs
    )
    assert identity.is_proved is signs
