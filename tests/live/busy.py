"""Load for tests: N runnable tasks at the lowest priority, so that nothing else slows down.

python busy.py processes 3
python busy.py threads 3
"""

import contextlib
import hashlib
import os
import sys
import threading
from pathlib import Path


def burn() -> None:
    """Stays runnable without the interpreter lock, which would let only one thread run at a
    time."""
    data = bytes(1 << 24)
    while True:
        hashlib.sha256(data)


def main(kind: str, count: int) -> None:
    os.nice(19)
    if os.getsid(0) == os.getpid():  # each session has its own niceness (sched(7))
        with contextlib.suppress(OSError):
            Path("/proc/self/autogroup").write_text("19", encoding="ascii")
    for _ in range(count - 1):
        if kind == "threads":
            threading.Thread(target=burn, daemon=True).start()
        elif os.fork() == 0:
            break
    burn()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
