import os
import subprocess
import sys

import pytest

from lbd.load import process_table, scopes
from lbd.load.procfs import read_small
from lbd.load.scopes import JobsScope, Process, Root, Tally

THREADS = """
import threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
print("x", flush=True)
threading.Event().wait()
"""


def process(state=b"S", parent=1, cpu_s=0.0):
    return Process(state, parent, 1, cpu_s)


def test_tally_counts_states():
    counts = Tally().count(enumerate(map(process, (b"R", b"R", b"D", b"S"))))
    assert (counts.running, counts.blocked) == (2, 1)


def test_tally_adds_up_cpu_time_used_under_observation():
    tally = Tally()
    tally.count([(5, process(cpu_s=5.0))])
    assert tally.used_s == 0.0  # used before we looked
    tally.count([(5, process(cpu_s=5.5)), (6, process(cpu_s=0.25))])
    assert tally.used_s == 0.75
    # number 5 was reused: everything that the new process used is new
    tally.count([(5, process(cpu_s=0.125))])
    assert tally.used_s == 0.875


def sort_out(scope, processes, named=()):
    scope._sort_out(processes, set(named))
    return set(scope._inside)


def test_a_tree_is_followed_by_parents():
    scope = JobsScope("test", set)
    parents = {10: 1, 11: 10, 9: 11, 20: 1, 21: 20}  # pids began anew after 11
    processes = {pid: process(parent=parent) for pid, parent in parents.items()}
    assert sort_out(scope, processes, named={10}) == {9, 10, 11}
    assert scope._outside == {20, 21}


def test_an_orphan_of_a_tree_stays_in_it():
    scope = JobsScope("test", set)
    sort_out(scope, {10: process(parent=1), 11: process(parent=10)}, named={10})
    assert sort_out(scope, {11: process(parent=1)}) == {11}
    assert sort_out(scope, {11: process(parent=1), 12: process(parent=11)}) == {11, 12}


def test_a_reused_pid_is_an_unrelated_process():
    scope = JobsScope("test", set)
    sort_out(scope, {10: process(cpu_s=2.0)}, named={10})
    assert sort_out(scope, {10: process(cpu_s=2.0)}) == {10}
    assert sort_out(scope, {10: process(cpu_s=0.1)}) == set()


def test_jobs_scope_without_jobs_reads_nothing():
    counts = JobsScope("test", set).read()
    assert (counts.running, counts.blocked) == (0, 0)


def test_jobs_scope_sees_this_process_as_a_job():
    scope = JobsScope("test", set)
    scope.add("j1", Root(os.getpid(), None))
    assert scope.read().running >= 1
    scope.remove("j1")
    assert scope.read().running >= 1  # still there, though its job is reported to have ended


def test_own_daemons_are_left_out():
    scope = JobsScope("test", lambda: {os.getpid()})
    scope.add("j1", Root(os.getpid(), None))
    assert os.getpid() not in dict(scope._processes())
    container = scopes.ContainerScope("test", lambda: {os.getpid()})
    assert os.getpid() not in dict(container._processes())


@pytest.mark.parametrize("kind", [scopes.ContainerScope, JobsScope])
def test_a_scan_reads_nothing_that_an_exec_can_hold_up(monkeypatch, kind):
    """A process that hangs in exec lets nobody read its /proc/PID/stat; a LIM hung with it."""
    paths = []

    def noted(path, most_bytes):
        paths.append(path)
        return read_small(path, most_bytes)

    with subprocess.Popen([sys.executable, "-c", THREADS], stdout=subprocess.PIPE) as threads:
        try:
            threads.stdout.read(1)
            monkeypatch.setattr(process_table, "read_small", noted)
            scope = kind("test", set)
            if kind is JobsScope:
                scope.add("j1", Root(threads.pid, None))
            scope.read()
        finally:
            threads.kill()
    assert any(path.startswith(f"/proc/{threads.pid}/task/") for path in paths)
    assert {path.rpartition("/")[2] for path in paths} == {"status"}


def test_auto_says_why():
    chosen = scopes.choose("auto", set)
    expected = "host" if scopes.in_initial_pid_namespace() else "container"
    assert chosen.name == expected
    assert chosen.reason.startswith("auto: ")
    for name in ("host", "container", "jobs"):
        assert scopes.choose(name, set).name == name
