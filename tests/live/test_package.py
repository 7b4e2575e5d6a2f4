"""The Debian package: what is in it, and its services under a real systemd."""

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.live.cluster import PREFIX, wait_until
from tests.live.machine import Machine, why_not

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
SERVICES = ("lbd-lim", "lbd-lbm")

pytestmark = [pytest.mark.live, pytest.mark.root]


def missing(what):
    (pytest.fail if os.environ.get("CI") else pytest.skip)(what)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    if not os.path.exists("/usr/bin/dpkg-deb"):
        missing("no dpkg-deb")
    made = tmp_path_factory.mktemp("deb")
    built = subprocess.run([ROOT / "deploy/deb", made], stdout=subprocess.PIPE, text=True)
    assert built.returncode == 0
    return Path(built.stdout.strip())


@pytest.fixture(scope="module")
def machine(package):
    if obstacle := why_not():
        missing(obstacle)
    started = Machine(Path(tempfile.mkdtemp(prefix=PREFIX)).resolve(), package)
    try:
        yield started.wait_until_up()
    finally:
        started.down()


EXPECTED = {
    "/etc/lbd/lbd.toml", "/lib/systemd/system/lbd.target", "/lib/systemd/system/lbd-lim.service",
    "/lib/systemd/system/lbd-lbm.service", "/usr/lib/sysusers.d/lbd.conf",
    "/usr/lib/tmpfiles.d/lbd.conf", "/usr/bin/lbrun", "/opt/lbd/bin/lbrun-python",
    "/usr/share/man/man1/lbrun.1.gz", "/usr/share/man/man8/lbd.8.gz",
    "/usr/share/bash-completion/completions/lbctl", "/usr/share/zsh/vendor-completions/_lbrun",
    "/usr/share/fish/vendor_completions.d/lbd.fish", "/usr/share/doc/lbd/copyright",
}  # fmt: skip


def test_what_is_in_the_package(package, tmp_path):
    listed = subprocess.run(["dpkg-deb", "-c", package], capture_output=True, text=True, check=True)
    rows = [line.split() for line in listed.stdout.splitlines()]
    paths = {row[5].removeprefix(".") for row in rows}
    assert paths >= EXPECTED
    assert {row[1] for row in rows} == {"root/root"}
    assert not [row for row in rows if row[0][0] == "-" and row[0][8] == "w"]
    assert not [path for path in paths if "/pip/" in path or "setuptools" in path]
    subprocess.run(["dpkg-deb", "-R", package, tmp_path / "out"], check=True)
    traces = ["grep", "-rlE", f"lbd-deb\\.|{ROOT}", "--exclude-dir=doc", tmp_path / "out"]
    assert subprocess.run(traces, capture_output=True, text=True).stdout == ""
    assert (tmp_path / "out/DEBIAN/conffiles").read_text() == "/etc/lbd/lbd.toml\n"
    sums = subprocess.run(["md5sum", "--quiet", "-c", "DEBIAN/md5sums"], cwd=tmp_path / "out")
    assert sums.returncode == 0


def test_it_is_installed_and_runs(machine):
    assert machine.run("dpkg", "-V", "lbd").stdout == ""
    assert "lbd:x:" in machine.run("getent", "passwd", "lbd", check=True).stdout
    for service in SERVICES:
        assert machine.show(service, "ActiveState") == "active"
        assert machine.show(service, "StatusText").startswith("host ")
    assert machine.run("lbrun", "uname", "-s", check=True).stdout == "Linux\n"
    doctor = machine.run("lbctl", "doctor")
    assert doctor.returncode == 0, doctor.stdout


def test_lim_has_no_privilege(machine):
    pid = machine.show("lbd-lim", "MainPID")
    status = machine.run("cat", f"/proc/{pid}/status", check=True).stdout
    uid = machine.run("id", "-u", "lbd").stdout.strip()
    assert re.search(rf"^Uid:\t{uid}\t{uid}\t", status, re.M)
    assert "CapEff:\t0000000000000000" in status
    assert "CapBnd:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status


