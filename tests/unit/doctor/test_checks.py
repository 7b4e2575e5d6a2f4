"""The checks of `lbctl doctor` that need no daemon."""

import os
import shutil
import sysconfig
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from lbd import __version__
from lbd.config.access import AdmissionConfig
from lbd.config.schema import ClusterConfig, Config, HostConfig, HostEntry, StageConfig
from lbd.doctor import this_host
from lbd.doctor.checks import (
    FAULT,
    OK,
    REVOKED_SAYS,
    UNSEEN,
    WARN,
    directory,
    key_file,
    names,
    trust,
)
from lbd.doctor.daemon_replies import containment, descriptors_of, slots
from lbd.doctor.peer import peer
from lbd.doctor.peers import fix_of
from lbd.doctor.this_host import address, other_disks, owner_seen
from lbd.keeper.gate import find_account
from lbd.net.details import UNPROVEN
from lbd.trust.authority import Authority
from lbd.trust.enrol import enrol
from lbd.trust.files import host_files

LISTED = ClusterConfig(hosts=(HostEntry("h1", "127.0.0.1"), HostEntry("h2", "127.0.0.2")))


def test_a_missing_directory_or_a_file_in_its_place_is_a_fault(tmp_path):
    assert directory("x", str(tmp_path)).state == OK
    (tmp_path / "file").write_text("")
    for path, says in ((tmp_path / "no", "does not exist"), (tmp_path / "file", "is a file")):
        found = directory("x", str(path))
        assert found.state == FAULT
        assert says in found.says
        assert found.fix


def test_an_unwritable_directory_is_a_fault():
    found = directory("x", "/proc/self")  # not even root may write there
    assert (found.state, found.fix) == (FAULT, "chown or chmod /proc/self")


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: cannot look on behalf of another user")
def test_a_directory_that_root_may_write_but_the_daemons_may_not_is_reported(tmp_path):
    nobody = find_account("nobody")
    found = directory("x", str(tmp_path), user=nobody)
    assert (found.state, found.fix[: len(f"chown nobody: {tmp_path}")]) == (
        WARN,
        f"chown nobody: {tmp_path}",
    )
    assert found.says.startswith(f"{tmp_path} is owned by root, and nobody, as whom the daemons ")
    with tempfile.TemporaryDirectory() as open_to_all:  # unlike those above `tmp_path`
        os.chmod(open_to_all, 0o777)
        said = directory("x", open_to_all, user=nobody).says
    assert said == f"{open_to_all}, writable by nobody"


def test_little_space_is_a_warning_with_numbers(tmp_path, monkeypatch):
    def disk(free_bytes, files_free=500):
        blocks = {"f_frsize": 1 << 20, "f_blocks": 10 << 10, "f_files": 1000}
        found = SimpleNamespace(f_bavail=free_bytes >> 20, f_favail=files_free, **blocks)
        monkeypatch.setattr(os, "statvfs", lambda _: found)
        return directory("state directory", str(tmp_path), is_kept=True)

    assert disk(2 << 30).state == OK
    low = disk(512 << 20)
    assert low.state == WARN
    assert f"{tmp_path}: only 512.0M of 10.0G are free" in low.says
    assert "du -xh" in low.fix
    assert disk(1 << 20).state == FAULT
    few = disk(5 << 30, files_free=10)
    assert (few.state, "only 10 of 1000 inodes" in few.says) == (WARN, True)


