"""The process at the other end of a Unix socket, as reported by the kernel.

Also maps uids of /etc/subuid to their user: the owner of a range is one person, not thousands. In a
user namespace (newuidmap) a process can take any uid of its user's range, so budgets by uid would
give that user as many shares as the range has uids.
"""

import os
import pwd
import socket
import struct
import time
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

from lbd.local.late_answers import LateAnswers

SO_PEERGROUPS = 59
GROUPS_BYTES = 4 * 256
SUBUID = Path("/etc/subuid")
LOOK_EVERY_S = 10.0  # how often to check whether the file has changed
FILE_BYTES_MAX = 1 << 22
Range = tuple[int, int, str]  # first, count, owner: a name or a number


def read_ranges(text: str) -> list[Range]:
    """Returns the ranges in order. A malformed line is skipped, as newuidmap does."""
    found: list[Range] = []
    for line in text.splitlines():
        parts = line.split(":")
        if len(parts) == 3 and parts[0] and parts[1].isdecimal() and parts[2].isdecimal():
            found.append((int(parts[1]), int(parts[2]), parts[0]))
    return sorted(found)


class Subordinates:
    """The ranges that the file assigns now; none if there is no file."""

    def __init__(self, file: Path = SUBUID) -> None:
        self._file = file
        self._ranges: list[Range] = []
        self._firsts: list[int] = []
        self._stamp: tuple[int, int] | None = None
        self._look_at_s = 0.0
        self._uids = LateAnswers(lambda name: pwd.getpwnam(name).pw_uid)

    def person(self, uid: int, now_s: float) -> int:
        """Returns the user behind a uid: itself, or the owner of the range it is in."""
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + LOOK_EVERY_S
            self._look()
        at = bisect_right(self._firsts, uid) - 1
        if at < 0:
            return uid
        first, count, whose = self._ranges[at]
        found = self._uid_of(whose) if uid < first + count else None
        return uid if found is None else found

    def _look(self) -> None:
        try:
            found = self._file.stat()
            stamp = found.st_mtime_ns, found.st_size
            if stamp == self._stamp:
                return
            with self._file.open(encoding="utf-8", errors="replace") as file:
                ranges = read_ranges(file.read(FILE_BYTES_MAX))
        except OSError:
            ranges, stamp = [], None
        self._ranges, self._stamp = ranges, stamp
        self._firsts = [first for first, _, _ in ranges]

    def _uid_of(self, whose: str) -> int | None:
        return int(whose) if whose.isdecimal() else self._uids.get(whose)


OF_THIS_HOST = Subordinates()


def person_of(uid: int) -> int:
    return OF_THIS_HOST.person(uid, time.monotonic())


def range_owner(uid: int, name: str) -> int | None:
    """Returns the owner of the range that the uid is in; None if the uid has an account of its own.
    `name`: its account name, or the uid itself as text if it has none."""
    owner = person_of(uid) if name == str(uid) else uid
    return None if owner == uid else owner


@dataclass(frozen=True, slots=True)
class Caller:
    """The process at the other end of a Unix socket, as reported by the kernel (SO_PEERCRED)."""

    pid: int
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    owner: int | None = None  # the user whose range the uid is in

    @property
    def person(self) -> int:
        """The key under which limits per user are counted."""
        return self.uid if self.owner is None else self.owner

    @property
    def is_daemon(self) -> bool:
        """Returns whether it is root or our own user, as the other daemons are."""
        return self.uid in (0, os.geteuid())


def caller_name(caller: Caller) -> str:
    """Returns the name of the caller's account, else its uid."""
    try:
        name = pwd.getpwuid(caller.uid).pw_name
    except KeyError:
        return str(caller.uid)
    return name if name.isprintable() else str(caller.uid)


def caller_of(sock: socket.socket) -> Caller:
    packed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    try:
        groups = sock.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, GROUPS_BYTES)
    except OSError:  # too many groups, or an old kernel
        groups = b""
    pid, uid, gid = struct.unpack("3i", packed)
    return Caller(pid, uid, gid, struct.unpack(f"{len(groups) // 4}I", groups), person_of(uid))
