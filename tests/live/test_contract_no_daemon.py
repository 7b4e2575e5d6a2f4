"""What users get from lbrun when some or all of the daemons are down."""

import os
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from cluster import FAST, Lab, client_environment
from contract import assert_one_line, read_status, shell_status

# Commands that run here as if nothing were amiss: options, command, $?, standard output.
RUNS = [
    ((), ("true",), 0, ""),
    ((), ("sh", "-c", "exit 3"), 3, ""),
    ((), ("sh", "-c", "exit 125"), 125, ""),
    ((), ("sh", "-c", "kill -TERM $$"), 143, ""),
    ((), ("sh", "-c", "kill -KILL $$"), 137, ""),
    ((), ("echo", "-H", "h2", ""), 0, "-H h2 \n"),
    (("-x", "h2"), ("echo", "x"), 0, "x\n"),
    (("-e", "GIVEN=a b"), ("sh", "-c", 'echo "$GIVEN"'), 0, "a b\n"),
    (("-C", "/"), ("pwd",), 0, "/\n"),
    (("--name", "label", "--no-restart", "-T"), ("echo", "x"), 0, "x\n"),
    (("--timeout", "60"), ("echo", "x"), 0, "x\n"),
    (("--no-stdin",), ("cat",), 0, ""),
]
# What cannot be had without daemons.
REFUSED = [("-H", "h2"), ("-H", "solo"), ("--remote",), ("--no-fallback",),
           ("--remote", "--no-fallback"), ("-q",), ("--explain",)]  # fmt: skip


def write_config(root, **more):
    sections = "".join(
        f"[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())
        for section, keys in more.items()
    )
    config = root / "lbd.toml"
    config.write_text(
        f'[host]\nname = "solo"\nspeed = 1.0\nruntime_dir = "{root}/run"\n'
        f'state_dir = "{root}/state"\n{sections}'
    )
    return config


def lbrun(config, *words, **options):
    """Runs lbrun to its end on a host that `config` describes."""
    options = {"stdin": subprocess.DEVNULL, **options} if "input" not in options else options
    return subprocess.run(
        ["lbrun", *map(str, words)], env=client_environment(LBD_CONFIG=str(config)), text=True,
        capture_output=True, timeout=120, check=False, **options,
    )  # fmt: skip


def leave_stale(path):
    """A socket file that nobody listens on any more."""
    path.parent.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        sock.listen()


@pytest.fixture(params=["nothing", "empty directory", "stale sockets", "not a socket"])
def config(request, short_dir):
    """A host without daemons, in each state that they may have left it in."""
    run = short_dir / "run"
    if request.param != "nothing":
        run.mkdir()
    for name in ("lim.sock", "lbm.sock"):
        if request.param == "stale sockets":
            leave_stale(run / name)
        if request.param == "not a socket":
            (run / name).write_text("")
    return write_config(short_dir)


def test_commands_run_here_with_one_line(config):
    for options, command, status, output in RUNS:
        result = lbrun(config, *options, *command)
        assert (shell_status(result.returncode), result.stdout) == (status, output), command
        assert_one_line(result.stderr, "lbrun", "running here")


def test_requests_that_need_daemons_are_refused(config, tmp_path):
    for options in REFUSED:
        result = lbrun(config, *options, "touch", "ran", cwd=tmp_path)
        assert (result.returncode, result.stdout) == (125, ""), options
        assert_one_line(result.stderr)
        assert list(tmp_path.iterdir()) == []


