"""What may leave a shell: learnt by running it, kept over restarts, each user's apart."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cluster import FAST, Lab, clients_path
from contract import assert_one_line, shell_status

BUSY = Path(__file__).with_name("busy.py")
SURE_RUNS = 3
# Burns that many seconds of CPU time, says where, and ends as it is told.
BURN = """
import os, sys, time
while time.process_time() < float(sys.argv[1]):
    pass
print(os.environ.get("LBD_HOST"))
sys.stdout.flush()
end = int(sys.argv[2]) if sys.argv[2:] else 0
if end < 0:
    os.kill(os.getpid(), -end)
sys.exit(end)
"""
LONG_S, SHORT_S = "0.4", "0"
THRESHOLD_S = 0.15  # far from both, whatever starting an interpreter costs


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A directory of programs; any name is one that burns."""
    directory = tmp_path_factory.mktemp("programs")
    (directory / "burn.py").write_text(BURN)
    return directory


@pytest.fixture
def make_host(make_lab, programs):
    def make(*settings):
        lab = make_lab(2, settings=(*FAST, f"lim.job_threshold_s={THRESHOLD_S}", *settings))
        return Host(lab, programs)

    return make


class Host:
    """h1 of a lab, and commands run there as by shims."""

    def __init__(self, lab, programs):
        self.lab = lab
        self.programs = programs
        self.shims = programs / "shims"
        self.shims.mkdir(exist_ok=True)

    def program(self, name):
        path = self.programs / name
        if not path.exists():
            path.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {self.programs}/burn.py "$@"\n')
            path.chmod(0o755)
        shim = self.shims / name
        if not shim.exists():
            shim.write_text(f'#!/bin/sh\nexec lbrun --shim {name} "$@"\n')
            shim.chmod(0o755)

    def environment(self):
        path = f"{self.shims}:{self.programs}:{clients_path()}:{os.environ['PATH']}"
        return {"PATH": path, "LBD_SHIMS": str(self.shims)}

    def shim(self, name, *words, **more):
        self.program(name)
        return self.lab.run("h1", name, *words, env=self.environment(), **more)

    def where(self, name, *words):
        """The host it ran on."""
        result = self.shim(name, *words)
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout.strip()

    def eligible(self, *command):
        result = self.lab.run("h1", "lbctl", "eligible", "--json", *command, check=True)
        return json.loads(result.stdout)

    def learnt(self):
        return {row["key"]: row for row in self.eligible()["commands"]}

    def stop(self, *hosts):
        for host in hosts:
            self.lab.lab("kill", host, "lbm", "-s", "TERM")


@pytest.fixture
def loaded():
    """loaded(host): h1 busy enough for whatever may leave it to leave it."""
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


def test_a_new_command_runs_here_once_then_leaves_and_a_short_one_stays(make_host, loaded):
    host = make_host()
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


def test_a_false_friend_is_unlearnt_both_ways(make_host, loaded):
    host = make_host()
    loaded(host)
    host.where("fit", LONG_S)
    host.lab.wait_until(lambda: host.learnt()["fit"]["reason"] == "long", "long at first")
    for _ in range(4):
        host.where("fit", SHORT_S)
    host.lab.wait_until(lambda: host.learnt()["fit"]["reason"] == "short", "it is short now")
    assert host.where("fit", LONG_S) == "h1"
    for _ in range(2):  # the first takes suspiciously long, the next is measured
        host.where("fit", LONG_S)
    host.lab.wait_until(lambda: host.learnt()["fit"]["reason"] == "long", "and long again")
    assert host.where("fit", LONG_S) == "h2"


def test_what_was_learnt_survives_a_restart_and_a_kill(make_host, loaded):
    host = make_host()
    host.where("fit", LONG_S)
    host.lab.wait_until(lambda: "fit" in host.learnt(), "it is learnt")
    stored = host.lab.paths("h1").state / "learnt.json"
    host.stop("h1")
    host.lab.wait_until(stored.exists, "it is written at the end")
    assert stored.stat().st_mode & 0o777 == 0o600
    host.lab.wait_until(lambda: host.lab.pids()["h1"]["lbm"] is None, "the LBM has ended")
    host.lab.start("h1", "lbm")
    host.lab.wait_until(lambda: host.learnt()["fit"]["runs"] == 1, "it is known again")
    host.where("other", LONG_S)
    host.lab.wait_until(lambda: "other" in stored.read_text(), "it is written after a pause", 20)
    host.lab.kill("h1", "lbm")
    host.lab.wait_until(lambda: host.lab.pids()["h1"]["lbm"] is None, "the LBM is dead")
    host.lab.start("h1", "lbm")
    host.lab.wait_until(lambda: {"fit", "other"} <= host.learnt().keys(), "both are known")
    loaded(host)
    assert host.where("fit", LONG_S) == "h2"


