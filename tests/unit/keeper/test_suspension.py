"""A job that runs at the lowest priority while the owner of its host is present."""

import os
import signal
import subprocess
import time

import pytest

from lbd.keeper import suspension
from lbd.keeper.limits import portions
from lbd.keeper.suspension import AS_EVER, LOWEST, NICE_LOWEST, STAND_STILL, Treated
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


def turns_of(treated, kind, leader):
    """Returns how often the keeper serves others in the meantime."""
    treated.become(kind, leader.pid, "")
    turns = 0
    while treated.is_changing:
        turns += 1
        treated.go_on()
    return turns


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="raises a priority")
def test_a_job_gets_its_priority_back(jobs):
    job, _ = jobs
    treated = Treated()
    turns_of(treated, NICE_LOWEST, job)
    assert nice_of(job) == LOWEST
    turns_of(treated, NICE_LOWEST, job)
    turns_of(treated, AS_EVER, job)
    assert nice_of(job) == os.nice(0)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="raises a priority")
def test_nobody_else_is_given_that_of_a_process_that_has_ended(jobs):
    """Its pid may belong to another process by now: of no job, or of the same one."""
    job, other = jobs
    os.setpriority(os.PRIO_PROCESS, other.pid, 10)
    os.setpriority(os.PRIO_PROCESS, job.pid, 10)
    treated = Treated(NICE_LOWEST, {
        other.pid: (process_table.task_of(other.pid).started_ticks, -5),
        job.pid: (process_table.task_of(job.pid).started_ticks - 1, -5),
    })  # fmt: skip
    turns_of(treated, AS_EVER, job)
    assert (nice_of(other), nice_of(job)) == (10, 10)


@pytest.fixture
def crowd(monkeypatch):
    """Returns the leader of a session of nine processes, which are three portions."""
    monkeypatch.setattr(portions, "PORTION", 3)
    script = "for n in 1 2 3 4 5 6 7 8; do sleep 600 & done; wait"
    with subprocess.Popen(["sh", "-c", script], start_new_session=True) as leader:
        while len(session_of(leader)) < 9:
            time.sleep(0.01)
        yield leader
        os.killpg(leader.pid, signal.SIGKILL)


def session_of(leader):
    pids = [pid for pid in process_table.pids() if process_table.session_of(pid) == leader.pid]
    return {pid: task for pid in pids if (task := process_table.task_of(pid)) is not None}


def await_states(leader, are_right):
    """Waits for all processes: a signal takes effect when its process next gets a processor."""
    until_s = time.monotonic() + 60.0
    while not are_right({task.state for task in session_of(leader).values()}):
        assert time.monotonic() < until_s
        time.sleep(0.01)


def are_stopped(states):
    return states == {b"T"}


def go_on(states):
    return b"T" not in states


def test_a_job_of_many_processes_is_stopped_in_portions(crowd):
    treated = Treated()
    assert turns_of(treated, STAND_STILL, crowd) >= 2
    await_states(crowd, are_stopped)
    assert turns_of(treated, AS_EVER, crowd) >= 2
    await_states(crowd, go_on)


def test_a_change_is_completed_before_the_next_begins(crowd):
    treated = Treated()
    treated.become(STAND_STILL, crowd.pid, "")
    assert treated.is_changing
    turns_of(treated, AS_EVER, crowd)
    await_states(crowd, go_on)


def test_a_process_that_reuses_a_pid_is_not_stopped(jobs):
    job, other = jobs
    life = process_table.life_of(other.pid)
    done = []
    steps = suspension.for_each_of({job.pid: -1, other.pid: life}, lambda *one: done.append(one))
    portions.at_once(steps)
    assert done == [(other.pid, life)]
