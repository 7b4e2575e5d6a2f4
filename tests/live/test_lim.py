"""`lbd lim` as a process: refusals in one line, garbage, stale sockets, faults in a cluster."""

import asyncio
import random
import secrets
import signal
import socket
import subprocess
import sys
import time

import pytest
import uvloop

from lbd.errors import Unavailable
from lbd.lim.daemon import TIMER_EARLY_S, Loop
from lbd.rpc import frames
from lbd.rpc.local import ask
from tests.live.cluster import client_environment

FAST = """
exchange_period_s = 0.2
keepalive_s = 0.8
stale_after_s = 2.0
down_after_s = 4.0
centre_silence_s = 1.5
"""
LIMIT_S = 30.0


def wait_until(look, accept, what):
    """What `look` returned when `accept` took it; an AssertionError tells what was seen last."""
    end_s = time.monotonic() + LIMIT_S
    seen = None
    while time.monotonic() < end_s:
        try:
            seen = look()
        except Unavailable as problem:
            seen = problem
        else:
            if accept(seen):
                return seen
        time.sleep(0.05)
    raise AssertionError(f"not within {LIMIT_S:g} s: {what}; last seen: {seen}")


class Host:
    """One LIM and its files."""

    def __init__(self, root, name, text):
        self.name = name
        self.socket = root / name / "run/lim.sock"
        self.config = root / name / "lbd.toml"
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(
            f'[daemons]\nuser = "root"\n[host]\nname = "{name}"\nspeed = 1.0\n'
            f'runtime_dir = "{root}/{name}/run"\n'
            f'state_dir = "{root}/{name}/state"\n{text}'
        )
        self.process = None

    def command(self, *more):
        return [sys.executable, "-m", "lbd.cli.main", "lim", "--config", str(self.config), *more]

    def start(self):
        self.log = (self.config.parent / "log").open("a")
        self.process = subprocess.Popen(self.command(), env=client_environment(), stderr=self.log)
        wait_until(lambda: self.ask(op="status"), bool, f"{self.name} answers")
        return self

    def fail(self, *more):
        """Start it where it cannot run: its exit status and what it said."""
        done = subprocess.run(
            self.command(*more), env=client_environment(), capture_output=True, text=True,
            timeout=LIMIT_S,
        )  # fmt: skip
        return done.returncode, done.stderr

    def end(self, number=signal.SIGTERM):
        if self.process is None:
            return None
        self.process.send_signal(number)
        self.process.send_signal(signal.SIGCONT)
        code = self.process.wait(LIMIT_S)
        self.log.close()
        self.process = None
        return code

    def ask(self, **request):
        return ask(self.socket, request, 5.0)

    def states(self):
        return {host["name"]: host["state"] for host in self.ask(op="status")["hosts"]}

    def centre(self):
        return self.ask(op="status")["cluster"]["centre"]


@pytest.fixture
def host(tmp_path):
    found = Host(tmp_path, "h1", "")
    yield found
    found.end()


@pytest.fixture
def three(tmp_path):
    """Three LIMs on loopback with quick timings."""
    key = tmp_path / "key"
    key.write_text(secrets.token_hex(32))
    key.chmod(0o600)
    subnet = secrets.randbelow(200) + 20
    listed = ", ".join(f'{{name = "h{n}", address = "127.{subnet}.7.{n}"}}' for n in (1, 2, 3))
    text = f'[security]\nkey_file = "{key}"\n[cluster]\nhosts = [{listed}]\n[lim]\n{FAST}'
    hosts = [Host(tmp_path, f"h{n}", text) for n in (1, 2, 3)]
    for found in hosts:
        found.start()
    for found in hosts:
        wait_until(found.states, lambda s: set(s.values()) == {"up"} and len(s) == 3, "all up")
    yield hosts
    for found in hosts:
        found.end()


def one_line(stderr, program="lbd lim: "):
    """The complaint, which is the last line; what comes before it is the log."""
    last = stderr.strip().splitlines()[-1]
    assert last.startswith(program)
    assert "Traceback" not in stderr
    return last


def test_a_second_lim_on_the_same_directory_is_refused(host):
    host.start()
    code, stderr = host.fail()
    assert code == 1
    assert f"another lim (pid {host.process.pid}) runs on" in one_line(stderr)
    assert host.ask(op="status")["self"] == "h1"


def test_a_port_in_use_is_said_in_one_line(three, tmp_path):
    first = three[0]
    other = Host(tmp_path, "x", "")
    other.config.write_text(first.config.read_text().replace("/h1/", "/x/"))
    code, stderr = other.fail()
    assert code != 0
    assert "cannot listen on" in one_line(stderr)
    assert "in use" in stderr


