"""Allows one daemon of a kind per directory: its pid file is locked for as long as it lives."""

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path

from lbd.errors import ConfigError, LbdError
from lbd.process.own_directory import RUNTIME, STATE, make_own, not_writable

MODE = 0o600


def take_pid_locks(daemon: str, runtime_dir: str, state_dir: str) -> list[int]:
    """Takes a lock for each directory of a daemon; they may be the same. Raises like
    `take_pid_lock`."""
    locks = [take_pid_lock(Path(runtime_dir, f"{daemon}.pid"))]
    if os.path.realpath(state_dir) != os.path.realpath(runtime_dir):
        locks.append(take_pid_lock(Path(state_dir, f"{daemon}.pid"), STATE))
    return locks


def take_pid_lock(path: Path, key: str = RUNTIME, program: str = "") -> int:
    """Returns a locked descriptor for the directory that `key` of the configuration names.

    The kernel releases it when the daemon ends, however it ends. Raises LbdError if another daemon
    holds it or the disk is full, ConfigError if the directory must not be used. `program`: the
    name for messages, if not the file's.
    """
    make_own(path.parent, key)
    while True:
        descriptor = open_pid_file(path, key)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            other = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            raise LbdError(why_locked(program or path.stem, path, key, other)) from None
        if is_at(path, descriptor):
            break
        os.close(descriptor)  # removed since we opened it; see `remove_pid_file`
    note_pid(descriptor)
    return descriptor


def note_pid(descriptor: int) -> None:
    """Best effort: the lock is what counts, and on a full disk a file can only keep its size."""
    with suppress(OSError):
        size = os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        os.ftruncate(descriptor, size)


def why_locked(program: str, path: Path, key: str, other: str) -> str:
    """`other`: the content of its pid file."""
    pid = int(other) if other.isdecimal() else 0
    if pid and has_ended(pid):
        return (
            f"the previous {program} (pid {pid}) was killed but is stuck in a system call on a "
            "user's file that does not answer; end the process that serves that file"
        )
    return f"another {program} (pid {pid or '?'}) is using {path.parent}; stop it, or set {key}"


def has_ended(pid: int) -> bool:
    """Returns whether a process is a zombie, kept by one of its threads."""
    try:
        return b"\nState:\tZ" in Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return False


def open_pid_file(path: Path, key: str) -> int:
    """Opens a pid file for its owner alone: any reader could hold its lock, and then no daemon
    would start.

    The daemons' account may write in the directory of a root `lbd up`. Root's pid must not be
    written through a link it has put there: a symbolic one, or another name of a file of root's.
    Raises ConfigError, LbdError if the disk is full.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        try:
            descriptor = os.open(path, flags, MODE)
        except PermissionError:
            remove_left(path)
            descriptor = os.open(path, flags, MODE)
    except OSError as problem:
        raise not_writable(key, path.parent, problem) from problem
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise ConfigError(
            f"{key} {path.parent}: {path.name} is not a regular file with one name; remove it"
        )
    os.fchmod(descriptor, MODE)  # whatever made it
    return descriptor


def remove_left(path: Path) -> None:
    """Removes the pid file of an account that the daemons had before, for example after another way
    of installation.

    Raises OSError if it may not be removed; a file that a daemon holds stays.
    """
    if path.is_file() and not is_locked(path):
        path.unlink()


def remove_pid_file(path: Path) -> None:
    """Removes the pid file of a daemon that has ended; one that a daemon holds stays.

    It is removed under its lock: a process that waited for it sees that the file is gone and makes
    another. So two daemons never hold two files of one name.
    """
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_at(path, descriptor):
                path.unlink()
        finally:
            os.close(descriptor)


def is_at(path: Path, descriptor: int) -> bool:
    """Returns whether the open file still has this name."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def is_locked(path: Path) -> bool:
    """Returns whether any process holds the lock, even if we may not open the file. Raises
    OSError."""
    # without the device, which /proc/locks does not always give as stat does
    inode = f":{path.stat().st_ino}"
    return any(word.endswith(inode) for word in Path("/proc/locks").read_text().split())


def pid_of_holder(path: Path) -> int | None:
    """Returns the pid of the daemon that holds the pid file; 0 if the file gives none; None if no
    process holds it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        said = os.read(descriptor, 32).decode(errors="replace").strip()
        return int(said) if said.isdecimal() else 0
    finally:
        os.close(descriptor)
    return None
