"""A lab's life: up, steered, down; after a crash; and its replies to bad input."""

import json
import os
import signal
import stat
import subprocess
import time

import pytest

from lbd.lab import cgroups, processes
from lbd.lab.plan import cgroup_name
from lbd.lab.record import load
from tests.live.cluster import (
    FAST,
    assert_nothing_left,
    client_environment,
    lab_command,
    run_lab,
    wait_until,
)

both = pytest.mark.parametrize(
    "isolate", ["none", pytest.param("namespaces", marks=pytest.mark.root)]
)


@both
def test_up_returns_when_every_host_sees_every_other(request, isolate):
    lab = request.getfixturevalue("lab" if isolate == "none" else "lab_ns")
    for host in lab.hosts:
        assert lab.states(host) == {"h1": "up", "h2": "up", "h3": "up"}
    assert all(None not in daemons.values() for daemons in lab.pids().values())


def test_eight_hosts_come_up_whose_lims_all_run_a_site_command(make_lab):
    """When a fork started the command, one LIM in ten died, whose gRPC had just begun to call
    others."""
    command = 'load.site_command=["sh", "-c", "echo gpu 1"]'
    lab = make_lab(8, settings=(*FAST, command, "load.site_period_s=0.2"))
    for host in lab.hosts:
        assert lab.ask(host, "lim", "doctor")["site_fault"] == ""


def test_two_labs_do_not_meet(lab, make_lab):
    other, key = make_lab(2), lab.record.plan.key_file
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_text() != other.record.plan.key_file.read_text()
    assert other.record.plan.subnet != lab.record.plan.subnet
    assert set(other.states("h1")) == {"h1", "h2"}
    assert set(lab.states("h1")) == {"h1", "h2", "h3"}


@pytest.mark.parametrize(
    ("isolate", "daemon"),
    [
        ("none", "lim"),
        ("none", "keeper"),
        pytest.param("namespaces", "lbm", marks=pytest.mark.root),
    ],
)
def test_a_killed_daemon_stays_dead_until_started(request, isolate, daemon):
    lab = request.getfixturevalue("lab" if isolate == "none" else "lab_ns")
    before = lab.pids()["h2"]
    lab.lab("kill", "h2", daemon)
    if daemon == "keeper":  # the LBM starts another by itself
        lab.wait_until(lambda: lab.pids()["h2"]["keeper"], "a new keeper")
    else:
        assert lab.pids()["h2"][daemon] is None
        lab.start("h2", daemon)
    after = lab.pids()["h2"]
    assert after[daemon] not in (None, before[daemon])
    lab.wait_until(lambda: lab.states("h1")["h2"] == "up", "h1 sees h2 again")


@both
def test_power_off_ends_all_of_a_host_and_start_brings_it_back(request, isolate):
    lab = request.getfixturevalue("lab" if isolate == "none" else "lab_ns")
    lab.kill("h3", "host")
    assert not [found for found in lab.processes() if found.host == "h3"]
    assert lab.status()["hosts"][2]["power"] == "off"
    refused = run_lab("exec", "h3", "--dir", lab.root, "--", "true", check=False)
    assert (refused.returncode, refused.stderr.count("\n")) == (125, 1)
    assert "powered off" in refused.stderr
    lab.wait_until(lambda: lab.states("h1")["h3"] == "down", "h1 sees it is gone")
    lab.start("h3")
    lab.wait_until(lambda: lab.states("h1")["h3"] == "up", "h1 sees it is back")


@both
def test_a_cut_outlives_a_restart_of_the_daemons(request, isolate):
    lab = request.getfixturevalue("lab" if isolate == "none" else "lab_ns")
    lab.cut("h2", "h1")
    try:
        lab.wait_until(lambda: lab.states("h1")["h2"] == "down", "h1 loses h2")
        assert lab.states("h3") == {"h1": "up", "h2": "up", "h3": "up"}
        lab.kill("h2", "host")
        lab.start("h2")
        time.sleep(1.0)
        assert lab.states("h2")["h1"] != "up"
        assert lab.status()["cuts"] == [["h1", "h2"]]
    finally:
        lab.heal()
    lab.wait_until(lambda: lab.states("h1")["h2"] == "up", "they meet again", 15)
    assert lab.status()["cuts"] == []


