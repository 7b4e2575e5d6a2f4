"""When `lbctl join` replaces what an earlier join has left."""

import os
import shutil
import time

import pytest

from lbd.cli.ctl.own_address import refuse_if_joined, remarks
from lbd.cli.ctl.own_config import OwnConfig
from lbd.cli.ctl.trust import is_for_member
from lbd.cli.lbctl import main
from lbd.config.load import load
from lbd.config.schema import Config, HostConfig
from lbd.errors import ConfigError
from lbd.lim.core.signed import signed_text
from lbd.lim.settings_file import SettingsFile
from lbd.process import written_disks
from lbd.trust.authority import Authority
from lbd.trust.enrol import enrol
from lbd.trust.files import HostFiles, authority_dir, host_files
from lbd.trust.seals import signer_of

NOW_S = time.time()
DAY_S = 86400.0


@pytest.fixture
def authority(tmp_path):
    made = Authority(tmp_path / "authority", 10 * DAY_S)
    made.create("c", "h1", NOW_S)
    return made


def member(authority, root, host):
    files = HostFiles(root)
    enrol(authority, files, host, "10.0.0.1:7901", NOW_S)
    return files


def test_a_host_may_ask_its_own_authority_again(authority, tmp_path):
    """The host was revoked but has not heard of it: to its knowledge its certificate is valid."""
    files = member(authority, tmp_path / "h2", "h2")
    authority.revoke("h2")
    with pytest.raises(
        ConfigError, match=r"already joined, as h2, .*to leave that cluster, remove"
    ):
        refuse_if_joined(files, tmp_path)
    assert is_for_member(authority.new_token("h2", 60.0, NOW_S), files, "h2")


def test_a_join_replaces_neither_another_cluster_nor_another_name_nor_the_host_of_the_authority(
    authority, tmp_path
):
    files = member(authority, tmp_path / "h2", "h2")
    token = authority.new_token("h2", 60.0, NOW_S)
    assert not is_for_member(token, files, "h3")
    other = Authority(tmp_path / "other", 10 * DAY_S)
    other.create("c", "h1", NOW_S)
    assert not is_for_member(other.new_token("h2", 60.0, NOW_S), files, "h2")
    home = member(authority, tmp_path / "h1", "h1")
    assert not is_for_member(authority.new_token("h1", 60.0, NOW_S), home, "h1")


def test_a_host_that_has_not_joined_or_is_damaged_is_no_member(authority, tmp_path):
    files = HostFiles(tmp_path / "h2")
    token = authority.new_token("h2", 60.0, NOW_S)
    assert not is_for_member(token, files, "h2")
    member(authority, tmp_path / "h2", "h2")
    files.authority.write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n")
    assert not is_for_member(token, files, "h2")


def test_the_host_of_the_authority_is_told_how_to_change_its_address(authority, tmp_path):
    files = member(authority, tmp_path / "h1", "h1")
    for place, how in ((authority.root, "holds the cluster's key"), (tmp_path / "none", "rm -r")):
        with pytest.raises(ConfigError, match=r"config set host\.address .* to start over") as said:
            refuse_if_joined(files, place)
        assert how in str(said.value)
        assert (str(place) in str(said.value)) is place.exists()


@pytest.mark.parametrize("verb", ["init", "join"])
def test_an_address_of_another_machine_is_refused_before_anything_is_created(
    authority, tmp_path, capsys, verb
):
    file = tmp_path / "lbd.toml"
    token = authority.new_token("h2", 60.0, NOW_S).text()
    words = [verb, "--config", str(file), "--name", "h2", "--address", "192.0.2.7"]
    assert main([*words, *(["127.0.0.1:1", token] if verb == "join" else [])]) == 2
    assert "--address: 192.0.2.7 is not an address of this machine" in capsys.readouterr().err
    assert not file.exists()


def test_an_address_of_another_machine_in_the_file_is_named_with_its_setting(tmp_path, capsys):
    file = tmp_path / "lbd.toml"
    file.write_text(f'[host]\naddress = "192.0.2.7"\nstate_dir = "{tmp_path}"\n')
    assert main(["init", "--config", str(file)]) == 2
    said = capsys.readouterr().err
    assert "host.address 192.0.2.7 is not an address of this machine" in said
    assert "`lbctl config set host.address ADDRESS`" in said


