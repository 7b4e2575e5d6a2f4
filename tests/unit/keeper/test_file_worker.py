"""A signal to a process that is no child of the keeper's."""

import contextlib
import errno
import os
import signal
import subprocess

import pytest

from lbd.keeper.file_worker import send_signal
from lbd.load.process_table import task_of
from tests.live.cluster import wait_until

TREE = "sleep 60 & echo $!; wait"


@pytest.fixture
def shell():
    """A process, the time at which it began, and its child."""
    with subprocess.Popen(["sh", "-c", TREE], stdout=subprocess.PIPE, text=True) as process:
        child = int(process.stdout.readline())
        try:
            yield process, task_of(process.pid).started_ticks, child
        finally:
            process.kill()
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def test_the_whole_tree(shell):
    process, started, child = shell
    assert send_signal(process.pid, started, signal.SIGTERM, 1) == 0
    assert process.wait() == -signal.SIGTERM
    wait_until(lambda: (task := task_of(child)) is None or task.has_ended, "the child has ended")


def test_the_process_alone(shell):
    process, started, child = shell
    assert send_signal(process.pid, started, signal.SIGTERM, 0) == 0
    assert process.wait() == -signal.SIGTERM
    assert not task_of(child).has_ended


def test_not_to_another_that_has_its_number(shell):
    process, started, _ = shell
    assert send_signal(process.pid, started + 1, signal.SIGTERM, 1) == errno.ESRCH
    assert process.poll() is None
