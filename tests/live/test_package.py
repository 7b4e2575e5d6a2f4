"""The packages: their contents, and their services under a real systemd.

One file because all of it uses one tree, which takes longest, and one machine.
"""

import contextlib
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.live.cluster import PREFIX, wait_until
from tests.live.machine import Machine, why_not
from tests.live.packages import last_release, package_of_commit, package_of_next_release

ROOT = Path(__file__).resolve().parents[2]
INSTALL = (ROOT / "docs/how-to/install.md").read_text()
SERVICES = ("lbd-lim", "lbd-lbm")
UNITS = ("lbd-keeper", "lbd-dispatcher", "lbd-authority", "lbd-metrics", "lbd-web", *SERVICES)

pytestmark = [pytest.mark.live, pytest.mark.root]


def missing(what):
    (pytest.fail if os.environ.get("CI") else pytest.skip)(what)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The files of both packages, made once: by far the longest step."""
    root = tmp_path_factory.mktemp("package") / "tree"
    subprocess.run([ROOT / "deploy/tree", root], check=True)
    return root


def packed(program, tree, directory):
    environment = os.environ | {"TREE": str(tree)}
    words = [ROOT / "deploy" / program, directory]
    built = subprocess.run(words, stdout=subprocess.PIPE, text=True, env=environment)
    assert built.returncode == 0
    return Path(built.stdout.strip())


@pytest.fixture(scope="module")
def package(tree, tmp_path_factory):
    if not os.path.exists("/usr/bin/dpkg-deb"):
        missing("no dpkg-deb")
    return packed("deb", tree, tmp_path_factory.mktemp("deb"))


@pytest.fixture(scope="module")
def rpm(tree, tmp_path_factory):
    if not os.path.exists("/usr/bin/rpmbuild"):
        missing("no rpmbuild")
    return packed("rpm", tree, tmp_path_factory.mktemp("rpm"))


@pytest.fixture(scope="module")
def next_package(package, tmp_path_factory):
    return package_of_next_release(ROOT, package, tmp_path_factory.mktemp("next"))


@pytest.fixture(scope="module")
def machine(package, next_package):
    if obstacle := why_not():
        missing(obstacle)
    root = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    started = Machine(root, next_package, package)
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
    "/usr/share/doc/lbd/monitoring/lbd.rules.yml",
    "/usr/share/doc/lbd/monitoring/lbd.dashboard.json",
}  # fmt: skip


def test_the_contents_of_the_package(package, tmp_path):
    listed = subprocess.run(["dpkg-deb", "-c", package], capture_output=True, text=True, check=True)
    rows = [line.split() for line in listed.stdout.splitlines()]
    paths = {row[5].removeprefix(".") for row in rows}
    assert paths >= EXPECTED
    assert {row[1] for row in rows} == {"root/root"}
    assert not [row for row in rows if row[0][0] == "-" and row[0][8] == "w"]
    assert not [path for path in paths if "/pip/" in path or "/setuptools/" in path]
    subprocess.run(["dpkg-deb", "-R", package, tmp_path / "out"], check=True)
    traces = ["grep", "-rlE", f"lbd-deb\\.|{ROOT}", "--exclude-dir=doc", tmp_path / "out"]
    assert subprocess.run(traces, capture_output=True, text=True).stdout == ""
    assert (tmp_path / "out/DEBIAN/conffiles").read_text() == "/etc/lbd/lbd.toml\n"
    sums = subprocess.run(["md5sum", "--quiet", "-c", "DEBIAN/md5sums"], cwd=tmp_path / "out")
    assert sums.returncode == 0


def rpm_says(*words):
    asked = subprocess.run(["rpm", "-qp", *words], capture_output=True, text=True, check=True)
    return asked.stdout


PATH_OF_RPM = {
    "/usr/share/zsh/vendor-completions/": "/usr/share/zsh/site-functions/",
    "/usr/share/doc/lbd/copyright": "/usr/share/licenses/lbd/LICENSE",
    "/lib/systemd/": "/usr/lib/systemd/",
}


def test_the_rpm_has_the_same_files_where_such_systems_look_for_them(rpm, package):
    def elsewhere(path):
        for before, after in PATH_OF_RPM.items():
            if path.startswith(before):
                return path.replace(before, after)
        return path

    listed = subprocess.run(["dpkg-deb", "-c", package], capture_output=True, text=True, check=True)
    rows = [line.split() for line in listed.stdout.splitlines() if line[0] == "-"]
    files = {elsewhere(row[5].removeprefix(".")) for row in rows}
    assert files <= {*rpm_says("-l", rpm).splitlines()}
    assert {elsewhere(path) for path in EXPECTED} <= {*rpm_says("-l", rpm).splitlines()}
    shown = "[%{FILEUSERNAME}:%{FILEGROUPNAME} %{FILEMODES:perms} %{FILENAMES}\n]"
    rows = [line.split() for line in rpm_says("--qf", shown, rpm).splitlines()]
    assert {row[0] for row in rows} == {"root:root"}
    assert not [row for row in rows if row[1][0] != "l" and row[1][8] == "w"]
    assert rpm_says("--configfiles", rpm) == "/etc/lbd/lbd.toml\n"


def test_the_rpm_needs_the_python_it_was_built_with_and_no_library(rpm):
    needs = rpm_says("--requires", rpm).splitlines()
    (python,) = {need for need in needs if "python" in need}
    assert re.fullmatch(r"/usr/bin/python3\.\d+", python)
    assert [need for need in needs if re.fullmatch(r"glibc >= 2\.\d\d", need)]
    assert not [need for need in needs if ".so" in need]
    assert rpm_says("--provides", rpm).splitlines()[0].startswith("lbd = ")


def test_the_rpm_is_unpacked_below_another_root(rpm, tmp_path):
    words = ("rpm", "--root", tmp_path, "-i", "--nodeps", "--noscripts", rpm)
    subprocess.run(words, check=True)
    verified = subprocess.run(["rpm", "--root", tmp_path, "-V", "--nodeps", "lbd"])
    assert verified.returncode == 0
    interpreter = tmp_path / "opt/lbd/bin/python3"
    assert re.fullmatch(r"python3\.\d+", os.readlink(interpreter))
    traces = ["grep", "-rlE", f"lbd-rpm\\.|{tmp_path.parent}|{ROOT}", tmp_path / "opt/lbd"]
    assert subprocess.run(traces, capture_output=True, text=True).stdout == ""


def test_it_is_installed_and_runs(machine):
    assert machine.run("dpkg", "-V", "lbd").stdout == ""
    assert "lbd:x:" in machine.run("getent", "passwd", "lbd", check=True).stdout
    for service in (*SERVICES, "lbd-keeper"):
        assert machine.show(service, "ActiveState") == "active"
        assert machine.show(service, "StatusText")
    assert machine.run("lbrun", "uname", "-s", check=True).stdout == "Linux\n"
    doctor = machine.run("lbctl", "doctor")
    assert doctor.returncode == 0, doctor.stdout


@pytest.mark.parametrize("service", SERVICES)
def test_only_the_keeper_has_privilege(machine, service):
    pid = machine.show(service, "MainPID")
    status = machine.run("cat", f"/proc/{pid}/status", check=True).stdout
    uid = machine.run("id", "-u", "lbd").stdout.strip()
    assert re.search(rf"^Uid:\t{uid}\t{uid}\t", status, re.M)
    assert "CapEff:\t0000000000000000" in status
    assert "CapBnd:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status


@pytest.mark.parametrize("service", UNITS)
def test_the_units_are_as_confined_as_the_book_says(machine, service):
    unit = f"/lib/systemd/system/{service}.service"
    verified = machine.run("systemd-analyze", "verify", unit)
    assert (verified.returncode, verified.stderr) == (0, "")
    said = machine.run("systemd-analyze", "security", "--offline=true", unit).stdout
    score = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)[1]
    assert f"`{service}` {score}" in INSTALL


@pytest.mark.parametrize("service", [*SERVICES, "lbd-dispatcher", "lbd-metrics"])
def test_a_daemon_that_takes_all_memory_is_ended_before_the_host(machine, service):
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < int(machine.show(service, "MemoryMax")) <= max(4 << 30, memory_bytes // 2)
    assert 0 < int(machine.show(service, "TasksMax")) <= 512


def test_no_user_can_create_the_directory_for_files_first(machine):
    stat = ("stat", "-c", "%U %a", "/var/tmp/lbd-stage")
    assert machine.run(*stat, check=True).stdout == "lbd 711\n"
    machine.run("systemctl", "stop", "lbd-lbm", "lbd-keeper", check=True)
    taken = "cd /var/tmp && rm -r lbd-stage && mkdir -m 777 lbd-stage && chown 2001 lbd-stage"
    machine.run("sh", "-c", taken, check=True)
    machine.run("systemctl", "start", "lbd-keeper", "lbd-lbm", check=True)
    assert machine.run(*stat, check=True).stdout == "lbd 711\n"
    machine.run("sh", "-c", "ls -d /var/tmp/lbd-stage.of-user-2001.*", check=True)


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


OTHER = """
[host]
runtime_dir = "/tmp/other/run"
state_dir = "/tmp/other/state"
name = "other"
address = "10.9.0.2"
[cluster]
join = "10.9.0.1:7901"
[daemons]
user = "root"
[load]
scope = "jobs"
"""
CONFIG = "LBD_CONFIG=/tmp/other/lbd.toml"
CLUSTER = """
set -e
useradd --create-home ann
ip address add 10.9.0.1/32 dev lo
ip address add 10.9.0.2/32 dev lo
systemctl disable lbd.target
lbctl init --address 10.9.0.1
lbctl restart
token=$(lbctl token create)
mkdir -p /tmp/other
printf '%s' "$1" >/tmp/other/lbd.toml
lbctl join --config /tmp/other/lbd.toml 10.9.0.1 "$token"
systemd-run --unit=other lbd up --config /tmp/other/lbd.toml
"""


@pytest.fixture(scope="module")
def from_other(machine):
    return joined(machine)


def joined(machine):
    """The start of a command line by which ann runs a command from another host, an `lbd up` on the
    same machine, on the host of the units."""
    machine.run("sh", "-c", CLUSTER, "sh", OTHER, check=True)
    host = machine.run("uname", "-n").stdout.strip().partition(".")[0]
    words = ("runuser", "-u", "ann", "--", "env", "-C", "/home/ann", CONFIG, "lbrun", "-H", host)
    wait_until_it_takes_commands(machine, words)
    return words


def wait_until_it_takes_commands(machine, words):
    """A LIM that stopped has left the cluster: the other host knows it again by its Hello."""
    wait_until(
        lambda: machine.run(*words, "true").returncode == 0, "the hosts see each other", 30,
        lambda: machine.run(*words, "true").stderr,
    )  # fmt: skip


def test_a_command_of_another_host_runs_in_the_unit_of_the_keeper(machine, from_other):
    script = "id -un; grep ^0:: /proc/self/cgroup; pwd; grep NoNewPrivs: /proc/self/status"
    script += "; touch mine"
    done = machine.run(*from_other, "sh", "-c", script, check=True)
    user, group, directory, rights = done.stdout.splitlines()
    assert (user, directory) == ("ann", "/home/ann")
    assert "lbd-keeper.service/" in group
    assert rights == "NoNewPrivs:\t0"
    assert machine.run("stat", "-c", "%U", "/home/ann/mine").stdout == "ann\n"
    terminal = machine.run(*from_other, "-t", "readlink", "/proc/self/fd/1", check=True).stdout
    assert "/dev/pts/" in terminal
    sent = machine.run(*from_other, "--send", "mine", "--fetch", "out", "cp", "mine", "out")
    assert (sent.returncode, sent.stderr) == (0, "")


def test_a_host_that_left_starts_with_the_machine_once_it_is_in_a_cluster_again(
    machine, from_other
):
    assert machine.run("systemctl", "is-enabled", "lbd.target").stdout == "enabled\n"


def test_a_user_finds_the_daemons_and_no_fault(machine, from_other):
    doctor = machine.run("runuser", "-l", "ann", "-c", "cd /; lbctl doctor --json")
    checks = json.loads(doctor.stdout)["checks"]
    assert [check for check in checks if check["state"] == "fault"] == []
    assert {"LIM", "LBM", "peer other", "keeper"} <= {check["name"] for check in checks}


def test_no_secret_is_in_the_journal(machine, from_other):
    words = ("env", "-u", "x", "MY_TOKEN=hush-hush")
    machine.run(*words, *from_other, "-e", "MY_TOKEN", "sh", "-c", "exit 3", "sh", "hush-hush")
    machine.run("journalctl", "--sync", check=True)
    said = machine.run("journalctl", "-o", "export", "-u", "lbd-*", check=True).stdout
    assert "LBD_HOST=" in said
    assert "hush-hush" not in said
    key = machine.run("sed", "-n", "2p", "/var/lib/lbd/tls/host.pem", check=True).stdout.strip()
    assert len(key) > 30
    assert key not in said


@contextlib.contextmanager
def overridden(machine, service, line):
    """Adds a line to a unit, as an administrator's `systemctl edit` does."""
    directory = f"/run/systemd/system/{service}.service.d"
    script = f"mkdir -p {directory}; printf '[Service]\\n{line}\\n' >{directory}/test.conf"
    for words in (script, f"rm -r {directory}"):
        machine.run("sh", "-c", words, check=True)
        machine.run("systemctl", "daemon-reload", check=True)
        machine.run("systemctl", "restart", service, check=True)
        if words == script:
            yield


