"""Bounds the number of commands here when no daemon is there to do it.

Without it, a dead LBM would turn `make -j200` into 200 local compilers. The bound is a set of lock
files, twice as many as cores; the command inherits the lock through exec, so it is released when
the command ends, however that happens. Each depth of nested lbruns has its own set, so that a
command never waits for one that waits for it.
"""

import fcntl
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from lbd.config.load import load
from lbd.config.schema import Config
from lbd.errors import ConfigError

SLOTS_PER_CORE = 2
MAX_DEPTHS = 8


@dataclass(frozen=True, slots=True)
class FallbackSlots:
    """What the LBM would have known about this host."""

    name: str
    slots: int  # commands at once
    fault: str = ""  # "; " and why the configuration is unusable

    @classmethod
    def from_config(cls, path: str | None) -> "FallbackSlots":
        """Uses the built-in defaults if the configuration is invalid."""
        fault = ""
        try:
            config = load(path)
        except ConfigError as problem:
            config, fault = Config(), f"; {problem}"
        cores = len(os.sched_getaffinity(0))
        return cls(config.host.name, config.lbm.fallback_slots or SLOTS_PER_CORE * cores, fault)


def take_turn(depth: int, runtime_dir: str, count: int, say: Callable[[str], None]) -> None:
    """Returns when fewer than `count` commands run; at once if locks cannot be had.

    Each `runtime_dir`, that is, each LBM that should be running, is counted separately.
    """
    above = os.environ.get("XDG_RUNTIME_DIR") or "/tmp"  # noqa: S108  # its owner is checked
    directory = f"{above}/lbd-fallback-{os.geteuid()}"
    which = f"{zlib.crc32(os.fsencode(runtime_dir)):08x}.{min(depth, MAX_DEPTHS)}"
    try:
        locks = _open_locks(directory, [f"{which}.{number}" for number in range(count)])
    except OSError:
        locks = []
    if not locks:
        say("running here")
        return
    chosen = next((lock for lock in locks if _try_lock(lock)), None)
    if chosen is None:
        say(f"{count} commands already run here without it; running here when one of them ends")
        chosen = locks[os.getpid() % count]
        fcntl.flock(chosen, fcntl.LOCK_EX)
    else:
        say("running here")
    for lock in locks:
        if lock != chosen:
            os.close(lock)
    os.set_inheritable(chosen, True)


def _open_locks(directory: str, names: list[str]) -> list[int]:
    """Returns no locks if the directory is another user's, who could make us wait.

    It is opened once, so that the files are created in the directory that was checked. Raises
    OSError.
    """
    os.makedirs(directory, mode=0o700, exist_ok=True)
    own = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(own)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            return []
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        return [os.open(name, flags, 0o600, dir_fd=own) for name in names]
    finally:
        os.close(own)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
