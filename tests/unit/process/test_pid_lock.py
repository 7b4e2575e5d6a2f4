"""One daemon of each kind per runtime directory and per state directory."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from lbd.errors import ConfigError, LbdError
from lbd.process.pid_lock import has_ended, remove_pid_file, take_pid_lock, take_pid_locks


def test_both_directories_are_locked_and_may_be_the_same(tmp_path):
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


def test_on_a_full_disk_the_lock_is_taken_all_the_same(tmp_path, monkeypatch):
    """Each daemon of a host whose state directory was full died once a second."""

    def full(*_given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        lock = take_pid_lock(tmp_path / "lim.pid")
    with pytest.raises(LbdError, match="another lim"):
        take_pid_lock(tmp_path / "lim.pid")
    os.close(lock)
    monkeypatch.setattr(os, "open", full)
    with pytest.raises(LbdError, match="No space left on device; free some space") as caught:
        take_pid_lock(tmp_path / "lim.pid")
    assert not isinstance(caught.value, ConfigError), "after which it would not be started again"


def test_the_file_of_an_earlier_account_is_replaced_unless_it_is_held(tmp_path, monkeypatch):
    """As after pip's `lbd` and the package's, which use different accounts."""
    path, real = tmp_path / "lim.pid", os.open
    path.write_text("17\n")

    def as_another_user(name, flags, *mode):
        if flags & os.O_RDWR and os.path.exists(name):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(name, flags, *mode)

    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        monkeypatch.setattr(os, "open", as_another_user)
        with pytest.raises(ConfigError, match="Permission denied"):
            take_pid_lock(path)
    lock = take_pid_lock(path)
    assert path.read_text() == f"{os.getpid()}\n"
    os.close(lock)


def test_nobody_else_can_open_it_and_so_hold_its_lock(tmp_path):
    path = tmp_path / "lim.pid"
    path.write_text("17\n")
    path.chmod(0o644)
    for _ in range(2):
        os.close(take_pid_lock(path))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_lock_of_an_earlier_account_is_seen_to_be_held_though_it_cannot_be_opened():
    # a test's own directory cannot be reached by others
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "lim.pid")
        lock = take_pid_lock(path)
        os.chown(place, 65534, 65534)
        os.seteuid(65534)
        try:
            with pytest.raises(ConfigError, match="Permission denied"):
                take_pid_lock(path)
            os.close(lock)
            lock = take_pid_lock(path)
        finally:
            os.seteuid(0)
        os.close(lock)
        assert path.stat().st_uid == 65534


def test_a_link_is_not_written_through(tmp_path):
    (tmp_path / "up.pid").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"host\.runtime_dir"):
        take_pid_lock(tmp_path / "up.pid")
    assert not (tmp_path / "elsewhere").exists()


def test_the_holder_is_named(tmp_path):
    lock = take_pid_lock(tmp_path / "up.pid", program="`lbd up`")
    with pytest.raises(LbdError, match=rf"another `lbd up` \(pid {os.getpid()}\) is using"):
        take_pid_lock(tmp_path / "up.pid", program="`lbd up`")
    os.close(lock)


THREAD_STAYS = """
import ctypes, os, sys, threading
from pathlib import Path
from lbd.process.pid_lock import take_pid_lock
take_pid_lock(Path(sys.argv[1]))
threading.Thread(target=os.read, args=(0, 1), daemon=True).start()
print(flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_one_that_the_kernel_cannot_end_is_not_to_be_stopped_again(tmp_path):
    """It was killed, but a thread of it is in a system call."""
    path = tmp_path / "lbm.pid"
    words = [sys.executable, "-c", THREAD_STAYS, path]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        until_s = time.monotonic() + 30
        while not has_ended(process.pid) and time.monotonic() < until_s:
            time.sleep(0.01)
        with pytest.raises(LbdError, match=rf"previous lbm \(pid {process.pid}\) was killed but"):
            take_pid_lock(path)


def test_a_hard_link_to_a_file_is_not_written_through(tmp_path):
    """The daemons' account may create one in root's runtime directory."""
    victim = tmp_path / "victim"
    victim.write_text("some text of root's\n")
    (tmp_path / "up.pid").hardlink_to(victim)
    with pytest.raises(
        ConfigError, match=r"up\.pid is not a regular file with one name; remove it"
    ):
        take_pid_lock(tmp_path / "up.pid")
    assert victim.read_text() == "some text of root's\n"


def test_a_pipe_in_its_place_delays_nobody(tmp_path):
    os.mkfifo(tmp_path / "up.pid")
    with pytest.raises(ConfigError, match=r"up\.pid is not a regular file with one name"):
        take_pid_lock(tmp_path / "up.pid")


def test_the_contents_are_shown_only_if_they_are_a_pid(tmp_path):
    lock = take_pid_lock(tmp_path / "up.pid")
    (tmp_path / "up.pid").write_text("\x1b]0;owned\x07")
    with pytest.raises(LbdError, match=r"\(pid \?\)"):
        take_pid_lock(tmp_path / "up.pid")
    os.close(lock)


def test_a_directory_that_others_may_write_is_not_used(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigError, match=r"host\.runtime_dir .*writable by others"):
        take_pid_lock(tmp_path / "up.pid")
    assert not (tmp_path / "up.pid").exists()


def test_the_pid_file_of_a_daemon_that_has_ended_is_removed_a_held_one_is_not(tmp_path):
    path = tmp_path / "lim.pid"
    remove_pid_file(path)  # there is none
    lock = take_pid_lock(path)
    remove_pid_file(path)
    assert path.exists()
    os.close(lock)
    remove_pid_file(path)
    assert not path.exists()


def test_a_lock_on_a_pid_file_that_was_removed_meanwhile_does_not_count(tmp_path, monkeypatch):
    path, real = tmp_path / "lim.pid", fcntl.flock
    path.write_text("17\n")

    def late(descriptor, how):
        monkeypatch.setattr(fcntl, "flock", real)
        remove_pid_file(path)
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    lock = take_pid_lock(path)
    assert path.read_text() == f"{os.getpid()}\n"
    assert os.path.samestat(os.fstat(lock), path.stat())
    os.close(lock)