def test_other_disks_are_checked_only_if_they_differ(tmp_path, monkeypatch):
    host = HostConfig(name="h1", state_dir=str(tmp_path))
    here = Config(host=host, stage=StageConfig(root=str(tmp_path / "no/such")))
    assert not list(other_disks(here))
    apart = Config(host=host, stage=StageConfig(root="/dev/shm"))
    tight = os.statvfs_result((1 << 20, 1 << 20, 10 << 10, 512, 512, 1000, 500, 500, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: tight)
    (low,) = other_disks(apart)
    assert (low.name, low.state) == ("workdirs", WARN)
    assert "only 512.0M of 10.0G are free" in low.says
    assert "--send" in low.says


def test_a_missing_certificate_is_fine_for_one_host_but_not_for_two(tmp_path):
    host = HostConfig(name="h1", state_dir=str(tmp_path))
    assert [check.state for check in trust(Config(host=host))] == [OK]
    (found,) = trust(Config(host=host, cluster=LISTED))
    assert found.state == FAULT
    assert "no network port is open" in found.says
    assert found.fix.startswith(f"if {tmp_path} is on a disk of its own, check first that it is ")


@pytest.fixture
def config(tmp_path):
    """Returns the configuration of a host in a cluster whose certificates live a minute."""
    found = Config(host=HostConfig(name="h1", state_dir=str(tmp_path)), cluster=LISTED)
    join(found, 0.0)
    return found


def join(config, ago_s):
    root = Path(config.host.state_dir)
    shutil.rmtree(root / "authority", ignore_errors=True)
    authority = Authority(root / "authority", 60.0)
    authority.create("c", "h1", time.time() - ago_s)
    enrol(authority, host_files(config), "h1", "127.0.0.1:7901", time.time() - ago_s)


def test_a_revoked_host_does_not_take_its_name_back_from_the_machine_that_replaced_it(config):
    files, authority = host_files(config), Authority(Path(config.host.state_dir) / "other", 60.0)
    authority.create("c", "h9", time.time())
    enrol(authority, files, "h1", "10.0.0.9:7901", time.time())
    files.revoked.write_bytes(authority.revoke("h1"))
    (found,) = [one for one in trust(config) if one.name == "certificate"]
    assert found.says == REVOKED_SAYS
    assert found.fix.startswith("is another machine h1 now (`lbctl status` on another host)?")
    assert "would revoke that one, so save what only this machine has" in found.fix
    assert f"rm -r {files.root}`" in found.fix, "not the queue's ledger"


def test_a_valid_certificate(config):
    (found,) = trust(config)
    assert (found.state, found.says.startswith("h1's, ")) == (OK, True)


@pytest.mark.parametrize(
    ("ago_s", "state", "says"),
    [
        (55.0, WARN, "expires in"),
        (70.0, FAULT, "expired 1"),
        (-100.0, FAULT, "not valid for another"),
    ],
)
def test_an_expired_certificate(config, ago_s, state, says):
    join(config, ago_s)
    (found,) = trust(config)
    assert found.state == state
    assert says in found.says
    assert found.fix
    assert ("lbd-authority" in found.fix) == (ago_s > 0)
    if state == FAULT:  # the clock may be wrong, and then joining again is of no use
        assert f"by this host's clock: {time.strftime('%Y-')}" in found.says
        assert found.fix.startswith("first check the clock here with `date`")


def test_a_certificate_of_another_authority_or_of_another_host_or_open_to_all(config):
    files = host_files(config)
    kept = files.read_authority()
    join(config, 0.0)
    files.authority.write_bytes(kept)
    (found,) = trust(config)
    assert (found.state, "is not signed by the authority" in found.says) == (FAULT, True)
    (found,) = trust(replace(config, host=replace(config.host, name="h2")))
    assert "is the certificate of h1, but this host is h2" in found.says
    files.credentials.chmod(0o644)
    (found,) = trust(config)
    assert found.says.endswith("is accessible to others")
    assert found.fix == f"chmod 600 {files.credentials}; then `lbctl restart`"


@pytest.mark.parametrize(
    ("content", "mode", "says"),
    [
        ("k" * 64, 0o600, ""),
        ("k" * 64, 0o640, "chmod 600"),
        ("short", 0o600, "fewer than 32"),
        (None, 0, "No such file"),
    ],
)
def test_key_file(tmp_path, content, mode, says):
    path = tmp_path / "key"
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
    found = key_file(str(path))
    assert (found.state == FAULT) == bool(says)
    assert says in found.says
    assert bool(found.fix) == bool(says)


def test_an_unlisted_host_and_an_address_that_does_not_resolve():
    assert [*names(Config(cluster=LISTED, host=HostConfig(name="h1")))] == []
    (stranger,) = names(Config(cluster=LISTED, host=HostConfig(name="h9")))
    assert stranger.state == WARN
    assert "h9, is not in cluster.hosts (h1, h2)" in stranger.says
    odd = ClusterConfig(hosts=(HostEntry("h1", "no-such-host.invalid"),))
    (unresolved,) = names(Config(cluster=odd, host=HostConfig(name="h1")))
    assert unresolved.state == FAULT
    assert "'no-such-host.invalid' does not resolve" in unresolved.says


def test_an_address_of_another_machine_is_corrected_where_it_is_set(monkeypatch):
    monkeypatch.setattr(this_host, "interfaces_down", list)
    host = HostConfig(name="h1", address="192.0.2.7")
    (found,) = address(Config(host=host))
    assert (found.state, found.fix[:39]) == (FAULT, "`lbctl config set host.address ADDRESS`")
    listed = ClusterConfig(hosts=(HostEntry("h1", "192.0.2.7"),))
    (found,) = address(Config(cluster=listed, host=host))
    assert "in cluster.hosts" in found.fix


def test_a_link_that_is_down_is_named_before_the_address_is_called_wrong(tmp_path, monkeypatch):
    for name, state in (("br0", "down"), ("eth0", "down"), ("eth1", "up"), ("lo", "unknown")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "operstate").write_text(f"{state}\n")
    (tmp_path / "br0/bridge").mkdir()
    assert this_host.interfaces_down(tmp_path) == ["eth0"]
    monkeypatch.setattr(this_host, "interfaces_down", lambda: ["eth0"])
    (found,) = address(Config(host=HostConfig(name="h1", address="192.0.2.7")))
    assert found.says.endswith("is not an address of this machine; eth0 is down")
    assert found.fix.startswith("if it belongs to such an interface, `ip link set eth0 up`; other")


def test_descriptors_of_a_process_that_exists_and_of_one_that_does_not(tmp_path):
    path = tmp_path / "lbm.pid"
    assert descriptors_of(path) == {}
    path.write_text("not a pid\n")
    assert descriptors_of(path) == {}
    path.write_text(f"{os.getpid()}\n")
    found = descriptors_of(path)
    assert 3 <= found["fds_open"] <= found["fds_limit"]


def test_a_host_that_is_told_it_is_revoked_learns_how_to_join_again():
    error = "h1: h2 is revoked"
    (found,) = peer({"name": "h1", "reachable": False, "error": error}, {})
    assert (found.state, found.says) == (FAULT, f"cannot be reached: {error}")
    assert "lbctl join" in found.fix


UNPROVEN_H2 = f"h2: {UNPROVEN}"


def test_a_host_revoked_on_purpose_is_no_fault():
    item = {"name": "h2", "reachable": False, "error": UNPROVEN_H2}
    (found,) = peer(item, {"state": "revoked", "revoked": True})
    assert (found.state, "was revoked" in found.says) == (WARN, True)
    assert "`lbctl forget h2`" in found.fix
    assert "`lbctl token create h2`" in found.fix


def test_a_host_that_does_not_prove_its_name_may_be_revoked_or_another_machine():
    (found,) = peer({"name": "h2", "reachable": False, "error": UNPROVEN_H2}, {"state": "down"})
    assert found.state == FAULT
    assert "`lbctl token create h2`" in found.fix
    assert "another machine answers" in found.fix


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("h3: it cannot be reached (no answer)", "cannot be reached (no answer)"),
        ("no answer within 2 s", "cannot be reached: no answer within 2 s"),
        ("", "cannot be reached: no answer"),
    ],
)
def test_a_host_that_is_not_reached_is_said_so_once(error, says):
    (found,) = peer({"name": "h3", "reachable": False, "error": error}, {})
    assert found.says == says


