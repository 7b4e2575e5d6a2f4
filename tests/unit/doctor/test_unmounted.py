"""A state directory whose disk is not mounted."""

import time
from dataclasses import replace

from lbd.config.schema import ClusterConfig, Config, HostConfig, HostEntry
from lbd.doctor.checks import FAULT, directory, trust
from lbd.process import written_disks
from lbd.trust.authority import Authority

LISTED = ClusterConfig(hosts=(HostEntry("h1", "127.0.0.1"), HostEntry("h2", "127.0.0.2")))


def test_a_state_directory_that_is_not_mounted_comes_before_a_new_certificate(
    tmp_path, monkeypatch
):
    (tmp_path / "fstab").write_text(f"/dev/sdb1 {tmp_path} auto nofail 0 2\n")
    monkeypatch.setattr(written_disks, "FSTAB", tmp_path / "fstab")
    found = directory("state directory", str(tmp_path), is_kept=True)
    assert (found.state, found.fix) == (
        FAULT,
        f"mount {tmp_path}, then systemctl start lbd.target and `lbctl restart`, since daemons "
        "that run without it go on so",
    )
    config = Config(host=HostConfig(name="h1", state_dir=str(tmp_path)), cluster=LISTED)
    Authority(tmp_path / "authority", 60.0).create("c", "h1", time.time())
    for one in (config, replace(config, host=replace(config.host, state_dir=f"{tmp_path}/no"))):
        (check,) = trust(one)
        assert check.state == FAULT
        assert check.fix.startswith("see the state directory's line above")
