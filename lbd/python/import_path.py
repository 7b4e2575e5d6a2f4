"""Which directories of the client's `sys.path` a worker imports from.

A directory that belongs to the user on one host (/tmp/project) may be created by anybody on
another. So a directory that others could have created counts only if it is the same directory as
the client's, from which the client's program imports too.
"""

import contextlib
import os
import stat
import sys
from collections.abc import Sequence

from lbd.launch.directory_look import kernel_id, look
from lbd.launch.directory_stamp import Stamp, is_same, read_stamp
from lbd.launch.own_places import is_kept, walk
from lbd.python.pipes import LIBC


def client_path() -> dict[str, object]:
    """Returns the client's `sys.path` and the stamps of its directories, as sent to workers."""
    path = [entry or os.getcwd() for entry in sys.path]
    return {"path": path, "stamps": stamps(path)}


def stamps(path: Sequence[str]) -> dict[str, str]:
    """Returns the stamps of the directories that exist, for a worker to compare."""
    kernel, found = kernel_id(), {}
    for entry in path:
        with contextlib.suppress(OSError):
            found[entry] = _stamp(entry, kernel).pack().decode()
    return found


def is_believed(entry: str, stamp: str | None) -> bool:
    """Returns whether a worker may import from this directory. `stamp` is the client's stamp for
    the same path, None if it has no such directory or sent no stamp."""
    if not is_anybodys(entry):
        return True
    with contextlib.suppress(OSError, ValueError):
        return stamp is not None and is_same(_stamp(entry, kernel_id()), read_stamp(stamp.encode()))
    return False


def is_anybodys(path: str) -> bool:
    """Returns whether anybody but root and this user could have created, or could still create,
    what this path names, because a directory on the way is world-writable."""
    ours, last = (0, os.geteuid()), None
    try:
        for _, above, last in walk(os.path.join(os.getcwd(), path)):
            if above.st_mode & stat.S_IWOTH and not (last and is_kept(above, last, ours)):
                return True
    except OSError:  # links in a circle
        return True
    return last is not None and bool(last.st_mode & stat.S_IWOTH)


def _stamp(entry: str, kernel: str) -> Stamp:
    """Raises OSError."""
    return look(os.fsencode(entry), kernel, LIBC)
