"""A job of a user's has a process whose first thread has ended, while another one runs on.

cgroup.kill sends SIGKILL to the first thread alone, so the job ran for ever, with its slot, however
it was ended.
"""

import contextlib
import os
import signal
import subprocess

import pytest

from lbd.load import process_table
from tests.live.hostile_user.test_stopped_steps import check_nobody_waits, kill, submit
from tests.live.test_users import ANN

pytestmark = pytest.mark.root
PYTHON = "/usr/bin/python3"
# argv: a file to write the pid to once the first thread has ended, and how long the job's first
# process stays then.
LEAVES_ONE = """
import ctypes, os, sys, threading, time
if (pid := os.fork()) == 0:
    threading.Thread(target=time.sleep, args=(600,)).start()
    ctypes.CDLL(None).pthread_exit(None)
while ") Z" not in open(f"/proc/{pid}/stat").read():
    time.sleep(0.01)
with open(sys.argv[1], "w") as file:
    file.write(str(pid))
time.sleep(float(sys.argv[2]))
"""
STAYS_S = 600


@pytest.fixture
def job(queue_lab, short_dir):
    """Submits such a job, and waits until it runs. Nothing of it may be left in the end."""
    short_dir.chmod(0o755)
    place = short_dir / "work"
    place.mkdir()
    subprocess.run(["chown", ANN, place], check=True)
    known = place / "pid"
    begun = []

    def submitted(stays_s, *options):
        words = (PYTHON, "-I", "-S", "-c", LEAVES_ONE, known, stays_s)
        name = submit(queue_lab, place, *options, *map(str, words))
        queue_lab.wait_until(lambda: known.exists() and known.read_text(), "it has begun")
        begun.append(int(known.read_text()))
        return name

    yield submitted
    for pid in begun:
        if is_left(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def is_left(pid):
    task = process_table.task_of(pid)
    return task is not None and not task.has_ended


def check_ends(lab, name, state):
    lab.wait_until(lambda: lab.lbctl_json("h1", "job", name)["state"] == state, "it is over")
    check_nobody_waits(lab)


def test_a_job_with_one_is_killed(queue_lab, job):
    name = job(STAYS_S)
    kill(queue_lab, name)
    check_ends(queue_lab, name, "cancelled")


def test_a_job_that_leaves_one_ends(queue_lab, job):
    check_ends(queue_lab, job(0), "done")


def test_a_job_with_one_ends_at_its_time_limit(queue_lab, job):
    check_ends(queue_lab, job(STAYS_S, "--timeout", "5s"), "failed")
