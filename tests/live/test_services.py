"""Daemons as services: they report that they are ready and that their event loop turns."""

import os
import signal
import socket
import subprocess

import pytest

from lbd.process.self_start import command
from tests.live.cluster import client_environment, wait_until
from tests.live.test_up import Up

WATCHDOG_S = 1.5


class Service:
    """One daemon started as systemd starts it, with us in systemd's place."""

    def __init__(self, root, daemon, watchdog_s=WATCHDOG_S):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"{root}/notify")
        self.socket.settimeout(20)
        config = root / "lbd.toml"
        config.write_text(
            f'[host]\nname = "solo"\nspeed = 1.0\nruntime_dir = "{root}/run"\n'
            f'state_dir = "{root}/state"\n[daemons]\nuser = "root"\n'
        )
        environment = {
            "NOTIFY_SOCKET": f"{root}/notify",
            "WATCHDOG_USEC": f"{watchdog_s * 1e6:.0f}",
        }
        self.process = subprocess.Popen(
            command(daemon, "--config", str(config)), stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE, env=client_environment(**environment),
        )  # fmt: skip

    def hear(self, wanted):
        """Waits until the daemon sends this; returns the datagram."""
        while True:
            said = self.socket.recv(4096).decode()
            if wanted in said.split("\n"):
                return said

    def silent_for(self, pause_s):
        """Whether nothing more comes than was on its way."""
        self.socket.setblocking(False)
        try:
            while self.socket.recv(4096):
                pass
        except BlockingIOError:
            pass
        self.socket.settimeout(pause_s)
        try:
            self.socket.recv(4096)
        except TimeoutError:
            return True
        return False

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        self.socket.close()


@pytest.fixture
def service(short_dir):
    started = []

    def start(daemon):
        started.append(Service(short_dir, daemon))
        return started[-1]

    yield start
    for one in started:
        one.end()


@pytest.mark.parametrize("daemon", ["lim", "lbm", "up"])
def test_a_daemon_reports_that_it_is_ready_and_alive(service, daemon):
    lives = service(daemon)
    assert "\nSTATUS=" in lives.hear("READY=1")
    lives.hear("WATCHDOG=1")
    lives.process.terminate()
    lives.hear("STOPPING=1")
    assert lives.process.wait(timeout=90) == 0


@pytest.mark.parametrize("daemon", ["lim", "up"])
def test_a_daemon_that_hangs_feeds_no_watchdog(service, daemon):
    hangs = service(daemon)
    hangs.hear("READY=1")
    os.kill(hangs.process.pid, signal.SIGSTOP)
    assert hangs.silent_for(WATCHDOG_S)


def test_a_watchdog_s_signal_shows_where_a_daemon_hung(service):
    hung = service("lim")
    hung.hear("READY=1")
    hung.process.send_signal(signal.SIGABRT)
    assert hung.process.wait(timeout=40) == -signal.SIGABRT
    assert b'wiring.py", line' in hung.process.stderr.read()


def test_the_jobs_of_a_service_do_not_inherit_its_managers_socket(service, short_dir):
    lives = service("lbm")
    lives.hear("READY=1")
    keepers = subprocess.run(
        ["pgrep", "-P", str(lives.process.pid)], capture_output=True, text=True
    ).stdout.split()
    for keeper in keepers:
        with open(f"/proc/{keeper}/environ", "rb") as file:
            assert b"NOTIFY_SOCKET" not in file.read()
    assert keepers


@pytest.mark.parametrize("daemon", ["lim", "lbm"])
def test_lbd_up_restarts_a_daemon_that_hangs(short_dir, daemon):
    up = Up(short_dir, "--set", "up.watchdog_s=2").ready()
    first = up.pid(daemon)
    os.kill(first, signal.SIGSTOP)
    wait_until(lambda: up.pid(daemon) != first, f"a new {daemon}", 20, up.said)
    assert f"{daemon} hangs: its event loop has not run for 2 s; killing it" in up.said()
    assert up.stop() == 0
    assert up.left() == []
