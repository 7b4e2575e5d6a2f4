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

LOCKS_PER_CORE = 2
MAX_DEPTHS = 8


def take_turn(depth: int, runtime_dir: str, say: Callable[[str], None]) -> None:
    """Returns when fewer than the bound run; at once where locks cannot be had.

    Counted apart for each `runtime_dir`, that is, for each LBM that should be there.
    """
    directory = f"{os.environ.get('XDG_RUNTIME_DIR') or '/tmp'}/lbd-fallback-{os.geteuid()}"
    which = f"{zlib.crc32(os.fsencode(runtime_dir)):08x}.{min(depth, MAX_DEPTHS)}"
    count = LOCKS_PER_CORE * len(os.sched_getaffinity(0))
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        status = os.lstat(directory)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            return  # somebody else's: not to be trusted with our waiting
        locks = [
            os.open(f"{directory}/{which}.{number}", os.O_RDWR | os.O_CREAT, 0o600)
            for number in range(count)
        ]
    except OSError:
        return
    chosen = next((lock for lock in locks if _try_lock(lock)), None)
    if chosen is None:
        say(f"{count} commands run here already without an lbm; waiting for one of them to end")
        chosen = locks[os.getpid() % count]
        fcntl.flock(chosen, fcntl.LOCK_EX)
    for lock in locks:
        if lock != chosen:
            os.close(lock)
    os.set_inheritable(chosen, True)


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