def test_the_queue_that_init_places_is_signed_for_all_hosts(tmp_path, monkeypatch):
    file = tmp_path / "lbd.toml"
    file.write_text(f'[host]\nname = "h1"\naddress = "127.0.0.1"\nstate_dir = "{tmp_path}/state"\n'
                    f'runtime_dir = "{tmp_path}/run"\n')  # fmt: skip
    assert main(["init", "--config", str(file), "--queue"]) == 0
    settings = SettingsFile(tmp_path / "state").settings()
    text = signed_text("lbd", settings.seal, settings)
    authority = host_files(load(str(file))).read_authority()
    seal = settings.seal
    assert signer_of(authority, seal.certificate, seal.signature, text).host == "h1"
    assert settings.saved["dispatch.host"] == '"h1"'
    files = host_files(load(str(file)))
    assert not SettingsFile(tmp_path / "state", files.cluster()).drop_others()  # made in this one


def test_init_with_an_existing_authority_names_the_hosts_that_need_not_join(tmp_path, capsys):
    file = tmp_path / "lbd.toml"
    file.write_text(f'[host]\nname = "h1"\naddress = "127.0.0.1"\nstate_dir = "{tmp_path}/state"\n'
                    f'runtime_dir = "{tmp_path}/run"\n')  # fmt: skip
    assert main(["init", "--config", str(file)]) == 0
    assert "joined already" not in capsys.readouterr().out
    config = load(str(file))
    authority = Authority(authority_dir(config), config.tls.certificate_s)
    for host in ("h2", "h3", "h4"):
        enrol(authority, HostFiles(tmp_path / host), host, "127.0.0.1:1", time.time())
    authority.revoke("h4")
    shutil.rmtree(host_files(config).root)
    assert main(["init", "--config", str(file)]) == 0
    said = capsys.readouterr().out
    assert "these have joined already: h2, h3\nthen here, for each other host:\n" in said


def test_a_certificate_on_a_disk_that_is_not_mounted_is_not_replaced(
    authority, tmp_path, capsys, monkeypatch
):
    """It was revoked by `lbctl init` below the mount point, and the host was out later."""
    file, state = tmp_path / "lbd.toml", tmp_path / "state"
    file.write_text(f'[host]\nname = "h1"\naddress = "127.0.0.1"\nstate_dir = "{state}"\n'
                    f'runtime_dir = "{tmp_path}/run"\n')  # fmt: skip
    (tmp_path / "fstab").write_text(f"/dev/sdb1 {state} auto nofail 0 2\n")
    monkeypatch.setattr(written_disks, "FSTAB", tmp_path / "fstab")
    token = authority.new_token("h1", 60.0, NOW_S).text()
    for words in (["init"], ["join", "127.0.0.1:1", token]):
        assert main([*words, "--config", str(file)]) == 2
        said = capsys.readouterr().err
        assert f"{state} is in /etc/fstab, but nothing is mounted there: `mount {state}`" in said
    assert not state.exists()
    (tmp_path / "fstab").write_text("")  # the disk is lost
    assert main(["init", "--config", str(file)]) == 0


def test_a_user_who_is_not_root_is_told_that_the_cluster_is_private(monkeypatch, tmp_path, capsys):
    config = Config(host=HostConfig(address="10.0.0.1"))
    monkeypatch.delenv("LBD_CONFIG", raising=False)
    own = OwnConfig(config, tmp_path / "lbd.toml", True, {})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    remarks(own, None)
    assert "serves only your own processes" in capsys.readouterr().err
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    remarks(own, None)
    assert capsys.readouterr().err == ""


def test_a_host_that_has_joined_is_not_renamed(authority, tmp_path, capsys):
    file = tmp_path / "lbd.toml"
    file.write_text(f'[host]\nname = "h2"\nstate_dir = "{tmp_path}"\n')
    member(authority, host_files(load(str(file))).root, "h2")
    token = authority.new_token("h3", 60.0, NOW_S).text()
    words = ["join", "--config", str(file), "--name", "h3", "192.0.2.1", token]
    assert main(words) != 0
    said = capsys.readouterr().err
    assert "this host has joined as h2; to give it another name: `lbctl leave`, " in said
    assert main(["--config", str(file), "config", "set", "host.name", "h3"]) == 0
    said = capsys.readouterr().err
    assert "could not start with this: host.name is h3, but this host has joined as h2; " in said
