"""Which processes wait for input, judged by names alone, and by whom that is read."""

import os
import select
import signal
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest

from lbd.keeper import stdin_watch
from lbd.keeper.stdin_watch import Question, is_one_of, pipe_of


def test_a_pipe_and_a_terminal_are_recognised_by_what_proc_shows():
    ours, theirs = os.pipe()
    master, slave = os.openpty()
    try:
        wanted = {pipe_of(theirs)}
        terminal = {(0, os.fstat(slave).st_rdev)}
        shown = {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in (ours, slave)}
        assert is_one_of(shown[ours], wanted)
        assert not is_one_of(shown[slave], wanted)
        assert is_one_of(shown[slave], terminal)
        assert not is_one_of(shown[ours], terminal)
    finally:
        for descriptor in (ours, theirs, master, slave):
            os.close(descriptor)


@pytest.mark.parametrize(
    "shown", ["/tmp/pipe", "/home/x/dev/pts/3", "anon_inode:[eventfd]", "/dev/tty1"]
)
def test_other_files_are_neither(shown):
    with_all = {(0, os.makedev(136, 3)), (0, os.makedev(5, 0)), (12, 345)}
    try:
        assert not is_one_of(shown, with_all)
    except ValueError:
        assert "eventfd" in shown


@pytest.fixture
def reads(monkeypatch):
    """Questions whose answer is that of `plays`: each leader's, or "hangs"."""
    plays, poll, said = {}, select.poll(), []

    def is_read(_wanted, leader, _group):
        if plays[leader] == "hangs":
            time.sleep(60)
        return plays[leader]

    monkeypatch.setattr(stdin_watch, "is_read", is_read)
    monkeypatch.setattr(stdin_watch, "PATIENCE_S", 0.2)
    looks = stdin_watch.ReadLooks(poll, lambda job, found: said.append((job, found)))

    def until(count):
        limit_s = time.monotonic() + 20
        while len(said) < count and time.monotonic() < limit_s:
            if poll.poll(20) or any(time.monotonic() >= at_s for at_s in looks.due_s()):
                looks.hear()
        return said

    yield SimpleNamespace(looks=looks, plays=plays, until=until, said=said)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def test_who_holds_up_a_look_holds_up_nobody_else(reads):
    """The keeper itself read of a process that hung in execve, and its watchdog killed it."""
    reads.plays |= {1: True, 2: "hangs", 3: False, 4: True}
    for leader in reads.plays:
        reads.looks.ask(f"job{leader}", Question(leader, "", 1000 + leader % 4, frozenset()))
    found = dict(reads.until(4))
    assert found == {"job1": True, "job2": False, "job3": False, "job4": True}
    assert reads.looks.pids == set()
    reads.looks.ask("again", Question(2, "", 1002, frozenset()))
    assert reads.said[-1] == ("again", False), "it is not looked at for a while"
    reads.looks.ask("other", Question(1, "", 1001, frozenset()))
    assert reads.until(6)[-1] == ("other", True)


def test_where_no_child_can_be_made_the_answer_is_no(reads, monkeypatch):
    def fork():
        raise BlockingIOError

    reads.plays[1] = True
    monkeypatch.setattr(os, "fork", fork)
    reads.looks.ask("job", Question(1, "", 1000, frozenset()))
    assert reads.said == [("job", False)]
    monkeypatch.undo()
    assert reads.looks.due_s() == []


def test_a_child_that_cannot_be_watched_is_killed(reads, monkeypatch):
    """No descriptor was left for that: it stayed, and hung if a process held it up."""
    forked, fork = [], os.fork
    monkeypatch.setattr(os, "fork", lambda: forked.append(fork()) or forked[-1])
    monkeypatch.setattr(os, "pidfd_open", lambda *_: os.open("/nonexistent", 0))
    reads.plays[1] = "hangs"
    reads.looks.ask("job", Question(1, "", 1000, frozenset()))
    assert reads.said == [("job", False)]
    assert os.waitid(os.P_PID, forked[0], os.WEXITED).si_status == signal.SIGKILL
