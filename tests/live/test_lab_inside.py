"""Inside a lab host: its network, cut, quota and processes; entering it and leaving it."""

import os
import pty
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.live.cluster import client_environment, lab_command, run_lab, wait_until

ECHO = """
import socket, sys
server = socket.create_server((sys.argv[1], 7000))
print("ready", flush=True)
while True:
    connection, _ = server.accept()
    while data := connection.recv(100):
        connection.sendall(data)
"""
TALK = """
import socket, sys
connection = socket.create_connection((sys.argv[1], 7000), 5)
connection.settimeout(0.7)
for line in sys.stdin:
    try:
        connection.sendall(line.encode())
        print("heard", connection.recv(100).decode().strip(), flush=True)
    except TimeoutError:
        print("silence", flush=True)
"""
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], 7000), 0.5)"

both = pytest.mark.parametrize("fixture", ["lab", pytest.param("lab_ns", marks=pytest.mark.root)])


def talk(talker, word):
    talker.stdin.write(word + "\n")
    talker.stdin.flush()
    return talker.stdout.readline().strip()


@pytest.mark.root
def test_a_cut_silences_an_established_connection_until_healed(lab_ns):
    address = lab_ns.record.plan.address("h2")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server = lab_ns.popen("h2", "python3", "-c", ECHO, address, **pipes)
    assert server.stdout.readline() == "ready\n"
    talker = lab_ns.popen("h1", "python3", "-c", TALK, address, **pipes)
    try:
        assert talk(talker, "one") == "heard one"
        lab_ns.cut("h1", "h2")
        assert talk(talker, "two") == "silence"
        refused = lab_ns.run("h1", "python3", "-c", CONNECT, address)
        assert "timed out" in refused.stderr  # dropped, not refused: a pulled cable
        lab_ns.heal()
        lab_ns.wait_until(lambda: "heard" in talk(talker, "three"), "the connection goes on", 15)
    finally:
        lab_ns.heal()
        for process in (talker, server):
            process.kill()
            process.communicate()


@pytest.mark.root
def test_a_cut_affects_only_its_two_hosts(lab_ns):
    address = lab_ns.record.plan.address("h2")
    server = lab_ns.popen("h2", "python3", "-c", ECHO, address, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout.readline() == "ready\n"
        lab_ns.cut("h1", "h2")
        third = lab_ns.run("h3", "python3", "-c", CONNECT, address)
        assert third.returncode == 0, third.stderr
    finally:
        lab_ns.heal()
        server.kill()
        server.communicate()


@pytest.mark.root
def test_a_host_has_its_own_processes_name_and_network(lab_ns):
    seen = lab_ns.run("h2", "sh", "-c", "hostname; ls /proc | grep -c '^[0-9]'; ip -o link").stdout
    name, count, *links = seen.splitlines()
    assert name == "h2"
    assert int(count) < 20
    assert {"lo", "eth0"} <= {line.split(":")[1].split("@")[0].strip() for line in links}
    assert lab_ns.run("h2", "ip", "route", "get", "192.0.2.1").returncode != 0  # no way out


@pytest.mark.root
def test_the_machines_own_network_is_untouched(lab_ns):
    names = {name for _, name in socket.if_nameindex()}
    assert not names & {"lan", *lab_ns.hosts}


@pytest.mark.root
def test_a_host_has_no_more_cores_than_its_quota(lab_ns):
    burn = (
        "import os, time; end = time.monotonic() + 1.5\n"
        "while time.monotonic() < end: pass\n"
        "print(sum(os.times()[:2]))"
    )
    burners = [
        lab_ns.popen("h1", "python3", "-c", burn, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    used_s = sum(float(burner.communicate()[0]) for burner in burners)
    assert used_s < 1.5 * lab_ns.record.plan.cores + 0.3


@both
def test_exec_passes_stdio_directory_environment_and_status(request, fixture, tmp_path):
    lab = request.getfixturevalue(fixture)
    script = 'cat; pwd; echo "$LBD_CONFIG $ASKED" >&2; exit 7'
    result = subprocess.run(
        lab_command("exec", "h1", "--dir", lab.root, "--", "sh", "-c", script),
        input=b"\x00\xff in\n", cwd=tmp_path, env=client_environment(ASKED="yes"),
        capture_output=True,
    )  # fmt: skip
    assert result.stdout == b"\x00\xff in\n" + bytes(tmp_path) + b"\n"
    assert result.stderr.decode() == f"{lab.paths('h1').config} yes\n"
    assert result.returncode == 7


@both
@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["sh", "-c", "kill -KILL $$"], 137),
        (["sh", "-c", "kill -TERM $$"], 143),
        (["no-such-program"], 127),
        (["/etc"], 126),
    ],
)
def test_exec_gives_the_exit_status_a_shell_would(request, fixture, words, status):
    lab = request.getfixturevalue(fixture)
    result = run_lab("exec", "h1", "--dir", lab.root, "--", *words, check=False)
    ended = result.returncode
    assert (128 - ended if ended < 0 else ended) == status  # without namespaces it is the command
    assert "Traceback" not in result.stderr


