"""What may leave a shell: learnt by running it, kept across restarts, separate for each user."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from cluster import FAST
from contract import assert_one_line
from shim_host import LONG_S, SHORT_S, SURE_RUNS, THRESHOLD_S, Host

pytestmark = pytest.mark.alone

BUSY = Path(__file__).with_name("busy.py")
SETTINGS = (*FAST, f"lim.job_threshold_s={THRESHOLD_S}")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A directory of programs; a program of any name burns CPU time."""
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="module")
def host(make_module_lab, programs):
    """A host on which each test uses command names of its own."""
    return Host(make_module_lab(2, settings=SETTINGS), programs)


@pytest.fixture
def loaded():
    """loaded(host): keeps h1 so busy that every command which may leave does leave."""
    jobs = []

    def load(host):
        argv = ("lbrun", "--local", sys.executable, "-I", "-S", BUSY, "processes", "3")
        jobs.append(host.lab.popen("h1", *argv, start_new_session=True))

        def index(name):
            rows = host.lab.ask("h1", "lim", "status")["hosts"]
            return next(row["index"] for row in rows if row["name"] == name)

        host.lab.wait_until(lambda: index("h1") > 1.0, "h1 is busy", 30)

    yield load
    for job in jobs:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()


def test_what_was_learnt_survives_a_restart(host):
    host.where("kept", LONG_S)
    host.lab.wait_until(lambda: "kept" in host.learnt(), "it is learnt")
    stored = host.lab.paths("h1").state / "learnt.json"
    host.stop("h1")
    host.lab.wait_until(stored.exists, "it is written at the end")
    assert stored.stat().st_mode & 0o777 == 0o600
    host.lab.wait_until(lambda: host.lab.pids()["h1"]["lbm"] is None, "the LBM has ended")
    host.lab.start("h1", "lbm")
    host.lab.wait_until(lambda: host.learnt()["kept"]["runs"] == 1, "it is known again")


def test_a_new_command_runs_here_once_then_leaves_and_a_short_one_stays(host, loaded):
    loaded(host)
    assert host.where("fit", LONG_S) == "h1"
    host.lab.wait_until(lambda: host.learnt()["fit"]["reason"] == "long", "it is learnt")
    assert host.where("fit", LONG_S) == "h2"
    assert [host.where("tiny", SHORT_S) for _ in range(4)] == ["h1"] * 4
    host.lab.wait_until(lambda: host.learnt()["tiny"]["runs"] >= SURE_RUNS, "it is learnt")
    row = host.learnt()["tiny"]
    assert (row["reason"], row["eligible"]) == ("short", False)
    assert row["cpu_s"] < THRESHOLD_S < host.learnt()["fit"]["cpu_s"]
    jobs = host.lab.lbctl_json("h1", "jobs", "--all")
    reasons = [(job["command"][0], job["reason"]) for job in jobs]
    assert ("fit", "new") in reasons
    assert ("tiny", "short") in reasons
    measured = next(job for job in jobs if job["reason"] == "new" and job["command"][0] == "fit")
    assert measured["exit_status"] == 0
    assert measured["cpu_s"] > THRESHOLD_S


def test_the_owners_never_list_overrides_all(make_lab, programs, loaded):
    lists = 'eligibility.never=["secret"]', 'eligibility.always=["tiny", "vim", "secret"]'
    host = Host(make_lab(2, settings=(*SETTINGS, *lists)), programs)
    loaded(host)
    host.program("secret")
    lab, env = host.lab, host.environment()
    assert lab.run("h1", "lbrun", "secret", "0", env=env).stdout == "h1\n"
    assert host.where("secret", LONG_S) == "h1"
    for options in (("-H", "h2"), ("--remote",)):
        refused = lab.run("h1", "lbrun", *options, "secret", "0", env=env)
        assert (refused.returncode, refused.stdout) == (125, "")
        assert_one_line(refused.stderr, "lbrun", "secret", "eligibility.never")
        refused = lab.run("h1", "lbrun", "--explain", *options, "secret", "0", env=env)
        assert_one_line(refused.stderr, "lbrun", "secret", "eligibility.never")
    for words in (("lbrun", "--explain"), ("lbctl", "explain")):
        explained = lab.run("h1", *words, "secret", "0", env=env).stdout
        assert explained.startswith("secret 0: runs here, on h1: never (eligibility"), explained
    assert lab.run("h1", "lbrun", "-H", "h1", "secret", "0", env=env).stdout == "h1\n"
    assert host.where("tiny", SHORT_S) == "h2"
    assert host.eligible("vim", "x")["reason"] == "always"
    said = host.eligible("secret")
    assert (said["eligible"], said["reason"], said["list"]) == (False, "never", "host")
    # A user may still send what only the built-in list keeps here.
    assert lab.run("h1", "lbrun", "-H", "h2", "cat", "/dev/null").returncode == 0
    assert host.eligible("cat", "x")["list"] == "built-in"


