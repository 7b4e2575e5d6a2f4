"""The processes of a simulation end with it, however it ends."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

LONG = ("-m", "lbd.cli.main", "sim", "balance", "--hosts", "40", "--duration", "5h")


# The pool forks, so it is tested where it is used: in a process without other threads.
PROGRAM = """
import os, signal
from lbd.cli.sim.pool import Pool
from lbd.errors import LbdError

def invert(value):
    return 1 / value

def kill_oneself(_):
    os.kill(os.getpid(), signal.SIGKILL)

"""


def said_by(lines):
    words = [sys.executable, "-c", PROGRAM + lines]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout


def test_the_order_is_kept():
    given = [3.0, 1.0, 2.0, 0.0]
    said = said_by(f"print(Pool('x', 2)(abs, {given}), Pool('x', 1)(abs, {given}))")
    assert said == f"{given} {given}\n"


def test_a_failure_is_passed_on():
    lines = "try: Pool('x', 2)(invert, [1.0, 0.0])\nexcept ZeroDivisionError: print('passed on')"
    assert said_by(lines) == "passed on\n"


@pytest.mark.parametrize("count", [2, 20_000])
def test_a_killed_process_is_reported_in_one_line(count):
    """Also while the runs are still being handed out."""
    lines = (
        f"try: Pool('x', 2)(kill_oneself, [1.0] * {count})\nexcept LbdError as said: print(said)"
    )
    assert said_by(lines) == "a process of the simulation was killed (memory?)\n"


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_nothing_is_left_of_an_interrupted_simulation(number, code):
    command = [sys.executable, *LONG, "--workers", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        ours = psutil.Process(program.pid)
        workers = wait_for(lambda: len(ours.children()) == 2 and ours.children())
        program.send_signal(number)
        out, err = program.communicate(timeout=60)
    assert (program.returncode, out, err) == (code, b"", b"")
    assert wait_for(lambda: not any(map(runs, workers)))


def runs(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def wait_for(condition):
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("not within a minute")
