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


def test_a_start_is_above_what_others_knew_whatever_the_clock_says(tmp_path, monkeypatch, caplog):
    host = HostConfig(name="h2", address="10.0.0.2", state_dir=str(tmp_path), speed=1.0)

    def started(clock_s):
        monkeypatch.setattr("time.time_ns", lambda: int(clock_s * 1e9))
        kept = SettingsFile(tmp_path)
        found = identity_of(Config(host=host), kept, cores=1.0, alone=False, signs=True)
        return found.me.incarnation, found.clock_ms

    assert started(50.0) == (50_000, 50_000)
    SettingsFile(tmp_path).keep_incarnation(90_000)  # others said that they knew 89,999
    assert started(40.0) == (90_001, 40_000)
    assert started(41.0) == (90_002, 41_000)
    assert started(91.0) == (91_000, 91_000)
    for damaged in ("nonsense", "-7", "9" * 10_000):
        (tmp_path / "incarnation").write_text(damaged)
        assert started(1e9)[1] == int(1e12)
    assert "ignored" in caplog.text