def test_a_stopped_daemon_is_shown_as_stopped(lab):
    lab.lab("kill", "h3", "lim", "-s", "STOP")
    try:
        assert lab.status()["hosts"][2]["daemons"]["lim"]["state"] == "stopped"
        assert "stopped" in lab.lab("start", "h3", "lim", check=False).stderr
    finally:
        lab.kill("h3", "lim", "CONT")
    lab.wait_until(lambda: lab.states("h3")["h1"] == "up", "it goes on", 15)


@both
def test_down_ends_stopped_daemons_and_everything_else(make_lab, isolate):
    lab = make_lab(2, isolate)
    lab.kill("h1", "host", "STOP")
    sleeper = lab.popen("h2", "sleep", "1001")
    started_s = time.monotonic()
    assert "is removed" in lab.lab("down").stdout
    assert time.monotonic() - started_s < 10
    sleeper.wait(timeout=120)
    lab.assert_nothing_left()
    assert "no lab" in lab.lab("down").stdout  # and again, as often as one likes


def test_down_lets_commands_clean_up(make_lab, tmp_path):
    """As compilers do with their temporary files."""
    lab = make_lab(2, "none")
    scratch, started = tmp_path / "scratch", tmp_path / "started"
    script = (
        f"trap 'rm {scratch}; exit 1' TERM; touch {scratch} {started}; while :; do sleep 0.1; done"
    )
    compiler = lab.popen("h1", "lbrun", "-H", "h2", "sh", "-c", script)
    stubborn = lab.popen("h1", "lbrun", "-H", "h2", "sh", "-c", "trap '' TERM; sleep 1002")
    lab.wait_until(started.exists, "it runs")
    lab.lab("down")
    for command in (compiler, stubborn):
        command.wait(timeout=120)
    assert not scratch.exists()
    lab.assert_nothing_left()


@both
@pytest.mark.parametrize("after_s", [0.12, 0.4])
def test_down_cleans_up_after_a_lab_killed_half_way(request, short_dir, isolate, after_s):
    if isolate == "namespaces":
        request.getfixturevalue("lab_ns")
    root = short_dir / "lab"
    words = ("up", "--hosts", 4, "--isolate", isolate, "--dir", root)
    process = subprocess.Popen(
        lab_command(*words), env=client_environment(), stdout=subprocess.DEVNULL
    )
    time.sleep(after_s)
    process.kill()
    process.wait()
    run_lab("down", "--dir", root)
    assert_nothing_left(root)
    assert not root.exists()


def test_down_cleans_up_after_a_lab_killed_before_it_had_a_record(short_dir):
    root = short_dir / "lab"
    root.mkdir()
    (root / "lock").touch()
    (root / "lab.json.0123456789abcdef.new").write_text("{")
    run_lab("down", "--dir", root)
    assert not root.exists()


