"""`lbd up` as root: only the keeper has privilege, and all works for every local user."""

import contextlib
import os
import pwd
import secrets
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lbd.lab import processes
from lbd.rpc.local import ask
from lbd.self_start import command
from tests.live.cluster import FAST, client_environment, has_front, wait_until

pytestmark = pytest.mark.root

# accounts that are there, to play these parts
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
    """A prefix: where the interpreter lies in a closed directory, a mount namespace opens that."""
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
        """{"lim": uid, …} of the processes that are there."""
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
        """A shell command of that user's on h1."""
        entry = pwd.getpwnam(user)
        who = ("--reuid", user, "--regid", str(entry.pw_gid), "--init-groups")
        env = client_environment(LBD_CONFIG=str(self.root / "h1.toml"))
        return subprocess.run(
            [*opened(), "setpriv", *who, "sh", "-c", script], capture_output=True, text=True,
            timeout=30, env=env, **options,
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
    import tempfile

    root = Path(tempfile.mkdtemp(prefix="lbd-t-")).resolve()
    two = Two(root)
    try:
        yield two.ready()
    finally:
        two.down()
        shutil.rmtree(root)


@pytest.fixture
def home(tmp_path):
    """A directory that is Ann's alone."""
    place = Path("/tmp") / f"lbd-t-home-{os.getpid()}"
    place.mkdir(mode=0o700)
    shutil.chown(place, ANN)
    yield place
    shutil.rmtree(place)


def test_only_the_keeper_has_privilege(two):
    uid = str(pwd.getpwnam(LBD).pw_uid)
    found = two.daemons("h1")
    assert found["lim"] == found["lbm"] == ([uid] * 4, "0" * 16)
    assert found["keeper"][0] == ["0"] * 4


def test_a_command_runs_as_its_user(two):
    result = two.run(ANN, "cd / && lbrun -H h2 id")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == two.run(ANN, "id").stdout


def test_in_a_directory_that_is_closed_to_the_daemons(two, home):
    script = (
        f"mkdir {home}/in && cd {home}/in && echo words >file &&"
        "cat file | lbrun -H h2 sh -c 'cat; pwd; cat file'"
    )
    result = two.run(ANN, script)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"words\n{home}/in\nwords\n"


def test_files_that_go_along_and_come_back(two, home):
    script = (
        f"cd {home} && echo words >in && lbrun -H h2 --send in --fetch out "
        "sh -c 'id -un >out; cat in >>out' && cat out"
    )
    result = two.run(ANN, script)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{ANN}\nwords\n"
    stages = two.root / "h2/stage/h2"
    wait_until(lambda: not list(stages.iterdir()), "the stage is removed")


def test_a_terminal_is_its_users(two):
    inner = "lbrun -H h2 sh -c 'stat -c %U $(tty); echo words >/dev/tty'"
    script = f"cd / && script -qec {shlex.quote(inner)} /dev/null"
    result = two.run(ANN, script, stdin=subprocess.DEVNULL)
    assert (result.returncode, result.stdout.replace("^@", "").split()) == (0, [ANN, "words"]), (
        result
    )


def test_a_prompt_survives_what_ends_a_deaf_command(two):
    """Who waits for input is told by the keeper: the LBM cannot look into another's process."""
    reads = "for n in 1 2 3 4 5 6 7 8; do read -r word && [ $word ] && break; done"
    inner = f"lbrun -H h2 sh -c 'trap : INT; echo ready; {reads}; echo heard $word'"
    script = f"""cd / && {{ sleep 3; printf '\\003\\003'; sleep 2;
        echo alive; sleep 1; }} |
        script -qec {shlex.quote(inner)} /dev/null"""
    result = two.run(ANN, script)
    assert result.stdout.split()[-2:] == ["heard", "alive"], result