@pytest.mark.parametrize("service", SERVICES)
def test_systemd_restarts_a_hung_daemon(machine, service):
    with overridden(machine, service, "WatchdogSec=3"):
        first = machine.show(service, "MainPID")
        machine.run("kill", "-STOP", first, check=True)
        wait_until(
            lambda: has_restarted(machine, service, first),
            "it will be restarted", 30, lambda: machine.run("systemctl", "status", service).stdout,
        )  # fmt: skip
        machine.run("journalctl", "--sync", check=True)
        log = machine.run("journalctl", "-u", service, check=True).stdout
        assert "Watchdog timeout" in log
    assert machine.run("lbrun", "true").returncode == 0


def test_a_wrong_configuration_is_reported_once(machine):
    machine.run("sh", "-c", "echo 'wrong = [' >>/etc/lbd/lbd.toml", check=True)
    machine.run("systemctl", "restart", "lbd-lim")
    wait_until(lambda: machine.show("lbd-lim", "ActiveState") == "failed", "it has failed", 20)
    machine.run("journalctl", "--sync", check=True)
    said = machine.run("journalctl", "-o", "json", "-u", "lbd-lim", "-p", "err", check=True).stdout
    messages = [json.loads(line)["MESSAGE"] for line in said.splitlines()]
    assert [m for m in messages if "/etc/lbd/lbd.toml" in m and "not TOML" in m]
    machine.run("sed", "-i", "/^wrong/d", "/etc/lbd/lbd.toml", check=True)
    machine.run("systemctl", "restart", "lbd-lim", check=True)