@pytest.mark.parametrize("damage", [b"{", b"\xff\x00", b'{"format":9}', b"[" * 100_000, b""])
def test_a_damaged_file_is_set_aside(make_host, damage):
    host = make_host()
    state_dir = host.lab.paths("h1").state
    host.stop("h1")
    host.lab.wait_until(lambda: host.lab.pids()["h1"]["lbm"] is None, "the LBM has ended")
    (state_dir / "learnt.json").write_bytes(damage)
    host.lab.start("h1", "lbm")
    host.lab.wait_until(lambda: host.learnt() == {}, "it starts all the same")
    assert (state_dir / "learnt.damaged").read_bytes() == damage
    said = host.lab.paths("h1").log("lbm").read_text()
    assert said.count("set aside as learnt.damaged") == 1
    assert host.where("fit", SHORT_S) == "h1"


def test_the_owners_never_list_is_above_all(make_host, loaded):
    host = make_host('eligibility.never=["secret"]', 'eligibility.always=["tiny", "vim", "secret"]')
    loaded(host)
    host.program("secret")
    lab, env = host.lab, host.environment()
    assert lab.run("h1", "lbrun", "secret", "0", env=env).stdout == "h1\n"
    assert host.where("secret", LONG_S) == "h1"
    for options in (("-H", "h2"), ("--remote",)):
        refused = lab.run("h1", "lbrun", *options, "secret", "0", env=env)
        assert (refused.returncode, refused.stdout) == (125, "")
        assert_one_line(refused.stderr, "lbrun", "secret", "eligibility.never")
    assert lab.run("h1", "lbrun", "-H", "h1", "secret", "0", env=env).stdout == "h1\n"
    assert host.where("tiny", SHORT_S) == "h2"
    assert host.eligible("vim", "x")["reason"] == "always"
    said = host.eligible("secret")
    assert (said["eligible"], said["reason"], said["list"]) == (False, "never", "host")
    # What a table keeps by itself, a person may send by hand.
    assert lab.run("h1", "lbrun", "-H", "h2", "cat", "/dev/null").returncode == 0
    assert host.eligible("cat", "x")["list"] == "built-in"


def test_an_lbrun_is_not_held_back_but_teaches(make_host, loaded):
    host = make_host()
    loaded(host)
    host.program("fit")
    run = host.lab.run("h1", "lbrun", "fit", LONG_S, env=host.environment())
    assert run.stdout == "h2\n"
    assert host.learnt()["fit"]["runs"] == 1
    assert host.where("fit", LONG_S) == "h2"


def test_the_threshold_follows_lbctl_param(make_host):
    host = make_host()
    host.where("fit", LONG_S)
    host.lab.wait_until(lambda: host.eligible("fit")["eligible"], "long by the configuration")
    host.lab.run("h1", "lbctl", "param", "job_threshold_s", "5", check=True)
    host.lab.wait_until(lambda: not host.eligible("fit")["eligible"], "short by the new one")
    assert host.eligible("fit")["threshold_s"] == 5.0
    host.lab.run("h2", "lbctl", "param", "job_threshold_s", "0.1", check=True)
    host.lab.wait_until(lambda: host.eligible("fit")["eligible"], "told on another host")


def test_the_users_list_is_sent_along(make_host, loaded):
    host = make_host()
    loaded(host)
    host.lab.ask("h1", "lbm", "shims", always=["tiny"], never=["fit"])
    assert host.where("tiny", SHORT_S) == "h2"
    assert host.where("fit", LONG_S) == "h1"
    said = host.lab.ask("h1", "lbm", "eligible", command=["fit"])
    assert (said["reason"], said["list"]) == ("never", "user")
    host.lab.ask("h1", "lbm", "shims", always=[], never=[])
    assert host.lab.ask("h1", "lbm", "eligible", command=["fit"])["reason"] == "new"


def test_shims_are_told_by_generation(make_host):
    host = make_host("lim.job_threshold_s=10")
    before = host.lab.ask("h1", "lbm", "shims")
    assert {"vim", "lbrun", "cat"} <= set(before["shimless"])
    assert host.lab.ask("h1", "lbm", "shims") == before
    for _ in range(SURE_RUNS):
        host.where("tiny", SHORT_S)
    host.lab.wait_until(
        lambda: "tiny" in host.lab.ask("h1", "lbm", "shims")["shimless"], "it needs none any more"
    )
    assert host.lab.ask("h1", "lbm", "shims")["generation"] != before["generation"]


PLAIN_USER = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
              "--inh-caps=+dac_override", "--ambient-caps=+dac_override")  # fmt: skip


