"""`lbd up` as root on a host as a newcomer finds it: no daemon that uses the network is root,
unless the configuration says so."""

import json
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from lbd.local.json_socket import ask
from lbd.process.self_start import command
from tests.live.cluster import client_environment, wait_until
from tests.live.privileged import opened

pytestmark = pytest.mark.root

# A host of its own: nothing of this machine's /etc, /run and /var/lib changes, its ports are nobody
# else's, and it has no account lbd.
HOST = """
mount --make-rprivate / && cp -a /etc {root}/etc && mount --bind {root}/etc /etc &&
sed -i '/^lbd:/d' /etc/passwd /etc/group /etc/shadow && rm -rf /etc/lbd && mkdir {root}/lib &&
mount --bind {root}/lib /var/lib && mount -t tmpfs -o mode=755 none /run && ip link set lo up &&
echo ready && exec cat
"""


class Host:
    def __init__(self, root):
        self.root = root
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--net", "sh", "-c", HOST.format(root=root)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert self._holder.stdout.readline() == b"ready\n"
        self._ups = []

    def inside(self, *argv):
        entered = ["nsenter", "--mount", "--net", "--target", str(self._holder.pid)]
        return [*entered, *opened(), *argv]

    def environment(self):
        return client_environment(HOME=str(self.root))

    def run(self, *argv):
        return subprocess.run(
            self.inside(*argv), env=self.environment(), capture_output=True, text=True, timeout=60,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def up(self):
        with (self.root / "up.log").open("wb") as log:
            up = subprocess.Popen(
                self.inside(*command("up")), env=self.environment(), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )  # fmt: skip
        self._ups.append(up)

    def said(self):
        return (self.root / "up.log").read_text()

    def file(self, path):
        """A file of the host's, by its path from outside."""
        return Path(f"/proc/{self._holder.pid}/root{path}")

    def status_of(self, daemon):
        ask(self.file(f"/run/lbd/{daemon}.sock"), {"op": "status"}, 2.0)
        return self.process_of(daemon)

    def process_of(self, daemon):
        pid = int(self.file(f"/run/lbd/{daemon}.pid").read_text())
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def ids_of(self, daemon):
        return self.process_of(daemon)["Uid"].split()

    def down(self):
        for up in self._ups:
            up.terminate()
            up.wait(20)
        self._holder.communicate()


@pytest.fixture
def host(short_dir):
    short_dir.chmod(0o755)
    host = Host(short_dir)
    try:
        yield host
    finally:
        host.down()


def test_without_an_account_nothing_is_started_and_the_line_that_makes_it_is_said(host):
    for daemon in ("up", "lim", "lbm", "dispatcher", "keeper"):
        done = host.run(*command(daemon))
        assert done.returncode == 2, done.stderr
        assert done.stderr.startswith(f"lbd {daemon}: daemons.user: no user 'lbd' here")
        assert "useradd --system" in done.stderr
        assert done.stderr.count("\n") == 1
    assert not host.file("/run/lbd/lim.sock").exists()
    line = done.stderr.partition("create it: ")[2].partition(" (or")[0]
    assert host.run("sh", "-c", line).returncode == 0
    assert host.run("getent", "passwd", "lbd").stdout.split(":")[5] == "/var/lib/lbd"
    direct = host.run(*command("lim"))
    assert direct.returncode == 2
    assert "not as root; start it with `lbd up`" in direct.stderr


def test_what_the_readme_says_makes_the_account(host):
    """`lbctl init`, `lbd up`."""
    made = host.run("lbctl", "init", "--address", "127.0.0.1")
    assert made.returncode == 0, made.stderr
    assert "created user lbd: LIM, LBM and dispatcher run as it" in made.stdout
    host.up()
    for daemon in ("lim", "lbm"):
        wait_until(lambda name=daemon: host.status_of(name), f"{daemon} is up", 45, host.said)
    lbd = host.run("id", "-u", "lbd").stdout.strip()
    for daemon in ("lim", "lbm"):
        assert host.status_of(daemon)["Uid"].split() == [lbd] * 4
        assert int(host.status_of(daemon)["CapEff"], 16) == 0
    doctor = host.run("lbctl", "doctor")
    assert "run as root" not in doctor.stdout
    with page(host) as url:
        assert host.ids_of("web") == [lbd] * 4
        link = host.run("lbctl", "web", "login").stdout.strip()
        assert link.startswith(f"{url}login?token=")
        jar = host.root / "cookies"
        browser = ("curl", "--silent", "--fail", "--location", "--cookie-jar", jar, "--cookie", jar)
        assert "signed in as <strong>root" in host.run(*browser, link).stdout
        drained = host.run("lbctl", "status", "--json").stdout
        name = json.loads(drained)["self"]
        html = host.run(*browser, f"{url}hosts/{name}").stdout
        csrf = html.partition('name="csrf" value="')[2].partition('"')[0]
        done = host.run(*browser, "--data", f"csrf={csrf}", f"{url}hosts/{name}/drain")
        assert "Undrain" in done.stdout, done.stderr
        state = json.loads(host.run("lbctl", "status", "--json").stdout)["hosts"][0]
        assert state["drained"]["by"] == f"root@{name}"  # and not the account of the page


@contextmanager
def page(host):
    """The status page of a host, as root starts it."""
    words = host.inside(*command("web", "--listen", "127.0.0.1:0"))
    process = subprocess.Popen(words, env=host.environment(), stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.stdout.close()
        assert process.wait(20) == 0


def test_the_documentation_says_where_root_is_needed(host):
    config = host.file("/etc/lbd/lbd.toml")
    config.parent.mkdir()
    config.write_text('[host]\nname = "h"\n[daemons]\nuser = "root"\n')
    host.up()
    for daemon in ("lim", "lbm"):
        wait_until(lambda name=daemon: host.status_of(name), f"{daemon} is up", 45, host.said)
    assert host.said().count("lim and lbm run as root, as daemons.user says") == 1
    assert host.status_of("lim")["Uid"].split() == ["0"] * 4
    doctor = host.run("lbctl", "doctor")
    assert (
        "lim and lbm run as root, so a bug in handling their input is a bug with root's rights"
        in doctor.stdout
    )
    assert "as set by daemons.user" in doctor.stdout
    config.write_text('[host]\nname = "h"\n')
    doctor = host.run("lbctl", "doctor", "--json")
    assert '"warnings":0' not in doctor.stdout.replace(" ", "")
