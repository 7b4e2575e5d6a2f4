"""A loaded cluster is upgraded host by host: release N and N+1 work together, queue included.

N is this source tree, and N+1 the same with its version, wire format, ledger and settings one step
on; or N is the last release (LBD_UPGRADE_FROM=COMMIT names another) and N+1 this source tree. Each
release is a source tree, and a host has daemons and clients of one of them.
"""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest

import lbd
from tests.live.cluster import FAST, PREFIX, Lab, run_lab
from tests.live.contract import alive
from tests.live.packages import last_release

ROOT = Path(__file__).resolve().parents[2]
LONG_S = 120
LASTING = ("lbm.orphan_after_s=90", "lbm.named_wait_s=90", "lbm.slots=6", "dispatch.lease_s=90")
SETTINGS = (*(one for one in FAST if "orphan" not in one), *LASTING)
# The next release, as far as another host can tell.
STEPS = (
    ("lbd/__init__.py", r'(?m)^__version__ = ".*"$', '__version__ = "99.1"'),
    ("lbd/net/release.py", r"newest=1, oldest=1\)", "newest=2, oldest=1)"),
    ("lbd/dispatch/ledger/schema.py", r"(?m)^\)\nVERSION =",
     '    "CREATE TABLE of_the_next_release (id INTEGER);",\n)\nVERSION ='),
    ("lbd/lim/saved_settings.py", r"(?m)^SCHEMA = 1 ", "SCHEMA = 2 "),
)  # fmt: skip
HELD = "echo begun; read x; echo done $x; exit 7"
QUEUED = "echo $LBD_JOB_ID >>ran; until [ -e go ]; do sleep 0.2; done"
PROJECT = "pyproject.toml"


def tree_of_next(tree):
    shutil.copytree(ROOT / "lbd", tree / "lbd", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / PROJECT, tree)
    for name, pattern, text in STEPS:
        before = (tree / name).read_text()
        after, found = re.subn(pattern, lambda _, text=text: text, before)
        assert found == 1, name
        (tree / name).write_text(after)
    return tree


def tree_of_commit(commit, tree):
    packed = subprocess.run(
        ["git", "-C", ROOT, "archive", commit, "lbd", PROJECT], stdout=-1, check=True
    )
    subprocess.run(["tar", "-x", "-C", tree], input=packed.stdout, check=True)
    return tree


class Cluster:
    """A lab in which each host has a release of its own."""

    def __init__(self, old, new):
        self.new, self.root = new, Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
        sets = [word for setting in SETTINGS for word in ("--set", setting)]
        words = ("lab", "up", "--hosts", "3", "--isolate", "none", "--mode", "fcfs", *sets)
        try:
            self.lbd(old, *words)
            self.lab = Lab(self.root)
        except BaseException:
            run_lab("down", "--dir", self.root, check=False)
            shutil.rmtree(self.root, ignore_errors=True)
            raise
        Lab.started.append(self.lab)
        self.tree = dict.fromkeys(self.lab.hosts, old)

    def lbd(self, tree, *words):
        """Runs `lbd lab …` of that release, outside the lab's hosts."""
        command = (*program(tree, "lbd"), *words, "--dir", self.root)
        done = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": str(tree)}, capture_output=True, text=True,
            stdin=subprocess.DEVNULL, timeout=LONG_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def words(self, host, *argv):
        name, *rest = argv
        tree = self.tree[host]
        return {"env": {"PYTHONPATH": str(tree)}}, (*program(tree, name), *rest)

    def run(self, host, *argv, **options):
        more, words = self.words(host, *argv)
        return self.lab.run(host, *words, **more, timeout=LONG_S, **options)

    def popen(self, host, *argv, **options):
        more, words = self.words(host, *argv)
        return self.lab.popen(host, *words, **more, text=True, **options)

    def submit(self, host, *argv, **options):
        return self.run(host, "lbrun", "-d", *argv, check=True, **options).stdout.strip()

    def stop(self, host, *daemons):
        """Tells daemons to make way for their successors; what runs goes on."""
        for daemon in daemons:
            pid = int((self.lab.paths(host).run / f"{daemon}.pid").read_text())
            os.kill(pid, signal.SIGUSR2)
            self.lab.wait_until(lambda pid=pid: not alive(pid), f"{daemon} has ended", LONG_S)

    def upgrade(self, host):
        daemons = ("dispatcher",) * (host == "h1") + ("lim", "lbm")
        self.stop(host, *daemons)
        self.start(host, self.new)

    def start(self, host, tree, *daemon):
        self.tree[host] = tree
        self.lbd(tree, "lab", "start", host, *daemon)


