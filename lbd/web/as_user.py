"""Connections to this host's daemons in the name of a user, for a page that root runs.

A daemon knows who asks by who has connected. So a process that was forked before there was any
thread forks once more for each connection, becomes the user for good, connects, and hands over the
connection. It connects to the sockets it was made for, and to no others.
"""

import os
import pwd
import signal
import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lbd.errors import Unavailable

REQUEST = struct.Struct("=iI")  # which socket, the user's number
CONNECT_S = 5.0
PATIENCE_S = 10.0


class Connector:
    def __init__(self, paths: tuple[Path, ...], not_ours: Sequence[socket.socket] = ()) -> None:
        """`not_ours`: sockets of the page, which the process for connections does not keep."""
        self._paths = paths
        self._lock = threading.Lock()
        self._way, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._way.settimeout(PATIENCE_S)
        self.pid = os.fork()
        if self.pid == 0:
            for sock in (self._way, *not_ours):
                sock.close()
            try:
                serve(other, paths)
            finally:
                os._exit(0)
        other.close()

    def connect(self, uid: int, path: Path, timeout_s: float) -> socket.socket:
        """Raises Unavailable."""
        with self._lock:
            try:
                self._way.send(REQUEST.pack(self._paths.index(path), uid))
                _, descriptors, _, _ = socket.recv_fds(self._way, 1, 1)
            except OSError as problem:
                raise Unavailable(f"cannot ask {path.stem} as user {uid}: {problem}") from None
        if not descriptors:
            raise Unavailable(f"{path.stem} is not running, or user {uid} may not ask it ({path})")
        sock = socket.socket(fileno=descriptors[0])
        sock.settimeout(timeout_s)
        return sock

    def close(self) -> None:
        self._way.close()
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def serve(way: socket.socket, paths: tuple[Path, ...]) -> None:
    """Until the page is gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while request := way.recv(REQUEST.size):
        which, uid = REQUEST.unpack(request)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                hand_over(way, paths[which], uid)
                status = 0
            except (OSError, KeyError):
                status = 1
            finally:
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        if status:
            way.send(b"-")


def hand_over(way: socket.socket, path: Path, uid: int) -> None:
    """Raises OSError, KeyError if there is no such user."""
    account = pwd.getpwuid(uid)
    os.setgroups(os.getgrouplist(account.pw_name, account.pw_gid))
    os.setresgid(account.pw_gid, account.pw_gid, account.pw_gid)
    os.setresuid(uid, uid, uid)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(CONNECT_S)
        sock.connect(str(path))
        socket.send_fds(way, [b"+"], [sock.fileno()])
