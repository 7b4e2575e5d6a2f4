"""Ends the processes of a user that keep writing to the outputs of ended attempts.

An attempt's output is a file of the daemons, on the queue's disk. A process outside the attempt may
have been given its descriptor, and nothing can revoke that: such a process could refill the disk as
often as the LBM empties the file. So while the disk is short of space, the LBM says which user's
processes write to which of its files, and a child of the keeper ends those that have one open.

Like the rest of the keeper this does not trust the LBM: only files count that belong to the LBM's
own account and lie where the keeper was told outputs are, and only processes of users who may run
commands here, which excludes root, the daemons' account and services.
"""

import ctypes
import os
import pwd
import re
import stat
import time
from collections.abc import Iterator, Set
from contextlib import suppress

from lbd.keeper.gate import Gate
from lbd.keeper.limits.portions import at_once, kill_lives
from lbd.keeper.limits.process_reads import ProcessReads
from lbd.keeper.protocol import PATHS, PATHS_MAX, UID
from lbd.keeper.side_child import SideChild
from lbd.load import process_table
from lbd.local import frames
from lbd.local.caller import person_of

LOOK_S, PAUSE_S = 10.0, 0.02
MAPS_BYTES = 16 << 20
# Texts that /proc shows:
IO_URING, SOCKET, RING_FILES = b"anon_inode:[io_uring]", b"socket:[", b"UserFiles:"
ON_THEIR_WAY = re.compile(rb"^scm_fds:\s*[1-9]", re.MULTILINE)
TRIES, TRY_S, FDINFO_BYTES = 5, 0.01, 16 << 20
LIBC = ctypes.CDLL(None)
KCMP, KCMP_FILES = {"x86_64": 312, "aarch64": 272, "riscv64": 272}, 2  # kcmp(2)


class OutputHolders:
    """One child at a time searches for holders, for one keeper."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._child: SideChild | None = None
        self._until_s = 0.0

    @property
    def pids(self) -> set[int]:
        return {self._child.pid} if self._child else set()

    def obey(self, body: bytes, owner: int) -> None:
        """Raises ValueError, KeyError."""
        given = dict(frames.fields(body))
        self.end(int(given[UID]), given[PATHS], owner)

    def end(self, uid: int, paths: bytes, owner: int) -> None:
        """`paths`: separated by NULs; `owner`: the account of the daemons."""
        if uid in (0, os.geteuid(), owner) or not self._is_free():
            return
        files = paths.split(b"\0")[:PATHS_MAX]
        with suppress(OSError):  # too many processes or descriptors: the LBM asks again
            self._child = SideChild(lambda _: _end_all(uid, files, owner, self._gate))
            self._until_s = time.monotonic() + 2 * LOOK_S

    def _is_free(self) -> bool:
        """Returns whether the last search is over."""
        if self._child is None:
            return True
        if not self._child.has_ended:
            if time.monotonic() > self._until_s:
                self._child.kill()
            return False
        self._child.close()
        self._child = None
        return True


def _end_all(uid: int, paths: list[bytes], owner: int, gate: Gate) -> None:
    """Runs in the child."""
    real = [real_path(path, owner, gate.spool) for path in paths]
    files = {shown for path in real for shown in shown_as(path)}
    if not files or not gate.lets_in(uid):
        return
    lives = {pid: entry.life for pid, entry in process_table.everybody().items()}
    theirs = [pid for pid in lives if is_of(process_table.uid_of(pid), uid)]
    until_s = time.monotonic() + LOOK_S
    look = ProcessReads(theirs, lambda pid: holds(pid, files), process_table.uid_of, until_s)
    while (found := look.answers()) is None:
        time.sleep(PAUSE_S)
    # A process that cannot be read has made itself so, and counts as a holder.
    held = {pid: lives[pid] for pid, holding in found.items() if holding != 0}
    at_once(kill_lives(held))


def holds(pid: int, files: Set[bytes]) -> bool:
    """Returns whether a process has one of the files open or mapped. Threads may have descriptors
    of their own."""
    looked: list[int] = []
    with suppress(OSError):
        for task in map(int, os.listdir(f"/proc/{pid}/task")):
            if any(share_descriptors(task, other) for other in looked):
                continue
            looked.append(task)
            with suppress(OSError):
                for name in os.listdir(f"/proc/{pid}/task/{task}/fd"):
                    with suppress(OSError):
                        if is_one_of(f"/proc/{pid}/task/{task}", name, files):
                            return True
        with open(f"/proc/{pid}/maps", "rb") as file:
            maps = file.read(MAPS_BYTES)
        return any(mapped(line) in files for line in maps.split(b"\n"))
    return False


def shown_as(path: bytes) -> Iterator[bytes]:
    """Returns how /proc may show a file of ours that somebody has open: from the root of the mount
    where it was opened, once that is gone (the LBM's, in a namespace of its own)."""
    words = path.split(b"/")
    return (b"/" + b"/".join(words[at:]) for at in range(1, len(words) - 1))


def mapped(line: bytes) -> bytes:
    """Returns the file that a line of /proc/PID/maps names."""
    words = line.split(None, 5)
    return words[5] if len(words) > 5 else b""


def is_one_of(task: str, descriptor: str, files: Set[bytes]) -> bool:
    """Returns whether a descriptor is one of the files, or holds one as io_uring(7) does, or may
    hold one as a socket does while it carries descriptors. Raises OSError."""
    found = os.fsencode(os.readlink(f"{task}/fd/{descriptor}"))
    if found != IO_URING and not found.startswith(SOCKET):
        return found in files
    for _ in range(TRIES):
        with open(f"{task}/fdinfo/{descriptor}", "rb") as file:
            said = file.read(FDINFO_BYTES)
        if found == IO_URING and RING_FILES in said:  # otherwise the ring was in use at that moment
            return any(line.endswith(b" " + file) for line in said.split(b"\n") for file in files)
        if found != IO_URING and not ON_THEIR_WAY.search(said):
            return False
        time.sleep(TRY_S)
    return True


def share_descriptors(task: int, other: int) -> bool:
    """Returns whether two threads share descriptors; False also where the kernel does not say."""
    number = KCMP.get(os.uname().machine)
    return number is not None and LIBC.syscall(number, task, other, KCMP_FILES, 0, 0) == 0


def is_of(found: int, uid: int) -> bool:
    """Returns whether `found` is the user's own uid or one of their range in /etc/subuid."""
    if found == uid or person_of(found) != uid:
        return found == uid
    try:
        pwd.getpwuid(found)
    except KeyError:
        return True
    return False  # a separate account


def real_path(path: bytes, owner: int, spool: bytes) -> bytes:
    """Returns the path as /proc shows it; b"" unless it is a regular file of that account below
    `spool`, with no link leading out of there. `spool`'s own directory belongs to the daemons'
    account."""
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    above, name = os.path.split(spool)
    if not real.startswith(os.path.join(os.path.realpath(above), name, b"")):
        return b""
    with suppress(OSError):
        found = os.lstat(real)
        if found.st_uid == owner and stat.S_ISREG(found.st_mode):
            return real
    return b""
