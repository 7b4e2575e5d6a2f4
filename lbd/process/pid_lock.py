"""One daemon of a kind a directory: its pid file, locked for as long as it lives."""

import fcntl
import os
import stat
from pathlib import Path

from lbd.errors import ConfigError, LbdError
from lbd.process.own_directory import RUNTIME, STATE, make_own

MODE = 0o600


def take_pid_locks(daemon: str, runtime_dir: str, state_dir: str) -> list[int]:
    """One for each directory of a daemon; they may be the same. Raises as `take_pid_lock`."""
    locks = [take_pid_lock(Path(runtime_dir, f"{daemon}.pid"))]
    if os.path.realpath(state_dir) != os.path.realpath(runtime_dir):
        locks.append(take_pid_lock(Path(state_dir, f"{daemon}.pid"), STATE))
    return locks


def take_pid_lock(path: Path, key: str = RUNTIME, program: str = "") -> int:
    """A locked descriptor for the directory that `key` of the configuration names.

    The kernel lets go of it when the daemon ends, however it ends. Raises LbdError if another
    daemon holds it, ConfigError if the directory cannot be written, or is not for us to use.
    `program`: what complaints call it, if not as its file.
    """
    make_own(path.parent, key)
    descriptor = open_pid_file(path, key)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        other = os.read(descriptor, 32).decode(errors="replace").strip()
        os.close(descriptor)
        raise LbdError(why_locked(program or path.stem, path, key, other)) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, b"%d\n" % os.getpid())
    return descriptor


def why_locked(program: str, path: Path, key: str, other: str) -> str:
    """`other`: what its pid file says."""
    pid = int(other) if other.isdecimal() else 0
    if pid and has_ended(pid):
        return (
            f"the previous {program} (pid {pid}) was killed but is stuck in a system call on a "
            "user's file that does not answer; end the process that serves that file"
        )
    return f"another {program} (pid {pid or '?'}) is using {path.parent}; stop it, or set {key}"


def has_ended(pid: int) -> bool:
    """And is there all the same, by a thread of it."""
    try:
        return b"\nState:\tZ" in Path(f"/proc/{pid}/status").read_bytes()
    except OSError:
        return False


def open_pid_file(path: Path, key: str) -> int:
    """For its owner alone: who can read it can hold its lock, and then no daemon starts.

    The daemons' account may write in the directory of a root `lbd up`. Root's pid must not go where
    a link leads that it has made there: a symbolic one, or another name of a file of root's.
    Raises ConfigError.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        try:
            descriptor = os.open(path, flags, MODE)
        except PermissionError:
            remove_left(path)
            descriptor = os.open(path, flags, MODE)
    except OSError as problem:
        raise ConfigError(
            f"{key} {path.parent}: {problem.strerror}; it must be a directory this user can "
            "write to"
        ) from problem
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(descriptor)
        raise ConfigError(
            f"{key} {path.parent}: {path.name} is not a regular file with one name; remove it"
        )
    os.fchmod(descriptor, MODE)  # one of an older release could be read
    return descriptor


def remove_left(path: Path) -> None:
    """That of an account that the daemons had before, as after another way to install them.

    Raises OSError if it may not be removed; what a daemon holds stays.
    """
    if path.is_file() and not is_locked(path):
        path.unlink()


def is_locked(path: Path) -> bool:
    """By anybody: said also of a file that we may not open. Raises OSError."""
    inode = f":{path.stat().st_ino}"  # after a device, which is not always what stat says
    return any(word.endswith(inode) for word in Path("/proc/locks").read_text().split())


def pid_of_holder(path: Path) -> int | None:
    """Of the daemon that holds that pid file; 0 if it says none that makes sense."""
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
