"""lbrun's terminal, and an LBM that says nothing."""

import os
import pty
import subprocess
import sys
import termios
import time

from tests.live.cluster import wait_until

CLIENT = """
import fcntl, socket, termios
from lbd.client.complaints import Trouble
from lbd.client.terminal import Terminal
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
terminal = Terminal(0, True, True)
terminal.attach(lambda tag, body: None, lambda number, handler: None)
lbm, _ = socket.socketpair()
try:
    while True:
        terminal.wait(lbm)
except Trouble as trouble:
    terminal.leave_raw()
    raise SystemExit(str(trouble))
"""


def test_an_lbm_that_never_accepted_anything_can_be_left_with_ctrl_c():
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT], stdin=theirs, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        wait_until(lambda: not termios.tcgetattr(ours)[3] & termios.ICANON, "raw mode", 20)
        deadline_s = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < deadline_s:
            os.write(ours, b"\x03")
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
        assert process.poll() == 1
        assert "input is no longer accepted" in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        os.close(ours)
        os.close(theirs)
