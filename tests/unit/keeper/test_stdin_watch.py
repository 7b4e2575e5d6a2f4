"""Which processes wait for input, judged by names alone."""

import os

import pytest

from lbd.keeper.stdin_watch import is_one_of, pipe_of


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
