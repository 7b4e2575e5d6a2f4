"""`lbd up` with the real daemons: restarts, an orderly end, nothing left."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys

import psutil
import pytest

from lbd.lab import processes
from lbd.local.json_socket import ask
from lbd.process.self_start import command
from tests.live.cluster import client_environment, wait_until
from tests.live.conftest import need_namespaces

QUICK = ("--set", "up.restart_backoff_s=0.1", "--set", "up.stop_timeout_s=4")
SAY_ON = """
import socket, sys
sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
while True:
    try:
        sock.sendto(b"STATUS=here", sys.argv[1])
    except OSError:
        break
"""


class Up:
    """One `lbd up` in a directory of its own."""

    def __init__(self, root, *options, wrapper=()):
        self.root = root
        self.config = root / "lbd.toml"
        if not self.config.exists():
            self.config.write_text(
                f'[host]\nname = "solo"\nspeed = 1.0\nruntime_dir = "{root}/run"\n'
                f'state_dir = "{root}/state"\n[daemons]\nuser = "root"\n'
            )
        self.log = root / "up.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*wrapper, *command("up", "--config", str(self.config), *QUICK, *options)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=client_environment(**{processes.MARK: str(root)}),
            )  # fmt: skip

    def said(self):
        return self.log.read_text()

    def pid(self, daemon):
        """The daemon's pid if its socket answers."""
        ask(self.root / "run" / f"{daemon}.sock", {"op": "status"}, 2.0)
        lines = [line for line in self.said().splitlines() if f"{daemon} started, pid" in line]
        return int(lines[-1].split()[-1])

    def ready(self):
        wait_until(
            lambda: self.pid("lim") and self.pid("lbm"), "both daemons answer", 15, self.said
        )
        return self

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(timeout=90)

    def left(self):
        return [found.process.pid for found in processes.find(self.root)]


@pytest.fixture
def up(short_dir):
    started = Up(short_dir).ready()
    yield started
    started.process.kill()
    started.process.wait()
    for pid in started.left():
        with contextlib.suppress(ProcessLookupError):  # it may be ending by itself
            os.kill(pid, signal.SIGKILL)


def test_an_orderly_end_stops_lbm_then_lim_and_leaves_nothing(up):
    assert up.stop(signal.SIGINT) == 0
    words = [line.removeprefix("lbd up: ") for line in up.said().splitlines() if "lbd up" in line]
    words = [word for word in words if word != "killing 1 left behind"]  # a keeper not quite gone
    assert words[-5:] == ["stopping lbm", "lbm stopped", "stopping lim", "lim stopped", "stopped"]
    assert up.left() == []


def test_messages_from_daemons_during_the_stop_do_not_kill_lbd_up(up):
    """A message at its socket raises a signal, whose default action would kill lbd up."""
    saying = [
        subprocess.Popen([sys.executable, "-c", SAY_ON, str(up.root / "run" / "up.notify")])
        for _ in range(2)
    ]
    try:
        assert up.stop() == 0
    finally:
        for process in saying:
            process.kill()
            process.wait()


def test_a_killed_daemon_is_restarted(up):
    first = up.pid("lbm")
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: up.pid("lbm") != first, "a new lbm", 15, up.said)
    assert "lbm was killed by signal 9; restarting it in 0.1 s" in up.said()
    assert up.stop() == 0
    assert up.left() == []