@both
def test_a_signal_passes_through_exec_once(request, fixture):
    lab = request.getfixturevalue(fixture)
    script = (
        "trap 'echo got; n=1' TERM; echo ready; while [ -z $n ]; do sleep 0.1; done; "
        "sleep 0.3; exit 3"
    )
    process = subprocess.Popen(
        lab_command("exec", "h1", "--dir", lab.root, "--", "sh", "-c", script),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True, env=client_environment(),
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGTERM)
    assert process.communicate(timeout=120)[0] == "got\n"
    assert process.returncode == 3


@both
def test_a_command_of_exec_dies_with_exec(request, fixture):
    lab = request.getfixturevalue(fixture)
    words = ("exec", "h1", "--dir", lab.root, "--", "sh", "-c", "echo go; exec sleep 1000.5")
    process = subprocess.Popen(
        lab_command(*words), stdout=subprocess.PIPE, env=client_environment()
    )
    assert process.stdout.readline()
    wait_until(sleepers, "the command runs")
    process.kill()
    process.communicate()
    wait_until(lambda: not sleepers(), "the command dies with its client")


def sleepers():
    return [path for path in Path("/proc").glob("[0-9]*") if command_line(path) == "sleep 1000.5"]


def command_line(process):
    try:
        return process.joinpath("cmdline").read_bytes().strip(b"\0").replace(b"\0", b" ").decode()
    except OSError:
        return ""


@both
def test_exec_has_a_usable_terminal(request, fixture):
    """The command has the terminal; its interrupt key arrives once; it stops and goes on."""
    lab = request.getfixturevalue(fixture)
    script = "trap 'echo int' INT; tty; echo ready; until read line; do :; done; echo read $line"
    words = lab_command("exec", "h1", "--dir", lab.root, "--", "sh", "-c", script)
    variables = client_environment()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(words[0], words, variables)
    try:
        assert b"/dev/pts/" in read_until(terminal, b"ready")
        os.write(terminal, b"\x03")
        read_until(terminal, b"int")
        os.write(terminal, b"word\n")
        assert b"int\r\n" not in read_until(terminal, b"read word")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        os.close(terminal)


def read_until(terminal, word):
    said = b""
    deadline_s = time.monotonic() + 10
    while word not in said:
        assert time.monotonic() < deadline_s, said
        if select.select([terminal], [], [], 0.1)[0]:
            said += os.read(terminal, 4096)
    return said


@both
def test_env_makes_a_shell_act_from_that_host(request, fixture):
    lab = request.getfixturevalue(fixture)
    exports = run_lab("env", "h2", "--dir", lab.root).stdout
    script = f'{exports}\necho "$LBD_CONFIG"; command -v lbrun lbctl; lbctl status --json'
    result = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, env=client_environment()
    )
    config, lbrun, lbctl, *status = result.stdout.splitlines()
    assert config == str(lab.paths("h2").config)
    assert lbrun
    assert lbctl
    assert '"h2"' in "".join(status), result.stderr
    if fixture == "lab_ns":
        assert lbrun == str(lab.paths("h2").bin / "lbrun")


@both
def test_a_host_is_entered_from_a_shell_that_acts_from_another(request, fixture):
    """The wrappers of h1 are in PATH wherever its user and its jobs go; they must not matter."""
    lab = request.getfixturevalue(fixture)
    exports = run_lab("env", "h1", "--dir", lab.root).stdout
    words = " ".join(map(str, lab_command("exec", "h2", "--dir", lab.root)))
    script = f"{exports}\n{words} -- lbrun --local sh -c 'echo $LBD_CONFIG'\n"
    script += "lbrun -H h2 lbrun --local sh -c 'echo $LBD_CONFIG'\n"
    result = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, env=client_environment()
    )
    assert result.stdout.split() == [str(lab.paths("h2").config)] * 2, result.stderr
