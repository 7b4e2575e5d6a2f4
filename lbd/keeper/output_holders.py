"""Ends the processes of a user that write on to outputs of attempts that have ended.

An attempt's output is a file of the daemons', on the disk of the queue. A process that is none of
the attempt's can have been given its descriptor, and nothing takes that away from it again: it
could fill the disk as often as the LBM empties the file. So while that disk is short the LBM says
whose processes write to which of its files, and a child of ours ends those that have one open.

It believes the LBM as little as the rest of the keeper does: only files of the LBM's own account
count, and neither root's processes nor those of the daemons' account.
"""

import ctypes
import os
import select
import signal
import time
from collections.abc import Set
from contextlib import suppress
from typing import NoReturn

from lbd.keeper.interpreter import die_with_keeper
from lbd.keeper.limits.cgroups import kill_begun
from lbd.keeper.limits.marked_processes import MarkLook
from lbd.keeper.protocol import PATHS, UID
from lbd.load import process_table
from lbd.load.procfs import read_small
from lbd.local import frames

LOOK_S, PAUSE_S = 10.0, 0.02
PATHS_MAX = 1000
MAPS_BYTES = 1 << 20


class OutputHolders:
    """Of one keeper: one child at a time looks for them."""

    def __init__(self) -> None:
        self._handle, self._until_s = -1, 0.0
        self.pids: set[int] = set()

    def obey(self, body: bytes, owner: int) -> None:
        """Raises ValueError, KeyError."""
        given = dict(frames.fields(body))
        self.end(int(given[UID]), given[PATHS], owner)

    def end(self, uid: int, paths: bytes, owner: int) -> None:
        """`paths`: with NULs between them; `owner`: the account of the daemons."""
        if uid in (0, os.geteuid(), owner) or not self._is_free():
            return
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            if (child := os.fork()) == 0:
                _end_all(uid, paths.split(b"\0")[:PATHS_MAX], owner)
            self.pids = {child}
            self._handle, self._until_s = os.pidfd_open(child), time.monotonic() + 2 * LOOK_S
        except OSError:  # too many processes, or descriptors, just now: the LBM says it again
            pass
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _is_free(self) -> bool:
        """No child looks any more. The keeper reaps it, as it does every child."""
        if self._handle < 0:
            return True
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        if not poll.poll(0):
            if time.monotonic() > self._until_s:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            return False
        os.close(self._handle)
        self._handle, self.pids = -1, set()
        return True


def _end_all(uid: int, paths: list[bytes], owner: int) -> NoReturn:
    """In the child."""
    with suppress(BaseException):
        die_with_keeper(ctypes.PyDLL(None))
        files = {path for path in paths if os.lstat(path).st_uid == owner}
        began = {pid: task.started_ticks for pid, task in process_table.everybody().items()}
        theirs = [pid for pid in began if process_table.uid_of(pid) == uid]
        until_s = time.monotonic() + LOOK_S
        look = MarkLook(theirs, lambda pid: holds(pid, files), process_table.uid_of, until_s)
        while (found := look.answers()) is None:
            time.sleep(PAUSE_S)
        # Who cannot be looked at has made it so.
        kill_begun({pid: began[pid] for pid, holding in found.items() if holding is not False})
    os._exit(0)


def holds(pid: int, files: Set[bytes]) -> bool:
    """Has it one of these open, or in its memory?"""
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.fsencode(os.readlink(f"/proc/{pid}/fd/{name}")) in files:
                    return True
        maps = read_small(f"/proc/{pid}/maps", MAPS_BYTES)
        return any(file in maps for file in files)
    return False
