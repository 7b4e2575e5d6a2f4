"""A lock with a bounded wait."""

import errno
import fcntl
import os
import threading

import pytest

from lbd.process.file_lock import lock_file


def test_only_one_holds_it_at_a_time(tmp_path):
    path = tmp_path / "lock"
    held = lock_file(path, 0.0)
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(TimeoutError):
        lock_file(path, 0.05)
    assert len(os.listdir("/proc/self/fd")) == descriptors
    os.close(held)
    os.close(lock_file(os.fsencode(path), 0.0))


def test_it_is_taken_when_the_other_releases_it(tmp_path):
    held = lock_file(tmp_path / "lock", 0.0)
    threading.Timer(0.1, os.close, (held,)).start()
    os.close(lock_file(tmp_path / "lock", 20.0))


def test_where_there_are_no_locks_nothing_stays_open(tmp_path, monkeypatch):
    def no_locks(*_given):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    descriptors = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="No locks available"):
        lock_file(tmp_path / "lock", 20.0)
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_an_unwritable_place(tmp_path):
    with pytest.raises(FileNotFoundError):
        lock_file(tmp_path / "gone" / "lock", 20.0)