def test_directories_that_cannot_be_written(host, tmp_path):
    (tmp_path / "file").write_text("")
    for key in ("runtime_dir", "state_dir"):
        code, stderr = host.fail("--set", f"host.{key}={tmp_path}/file/x")
        assert code != 0
        assert f"host.{key} {tmp_path}/file/x: " in one_line(stderr)


def test_term_ends_it_well_and_kill_leaves_nothing_in_the_way(host):
    host.start()
    assert host.end() == 0
    assert not host.socket.exists()
    host.start()
    assert host.end(signal.SIGKILL) == -signal.SIGKILL
    assert host.socket.exists()  # stale
    host.start()
    assert host.ask(op="status")["self"] == "h1"


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        random.Random(1).randbytes(64),
        frames.pack(b"J", b"not json"),
        frames.pack(b"J", b"[1, 2]"),
        frames.pack(b"X", b"{}"),
        (1 << 30).to_bytes(4, "little") + b"J",
        frames.pack(b"J", b'{"op":' + b"[" * 100_000),
    ],
)
def test_garbage_on_the_socket_harms_nobody(host, data):
    host.start()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10)
        sock.connect(str(host.socket))
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(4096):
            pass
    assert host.ask(op="status")["self"] == "h1"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_centre_dies_or_hangs_and_the_next_one_leads(three, number):
    first, second, third = three
    assert third.centre() == "h1"
    first.process.send_signal(number)
    began = time.monotonic()
    assert third.ask(op="place", job="h3-1")["verdict"] == "here"
    assert time.monotonic() - began < 5
    for host in (second, third):
        wait_until(host.centre, lambda name: name == "h2", "h2 is the centre")
        wait_until(host.states, lambda s: s["h1"] == "down", "h1 is down")
    assert third.states()["h2"] == "up"
    if number == signal.SIGSTOP:
        first.process.send_signal(signal.SIGCONT)
    else:
        first.end()
        first.start()
    for host in three:
        wait_until(host.states, lambda s: set(s.values()) == {"up"}, "all up again")
        wait_until(host.centre, lambda name: name == "h1", "h1 leads again")


def test_a_drained_host_stays_drained_over_a_restart(three):
    first, second, _ = three
    first.ask(op="drain", host="h2", drained=True)
    second.end()
    second.start()
    wait_until(first.states, lambda s: s["h2"] == "drained", "still drained")


def test_a_host_that_is_down_is_drained_until_it_is_undrained(three):
    first, second, third = three
    second.end(signal.SIGKILL)
    wait_until(third.states, lambda s: s["h2"] == "down", "h2 is down")
    said = third.ask(op="drain", host="h2", drained=True)
    assert (said["drained"], said["when_back"]) == (True, True)

    def drained(host):
        return lambda: [row["drained"] for row in host.ask(op="status")["hosts"]]

    wait_until(drained(first), lambda rows: rows[1] and not rows[0], "the others know")
    assert "drained" in first.ask(op="status")["hosts"][1]["why_down"]
    second.start()
    wait_until(first.states, lambda s: s["h2"] == "drained", "it is so when it is back")
    second.end()
    second.start()
    wait_until(first.states, lambda s: s["h2"] == "drained", "and once more")
    first.ask(op="drain", host="h2", drained=False)
    wait_until(first.states, lambda s: s["h2"] == "up", "undrained")
    wait_until(drained(first), lambda rows: rows == [None] * 3, "by its own word, too")


def test_a_host_joins_by_one_address(three, tmp_path):
    first = three[0]
    peers = first.ask(op="peers")["peers"]
    target = next(peer["lim"] for peer in peers if peer["name"] == "h2")
    address = target.rpartition(".")[0] + ".9"
    key = tmp_path / "key"
    text = (
        f'address = "{address}"\n[security]\nkey_file = "{key}"\n'
        f'[cluster]\njoin = "{target}"\n[lim]\n{FAST}'
    )
    newcomer = Host(tmp_path, "h9", text).start()
    try:
        for host in (*three, newcomer):
            wait_until(
                host.states, lambda s: len(s) == 4 and set(s.values()) == {"up"}, "four hosts"
            )
        assert newcomer.centre() == "h1"
    finally:
        newcomer.end()
    for host in three:
        wait_until(host.states, lambda s: "h9" not in s, "h9 has left")


def test_no_tick_comes_before_its_time():
    """Or a dozen more would follow until it has come."""
    early_s = []

    async def tick_often():
        due_s, enough = time.monotonic(), asyncio.Event()

        def tick():
            nonlocal due_s
            now_s = time.monotonic()
            early_s.append(due_s - now_s)
            due_s = now_s + 0.0073
            if len(early_s) == 40:
                enough.set()
            return due_s - time.monotonic() + TIMER_EARLY_S

        ticking = Loop("ticking", tick, pytest.fail)
        ticking.start()
        await enough.wait()
        ticking.cancel()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(tick_often())
    assert max(early_s) <= 0
