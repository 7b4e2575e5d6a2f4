"""A bound on what runs here when no daemon is there to bound it.

Without it a dead LBM would turn `make -j200` into 200 local compilers. The bound is a set of lock
files, twice as many as there are cores; the lock goes over to the command through exec and ends
with it, however that happens. Each depth of nested lbruns has a set of its own, so that a command
never waits for one that waits for it.
"""

import fcntl
import os

LOCKS_PER_CORE = 2
MAX_DEPTHS = 8


def take_turn(depth: int) -> None:
    """Returns when fewer than the bound run; at once where locks cannot be had."""
    directory = f"{os.environ.get('XDG_RUNTIME_DIR') or '/tmp'}/lbd-fallback-{os.geteuid()}"
    count = LOCKS_PER_CORE * len(os.sched_getaffinity(0))
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        status = os.lstat(directory)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            return  # somebody else's: not to be trusted with our waiting
        locks = [
            os.open(f"{directory}/{min(depth, MAX_DEPTHS)}.{number}", os.O_RDWR | os.O_CREAT, 0o600)
            for number in range(count)
        ]
    except OSError:
        return
    chosen = next((lock for lock in locks if _try_lock(lock)), None)
    if chosen is None:
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
