"""The CPU time of the kernel's own threads."""

import os
from types import SimpleNamespace

from lbd.keeper.limits import portions
from lbd.load import kernel_threads, process_table
from lbd.load.kernel_threads import KTHREADD, KernelThreads

INIT, WORKER, LATER, ENTERED, SHELL = 1, 30, 31, 40, 50
PARENTS = {INIT: 0, KTHREADD: 0, WORKER: KTHREADD, LATER: KTHREADD, ENTERED: 0, SHELL: INIT}
SESSIONS = {INIT: 1, SHELL: 50}


def test_the_time_of_each_since_the_last_look(monkeypatch):
    used_s = dict.fromkeys(PARENTS, 100.0)
    there = set(PARENTS) - {LATER}
    monkeypatch.setattr(kernel_threads, "in_initial_pid_namespace", lambda: True)
    monkeypatch.setattr(process_table, "pids", lambda: sorted(there))
    monkeypatch.setattr(process_table, "session_of", lambda pid: SESSIONS.get(pid, 0))
    monkeypatch.setattr(
        process_table, "status_of", lambda pid: SimpleNamespace(parent=PARENTS[pid])
    )
    monkeypatch.setattr(process_table, "cpu_clock_s", used_s.get)
    threads = KernelThreads()
    assert threads.used_s() == 0.0
    for pid in (WORKER, ENTERED, SHELL):
        used_s[pid] += 2.0
    there.add(LATER)
    used_s[LATER] = 0.5
    assert threads.used_s() == 2.5
    there.remove(WORKER)
    assert threads.used_s() == 0.0


def test_whoever_else_is_in_no_session_is_none(monkeypatch):
    """An init that leads no session leaves those it begins in session 0, and so the CI's shell."""
    monkeypatch.setattr(kernel_threads, "in_initial_pid_namespace", lambda: True)
    monkeypatch.setattr(process_table, "session_of", lambda pid: 0)
    assert not kernel_threads.is_one(os.getpid())
    assert os.getpid() in portions.at_once(portions.entries_of([os.getpid()]))


def test_those_of_this_machine_are_found_where_they_can_be_seen():
    threads = KernelThreads()
    threads.used_s()
    visible = kernel_threads.in_initial_pid_namespace()
    assert (KTHREADD in threads._used_s) is visible
    assert threads.used_s() >= 0.0