@pytest.mark.parametrize("front", ["", "python"])
def test_a_users_own_never_list_holds_for_lbrun_too(host, loaded, tmp_path, front):
    loaded(host)
    host.program("ours")
    own = tmp_path / "lbd.toml"
    text = host.lab.paths("h1").config.read_text()
    own.write_text(f'{text}\n[eligibility]\nnever = ["our*"]\n')
    env = {**host.environment(), "LBD_FRONT": front}
    assert host.lab.run("h1", "lbrun", "ours", "0", env=env).stdout == "h2\n"
    env["LBD_CONFIG"] = str(own)
    run = host.lab.run("h1", "lbrun", "-v", "ours", "0", env=env)
    assert (run.stdout, run.stderr) == (
        "h1\n",
        "lbrun: ours runs on h1 (this host): eligibility.never or a rule of lbsh keeps it here "
        "(lbctl eligible CMD says which)\n",
    )
    for options in (("-H", "h2"), ("--remote",)):
        refused = host.lab.run("h1", "lbrun", *options, "ours", "0", env=env)
        assert (refused.returncode, refused.stdout) == (125, "")
        assert_one_line(refused.stderr, "lbrun", "ours", "eligibility.never")
    for words in (("lbrun", "--explain"), ("lbctl", "explain")):
        explained = host.lab.run("h1", *words, "ours", "0", env=env).stdout
        assert explained.startswith("ours 0: runs here, on h1: never (eligibility"), explained


def test_lbrun_itself_is_not_held_back_but_teaches(host, loaded):
    loaded(host)
    host.program("sent")
    run = host.lab.run("h1", "lbrun", "sent", LONG_S, env=host.environment())
    assert run.stdout == "h2\n"
    assert host.learnt()["sent"]["runs"] == 1
    assert host.where("sent", LONG_S) == "h2"


PLAIN_USER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
              "--inh-caps=+dac_override", "--ambient-caps=+dac_override")  # fmt: skip


@pytest.mark.root
def test_one_users_runs_teach_nothing_about_anothers(host):
    if os.geteuid() != 0 or host.lab.run("h1", *PLAIN_USER, "true").returncode != 0:
        pytest.skip("needs root and setpriv(1)")
    host.where("shared", LONG_S)
    host.lab.wait_until(lambda: host.eligible("shared")["reason"] == "long", "root's is long")
    ask = (*PLAIN_USER, "lbctl", "eligible", "--json", "shared")
    assert json.loads(host.lab.run("h1", *ask, check=True).stdout)["reason"] == "new"
    # Another program of the same name, as far as anybody knows.
    env = host.environment()
    ran = host.lab.run("h1", *PLAIN_USER, "shared", SHORT_S, env=env)
    assert (ran.stdout, ran.stderr) == ("h1\n", "")
    theirs = json.loads(host.lab.run("h1", *ask, check=True).stdout)
    assert (theirs["reason"], theirs["runs"]) == ("short", 1)
    assert (host.eligible("shared")["reason"], host.eligible("shared")["runs"]) == ("long", 1)


def test_the_threshold_follows_lbctl_param(host):
    host.where("steered", LONG_S)
    host.lab.wait_until(lambda: host.eligible("steered")["eligible"], "long by the configuration")
    host.lab.run("h1", "lbctl", "param", "job_threshold_s", "5", check=True)
    host.lab.wait_until(lambda: not host.eligible("steered")["eligible"], "short by the new one")
    assert host.eligible("steered")["threshold_s"] == 5.0
    host.lab.run("h2", "lbctl", "param", "job_threshold_s", "0.1", check=True)
    host.lab.wait_until(lambda: host.eligible("steered")["eligible"], "told on another host")
