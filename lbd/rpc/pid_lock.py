"""One daemon of a kind a directory: its pid file, locked for as long as it lives."""

import fcntl
import os
from pathlib import Path

from lbd.errors import ConfigError, LbdError


def take_pid_locks(daemon: str, runtime_dir: str, state_dir: str) -> list[int]:
    """One for each directory of a daemon; they may be the same. Raises as `take_pid_lock`."""
    locks = [take_pid_lock(Path(runtime_dir, f"{daemon}.pid"))]
    if os.path.realpath(state_dir) != os.path.realpath(runtime_dir):
        locks.append(take_pid_lock(Path(state_dir, f"{daemon}.pid"), "host.state_dir"))
    return locks


def take_pid_lock(path: Path, key: str = "host.runtime_dir", program: str = "") -> int:
    """A locked descriptor for the directory that `key` of the configuration names.

    The kernel lets go of it when the daemon ends, however it ends. Raises LbdError if another
    daemon holds it, ConfigError if the directory cannot be written. `program`: what complaints call
    it, if not as its file.
    """
    # No link is followed: root's pid must not go where one leads that the daemons' account made.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        descriptor = os.open(path, flags, 0o644)
    except OSError as problem:
        raise ConfigError(
            f"{key} {path.parent}: {problem.strerror}; it must be a directory this user can write"
        ) from problem
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        other = os.read(descriptor, 32).decode(errors="replace").strip()
        os.close(descriptor)
        raise LbdError(
            f"another {program or path.stem} (pid {other or '?'}) runs on {path.parent}; stop it, "
            f"or set {key}"
        ) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, b"%d\n" % os.getpid())
    return descriptor
