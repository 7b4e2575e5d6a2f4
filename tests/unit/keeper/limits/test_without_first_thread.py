"""A process that runs on although its first thread has ended. Linux shows it as a zombie, and its
environment as empty; cgroup.kill does not end it."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lbd.keeper.limits.cgroups import MARK, Containment
from lbd.keeper.limits.portions import at_once
from lbd.keeper.limits.warden import Lease
from lbd.keeper.loop import PR_SET_CHILD_SUBREAPER
from lbd.load import process_table
from lbd.process.boot_clock import clock_s

TRIES_S = 10.0
RUNS_ON = """
import ctypes, os, threading, time
if os.fork():
    os._exit(0)
def tick():
    with open("alive", "w", buffering=1) as file:
        while True:
            file.write(".")
            time.sleep(0.01)
threading.Thread(target=tick).start()
with open("pid", "w") as file:
    file.write(str(os.getpid()))
os.rename("pid", "pid.known")
ctypes.CDLL(None).pthread_exit(None)
"""


@contextlib.contextmanager
def adopted():
    """Orphans become children of this process, as they become the keeper's."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@contextlib.contextmanager
def one_that_runs_on(place, held, script=RUNS_ON, group=""):
    """A job whose leader has ended, and has left such a process. Yields the pids of both."""
    name, _, mark = held.mark.partition(b"=")
    assert name == MARK
    known = place / "pid.known"
    with adopted():
        leader = subprocess.Popen(
            [sys.executable, "-c", script],
            env={name: mark + b"1"},
            cwd=place,
            start_new_session=True,
            preexec_fn=lambda: held.enter(group),
        )
        while not known.exists():
            time.sleep(0.01)
        pid = int(known.read_text())
        try:
            while not is_shown_as_zombie(pid):
                time.sleep(0.01)
            assert not process_table.task_of(pid).has_ended
            yield leader.pid, pid
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            leader.wait()


def is_shown_as_zombie(pid):
    task = process_table.task_of(pid)
    return task is not None and task.state == b"Z"


@pytest.mark.parametrize("leaves_session", [False, True])
def test_it_ends_with_its_job(tmp_path, leaves_session):
    """Without cgroups it outlived its job, also one that was killed, as long as other jobs ran on
    that host."""
    held = Containment(str(tmp_path), False)
    script = RUNS_ON.replace("def tick", "os.setsid()\ndef tick") if leaves_session else RUNS_ON
    with one_that_runs_on(tmp_path, held, script) as (leader, pid):
        while not held.end_tree("1", leader, "", os.getuid()):
            time.sleep(0.01)
        assert process_table.task_of(pid).has_ended


@pytest.fixture
def held(tmp_path):
    found = Containment(str(tmp_path), True)
    yield found
    found.close()


@pytest.fixture
def group(held):
    if held.base is None or held.kind != "cgroup2":
        pytest.skip("no cgroup v2 here")
    made = held.new_group()
    yield made
    held.forget(made)


def test_it_ends_with_its_group(tmp_path, held, group):
    """Its job could not be ended, and kept its slot for ever."""
    with one_that_runs_on(tmp_path, held, group=group) as (leader, pid):
        until_s = clock_s() + TRIES_S
        while not (is_over := held.end_tree("1", leader, group, os.getuid())):
            time.sleep(0.01)
            if clock_s() > until_s:
                break
        assert is_over
        assert process_table.task_of(pid).has_ended


def test_it_ends_with_its_lease(tmp_path, held, group):
    """Also when the warden has to see to it, where the dispatcher may start another attempt."""
    with one_that_runs_on(tmp_path, held, group=group) as (leader, pid):
        lease = Lease(leader, clock_s(), -1, os.open(group, os.O_RDONLY), os.getuid())
        with contextlib.closing(lease):
            until_s = clock_s() + TRIES_S
            while Path(group, "cgroup.procs").read_text() and clock_s() < until_s:
                at_once(lease.kill())
                time.sleep(0.01)
            assert process_table.task_of(pid).has_ended
            at_once(lease.kill())
            assert not lease.killed
