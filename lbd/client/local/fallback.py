"""A bound on what runs here when no daemon is there to bound it.

Without it a dead LBM would turn `make -j200` into 200 local compilers. The bound is a set of lock
files, twice as many as there are cores; the lock goes over to the command through exec and ends
with it, however that happens. Each depth of nested lbruns has a set of its own, so that a command
never waits for one that waits for it.
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
    """What the LBM would have known of this host."""

    name: str
    slots: int  # commands at once
    fault: str = ""  # "; ", and why the configuration is of no use

    @classmethod
    def from_config(cls, path: str | None) -> "FallbackSlots":
        """The built-in defaults where the configuration makes no sense."""
        fault = ""
        try:
            config = load(path)
        except ConfigError as problem:
            config, fault = Config(), f"; {problem}"
        cores = len(os.sched_getaffinity(0))
        return cls(config.host.name, config.lbm.fallback_slots or SLOTS_PER_CORE * cores, fault)


def take_turn(depth: int, runtime_dir: str, count: int, say: Callable[[str], None]) -> None:
    """Returns when fewer than `count` run; at once where locks cannot be had.

    Counted apart for each `runtime_dir`, that is, for each LBM that should be there.
    """
    above = os.environ.get("XDG_RUNTIME_DIR") or "/tmp"  # noqa: S108  # its owner is looked at
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
    """None of them if the directory is somebody else's: it is not to be trusted with our waiting.

    It is opened once, so that what was looked at is what the files are made in. Raises OSError.
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