def has_restarted(machine, unit, pid):
    active = machine.show(unit, "ActiveState") == "active"
    return active and machine.show(unit, "MainPID") not in ("0", pid)


@pytest.fixture
def queue(machine, from_other):
    """The queue of this cluster, on the machine with the units."""
    host = machine.run("uname", "-n").stdout.strip().partition(".")[0]
    machine.run("lbctl", "queue", "enable", host, check=True, timeout=90)
    yield host
    machine.run("lbctl", "queue", "disable", "--drain", "--timeout", "60s", timeout=90)
    machine.run("systemctl", "stop", "lbd-dispatcher", check=True)
    machine.run("sh", "-c", "rm /var/lib/lbd/ledger.sqlite* /var/lib/lbd/ledger.last", check=True)


def test_an_enabled_queue_is_started_by_its_path_unit(machine, from_other, queue):
    wait_until(lambda: machine.show("lbd-dispatcher", "ActiveState") == "active",
               "the dispatcher runs", 60, machine.said)  # fmt: skip
    first = machine.show("lbd-dispatcher", "MainPID")
    assert machine.run("stat", "-c", "%U", f"/proc/{first}").stdout == "lbd\n"
    ann = ("runuser", "-u", "ann", "--", "env", "-C", "/home/ann")
    wait_until(lambda: machine.run(*ann, "lbrun", "-q", "echo", "queued").stdout == "queued\n",
               "a user's job runs", 60,
               lambda: machine.run(*ann, "lbrun", "-q", "true").stderr)  # fmt: skip
    waiting = machine.run(*ann, "lbrun", "-d", "--begin", "+1h", "true", check=True).stdout.strip()
    for verb in ("stop", "start"):  # as at a boot
        machine.run("systemctl", verb, "lbd.target", check=True, timeout=90)
    wait_until(lambda: has_restarted(machine, "lbd-dispatcher", first), "it will be restarted", 60,
               machine.said)  # fmt: skip
    wait_until(lambda: waiting in machine.run("lbctl", "jobs").stdout.split(), "with its jobs", 60)
    machine.run("lbctl", "kill", waiting, check=True)


