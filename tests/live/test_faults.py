"""Any daemon may be killed, stopped or cut off at any time: what the user sees, and what is left.

Each test has three parts: the fault, the line and exit status that the user gets, and the check
that no process of the command is left anywhere.
"""

import json
import os
import signal

import pytest

from tests.live.cluster import FAST, Lab
from tests.live.contract import shell_status

# A command with descendants that try to stay: a background child and one in a session of its own.
TREE = "setsid sleep 1000 & sleep 1000 & echo started; wait"
LOST = 125
# Also without cgroups; the rest of that is in test_kill_points.py.
BOTH = pytest.mark.parametrize(
    "lab", ["auto", "off"], ids=["cgroups", "sessions"], indirect=True, scope="module"
)


@pytest.fixture(scope="module", params=["auto"], ids=["cgroups"])
def lab(request):
    """Three hosts whose jobs are held together by cgroups, or that have none."""
    lab = Lab.up(3, settings=(*FAST, f"lbm.cgroup={request.param}", "lbm.named_wait_s=60"))
    yield lab
    lab.down()


@pytest.fixture
def tree(lab):
    """tree("h1", …): an lbrun whose command has started on another host."""
    started = []

    def start(host, *options):
        process = lab.popen(
            host, "lbrun", *options, "-H", "h2", "sh", "-c", TREE, stdout=-1, stderr=-1, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "started\n"
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def ended(lab, process):
    """(status, stderr) of an lbrun, once no process of any job is alive."""
    _, errors = process.communicate(timeout=120)
    lab.wait_until(lambda: not lab.jobs_alive(), "the whole tree is gone", 15, lab.jobs_alive)
    return process.returncode, errors


def one_line(errors):
    assert errors.count("\n") == 1, errors
    assert errors.startswith("lbrun: "), errors
    return errors


def works(lab, host="h1", target="h2"):
    """Waits until a command gets through from one host to another (again)."""
    command = (host, "lbrun", "-H", target, "echo", "through")
    lab.wait_until(
        lambda: lab.run(*command).stdout == "through\n", f"{target} runs commands of {host}", 20
    )


@pytest.fixture(autouse=True)
def whole(lab):
    """Every fault is fixed before the next test."""
    yield
    lab.heal()
    for host, parts in lab.pids().items():
        for part, pid in parts.items():
            if pid is None and part != "keeper":
                lab.start(host, part)
            elif pid is not None and part != "keeper":
                os.kill(pid, signal.SIGCONT)
    for host in lab.hosts:
        lab.wait_until(
            lambda host=host: set(lab.states(host).values()) == {"up"}, "all hosts up", 30
        )
    works(lab)


@BOTH
def test_far_lbm_killed(lab, tree, tmp_path):
    status_file = tmp_path / "status"
    process = tree("h1", "--status-file", status_file)
    lab.kill("h2", "lbm")
    status, errors = ended(lab, process)
    assert status == LOST
    assert "lost contact with h2" in one_line(errors)
    assert json.loads(status_file.read_text())["cause"] == "lost"


def test_own_lbm_killed(lab, tree):
    process = tree("h1")
    lab.kill("h1", "lbm")
    status, errors = ended(lab, process)
    assert status == LOST
    assert "lost contact with this host's LBM" in one_line(errors)


@BOTH
def test_far_keeper_killed(lab, tree):
    process = tree("h1")
    before = lab.pids()["h2"]["keeper"]
    lab.kill("h2", "keeper")
    status, errors = ended(lab, process)
    assert status == LOST
    assert "keeper" in one_line(errors)
    works(lab)
    assert lab.pids()["h2"]["keeper"] not in (None, before)


def test_own_keeper_killed_does_not_affect_what_runs_elsewhere(lab, tree):
    process = tree("h1")
    lab.kill("h1", "keeper")
    works(lab, "h2", "h1")
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    status, errors = ended(lab, process)
    assert (shell_status(status), errors) == (128 + signal.SIGTERM, "")


@BOTH
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_client_killed(lab, tree, number):
    process = tree("h1")
    process.send_signal(number)
    status, errors = ended(lab, process)
    assert (shell_status(status), errors) == (128 + number, "")


def test_own_lim_killed(lab, tree):
    process = tree("h1")
    lab.kill("h1", "lim")
    result = lab.run("h1", "lbrun", "sh", "-c", "echo $LBD_HOST")
    assert result.returncode == 0
    assert result.stdout == "h1\n"
    assert "running here" in one_line(result.stderr)
    refused = lab.run("h1", "lbrun", "-H", "h2", "true")
    assert refused.returncode == LOST
    assert "lim" in one_line(refused.stderr)
    assert process.poll() is None  # what runs elsewhere goes on
    process.terminate()
    ended(lab, process)


def test_own_lim_stopped(lab):
    lab.kill("h1", "lim", "STOP")
    script = "for n in 1 2 3; do lbrun sh -c 'echo $LBD_HOST'; done"
    result = lab.run("h1", "sh", "-c", script, start_new_session=True)
    assert (result.returncode, result.stdout) == (0, "h1\n" * 3)
    assert "running here" in one_line(result.stderr)


def test_far_lim_stopped(lab, tree):
    process = tree("h1")
    lab.kill("h2", "lim", "STOP")
    lab.wait_until(lambda: lab.states("h1")["h2"] == "late", "h2 is late, not down at once")
    lab.wait_until(lambda: lab.states("h1")["h2"] == "down", "h2 is down in the end")
    remote = ("h1", "lbrun", "--remote", "sh", "-c", "echo $LBD_HOST")
    lab.wait_until(lambda: lab.run(*remote).stdout == "h3\n", "h3 takes its place")
    assert process.poll() is None
    process.terminate()
    ended(lab, process)


def test_far_lbm_stopped_before_the_command_starts(lab):
    """Nobody can tell whether it will run, so it is not run a second time."""
    lab.kill("h2", "lbm", "STOP")
    result = lab.run("h1", "lbrun", "-H", "h2", "true")
    assert result.returncode == LOST
    one_line(result.stderr)
    assert lab.run("h1", "lbrun", "true").returncode == 0


def test_far_lbm_stopped_while_the_command_runs(lab, tree):
    """Its kernel still takes what we send; only the missing answers show it."""
    process = tree("h1")
    lab.kill("h2", "lbm", "STOP")
    assert "lost contact with h2" in one_line(process.communicate(timeout=120)[1])
    assert process.returncode == LOST
    lab.kill("h2", "lbm", "CONT")
    ended(lab, process)


def test_own_lbm_stopped(lab):
    lab.kill("h1", "lbm", "STOP")
    result = lab.run("h1", "lbrun", "echo", "done")
    assert (result.returncode, result.stdout) == (0, "done\n")
    assert "does not answer" in one_line(result.stderr)
    assert lab.run("h1", "lbrun", "--local", "echo", "done").stdout == "done\n"
    result = lab.run("h1", "lbrun", "-H", "h2", "touch", "/nonexistent/never")
    assert result.returncode == LOST
    assert "does not answer" in one_line(result.stderr)


def test_interrupted_while_it_waits_for_a_slot(lab):
    """The command has not started, so it never will."""
    slots = lab.ask("h2", "lbm", "status")["slots"]["total"]
    holders = [lab.popen("h1", "lbrun", "-H", "h2", "sleep", "1000") for _ in range(slots)]
    try:
        full = "every slot of h2 is taken"
        lab.wait_until(lambda: lab.ask("h2", "lbm", "status")["slots"]["used"] == slots, full)
        process = lab.popen("h1", "lbrun", "-H", "h2", "true", stdout=-1, stderr=-1, text=True)
        lab.wait_until(lambda: lab.ask("h2", "lbm", "status")["waiting"], "one waits")
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=90) == ("", "")
        assert shell_status(process.returncode) == 128 + signal.SIGINT
        lab.wait_until(lambda: not lab.ask("h2", "lbm", "status")["waiting"], "nobody waits")
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


def test_cut_between_two_hosts(lab, tree):
    process = tree("h1")
    lab.cut("h1", "h2")
    status, errors = ended(lab, process)
    assert status == LOST
    assert "h2" in one_line(errors)
    lab.wait_until(lambda: lab.states("h1")["h2"] in ("late", "down"), "h1 misses h2")
    remote = ("h1", "lbrun", "--remote", "sh", "-c", "echo $LBD_HOST")
    lab.wait_until(lambda: lab.run(*remote).stdout == "h3\n", "h3 takes its place")
    works(lab, "h3", "h2")
    lab.heal()
    works(lab)


def test_host_of_a_running_command_off(lab, tree):
    process = tree("h1")
    lab.kill("h2", "host")
    status, errors = ended(lab, process)
    assert status == LOST
    assert "h2" in one_line(errors)


@BOTH
def test_lbm_told_to_stop_ends_what_it_runs(lab, tree):
    process = tree("h1")
    lab.kill("h2", "lbm", "TERM")
    status, errors = ended(lab, process)
    assert status == LOST
    one_line(errors)
    lab.wait_until(lambda: lab.pids()["h2"]["keeper"] is None, "its keeper ends with it")
