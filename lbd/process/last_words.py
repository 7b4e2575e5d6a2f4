"""Why a daemon of this host could not go on: a line in its runtime directory until it is ready
again. Without it, programs only know that the daemon does not answer."""

import contextlib
import os
import stat
from pathlib import Path

from lbd.process.whole_file import write_whole
from lbd.text.one_line import one_line

ENDING = ".ended"
BYTES_MAX = 4096
MODE = 0o600
FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def leave(runtime_dir: str, daemon: str, why: str) -> None:
    with contextlib.suppress(OSError):
        write_whole(path_of(runtime_dir, daemon), why.encode()[:BYTES_MAX], MODE)


def forget(runtime_dir: str, daemon: str) -> None:
    with contextlib.suppress(OSError):
        path_of(runtime_dir, daemon).unlink()


def read(runtime_dir: str, daemon: str, since_s: float = 0.0) -> str:
    """Returns the line of a daemon that has ended since then (UNIX time); "" if there is none or we
    may not read it. Root does not wait for a FIFO that the daemons' account has put there, nor
    follow its link."""
    try:
        descriptor = os.open(path_of(runtime_dir, daemon), FLAGS)
        with open(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_mtime < since_s:
                return ""
            return one_line(file.read(BYTES_MAX).decode(errors="replace"))
    except OSError:
        return ""


def path_of(runtime_dir: str, daemon: str) -> Path:
    return Path(runtime_dir, f"{daemon}{ENDING}")