DROP_IN = "/etc/systemd/system/lbd-dispatcher.service.d/override.conf"  # as of `systemctl edit`


def test_a_ledger_where_its_unit_may_not_write_is_named_before_the_queue_stops(machine, queue):
    """The dispatcher ended with `Read-only file system`, and nothing said what to do."""
    is_active = lambda: machine.show("lbd-dispatcher", "ActiveState") == "active"  # noqa: E731
    wait_until(is_active, "the dispatcher runs", 60, machine.said)
    pid, opening = machine.show("lbd-dispatcher", "MainPID"), "ReadWritePaths=/srv/ledger"
    machine.run("install", "-d", "-o", "lbd", "-m", "750", "/srv/ledger", check=True)
    store = "dispatch.store", "sqlite:////srv/ledger/ledger.sqlite"
    assert opening in machine.run("lbctl", "config", "set", *store, check=True).stderr
    refused = machine.run("lbctl", "restart")
    assert refused.returncode == 1
    assert opening in refused.stderr
    assert machine.show("lbd-dispatcher", "MainPID") == pid
    machine.run("systemctl", "restart", "lbd-dispatcher")
    wait_until(lambda: opening in machine.run("lbctl", "doctor").stdout, "the doctor says why", 60,
               lambda: machine.run("lbctl", "doctor").stdout)  # fmt: skip
    lines = f"mkdir -p ${{0%/*}}; printf '[Service]\\n{opening}\\n' >$0; systemctl daemon-reload"
    machine.run("sh", "-c", lines, DROP_IN, check=True)
    machine.run("systemctl", "restart", "lbd-dispatcher", check=True, timeout=90)
    wait_until(is_active, "it may write there", 60, machine.said)
    machine.run("test", "-s", "/srv/ledger/ledger.sqlite", check=True)
    machine.run("lbctl", "config", "set", "dispatch.store", "--unset", check=True)
    machine.run("lbctl", "restart", "dispatcher", check=True, timeout=90)
    machine.run("rm", DROP_IN, check=True)
    machine.run("systemctl", "daemon-reload", check=True)