def test_down_touches_no_directory_of_another_user(short_dir):
    root = short_dir / "mine"
    root.mkdir()
    run_lab("down", "--dir", root)
    (root / "lock").touch()
    (root / "work").write_text("dear")
    run_lab("down", "--dir", root)
    assert sorted(path.name for path in root.iterdir()) == ["lock", "work"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_up_cleans_up_after_itself(short_dir, number):
    root = short_dir / "lab"
    process = subprocess.Popen(
        lab_command("up", "--hosts", 6, "--isolate", "none", "--dir", root),
        env=client_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_until(lambda: load(root), "it has begun")
    process.send_signal(number)
    _, said = process.communicate(timeout=90)
    # Where the interrupt falls into code made by `exec`, as in a dataclass, CPython 3.11 ends by
    # the signal although the program has caught it.
    assert process.returncode in {128 + number, 130, -signal.SIGINT}
    assert "Traceback" not in said
    assert_nothing_left(root)
    assert not root.exists()


def test_down_finds_everything_without_its_record(make_lab):
    lab = make_lab(2)
    (lab.root / "lab.json").write_text("{ half a rec")
    lab.lab("down")
    lab.assert_nothing_left()


def test_down_spares_a_directory_it_did_not_make_and_what_is_in_it(short_dir):
    (short_dir / "mine").write_text("keep me")
    run_lab("up", "--hosts", 1, "--isolate", "none", "--dir", short_dir)
    run_lab("down", "--dir", short_dir)
    assert [path.name for path in short_dir.iterdir()] == ["mine"]


def test_down_where_no_lab_is_touches_nothing(short_dir):
    (short_dir / "h1").mkdir()
    for name in ("key", "lock", "h1/lbd.toml"):
        (short_dir / name).write_text("mine")
    assert "no lab" in run_lab("down", "--dir", short_dir).stdout
    assert sorted(path.name for path in short_dir.iterdir()) == ["h1", "key", "lock"]
    assert (short_dir / "h1/lbd.toml").read_text() == "mine"


def test_a_daemon_that_cannot_start_is_reported_in_its_own_words(short_dir):
    root = short_dir / "lab"
    ports = ("--set", "lim.port=7950", "--set", "lbm.port=7950")
    result = run_lab("up", "--isolate", "none", *ports, "--dir", root, check=False)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "cannot listen on" in result.stderr
    assert_nothing_left(root)


NOBODY = 65534


def unprivileged():
    """A prefix that runs a command without privileges; empty if we have none ourselves.

    Where this Python is in root's own directory, the command keeps the right to read, and no other.
    """
    if os.geteuid() != 0:
        return ()
    plain = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    reader = (*plain, "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    for wrapper in (plain, reader):
        # A shell runs it: what setpriv itself starts is found with rights that it then loses.
        probe = [*wrapper, "sh", "-c", 'exec "$@"', "sh", *lab_command("--help")]
        if subprocess.run(probe, capture_output=True, env=client_environment()).returncode == 0:
            return wrapper
    pytest.skip("this Python lies where no other user can run it")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["up", "--hosts", "2"], 1, "already"),
        (["env", "h9"], 2, "h9"),
        (["kill", "h1", "lin"], 2, 'did you mean "lim"'),
        (["kill", "h9", "lim"], 2, "h9"),
        (["kill", "h1", "lim", "-s", "NOISE"], 2, "is not a signal"),
        (["kill", "h1", "dispatcher"], 1, "not running"),
        (["start", "h1", "keeper"], 2, "keeper"),
        (["start", "h9"], 2, "h9"),
        (["cut", "h1", "h1"], 2, "two different"),
        (["cut", "h1", "h9"], 2, "h9"),
        (["exec", "h1"], 2, "no command"),
    ],
)
def test_bad_input_to_a_lab_is_one_line(lab, words, code, says):
    assert_refused(lab.lab(*words, check=False), code, says)


def assert_refused(result, code, says):
    assert result.returncode == code, result.stderr
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("lbd lab")
    assert result.stdout == ""


@pytest.mark.root
def test_a_directory_that_cannot_be_created_is_reported(short_dir):
    (short_dir / "file").write_text("")
    result = run_lab("up", "--dir", short_dir / "file" / "lab", check=False)
    assert_refused(result, 2, "cannot make it")


@pytest.mark.root
def test_namespaces_without_root_are_refused(short_dir):
    result = run_lab(
        "up", "--isolate", "namespaces", "--dir", short_dir / "lab", check=False,
        wrapper=unprivileged(),
    )  # fmt: skip
    assert_refused(result, 1, "need root")


@pytest.mark.root
def test_a_lab_needs_no_root(short_dir):
    wrapper = unprivileged()
    os.chown(short_dir, NOBODY, NOBODY)
    root = short_dir / "lab"

    def lab(*words):
        return run_lab(*words, "--dir", root, wrapper=wrapper).stdout

    try:
        lab("up", "--hosts", 2)
        owners = {os.stat(f"/proc/{p.process.pid}").st_uid for p in processes.find(root)}
        assert owners == {NOBODY}
        assert json.loads(lab("status", "--json"))["isolate"] == "none"
        assert not cgroups.find(cgroup_name(root))
        lab("kill", "h1", "host")
        lab("start", "h1")
    finally:
        lab("down")
    assert_nothing_left(root)
