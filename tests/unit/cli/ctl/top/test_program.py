"""`lbctl top` in a real terminal (a pty): it is live, and every way out restores the terminal."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time

import pyte
import pytest

from tests.unit.cli.canned import HOST, JOB, STATUS


class Top:
    """`lbctl top` in a terminal of its own, 24 lines by 60, and what it shows there."""

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
        self.screen = pyte.Screen(60, 24)
        self.stream = pyte.ByteStream(self.screen)

    def read(self, timeout_s):
        if select.select([self.master], [], [], timeout_s)[0]:
            data = os.read(self.master, 65536)
            self.output += data
            self.stream.feed(data)

    def wait_until(self, is_so, timeout_s=90):
        """Waits until `is_so`, which gets the text on the screen, is true."""
        end_s = time.monotonic() + timeout_s
        while not is_so("\n".join(self.screen.display)):
            left_s = end_s - time.monotonic()
            assert left_s > 0, "\n".join(self.screen.display)
            self.read(left_s)

    def wait_for(self, text):
        self.wait_until(lambda seen: text in seen)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def resize(self, lines, columns):
        termios.tcsetwinsize(self.slave, (lines, columns))
        self.screen.resize(lines, columns)
        self.process.send_signal(signal.SIGWINCH)

    def finish(self):
        code = self.process.wait(timeout=90)
        self.read(0)
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
    [("q", 0), (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["q", "interrupt", "TERM", "HUP"],
)
def test_top_restores_the_terminal(daemon, top, way_out, code):
    daemon("lim", status=STATUS)
    daemon("lbm", jobs={"jobs": [JOB]})
    screen = top()
    screen.wait_for("h1-7")
    assert b"\x1b[32m" in screen.output
    if isinstance(way_out, str):
        os.write(screen.master, way_out.encode())
    else:  # a terminal that no process controls sends none for ^C, but drops what is on its way
        screen.process.send_signal(way_out)
    assert screen.finish() in ((code, True), (0, True))


@pytest.mark.parametrize("attempt", range(4))
def test_repeated_signals_do_not_leave_the_terminal_changed(daemon, top, attempt):
    """More signals arrive while the first is being handled."""
    daemon("lim", status=STATUS)
    daemon("lbm", jobs={"jobs": [JOB]})
    screen = top()
    screen.wait_for("h1-7")
    while screen.process.poll() is None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            screen.process.send_signal(number)
    _, given_back = screen.finish()
    assert given_back


def test_top_follows_a_resize_and_needs_no_colours(daemon, top):
    daemon("lim", status=STATUS)
    daemon("lbm", jobs={"jobs": [JOB]})
    screen = top(NO_COLOR="1")
    screen.wait_for("h1-7")
    screen.wait_for("? help  q quit  k kill")
    screen.resize(8, 30)
    screen.wait_until(lambda seen: "? help  q quit" in screen.screen.display[7] and "h1" in seen)
    screen.resize(24, 100)
    screen.wait_until(lambda seen: "CPU" in seen and "? help  q quit" in screen.screen.display[23])
    assert not re.search(rb"\x1b\[\d+m", screen.output)
    screen.press("q")
    assert screen.finish() == (0, True)


def test_keys_views_and_a_kill(daemon, top):
    """As a person does it: find the job among many, and kill it."""
    jobs = [{**JOB, "id": str(number)} for number in range(1, 41)]
    daemon("lim", status={**STATUS, "hosts": [{**HOST, "name": f"h{n}"} for n in range(1, 81)]})
    lbm = daemon("lbm", jobs={"jobs": jobs}, **{"queue.act": {"done": ["27"], "errors": []}})
    screen = top()
    screen.wait_until(lambda seen: re.search(r"… \d+ more", seen))
    screen.press("\x1b[F")
    screen.wait_for("h80")
    screen.press("2")
    screen.wait_until(lambda seen: "SLOTS" not in seen)
    screen.press("/27\r")
    screen.wait_for("filter: 27")
    screen.press("k")
    screen.wait_for("end job 27 of ann? y/n")
    assert not [asked for asked in lbm.asked if asked["op"] == "queue.act"]
    screen.press("y")
    screen.wait_for("27 was asked to end")
    (asked,) = [asked for asked in lbm.asked if asked["op"] == "queue.act"]
    assert (asked["verb"], asked["ids"], asked["signal"]) == ("kill", ["27"], 0)
    screen.press("?")
    screen.wait_for("press any key to go back")
    screen.press("xq")
    assert screen.finish() == (0, True)


def test_a_plain_command_can_be_killed_and_a_refusal_is_shown(daemon, top):
    daemon("lim", status=STATUS)
    refusal = {"ok": False, "error": "only ann and administrators may", "code": "denied"}
    daemon("lbm", jobs={"jobs": [JOB]}, **{"command.kill": lambda request: refusal})
    screen = top()
    screen.wait_for("h1-7")
    screen.press("2")
    screen.wait_until(lambda seen: "SLOTS" not in seen)
    screen.press("k")
    screen.wait_for("end job h1-7 of ann? y/n")
    screen.press("y")
    screen.wait_for("only ann and administrators may")
    screen.press("q")
    assert screen.finish() == (0, True)


def test_keys_are_answered_while_a_daemon_does_not_answer(daemon, top):
    """The LBM accepts the question and says nothing."""
    silence = threading.Event()
    daemon("lim", status=STATUS)
    daemon("lbm", jobs=lambda request: (silence.wait(30), {"ok": True, "jobs": []})[1])
    screen = top()
    screen.wait_for("? help")
    screen.press("?")
    screen.wait_for("press any key to go back")
    screen.press("xq")
    assert screen.finish() == (0, True)
    silence.set()


def test_an_error_restores_the_terminal_and_is_reported(daemon, top):
    """The daemon's answer is of another version, while `top` runs."""
    lim = daemon("lim", status=STATUS)
    daemon("lbm", jobs={"jobs": []})
    screen = top()
    screen.wait_for("no jobs")
    lim.answers["status"] = {**STATUS, "hosts": [{**HOST, "queues": 3}]}
    screen.wait_for("contains no object 'queues'")
    lim.answers["status"] = STATUS
    screen.wait_for("h1 (here)")
    screen.press("q")
    assert screen.finish() == (0, True)


def test_top_outlives_its_daemon(daemon, top):
    lim = daemon("lim", status=STATUS)
    daemon("lbm", jobs={"jobs": []})
    screen = top()
    screen.wait_for("no jobs")
    lim.shutdown()
    lim.server_close()
    os.unlink(lim.server_address)
    screen.wait_for("lim is not running")
    os.write(screen.master, b"q")
    assert screen.finish() == (0, True)