def test_the_lbm_knows_a_stop_from_a_restart_without_a_message_bus(machine):
    """As when the host is shut down: then the bus has gone before the LBM is stopped."""
    machine.run("systemctl", "stop", "dbus.socket", "dbus.service")
    found = []
    for verb in ("restart", "stop"):
        run = machine.show("lbd-lbm", "InvocationID")
        machine.run("systemctl", verb, "lbd-lbm", check=True)
        machine.run("journalctl", "--sync", check=True)
        said = machine.run("journalctl", f"_SYSTEMD_INVOCATION_ID={run}", check=True).stdout
        found.append(("ready" in said, "handed over" in said))
    machine.run("systemctl", "start", "lbd-lbm", check=True)
    assert found == [(True, True), (True, False)]


def test_a_host_that_goes_down_with_its_dispatcher_hands_back_its_jobs_first(
    machine, from_other, queue
):
    ann = ("runuser", "-u", "ann", "--", "env", "-C", "/home/ann")
    wait_until(lambda: machine.run(*ann, "lbrun", "-q", "true").returncode == 0, "a job runs", 60)
    submit = ("lbrun", "-d", "-H", queue, "sleep", "600")
    job = machine.run(*ann, *submit, check=True).stdout.strip()

    def attempts():
        said = machine.run(*ann, "lbctl", "job", job, "--json").stdout
        return [(one["state"], one["reason"]) for one in json.loads(said or "{}")["attempts"]]

    wait_until(lambda: [state for state, _ in attempts()] == ["running"], "it runs", 30, attempts)
    units = ("lbd.target", "lbd-lbm", "lbd-dispatcher")  # to wait for these, too
    machine.run("systemctl", "stop", *units, check=True, timeout=90)
    machine.run("systemctl", "start", "lbd.target", check=True, timeout=90)
    begun = lambda: "was stopped; the job begins again" in attempts()[0][1]  # noqa: E731
    wait_until(begun, "its first attempt ended with the LBM", 15, attempts)
    machine.run("lbctl", "kill", job, check=True)


