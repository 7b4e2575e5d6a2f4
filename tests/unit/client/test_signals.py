"""What a client does to itself when a host says that a signal has ended the command."""

import signal
import subprocess
import sys

import pytest

CODE = "from lbd.client.signals import die_of; die_of({}); print('goes on')"


def run(number):
    return subprocess.run(
        [sys.executable, "-c", CODE.format(int(number))], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGTSTP, signal.SIGCHLD])
def test_a_signal_that_ends_nothing_does_not_stop_the_client(number):
    assert run(number).stdout == "goes on\n"


def test_a_fatal_signal_kills_the_client():
    assert run(signal.SIGTERM).returncode == -signal.SIGTERM