def program(tree, name):
    """A program of that release; its `lbrun` in Python."""
    scripts = tomllib.loads((tree / PROJECT).read_text())["project"]["scripts"]
    module, _, function = ({"lbrun": "lbd.client.lbrun:main"} | scripts)[name].partition(":")
    code = f"import sys; from {module} import {function} as main; sys.exit(main(sys.argv[1:]))"
    return (sys.executable, "-P", "-c", code)


@pytest.fixture(params=["next_release", "last_release"])
def cluster(request, tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    if request.param == "next_release":
        made = Cluster(ROOT, tree_of_next(tree))
    elif commit := last_release(ROOT):
        made = Cluster(tree_of_commit(commit, tree), ROOT)
    else:
        pytest.skip("no tag of a release here (a shallow clone has none: git fetch --tags)")
    yield made
    made.lab.down()


def test_commands_and_the_queue_go_on_while_each_host_is_upgraded(cluster, tmp_path):
    lab, old = cluster.lab, dict(cluster.tree)
    around = [("h1", "h2"), ("h2", "h3"), ("h3", "h1")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    held = [
        cluster.popen(origin, "lbrun", "-H", target, "sh", "-c", HELD, **pipes)
        for origin, target in around
    ]
    for process in held:
        assert process.stdout.readline() == "begun\n", process.stderr.read()
    running = [
        cluster.submit(host, "-H", host, "sh", "-c", QUEUED, cwd=tmp_path) for host in lab.hosts
    ]
    array = cluster.submit("h2", "--array", "1-2", "sh", "-c", QUEUED, cwd=tmp_path)
    lab.wait_until(
        lambda: len(ran(tmp_path)) == 5, "all run that may", LONG_S, lambda: ran(tmp_path)
    )
    after = ",".join(running)
    waiting = [
        cluster.submit(host, "--after", after, "sh", "-c", QUEUED, cwd=tmp_path)
        for host in lab.hosts
    ]

    meanwhile = []
    for host in lab.hosts:  # that of the dispatcher first
        cluster.upgrade(host)
        for origin, target in (*around, *((target, origin) for origin, target in around)):
            lab.wait_until(
                lambda origin=origin, target=target: is_served(cluster, origin, target),
                f"{target} serves {origin} when {host} is upgraded", LONG_S,
            )  # fmt: skip
        meanwhile += [cluster.submit(origin, "true") for origin in lab.hosts]
        assert len(ran(tmp_path)) == 5, "nothing was begun again, nothing too early"
    for process in held:
        out, said = process.communicate("well\n", timeout=LONG_S)
        assert (out, process.returncode) == ("done well\n", 7), said
    if cluster.new is not ROOT:
        refused_backward(cluster, old)
    (tmp_path / "go").touch()
    jobs = [*running, array, *waiting, *meanwhile]
    done = cluster.run("h2", "lbctl", "wait", "--timeout", f"{LONG_S}s", *jobs)
    assert done.returncode == 0, (done.stderr, cluster.run("h2", "lbctl", "jobs", "--all").stdout)
    every = [*running, *waiting, *(f"{array}_{number}" for number in (1, 2))]
    assert sorted(ran(tmp_path)) == sorted(every), "each once"


def ran(directory):
    file = directory / "ran"
    return file.read_text().split() if file.exists() else []


def is_served(cluster, origin, target):
    done = cluster.run(origin, "lbrun", "-H", target, "echo", "served")
    assert (done.returncode, done.stdout) == (0, "served\n"), done.stderr
    return True


def refused_backward(cluster, old):
    """The ledger and the settings are of the next release now: this one leaves them alone."""
    lab = cluster.lab
    assert lab.ask("h1", "lbm", "status")["version"] == "99.1" != lbd.__version__
    paths = lab.paths("h1")
    cluster.run("h1", "lbctl", "param", "min_gain", "0.2", "--save", check=True)
    lab.wait_until(lambda: '"schema": 2' in settings(paths), "that is kept", LONG_S)
    ledger, kept = paths.state / "ledger.sqlite", settings(paths)
    cluster.stop("h1", "dispatcher", "lim")
    command = (*program(old["h1"], "lbd"), "dispatcher", "--config", paths.config)
    done = lab.run("h1", *command, env={"PYTHONPATH": str(old["h1"])}, timeout=LONG_S)
    assert done.returncode == 2
    (line,) = (line for line in done.stderr.splitlines() if "newer" in line)
    assert f"{ledger}: of a newer lbd (schema " in line
    with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as db:
        db.execute("SELECT * FROM of_the_next_release")
    db.close()
    cluster.start("h1", old["h1"], "lim")
    cluster.run("h1", "lbctl", "param", "min_gain", "0.3", "--save", check=True)
    assert "was written by a later release of lbd" in paths.log("lim").read_text()
    assert settings(paths) == kept
    cluster.stop("h1", "lim")
    cluster.start("h1", cluster.new)


def settings(paths):
    return (paths.state / "settings.json").read_text()