def test_the_page_is_started_by_its_socket_unit(machine):
    assert machine.show("lbd-web", "ActiveState") == "inactive"
    machine.run("systemctl", "enable", "--now", "lbd-web.socket", check=True)
    try:
        asked = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9480/').read())"
        page = machine.run("/opt/lbd/bin/python3", "-c", asked, check=True).stdout
        assert "<html" in page
        assert machine.show("lbd-web", "ActiveState") == "active"
        machine.run("systemctl", "disable", "--now", "lbd-web.socket", "lbd-web.service")
        machine.run("systemctl", "enable", "lbd-web.socket", check=True)
        wanted = machine.run("systemctl", "show", "-P", "Wants", "lbd.target").stdout
        assert "lbd-web.socket" in wanted.split()  # `systemctl start lbd.target` brings it back
    finally:
        machine.run("systemctl", "disable", "--now", "lbd-web.socket", "lbd-web.service")
    assert machine.show("lbd-web", "ActiveState") == "inactive"


def test_systemctl_restart_ends_no_command(machine, from_other):
    wait_until_it_takes_commands(machine, from_other)
    before = {unit: machine.show(unit, "MainPID") for unit in SERVICES}
    script = "echo begun; seq 300000; while [ ! -e on ]; do sleep 0.1; done; seq 300000; exit 7"
    with machine.popen(*from_other, "sh", "-c", script) as command:
        assert command.stdout.readline() == "begun\n", command.stderr.read()
        machine.run("systemctl", "restart", "lbd-lbm", "lbd-lim", check=True)
        for unit, pid in before.items():
            assert machine.show(unit, "MainPID") not in ("0", pid)
        machine.run("touch", "/home/ann/on", check=True)
        numbers = "".join(f"{number}\n" for number in range(1, 300_001))
        assert command.stdout.read() == numbers * 2
        assert command.wait(30) == 7


def test_an_upgrade_ends_no_command_and_keeps_the_configuration(machine, from_other):
    before = installed_version(machine)
    upgrade(machine, from_other)
    assert machine.run("dpkg", "--compare-versions", before, "lt", installed_version(machine)
                       ).returncode == 0  # fmt: skip
    shown = machine.run("lbctl", "--version", check=True).stdout.split()[1]
    assert installed_version(machine).startswith(f"{shown}+")


def installed_version(machine):
    return machine.run("dpkg-query", "-W", "-f", "${Version}", "lbd", check=True).stdout


def upgrade(machine, from_other):
    machine.run("sh", "-c", "echo '# mine' >>/etc/lbd/lbd.toml", check=True)
    wait_until_it_takes_commands(machine, from_other)
    before = {unit: machine.show(unit, "MainPID") for unit in (*SERVICES, "lbd-keeper")}
    script = "echo begun; while [ ! -e go ]; do sleep 0.1; done; echo ended; exit 7"
    with machine.popen(*from_other, "sh", "-c", script) as command:
        assert command.stdout.readline() == "begun\n", command.stderr.read()
        install = ("dpkg", "--force-confdef", "--force-confold", "--no-triggers", "-i", "/lbd.deb")
        machine.run(*install, check=True, timeout=90)
        for service in SERVICES:
            wait_until(
                lambda unit=service: has_restarted(machine, unit, before[unit]),
                f"a new {service}", 30,
            )  # fmt: skip
        machine.run("touch", "/home/ann/go", check=True)
        assert command.communicate(timeout=120)[0] == "ended\n"
        assert command.returncode == 7
    assert machine.show("lbd-keeper", "MainPID") == before["lbd-keeper"]
    assert "# mine" in machine.run("cat", "/etc/lbd/lbd.toml").stdout


@pytest.fixture
def machine_of_last_release(package, tmp_path):
    if not (commit := last_release(ROOT)):
        pytest.skip("no tag of a release here (a shallow clone has none: git fetch --tags)")
    if obstacle := why_not():
        missing(obstacle)
    first = package_of_commit(ROOT, commit, tmp_path)
    root = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    started = Machine(root, package, first)
    try:
        yield started.wait_until_up()
    finally:
        started.down()


def test_an_upgrade_from_the_last_release_ends_no_command(machine_of_last_release):
    upgrade(machine_of_last_release, joined(machine_of_last_release))


