"""One daemon of a kind for each runtime and each state directory."""

import os

import pytest

from lbd.errors import LbdError
from lbd.rpc.pid_lock import take_pid_locks


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
