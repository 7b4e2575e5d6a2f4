"""The processes of a simulation end with it, however it ends."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from lbd.cli.sim_pool import Pool
from lbd.errors import LbdError

LONG = ("-m", "lbd.cli.main", "sim", "balance", "--hosts", "40", "--duration", "5h")


def test_the_order_is_kept():
    given = [3.0, 1.0, 2.0, 0.0]
    assert Pool("x", 2)(abs, given) == Pool("x", 1)(abs, given) == given


def test_a_failure_is_passed_on():
    with pytest.raises(ZeroDivisionError):
        Pool("x", 2)(invert, [1.0, 0.0])


def invert(value):
    return 1 / value


def test_a_killed_process_is_said_in_one_line():
    with pytest.raises(LbdError, match="was killed"):
        Pool("x", 2)(kill_oneself, [1.0, 2.0])


def kill_oneself(_):
    os.kill(os.getpid(), signal.SIGKILL)


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