@pytest.mark.usefixtures("from_other")  # there is an authority
def test_a_purge_leaves_only_what_nobody_can_make_again(machine):
    """The cluster's authority, and acknowledged jobs."""
    machine.run("systemctl", "stop", "other")
    others = "find /opt -mindepth 1 -maxdepth 1 ! -name lbd -exec rm -r {} +"
    machine.run("sh", "-c", others, check=True)
    machine.run(
        "sh", "-c", "touch /var/lib/lbd/ledger.sqlite /var/lib/lbd/ledger.sqlite-wal", check=True
    )
    before = machine.run("sh", "-c", "cat /var/lib/lbd-authority/*", check=True).stdout
    assert before
    purged = machine.run("dpkg", "--no-triggers", "--purge", "lbd", check=True, timeout=90)
    places = "/opt/lbd /etc/lbd /run/lbd /var/tmp/lbd-stage /usr/bin/lb?*"
    assert machine.run("sh", "-c", f"find {places}").stdout == ""
    assert machine.run("ls", "/opt", check=True).stdout == "", "the system's own directory stays"
    left = machine.run("ls", "/var/lib/lbd", check=True).stdout.split()
    assert left == ["ledger.sqlite", "ledger.sqlite-wal"]
    assert machine.run("sh", "-c", "cat /var/lib/lbd-authority/*", check=True).stdout == before
    said = [line for line in purged.stderr.splitlines() if line.startswith("lbd: kept")]
    assert len(said) == 1
    assert "/var/lib/lbd-authority" in said[0]
    assert said[0].endswith("rm -r /var/lib/lbd*")
    assert machine.run("pgrep", "-f", "/opt/lbd").stdout == ""
    assert machine.run("systemctl", "is-active", "lbd-keeper").stdout == "inactive\n"


def test_a_purge_leaves_nothing_when_told_so(machine):
    machine.run("dpkg", "--no-triggers", "-i", "/lbd.deb", check=True, timeout=90)
    machine.run("touch", "/var/lib/lbd/ledger.sqlite", check=True)
    answer = "echo lbd lbd/purge-all boolean true | debconf-set-selections"
    machine.run("sh", "-c", answer, check=True)
    purged = machine.run("dpkg", "--no-triggers", "--purge", "lbd", check=True, timeout=90)
    assert "lbd: kept" not in purged.stderr
    assert machine.run("sh", "-c", "ls -d /var/lib/lbd*").stdout == ""
    assert machine.run("debconf-show", "lbd").stdout == ""


def test_the_scripts_of_the_rpm_do_what_the_debian_package_does(machine, rpm):
    """The rpm takes the place of the Debian package."""
    machine.run("dpkg", "--no-triggers", "--purge", "lbd", timeout=90)
    machine.receive(rpm)
    install = ("rpm", "--nodeps", f"/{rpm.name}")
    installed = machine.run(*install, "-i", check=True, timeout=90)
    assert "scriptlet failed" not in installed.stderr
    assert machine.show("lbd-lim", "ActiveState") == "inactive"
    machine.run("systemctl", "enable", "--now", "lbd.target", check=True)
    wait_until(
        lambda: machine.run("lbrun", "true").returncode == 0,
        "it runs", 30,
        lambda: machine.run("sh", "-c", "lbrun true; journalctl -n 30 -u 'lbd*'"),
    )  # fmt: skip
    before = {unit: machine.show(unit, "MainPID") for unit in (*SERVICES, "lbd-keeper")}

    machine.run("sh", "-c", "echo '# mine' >>/etc/lbd/lbd.toml", check=True)
    upgraded = machine.run(*install, "-U", "--force", check=True, timeout=90)
    assert "lbd: kept" not in upgraded.stderr
    for service in SERVICES:
        wait_until(
            lambda unit=service: has_restarted(machine, unit, before[unit]), f"a new {service}", 30
        )
    assert machine.show("lbd-keeper", "MainPID") == before["lbd-keeper"]
    assert "# mine" in machine.run("cat", "/etc/lbd/lbd.toml").stdout

    removed = machine.run("rpm", "-e", "lbd", check=True, timeout=90)
    assert [line for line in removed.stderr.splitlines() if line.startswith("lbd: kept")]
    assert machine.run("sh", "-c", "find /opt/lbd /run/lbd /var/tmp/lbd-stage").stdout == ""
    assert machine.run("pgrep", "-f", "/opt/lbd").stdout == ""
    assert "lbd-lim" not in machine.run("systemctl", "list-unit-files").stdout