def test_never_here_means_never_here(config, tmp_path):
    result = lbrun(config, "-x", "solo", "touch", "ran", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (125, "")
    assert_one_line(result.stderr)
    assert list(tmp_path.iterdir()) == []


def test_local_needs_no_daemon_and_says_nothing(config):
    for options in (("--local",), ("--local", "--no-fallback")):
        result = lbrun(config, *options, "sh", "-c", "echo out; exit 4")
        assert (result.returncode, result.stdout, result.stderr) == (4, "out\n", "")


def test_a_command_that_cannot_start_is_reported(config):
    result = lbrun(config, "--local", "/no/such/command")
    assert result.returncode == 127
    assert_one_line(result.stderr, "lbrun", "/no/such/command")
    result = lbrun(config, "/no/such/command")
    assert (result.returncode, result.stdout) == (127, "")
    assert "/no/such/command" in result.stderr
    result = lbrun(config, "/etc/passwd")
    assert result.returncode == 126


def test_input_flows(config):
    result = lbrun(config, "cat", input="x" * 500_000)
    assert (result.returncode, result.stdout) == (0, "x" * 500_000)


def test_a_senseless_configuration_is_in_the_warning(tmp_path):
    config = write_config(tmp_path, lim={"slot": 3})
    result = lbrun(config, "echo", "x")
    assert (result.returncode, result.stdout) == (0, "x\n")
    assert_one_line(result.stderr)
    assert f"{config}:" in result.stderr
    assert "lim.slot: unknown key" in result.stderr
    assert result.stderr.endswith("; running here\n")


def test_status_file(config, tmp_path):
    lbrun(config, "--status-file", tmp_path / "ran", "sh", "-c", "exit 125")
    ran = read_status(tmp_path / "ran")
    assert (ran["exit_status"], ran["cause"]) == (125, "exited")
    lbrun(config, "--remote", "--status-file", tmp_path / "not", "true")
    refused = read_status(tmp_path / "not")
    assert (refused["exit_status"], refused["host"]) == (125, None)
    assert refused["cause"] != "exited"
    assert refused["reason"]


@pytest.mark.parametrize("terminal", ["-t", "-T"])
@pytest.mark.parametrize(("name", "exit_status"), [("no-such-program", 127), ("./data", 126)])
def test_status_file_tells_a_command_that_did_not_run(
    config, tmp_path, terminal, name, exit_status
):
    (tmp_path / "data").write_text("no program")
    words = "-C", tmp_path, terminal, "--status-file", tmp_path / "status", name
    result = lbrun(config, *words)
    found = read_status(tmp_path / "status")
    assert (found["exit_status"], found["cause"]) == (exit_status, "refused")
    assert result.stderr.endswith(f"lbrun: {found['reason']}\n")
    assert found["reason"].startswith(f"{name}: ")


def test_status_file_tells_who_exits_with_127(config, tmp_path):
    lbrun(config, "--status-file", tmp_path / "status", "sh", "-c", "exit 127")
    found = read_status(tmp_path / "status")
    assert (found["exit_status"], found["cause"], found["reason"]) == (127, "exited", None)


def test_status_file_names_this_host(config, tmp_path):
    lbrun(config, "--status-file", tmp_path / "ran", "true")
    assert read_status(tmp_path / "ran")["host"] == "solo"


def test_a_memory_limit_above_ones_own_has_no_effect(config):
    words = "ulimit -d 1048576; exec lbrun --local --mem 2G bash -c 'ulimit -Hd'"
    result = subprocess.run(
        ["bash", "-c", words], env=client_environment(LBD_CONFIG=str(config)), text=True,
        capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert (result.returncode, result.stdout, result.stderr) == (0, "1048576\n", "")


def test_a_time_limit_holds(config):
    result = lbrun(config, "--timeout", "0.3", "sleep", "600")
    assert result.returncode == 124
    assert all(line.startswith("lbrun: ") for line in result.stderr.splitlines())


@pytest.mark.parametrize("way", ["option", "variable"])
@pytest.mark.parametrize("kind", ["missing", "directory"])
def test_a_config_that_is_not_a_file(way, kind, tmp_path, short_dir):
    named = short_dir / "named.toml"
    if kind == "directory":
        named.mkdir()
    options = ("--config", named) if way == "option" else ()
    result = lbrun(named if way == "variable" else "", *options, "touch", "ran", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (125, "")
    assert_one_line(result.stderr, "lbrun", str(named))
    assert list(tmp_path.iterdir()) == []


# Many at once


def most_at_once(results, log):
    """The largest number that ran at the same time, after checking that all of them ran."""
    assert {result.returncode for result in results} == {0}, [
        result.stderr for result in results if result.returncode
    ]
    marks = log.read_text().split()
    assert marks.count("+1") == marks.count("-1") == len(results)
    running = most = 0
    for mark in marks:
        running += int(mark)
        most = max(most, running)
    return most


def crowd(run, log, count=20):
    script = f"echo +1 >>{log}; sleep 0.2; echo -1 >>{log}"
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: run("sh", "-c", script), range(count)))


@pytest.mark.parametrize("slots", [None, 3])
@pytest.mark.parametrize("directory", [True, False])
def test_all_of_a_crowd_run_but_few_at_once(short_dir, tmp_path, slots, directory):
    """Twenty at once without a daemon: each prints its line, few run at a time, none is lost."""
    config = write_config(short_dir, lbm={"fallback_slots": slots} if slots else {})
    if directory:
        (short_dir / "run").mkdir()
    results = crowd(lambda *words: lbrun(config, *words), tmp_path / "log")
    assert most_at_once(results, tmp_path / "log") <= (slots or 2 * len(os.sched_getaffinity(0)))
    for result in results:
        assert_one_line(result.stderr)


# A cluster with some parts dead


LAB = partial(Lab.up, 3, settings=(*FAST, "lbm.fallback_slots=3"))


@pytest.fixture(autouse=True)
def mended(request):
    """Every part that a test has killed is back before the next test."""
    yield
    if "lab" not in request.fixturenames:
        return
    lab = request.getfixturevalue("lab")
    for host, parts in lab.pids().items():
        for part in ("lim", "lbm"):
            if parts[part] is None:
                lab.start(host, part)
    for host in lab.hosts:
        lab.run("h1", "lbctl", "param", "local_threshold", "0.7")
        lab.run("h1", "lbctl", "param", "min_gain", "0.1")
        lab.wait_until(
            lambda host=host: set(lab.states(host).values()) == {"up"}, "all hosts up", 30
        )
        lab.wait_until(
            lambda host=host: lab.run("h1", "lbrun", "-H", host, "true").returncode == 0,
            f"{host} works", 30,
        )  # fmt: skip


SAY_HOST = ("sh", "-c", "echo ran on ${LBD_HOST:-none}")


def quiet_or_one_line(result):
    if result.stderr:
        assert_one_line(result.stderr)


DEAD = {"lbm": ("lbm",), "lim": ("lim",), "both": ("lbm", "lim")}


@pytest.mark.parametrize("parts", DEAD.values(), ids=DEAD)
def test_this_hosts_daemons_are_killed(lab, parts, tmp_path):
    for part in parts:
        lab.kill("h1", part)
    for options in ((), ("-x", "h2"), ("--timeout", "20")):
        result = lab.run("h1", "lbrun", *options, "sh", "-c", "echo out; exit 9")
        assert (result.returncode, result.stdout) == (9, "out\n")
        assert_one_line(result.stderr, "lbrun", "running here")
    for options in (("-H", "h2"), ("--remote",), ("--no-fallback",)):
        result = lab.run("h1", "lbrun", *options, "touch", "ran", cwd=tmp_path)
        assert (result.returncode, result.stdout) == (125, ""), options
        assert_one_line(result.stderr)
        assert list(tmp_path.iterdir()) == []
    result = lab.run("h1", "lbrun", "--local", "echo", "out")
    assert (result.returncode, result.stdout, result.stderr) == (0, "out\n", "")


@pytest.mark.parametrize("parts", DEAD.values(), ids=DEAD)
def test_this_hosts_daemons_are_killed_and_it_is_excluded(lab, parts, tmp_path):
    for part in parts:
        lab.kill("h1", part)
    result = lab.run("h1", "lbrun", "-x", "h1", "touch", "ran", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (125, "")
    assert_one_line(result.stderr)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", ["lbm", "lim"])
def test_a_crowd_without_one_of_the_daemons(lab, part, tmp_path):
    lab.kill("h1", part)
    results = crowd(lambda *words: lab.run("h1", "lbrun", *words), tmp_path / "log", 12)
    assert most_at_once(results, tmp_path / "log") <= 3
    for result in results:
        assert_one_line(result.stderr)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_far_lbm_is_dead_and_its_lim_lives(lab, number):
    lab.kill("h2", "lbm", number.name[3:])
    lab.wait_until(lambda: lab.pids()["h2"]["lbm"] is None, "it is dead")
    for _ in range(3):
        result = lab.run("h1", "lbrun", "-H", "h2", *SAY_HOST)
        assert (result.returncode, result.stdout) == (125, "")
        assert_one_line(result.stderr, "lbrun", "h2")
        result = lab.run("h1", "lbrun", "-x", "h1", *SAY_HOST)
        assert (result.returncode, result.stdout) == (0, "ran on h3\n"), result.stderr
        quiet_or_one_line(result)
        result = lab.run("h1", "lbrun", "--remote", *SAY_HOST)
        assert (result.returncode, result.stdout) == (0, "ran on h3\n"), result.stderr
        quiet_or_one_line(result)
        result = lab.run("h1", "lbrun", "--remote", "-x", "h3", *SAY_HOST)
        assert (result.returncode, result.stdout) == (125, "")
        assert_one_line(result.stderr)
        result = lab.run("h1", "lbrun", *SAY_HOST)
        assert (result.returncode, result.stdout in ("ran on h1\n", "ran on h3\n")) == (0, True)
        quiet_or_one_line(result)


@pytest.mark.parametrize("fallback", [True, False])
def test_every_far_lbm_is_dead_while_all_would_leave(lab, fallback):
    """Each runs here with at most one line; with --no-fallback it may be refused, but never
    lost."""
    lab.run("h1", "lbctl", "param", "local_threshold", "0", check=True)
    lab.run("h1", "lbctl", "param", "min_gain", "0", check=True)
    for host in ("h2", "h3"):
        lab.kill(host, "lbm")
    options = () if fallback else ("--no-fallback",)
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda _: lab.run("h1", "lbrun", *options, *SAY_HOST), range(12)))
    for result in results:
        quiet_or_one_line(result)
        if result.returncode == 125 and not fallback:
            assert result.stdout == ""
            assert result.stderr
        else:
            assert (result.returncode, result.stdout) == (0, "ran on h1\n")


def test_a_dead_lbm_is_used_again_once_it_is_back(lab):
    lab.kill("h2", "lbm")
    assert lab.run("h1", "lbrun", "-H", "h2", "true").returncode == 125
    lab.start("h2", "lbm")
    lab.wait_until(
        lambda: lab.run("h1", "lbrun", "-H", "h2", *SAY_HOST).stdout == "ran on h2\n", "it is back"
    )