@pytest.mark.root
def test_one_users_runs_teach_nothing_of_anothers(make_host):
    host = make_host()
    if os.geteuid() != 0 or host.lab.run("h1", *PLAIN_USER, "true").returncode != 0:
        pytest.skip("needs root and setpriv(1)")
    host.where("fit", LONG_S)
    host.lab.wait_until(lambda: host.eligible("fit")["reason"] == "long", "root's is long")
    ask = (*PLAIN_USER, "lbctl", "eligible", "--json", "fit")
    assert json.loads(host.lab.run("h1", *ask, check=True).stdout)["reason"] == "new"
    # Another program of the same name, as far as anybody knows.
    env = host.environment()
    ran = host.lab.run("h1", *PLAIN_USER, "fit", SHORT_S, env=env)
    assert (ran.stdout, ran.stderr) == ("h1\n", "")
    theirs = json.loads(host.lab.run("h1", *ask, check=True).stdout)
    assert (theirs["reason"], theirs["runs"]) == ("short", 1)
    assert (host.eligible("fit")["reason"], host.eligible("fit")["runs"]) == ("long", 1)


ENDINGS = {"status": ("7", 7), "TERM": ("-15", 143), "KILL": ("-9", 137), "ok": ("0", 0)}


@pytest.mark.parametrize("measured", [True, False], ids=["measured", "known"])
@pytest.mark.parametrize(("end", "status"), ENDINGS.values(), ids=ENDINGS)
def test_what_stays_ends_as_it_would(quiet, end, status, measured):
    name = f"ends{end.strip('-')}{'m' if measured else 'k'}"
    quiet.program(name)
    for _ in range(0 if measured else SURE_RUNS):
        quiet.shim(name, SHORT_S)
    known = {row["key"]: row for row in quiet.eligible()["commands"]}.get(name)
    assert (known is None) == measured
    result = quiet.shim(name, SHORT_S, end)
    assert (shell_status(result.returncode), result.stderr) == (status, "")
    assert (result.returncode < 0) == (status > 128)
    assert result.stdout == "h1\n"


@pytest.fixture(scope="module")
def quiet(programs):
    lab = Lab.up(2, settings=(*FAST, f"lim.job_threshold_s={THRESHOLD_S}"))
    yield Host(lab, programs)
    lab.down()


def test_without_an_lbm_a_shim_is_silent(quiet, programs):
    quiet.program("alone")
    env = quiet.environment() | {"LBD_CONFIG": "/nonexistent.toml"}
    result = quiet.lab.run("h1", "alone", "0", "3", env=env)
    assert (result.returncode, result.stdout, result.stderr) == (3, "None\n", "")


def test_what_has_moved_moves_no_further(quiet):
    quiet.program("nested")
    result = quiet.lab.run("h1", "nested", "0", env=quiet.environment() | {"LBD_DEPTH": "1"})
    assert (result.stdout, result.stderr) == ("None\n", "")
    assert "nested" not in quiet.learnt()


def test_a_shim_without_a_program_says_so_and_ends_with_127(quiet):
    result = quiet.lab.run("h1", "lbrun", "--shim", "no-such-thing", env=quiet.environment())
    assert result.returncode == 127
    assert_one_line(result.stderr, "lbsh", "no-such-thing: not found")


def test_what_a_measured_command_closes_is_closed(quiet):
    """Its reader sees the end while the command goes on."""
    script = quiet.programs / "closes.py"
    script.write_text("import os, sys\nos.write(1, b'x')\nos.close(1)\nsys.stdin.read()\n")
    path = quiet.programs / "closes"
    path.write_text(f"#!/bin/sh\nexec {sys.executable} -IS {script}\n")
    path.chmod(0o755)
    argv = ("lbrun", "--shim", "closes")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with quiet.lab.popen("h1", *argv, env=quiet.environment(), **pipes) as job:
        watch = threading.Timer(20, job.kill)
        watch.start()
        assert job.stdout.read() == b"x"
        assert job.poll() is None
        job.stdin.close()
        assert job.wait(timeout=20) == 0
        watch.cancel()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_for_a_measured_command_reaches_it(quiet, number):
    name = f"hears{number}"
    path = quiet.programs / name
    script = quiet.programs / "hears.py"
    script.write_text(
        "import os, signal, sys\n"
        "number = int(sys.argv[1])\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [number])\n"
        "os.write(1, b'ready\\n')\n"
        "signal.sigwait([number])\n"
        "print('heard', number)\n"
        "sys.exit(9)\n"
    )
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -IS {script} "$@"\n')
    path.chmod(0o755)
    argv = ("lbrun", "--shim", name, str(number.value))
    with quiet.lab.popen(
        "h1", *argv, env=quiet.environment(), stdout=subprocess.PIPE, start_new_session=True
    ) as job:
        watch = threading.Timer(20, job.kill)
        watch.start()
        assert job.stdout.readline() == b"ready\n"
        job.send_signal(number)
        assert job.stdout.read() == f"heard {number.value}\n".encode()
        assert job.wait(timeout=20) == 9
        watch.cancel()