def test_a_host_that_answers_us_but_is_down_for_us_is_not_well():
    item = {"name": "h2", "reachable": True, "rtt_s": 0.01, "version": __version__}
    down = {"state": "down", "why_down": "no sample for over 30 s", "age_s": 40.0}
    (found,) = peer(item, down)
    assert (found.state, "no sample for over 30 s" in found.says) == (FAULT, True)
    (found,) = peer(item, {**down, "age_s": None})
    assert found.state == WARN
    assert [found.state for found in peer(item, {"state": "up"})] == [OK]


def test_an_expired_certificate_of_another_host_names_the_process_that_renews_it():
    for whose in ("h2", "h1"):  # ours, by the clock of h2
        error = f"the certificate of {whose} has expired"
        (found,) = peer({"name": "h2", "reachable": False, "error": error}, {"state": "down"})
        assert (found.state, error in found.says) == (FAULT, True)
        assert "lbd-authority" in found.fix
        assert f"`lbctl token create {whose}`" in found.fix
        assert found.fix.startswith("first check the clock here and on h2 with `date`")


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (
            "h2: it cannot be reached (Connection refused (111))",
            "no LIM is listening there: on h2,",
        ),
        ("no answer within 2 s", "if h2 is up, check its"),
        ("No route to host", "if h2 is up, check its"),
    ],
)
def test_a_host_that_answers_is_not_behind_a_firewall(error, fix):
    (found,) = peer({"name": "h2", "reachable": False, "error": error}, {})
    assert found.fix.startswith(fix)
    assert ("firewall" in found.fix or "7901" in found.fix) == ("refused" not in error)


