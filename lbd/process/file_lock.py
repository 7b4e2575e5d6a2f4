"""A file lock that is waited for with a limit, since its holder may be stopped."""

import fcntl
import os
import time
from pathlib import Path

POLL_S = 0.02


def lock_file(path: Path | bytes, patience_s: float) -> int:
    """Returns a descriptor that holds the lock until it is closed. Raises TimeoutError if another
    process holds it for longer, OSError if the file cannot be written or locked."""
    # O_NOFOLLOW: root locks files in directories of others, and must not create one through a link.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    deadline_s = time.monotonic() + patience_s
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"{os.fsdecode(path)} is held for too long") from None
                time.sleep(POLL_S)
            else:
                return descriptor
    except BaseException:
        os.close(descriptor)
        raise