@pytest.mark.parametrize("service", SERVICES)
def test_the_units_are_as_shut_as_the_readme_says(machine, service):
    unit = f"/lib/systemd/system/{service}.service"
    verified = machine.run("systemd-analyze", "verify", unit)
    assert (verified.returncode, verified.stderr) == (0, "")
    said = machine.run("systemd-analyze", "security", "--offline=true", unit).stdout
    score = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)[1]
    assert f"`{service}` {score}" in README


def test_the_journal_has_fields(machine):
    machine.run("journalctl", "--sync", check=True)
    found = machine.run("journalctl", "-o", "json", "SYSLOG_IDENTIFIER=lbd-lim", check=True).stdout
    records = [json.loads(line) for line in found.splitlines()]
    ready = next(record for record in records if record["MESSAGE"].startswith("ready"))
    assert ready["PRIORITY"] == "6"
    assert ready["_SYSTEMD_UNIT"] == "lbd-lim.service"
    assert ready["CODE_FUNC"] == "serve"
    name = machine.run("uname", "-n").stdout.strip().partition(".")[0]
    assert ready["LBD_HOST"] == name


def override(machine, service, *lines):
    """What an administrator's `systemctl edit` would write."""
    directory = f"/run/systemd/system/{service}.service.d"
    text = "\\n".join(["[Service]", *lines])
    machine.run("sh", "-c", f"mkdir -p {directory}; printf '{text}\\n' >{directory}/test.conf")
    machine.run("systemctl", "daemon-reload", check=True)


@pytest.mark.parametrize("service", SERVICES)
def test_systemd_starts_a_hung_daemon_again(machine, service):
    override(machine, service, "WatchdogSec=2")
    machine.run("systemctl", "restart", service, check=True)
    first = machine.show(service, "MainPID")
    machine.run("kill", "-STOP", first, check=True)
    wait_until(
        lambda: machine.show(service, "MainPID") not in (first, "0")
        and machine.show(service, "ActiveState") == "active",
        "it is started again", 30, lambda: machine.run("systemctl", "status", service).stdout,
    )  # fmt: skip
    assert machine.show(service, "NRestarts") == "1"
    machine.run("journalctl", "--sync", check=True)
    log = machine.run("journalctl", "-u", service, check=True).stdout
    assert "Watchdog timeout" in log
    assert machine.run("lbrun", "true").returncode == 0


def test_a_wrong_configuration_is_said_once(machine):
    machine.run("sh", "-c", "echo 'wrong = [' >>/etc/lbd/lbd.toml", check=True)
    machine.run("systemctl", "restart", "lbd-lim")
    wait_until(lambda: machine.show("lbd-lim", "ActiveState") == "failed", "it has failed", 20)
    machine.run("journalctl", "--sync", check=True)
    said = machine.run("journalctl", "-o", "json", "-u", "lbd-lim", "-p", "err", check=True).stdout
    messages = [json.loads(line)["MESSAGE"] for line in said.splitlines()]
    assert [m for m in messages if "/etc/lbd/lbd.toml" in m and "not TOML" in m]
    machine.run("sed", "-i", "/^wrong/d", "/etc/lbd/lbd.toml", check=True)
    machine.run("systemctl", "restart", "lbd-lim", check=True)


def test_an_upgrade_keeps_the_configuration_and_a_purge_leaves_nothing(machine):
    machine.run("sh", "-c", "echo '# mine' >>/etc/lbd/lbd.toml", check=True)
    before = machine.show("lbd-lim", "MainPID")
    install = ("dpkg", "--force-confdef", "--force-confold", "--no-triggers", "-i", "/lbd.deb")
    machine.run(*install, check=True, timeout=90)
    assert "# mine" in machine.run("cat", "/etc/lbd/lbd.toml").stdout
    assert machine.show("lbd-lim", "MainPID") not in (before, "0")
    machine.run("dpkg", "--no-triggers", "--purge", "lbd", check=True, timeout=90)
    left = machine.run("sh", "-c", "ls -d /opt/lbd /etc/lbd /var/lib/lbd /run/lbd /usr/bin/lb?*")
    assert left.stdout == ""
    assert machine.run("pgrep", "-f", "/opt/lbd").stdout == ""
