"""lbctl top in a real terminal (a pty): live, and the terminal given back on every way out."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time

import pytest

from tests.unit.cli.canned import JOB, STATUS


class Top:
    """`lbctl top` in a terminal of its own, 24 lines by 60."""

    def __init__(self, **environment):
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 60))
        self.before = termios.tcgetattr(slave)
        env = {**os.environ, "TERM": "xterm", **environment}
        command = [sys.executable, "-m", "lbd.cli.lbctl", "top", "--interval", "0.2s"]
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True
        )
        self.slave = slave
        self.output = b""

    def wait_for(self, text, timeout_s=15):
        end_s = time.monotonic() + timeout_s
        while text not in self.output:
            left_s = end_s - time.monotonic()
            assert left_s > 0, f"no {text!r} in {self.output[-2000:]!r}"
            if select.select([self.master], [], [], left_s)[0]:
                self.output += os.read(self.master, 65536)

    def finish(self):
        code = self.process.wait(timeout=15)
        if select.select([self.master], [], [], 0)[0]:
            self.output += os.read(self.master, 65536)
        restored = termios.tcgetattr(self.slave) == self.before
        os.close(self.master)
        os.close(self.slave)
        return code, restored and self.output.rstrip().endswith(b"\x1b[?25h\x1b[?1049l")


@pytest.fixture
def top():
    """top(VARIABLE=value…) starts one."""
    started = []

    def start(**environment):
        started.append(Top(**environment))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()


@pytest.mark.parametrize(
    ("way_out", "code"),
    [("q", 0), ("\x03", 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["q", "interrupt", "TERM", "HUP"],
)
def test_top_gives_the_terminal_back(daemon, top, way_out, code):
    daemon("lim", status=STATUS)
    daemon("lbm", jobs={"jobs": [JOB]})
    screen = top()
    screen.wait_for(b"h1-7")
    assert b"\x1b[32m" in screen.output
    if isinstance(way_out, str):
        os.write(screen.master, way_out.encode())
        # A terminal that nobody controls sends no signal for ^C.
        if way_out == "\x03":
            screen.process.send_signal(signal.SIGINT)
    else:
        screen.process.send_signal(way_out)
    assert screen.finish() in ((code, True), (0, True))


@pytest.mark.parametrize("attempt", range(4))
def test_impatience_does_not_keep_the_terminal(daemon, top, attempt):
    """More signals than one, while the first is being answered."""
    daemon("lim", status=STATUS)
    daemon("lbm", jobs={"jobs": [JOB]})
    screen = top()
    screen.wait_for(b"h1-7")
    while screen.process.poll() is None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            screen.process.send_signal(number)
    _, given_back = screen.finish()
    assert given_back


def test_top_follows_a_resize_and_needs_no_colours(daemon, top):
    daemon("lim", status=STATUS)
    daemon("lbm", jobs={"jobs": [JOB]})
    screen = top(NO_COLOR="1")
    screen.wait_for(b"h1-7")
    assert not re.search(rb"\x1b\[\d+m", screen.output)
    screen.output = b""
    termios.tcsetwinsize(screen.slave, (4, 20))
    screen.process.send_signal(signal.SIGWINCH)
    for _ in range(10):  # a frame or two may have been drawn before the signal came
        screen.output = b""
        screen.wait_for(b"\x1b[J")
        longest = max(re.sub(rb"\x1b\[[?\d]*\w", b"", screen.output).split(b"\n"), key=len)
        if len(longest.decode().strip()) <= 20:
            break
    assert len(longest.decode().strip()) <= 20
    os.write(screen.master, b"q")
    assert screen.finish() == (0, True)


def test_top_outlives_its_daemon(daemon, top):
    lim = daemon("lim", status=STATUS)
    daemon("lbm", jobs={"jobs": []})
    screen = top()
    screen.wait_for(b"no jobs")
    lim.shutdown()
    lim.server_close()
    os.unlink(lim.server_address)
    screen.wait_for(b"lim is not running")
    os.write(screen.master, b"q")
    assert screen.finish() == (0, True)
