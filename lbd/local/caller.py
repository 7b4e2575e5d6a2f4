"""Who is at the other end of a Unix socket, as the kernel says."""

import os
import pwd
import socket
import struct
from dataclasses import dataclass

from lbd.local.subordinate_ids import person_of

SO_PEERGROUPS = 59
GROUPS_BYTES = 4 * 256


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is at the other end of a Unix socket, as the kernel says (SO_PEERCRED)."""

    pid: int
    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    owner: int | None = None  # who has that number as one of a range

    @property
    def person(self) -> int:
        """The key under which limits per user are counted."""
        return self.uid if self.owner is None else self.owner

    @property
    def is_daemon(self) -> bool:
        """Returns whether it is root or our own user, as the other daemons are."""
        return self.uid in (0, os.geteuid())


def caller_name(caller: Caller) -> str:
    """The name of the caller's account, else its number."""
    try:
        name = pwd.getpwuid(caller.uid).pw_name
    except KeyError:
        return str(caller.uid)
    return name if name.isprintable() else str(caller.uid)


def caller_of(sock: socket.socket) -> Caller:
    packed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    try:
        groups = sock.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, GROUPS_BYTES)
    except OSError:  # more than that, or an old kernel
        groups = b""
    pid, uid, gid = struct.unpack("3i", packed)
    return Caller(pid, uid, gid, struct.unpack(f"{len(groups) // 4}I", groups), person_of(uid))
