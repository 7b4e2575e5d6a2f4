"""One daemon of a kind for each runtime and each state directory."""

import os

import pytest

from lbd.errors import ConfigError, LbdError
from lbd.rpc.pid_lock import take_pid_lock, take_pid_locks


def test_both_directories_are_held_and_may_be_the_same(tmp_path):
    run, state, other = (str(tmp_path / name) for name in ("run", "state", "other"))
    locks = take_pid_locks("lim", run, state)
    with pytest.raises(LbdError, match=r"another lim .* set host\.runtime_dir"):
        take_pid_locks("lim", run, other)
    with pytest.raises(LbdError, match=r"another lim .* set host\.state_dir"):
        take_pid_locks("lim", other, state)
    for lock in locks:
        os.close(lock)
    (lock,) = take_pid_locks("lim", run, run)
    os.close(lock)


def test_a_link_is_not_written_through(tmp_path):
    (tmp_path / "up.pid").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"host\.runtime_dir"):
        take_pid_lock(tmp_path / "up.pid")
    assert not (tmp_path / "elsewhere").exists()


def test_who_holds_it_is_said_by_name(tmp_path):
    lock = take_pid_lock(tmp_path / "up.pid", program="`lbd up`")
    with pytest.raises(LbdError, match=rf"another `lbd up` \(pid {os.getpid()}\) runs on"):
        take_pid_lock(tmp_path / "up.pid", program="`lbd up`")
    os.close(lock)
