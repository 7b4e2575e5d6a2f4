"""Which directories of the client's `sys.path` a worker imports from.

What is a user's own directory on one host (/tmp/project) may be made by anybody on another. So what
others could have put there counts only if it is the client's own directory: from that one the
client's program imports as well.
"""

import contextlib
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from lbd.launch.directory_look import kernel_id, look
from lbd.launch.directory_stamp import Stamp, is_same, read_stamp
from lbd.python.pipes import LIBC


def client_path() -> dict[str, object]:
    """What workers are told of it."""
    path = [entry or os.getcwd() for entry in sys.path]
    return {"path": path, "stamps": stamps(path)}


def stamps(path: Sequence[str]) -> dict[str, str]:
    """Of those that are there, as a worker compares them."""
    kernel, found = kernel_id(), {}
    for entry in path:
        with contextlib.suppress(OSError):
            found[entry] = _stamp(entry, kernel).pack().decode()
    return found


def is_believed(entry: str, stamp: str | None) -> bool:
    """`stamp`: the client's directory of this name, None if it has none or does not say."""
    if not is_anybodys(entry):
        return True
    with contextlib.suppress(OSError, ValueError):
        return stamp is not None and is_same(_stamp(entry, kernel_id()), read_stamp(stamp.encode()))
    return False


def is_anybodys(path: str) -> bool:
    """Whether somebody other than root and this user could have put there, or may yet put, what is
    found under this name, because it is in a place where everybody may write."""
    for name in {os.path.abspath(path), os.path.realpath(path)}:
        for place in (Path(name), *Path(name).parents):
            if _all_may_write(place.parent) and not _is_ours(place):
                return True
        if _all_may_write(Path(name)):
            return True
    return False


def _all_may_write(place: Path) -> bool:
    with contextlib.suppress(OSError):
        return bool(os.stat(place).st_mode & stat.S_IWOTH)
    return False


def _is_ours(place: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.lstat(place).st_uid in (0, os.geteuid())
    return False


def _stamp(entry: str, kernel: str) -> Stamp:
    """Raises OSError."""
    return look(os.fsencode(entry), kernel, LIBC)
