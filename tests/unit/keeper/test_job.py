"""A job as the keeper sees it."""

import os
import resource
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from lbd.keeper import job
from lbd.keeper.job import LAST_CHILDREN, waited_for
from lbd.load import process_table

MANY = 40


@pytest.fixture
def shell():
    """Starts a shell with this many children."""
    script = f"for n in $(seq {MANY}); do sleep 600 & done; echo ready; wait"
    made = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
    assert made.stdout.readline() == b"ready\n"
    yield made
    os.killpg(made.pid, 9)
    made.wait()
    made.stdout.close()


def test_whom_a_leader_waits_for_is_sought_among_its_last_children(shell, monkeypatch):
    """A job may have thousands of processes, and be told to stop again and again."""
    thread = f"/proc/{shell.pid}/task/{shell.pid}"
    if not os.path.exists(f"{thread}/children"):
        pytest.skip("the kernel does not list them")
    monkeypatch.setattr(job, "members", lambda *_: pytest.fail("looks at all of the job"))
    assert waited_for(shell.pid, "") == []  # it waits for none in vfork(2)
    everybody = process_table.everybody().items()
    children = sorted(pid for pid, entry in everybody if entry.parent == shell.pid)
    monkeypatch.setattr(process_table, "status_of", lambda *_: SimpleNamespace(state=b"D"))
    found = waited_for(shell.pid, "")
    assert len(found) == LAST_CHILDREN
    assert set(found) < set(children)


def test_where_the_kernel_does_not_list_children_it_is_a_process_of_the_job(
    shell, monkeypatch, tmp_path
):
    monkeypatch.setattr(process_table, "thread_directories", lambda _: [str(tmp_path)])
    monkeypatch.setattr(process_table, "status_of", lambda *_: SimpleNamespace(state=b"D"))
    assert len(waited_for(shell.pid, "")) == 1 + MANY


@pytest.mark.parametrize("number", [0, -1, 65, 1 << 40])
def test_an_invalid_signal_reaches_nobody(number):
    """It comes from an LBM that was taken over by an attacker."""
    running = job.Running(os.getpid(), "", 0)
    running.signal(number)
    assert running.heard_signals == 0


def test_only_typed_signals_are_noted():
    """That is what `lbrun` asks; more need not fit into a message."""
    with subprocess.Popen(["sleep", "100"]) as leader:
        running = job.Running(leader.pid, "", 0)
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, 63, 64):
            running.signal(number)
    assert running.heard_signals in (1 << signal.SIGINT, job.TYPED), "it may have ended by then"


def test_what_a_leader_ignored_is_known_at_its_end():
    """A ^C on its way to a command that ignores it would have done nothing, whenever it came."""
    script = "import os, signal as s; [s.signal(n, s.SIG_IGN) for n in (s.SIGQUIT, s.SIGUSR1, 64)]"
    leader = subprocess.Popen([sys.executable, "-c", script])
    os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
    running = job.Running(leader.pid, "", 0)
    running.signal(signal.SIGQUIT)
    assert running.heard_signals == 0, "too late"
    running.note_ignored()
    assert running.ignored_signals == 1 << signal.SIGQUIT, "others are not typed"
    leader.wait()
    running.note_ignored()
    assert running.ignored_signals == 0


def usage(user_s, system_s):
    return resource.struct_rusage((user_s, system_s, *(0,) * 14))


@pytest.mark.parametrize(("counted_s", "cpu_us"), [
    (None, (2_500_000, 750_000)), (1.0, (2_500_000, 750_000)), (9.0, (8_250_000, 750_000)),
])  # fmt: skip
def test_what_a_killed_shell_had_not_waited_for_counts(monkeypatch, counted_s, cpu_us):
    """`lbctl job` showed 225 ms while the command ran, and 15 ms once it was killed: wait4 knows
    nothing of children for which their parent had not waited."""
    monkeypatch.setattr(job, "group_cpu_s", lambda group: counted_s if group == "/g" else None)
    ended = (signal.SIGTERM, usage(0.5, 0.25))
    running = job.Running(1, "/g", 0, ended=ended, orphans_s=(2.0, 0.5))
    assert running.cpu_us() == cpu_us


def test_what_ended_of_its_own_accord_needs_no_look_at_its_cgroup(monkeypatch):
    monkeypatch.setattr(job, "group_cpu_s", lambda _: pytest.fail("looked"))
    running = job.Running(1, "/g", 0, ended=(0, usage(0.5, 0.25)))
    assert running.cpu_us() == (500_000, 250_000)


@pytest.mark.parametrize("stopped", [False, True])
def test_an_orphan_counts_with_the_job_in_whose_session_it_was(monkeypatch, stopped):
    status = signal.SIGSTOP << 8 | 0x7F if stopped else signal.SIGTERM
    monkeypatch.setattr(job.os, "wait4", lambda child, _: (child, status, usage(2.0, 0.5)))
    monkeypatch.setattr(process_table, "session_of", lambda _: 7)
    first, other = job.Running(7, "", 0), job.Running(9, "", 0)
    assert job.reap(8, [first, other])[0] == 8
    assert first.orphans_s == ((0.0, 0.0) if stopped else (2.0, 0.5))
    assert other.orphans_s == (0.0, 0.0)


def test_who_ends_a_job_reads_nothing_that_it_can_hold_up(monkeypatch):
    """The stat of one whose exec was under way held up the keeper: a user had only to kill it."""

    def read(pid):
        raise AssertionError(f"the stat of {pid} was read")

    monkeypatch.setattr(process_table, "task_of", read)
    leader = subprocess.Popen(["sleep", "600"], start_new_session=True)
    running = job.Running(leader.pid, "", 0)
    assert waited_for(leader.pid, "") == []
    leader.kill()
    os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
    running.killed(0.0)
    assert running.ended is None, "it can be reaped"
    assert job.reap(leader.pid, [running])[0] == leader.pid
    leader.returncode = -signal.SIGKILL