@pytest.mark.parametrize(
    ("version", "says"),
    [
        (__version__, "process 7"),
        ("0.0.9", "process 7, of lbd 0.0.9, until the next boot; "),
    ],
)
def test_a_keeper_that_an_upgrade_left_running_is_reported_as_old(version, says):
    (found, *_) = containment(
        {"keeper": 7, "containment": "cgroup2", "keeper_version": version}, "h1"
    )
    assert found.state == "ok"
    assert found.says.startswith(says)
    for command in ("systemctl restart lbd-keeper", "`lbctl drain h1`", "`lbctl undrain h1`"):
        assert (command in found.says) is (found.says != "process 7")


def test_a_keeper_that_does_not_run_is_started_by_its_unit():
    (found,) = containment({"keeper": 0}, "h1")
    assert (found.state, "`systemctl start lbd-keeper`" in found.fix) == (FAULT, True)


def test_fixes_are_commands_that_can_be_typed():
    assert fix_of("down", "h2") == "see `lbctl explain COMMAND`"
    (_, held) = containment({"keeper": 7, "containment": "session"}, "h1")
    assert held.fix.startswith("give the keeper a writable cgroup")


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: nobody to be forbidden anything")
def test_what_may_not_be_inspected_is_not_reported_as_correct(tmp_path):
    tmp_path.chmod(0o711)
    (tmp_path / "tls").mkdir(mode=0o700)
    config = Config(host=HostConfig(name="h1", state_dir=str(tmp_path)))
    os.seteuid(65534)
    try:
        found = list(trust(config))
    finally:
        os.seteuid(0)
    assert [check.state for check in found] == [UNSEEN]
    assert "not looked at: permission denied; run this as root" in found[0].says


def test_of_two_settings_for_slots_the_one_in_force_is_named():
    config = Config(admission=AdmissionConfig(slots=8))
    reply = {"slots": {"total": 4, "used": 0}}
    (found,) = slots(reply, config)
    assert found.state == WARN
    assert found.says == "4 are in force, as lbm.slots has it; admission.slots is 8"
    assert list(slots({"slots": {"total": 8}}, config)) == []
    assert list(slots(reply, Config())) == []


def test_keyboards_that_do_not_reveal_the_owner_cause_a_warning():
    config = Config(admission=AdmissionConfig(owner_idle_s=300.0))
    [seen] = owner_seen({"unseen_inputs": []}, config)
    [unseen] = owner_seen({"unseen_inputs": ["event0", "event3"]}, config)
    assert (seen.state, unseen.state) == (OK, WARN)
    assert unseen.says == (
        "terminals are watched, keyboards and mice are not (the LBM cannot open event0, event3)"
    )
    [none] = owner_seen({"inputs": [], "unseen_inputs": [], "dev_input": False}, config)
    assert (none.state, "no keyboard or mouse" in none.says) == (OK, True)
    [unknown] = owner_seen({"inputs": [], "inputs_listed": False, "unseen_inputs": []}, config)
    assert (unknown.state, "cannot see" in unknown.says) == (UNSEEN, True)
    hidden = {"inputs": ["event0"], "unseen_inputs": ["event0"], "dev_input": False}
    [private] = owner_seen(hidden, config)
    assert private.state == WARN
    assert "its unit has PrivateDevices=yes" in private.says
    assert "SupplementaryGroups=input" in unseen.fix
    assert not [*owner_seen({"unseen_inputs": ["event0"]}, Config())]


def test_for_a_package_without_compiled_programs_the_fix_is_to_rebuild_the_package(
    tmp_path, monkeypatch
):
    assert this_host.compile_again().startswith("install a C compiler")
    link = tmp_path / "lbd"
    link.symlink_to(os.path.join(sysconfig.get_path("scripts"), "lbd"))
    monkeypatch.setattr(this_host, "PACKAGED", str(link))
    assert this_host.compile_again() == (
        "build the package again on a host with a C compiler (Debian: gcc libc6-dev) and install "
        "it here"
    )
