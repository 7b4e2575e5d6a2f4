"""A job that is to run at the lowest priority while the owner of its host is there."""

import os
import subprocess

import pytest

from lbd.keeper.suspension import AS_EVER, LOWEST, NICE_LOWEST, Treated
from lbd.load import process_table


@pytest.fixture
def jobs():
    """Two commands, each in a session of its own."""
    started = [subprocess.Popen(["sleep", "600"], start_new_session=True) for _ in range(2)]
    yield started
    for one in started:
        one.kill()
        one.wait()


def nice_of(process):
    return os.getpriority(os.PRIO_PROCESS, process.pid)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="raises a priority")
def test_a_job_has_its_priority_again(jobs):
    job, _ = jobs
    treated = Treated()
    treated.become(NICE_LOWEST, job.pid, "")
    assert nice_of(job) == LOWEST
    treated.become(NICE_LOWEST, job.pid, "")
    treated.become(AS_EVER, job.pid, "")
    assert nice_of(job) == 0


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="raises a priority")
def test_nobody_else_is_given_that_of_a_process_that_has_ended(jobs):
    """Its number may be another's by now: of no job, or of the same one."""
    job, other = jobs
    os.setpriority(os.PRIO_PROCESS, other.pid, 10)
    os.setpriority(os.PRIO_PROCESS, job.pid, 10)
    treated = Treated(NICE_LOWEST, {
        other.pid: (process_table.task_of(other.pid).started_ticks, -5),
        job.pid: (process_table.task_of(job.pid).started_ticks - 1, -5),
    })  # fmt: skip
    treated.become(AS_EVER, job.pid, "")
    assert (nice_of(other), nice_of(job)) == (10, 10)