def test_lbctl_restarts_daemons_that_lbd_up_starts_again_at_once(up):
    first = {daemon: up.pid(daemon) for daemon in ("lim", "lbm")}
    environment = client_environment(LBD_CONFIG=str(up.config))
    found = subprocess.run(
        ["lbctl", "restart", "--json"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert found.returncode == 0, found.stderr
    second = {daemon: up.pid(daemon) for daemon in ("lim", "lbm")}
    assert json.loads(found.stdout) == {"schema": 1, **second}
    assert first["lim"] != second["lim"]
    assert first["lbm"] != second["lbm"]
    assert "lbm makes way for its successor" in up.said()
    assert up.stop() == 0
    assert up.left() == []


def test_a_keeper_whose_lbm_is_dead_goes_too(up):
    keeper = ask(up.root / "run/lbm.sock", {"op": "status"}, 2.0)["keeper"]
    os.kill(up.process.pid, signal.SIGSTOP)  # so that the LBM is not started again meanwhile
    os.kill(up.pid("lbm"), signal.SIGKILL)
    os.kill(up.process.pid, signal.SIGTERM)
    os.kill(up.process.pid, signal.SIGCONT)
    assert up.process.wait(timeout=90) == 0
    assert not psutil.pid_exists(keeper)
    assert up.left() == []


def test_killing_the_supervisor_ends_its_daemons(up):
    up.process.kill()
    up.process.wait()
    wait_until(lambda: not up.left(), "the daemons end with it", 15, up.left)


def test_a_second_lbd_up_is_refused(up):
    second = subprocess.run(
        command("up", "--config", str(up.config)), capture_output=True, text=True, timeout=40,
        env=client_environment(),
    )  # fmt: skip
    assert second.returncode == 1
    assert second.stderr.startswith(f"lbd up: another `lbd up` (pid {up.process.pid}) is using")
    assert second.stderr.count("\n") == 1


def test_options_reach_the_daemons(short_dir):
    started = Up(short_dir, "--set", "lim.algorithm=NOLB").ready()
    status = ask(short_dir / "run/lim.sock", {"op": "status"}, 2.0)
    assert json.dumps(status["cluster"]).count("NOLB") == 1
    assert started.stop() == 0


def test_a_wrong_configuration_ends_it_at_once(short_dir):
    (short_dir / "lbd.toml").write_text("[host]\nnaem = 1\n")
    started = Up(short_dir)
    assert started.process.wait(timeout=40) == 2
    assert 'did you mean "name"' in started.said()
    assert "started" not in started.said()


def test_lbd_up_ends_where_a_port_is_taken_from_the_start(short_dir):
    key = short_dir / "key"
    key.write_text("k" * 64)
    key.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sets = ("--set", f"security.key_file={key}", "--set", f"lim.port={port}")
        started = Up(short_dir, *sets)
        assert started.process.wait(timeout=40) == 1
    assert "lim has no address to listen on" in started.said()
    assert "restarting it" not in started.said()
    assert started.left() == []


PLAIN = ("host.address=192.0.2.7", "security.key_file=KEY")
REFUSED = {
    "no key": (("security.key_file=/no/such/key",), "security.key_file /no/such/key: No such file"),
    "in the open": (PLAIN, "host.address 192.0.2.7: without TLS the daemons listen on loopback"),
    "a queue without trust": (("dispatch.host=solo",), "the dispatcher needs certificates"),
    "a store that is none": (
        ("dispatch.host=solo", "security.key_file=KEY", "dispatch.store=mysql://x"),
        "dispatch.store mysql://x",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_value_that_a_daemon_would_refuse_is_one_line_and_nothing_starts(short_dir, case):
    settings, said = REFUSED[case]
    key = short_dir / "key"
    key.write_text("k" * 64)
    key.chmod(0o600)
    sets = [word for setting in settings for word in ("--set", setting.replace("KEY", str(key)))]
    started = Up(short_dir, *sets)
    assert started.process.wait(timeout=40) == 2
    lines = started.said().splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("lbd up: ")
    assert said in lines[0].replace('"', "")
    assert {path.name for path in (short_dir / "run").iterdir()} == {"up.pid"}
    assert started.left() == []


@pytest.mark.root
def test_as_pid_1_it_reaps_orphans(short_dir):
    need_namespaces()
    unshare = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    started = Up(short_dir, wrapper=unshare)
    try:
        wait_until(lambda: started.pid("lim") and started.pid("lbm"), "both answer", 15)
        top = psutil.Process(started.process.pid).children()[0]
        inside = ["nsenter", "-t", str(top.pid), "-p", "-m", "sh", "-c", "(sleep 0.2 &)"]
        subprocess.run(inside, check=True)
        wait_until(
            lambda: not any(c.status() == psutil.STATUS_ZOMBIE for c in top.children()),
            "no zombie stays", 5, top.children,
        )  # fmt: skip
        top.terminate()
        assert started.process.wait(timeout=90) == 0
        assert started.left() == []
    finally:
        started.process.kill()
        started.process.wait()
