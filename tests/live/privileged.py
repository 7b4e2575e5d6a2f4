"""Two hosts as an administrator sets them up: `lbd up` as root, daemons under an account of their
own, two ordinary users."""

import contextlib
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lbd.lab import processes
from lbd.local.json_socket import ask
from lbd.process.self_start import command
from tests.live.cluster import FAST, client_environment, has_front, wait_until

# existing accounts that play these parts
LBD, ANN, MALLORY = "mail", "games", "nobody"
HOSTS = ("h1", "h2")
CONFIG = """
[host]
name = "{name}"
speed = 1.0
runtime_dir = "{root}/{name}/run"
state_dir = "{root}/{name}/state"
[daemons]
user = "{lbd}"
[users]
allow = ["{ann}", "{mallory}"]
[stage]
root = "{root}/{name}/stage"
[load]
scope = "jobs"
[security]
key_file = "{root}/key"
[cluster]
hosts = [{hosts}]
"""


def opened():
    """A prefix for commands: if the interpreter is in a closed directory, a mount namespace opens
    it."""
    closed = next(
        (path for path in Path(sys.executable).resolve().parents if path.stat().st_mode & 1 == 0),
        None,
    )
    if closed is None:
        return ()
    inside = Path(sys.base_prefix)
    steps = (
        f"mount --bind {inside} /mnt && mount -t tmpfs -o mode=755 none {closed} &&"
        f'mkdir -p {inside} && mount --move /mnt {inside} && exec "$@"'
    )
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", steps, "sh")


class Two:
    """Two hosts, each an `lbd up`."""

    def __init__(self, root):
        self.root = root
        self.subnet = f"127.{secrets.randbelow(150) + 100}.{secrets.randbelow(256)}"
        root.chmod(0o755)
        key = root / "key"
        key.write_text(secrets.token_hex(32))
        key.chmod(0o600)
        shutil.chown(key, LBD)
        self.ups = [self.up(name) for name in HOSTS]

    def up(self, name):
        entries = ", ".join(
            f'{{name = "{host}", address = "{self.subnet}.{number}"}}'
            for number, host in enumerate(HOSTS, 1)
        )
        text = CONFIG.format(
            name=name, root=self.root, lbd=LBD, ann=ANN, mallory=MALLORY, hosts=entries
        )
        config = self.root / f"{name}.toml"
        config.write_text(text)
        sets = [word for setting in FAST for word in ("--set", setting)]
        with (self.root / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [*opened(), *command("up", "--config", str(config), *sets)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=client_environment(**{processes.MARK: str(self.root)}),
            )  # fmt: skip

    def ask(self, name, daemon, op, **fields):
        return ask(self.root / name / f"run/{daemon}.sock", {"op": op, **fields}, 2.0)

    def ready(self):
        def see_each_other():
            rows = [row for name in HOSTS for row in self.ask(name, "lim", "status")["hosts"]]
            return all(row["state"] == "up" and row["slots"]["total"] for row in rows)

        wait_until(see_each_other, "both hosts are up", 45, self.logs)
        return self

    def logs(self):
        return "\n".join((self.root / f"{name}.log").read_text() for name in HOSTS)

    def daemons(self, name):
        """{"lim": uid, …} of the processes that run."""
        found = {}
        status = self.ask(name, "lbm", "status")
        pids = {"keeper": status["keeper"]}
        for daemon in ("lim", "lbm"):
            pids[daemon] = int((self.root / name / f"run/{daemon}.pid").read_text())
        for daemon, pid in pids.items():
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            values = dict(line.split(":", 1) for line in lines if ":" in line)
            found[daemon] = values["Uid"].split(), values["CapEff"].strip()
        return found

    def run(self, user, script, **options):
        """Runs a shell command of that user's on h1."""
        entry = pwd.getpwnam(user)
        who = ("--reuid", user, "--regid", str(entry.pw_gid), "--init-groups")
        env = client_environment(LBD_CONFIG=str(self.root / "h1.toml"))
        return subprocess.run(
            [*opened(), "setpriv", *who, "sh", "-c", script], capture_output=True, text=True,
            timeout=120, env=env, **options,
        )  # fmt: skip

    def down(self):
        for process in self.ups:
            process.terminate()
        for process in self.ups:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()
        left = [found.process.pid for found in processes.find(self.root)]
        assert not left, f"{left}\n{self.logs()}"


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    if os.geteuid() != 0 or not shutil.which("setpriv") or not has_front():
        give_up = pytest.fail if os.environ.get("CI") else pytest.skip
        give_up("needs root, setpriv and the compiled front")
    root = Path(tempfile.mkdtemp(prefix="lbd-t-")).resolve()
    two = Two(root)
    try:
        yield two.ready()
    finally:
        two.down()
        shutil.rmtree(root)
