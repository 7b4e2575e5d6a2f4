"""The search for marked processes, some of which keep whatever reads their memory waiting."""

import os
import signal
import time

import pytest

from lbd.keeper.limits import process_reads
from lbd.keeper.limits.process_reads import ProcessReads

MINE, HUNG, ALSO_HUNG, UNMARKED = 11, 12, 13, 14
UIDS = {MINE: 1, HUNG: 2, ALSO_HUNG: 2, UNMARKED: 1}


def is_marked(pid):
    """Runs in a child."""
    if UIDS[pid] == 2:
        signal.pause()
    return pid == MINE


def answers_of(look):
    while (found := look.answers()) is None:
        time.sleep(0.001)
    return found


@pytest.fixture(autouse=True)
def children(monkeypatch):
    """Reaps the children, as the keeper would."""
    fork, begun = os.fork, []

    def noted():
        begun.append(fork())
        return begun[-1]

    monkeypatch.setattr(os, "fork", noted)
    yield
    for pid in begun:
        os.waitpid(pid, 0)


def test_readable_processes_are_read():
    assert answers_of(ProcessReads([MINE, UNMARKED], is_marked, UIDS.get)) == {
        MINE: True, UNMARKED: False,
    }  # fmt: skip
    assert ProcessReads([], is_marked, UIDS.get).answers() == {}


@pytest.mark.parametrize("order", [(HUNG, MINE, ALSO_HUNG, UNMARKED), (MINE, UNMARKED, HUNG)])
def test_who_cannot_be_read_holds_up_nobody_and_is_known(order, monkeypatch):
    monkeypatch.setattr(process_reads, "PATIENCE_S", 0.2)
    known = {MINE: True, HUNG: None, ALSO_HUNG: None, UNMARKED: False}
    assert answers_of(ProcessReads(order, is_marked, UIDS.get)) == {
        pid: known[pid] for pid in order
    }


def test_a_process_that_is_read_late_on_a_busy_machine_counts_as_readable(monkeypatch):
    """Otherwise, where others keep the processors busy, everything of a user would be ended with
    one of their jobs."""
    monkeypatch.setattr(process_reads, "PATIENCE_S", 0.02)
    end_s = time.monotonic() + 0.2

    def is_marked_late(pid):
        while time.monotonic() < end_s:
            pass
        return pid == MINE

    assert answers_of(ProcessReads([UNMARKED, MINE], is_marked_late, UIDS.get)) == {
        UNMARKED: False, MINE: True,
    }  # fmt: skip


def test_an_answer_just_after_the_last_look_at_the_pipe_is_heard(monkeypatch):
    look = ProcessReads([MINE], is_marked, UIDS.get)
    look._begin()
    monkeypatch.setattr(process_reads, "PATIENCE_S", 0.0)
    read, early = os.read, iter([BlockingIOError])

    def too_early(descriptor, size):
        for trouble in early:
            raise trouble
        return read(descriptor, size)

    os.waitid(os.P_PID, look._child.pid, os.WEXITED | os.WNOWAIT)
    monkeypatch.setattr(os, "read", too_early)
    assert answers_of(look) == {MINE: True}


def test_a_child_that_was_killed_while_reading_has_read_nothing_of_that_process():
    look = ProcessReads([HUNG, MINE], is_marked, UIDS.get)
    assert look.answers() is None
    os.kill(look._child.pid, signal.SIGKILL)
    assert answers_of(look) == {HUNG: None, MINE: True}


@pytest.mark.parametrize("missing", ["fork", "pipe2", "pidfd_open"])
def test_there_is_an_end_to_it(missing, monkeypatch):
    """However many users keep it waiting, or if there is no child or no pipe to be had."""
    monkeypatch.setattr(os, missing, lambda *_: os.open("/nonexistent", 0))
    look = ProcessReads([MINE, UNMARKED], is_marked, UIDS.get, time.monotonic() + 0.05)
    assert answers_of(look) == {MINE: None, UNMARKED: None}


def test_an_abandoned_search_leaves_nothing_open():
    look = ProcessReads([HUNG], is_marked, UIDS.get)
    before = len(os.listdir("/proc/self/fd"))
    assert look.answers() is None
    look.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_process_that_reuses_the_pid_of_the_child_is_not_ended(monkeypatch):
    """The keeper reaps it like any other child, before the search is closed."""
    look = ProcessReads([HUNG], is_marked, UIDS.get)
    assert look.answers() is None
    child = look._child.pid
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    ended = []
    monkeypatch.setattr(os, "kill", lambda pid, number: ended.append(pid))
    look.close()
    assert ended == []
