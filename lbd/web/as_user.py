"""Connections to this host's daemons in the name of a user, for a page that root runs.

A daemon knows who asks by who has connected. So a process that was forked before there was any
thread forks once more for each connection; that one connects as the user and hands the connection
over. It connects to the sockets it was made for, and to no others.

What is wholly a user's, that user may stop or kill. So what connects for them keeps root's real
number, nobody waits for it to end, and each request has a way back of its own: an answer that comes
late, or twice, is a connection for nobody else.
"""

import os
import pwd
import signal
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lbd.errors import Unavailable
from lbd.local.json_socket import wait_for_room

REQUEST = struct.Struct("=iI")  # which socket, the user's number; the way back comes along
CONNECT_S = 5.0
PATIENCE_S = 10.0


class Connector:
    def __init__(self, paths: tuple[Path, ...], not_ours: Sequence[socket.socket] = ()) -> None:
        """`not_ours`: sockets of the page, which the process for connections does not keep."""
        self._paths = paths
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
        request = REQUEST.pack(self._paths.index(path), uid)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            ours.settimeout(PATIENCE_S)
            try:
                with theirs:
                    socket.send_fds(self._way, [request], [theirs.fileno()])
                _, descriptors, _, _ = socket.recv_fds(ours, 1, 1)
            except OSError as problem:
                raise Unavailable(f"cannot ask {path.stem} as user {uid}: {problem}") from None
        if not descriptors:
            raise Unavailable(
                f"{path.stem} is not running, or user {uid} may not connect to it ({path})"
            )
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
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    while True:
        request, descriptors, _, _ = socket.recv_fds(way, REQUEST.size, 1)
        if not request:
            return
        with suppress(OSError), socket.socket(fileno=descriptors[0]) as back:
            which, uid = REQUEST.unpack(request)
            if os.fork() == 0:
                try:
                    hand_over(back, paths[which], uid)
                finally:
                    os._exit(0)


def hand_over(back: socket.socket, path: Path, uid: int) -> None:
    """Raises OSError, KeyError if there is no such user."""
    account = pwd.getpwuid(uid)
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    with socket.socket(socket.AF_UNIX) as sock:
        wait_for_room(sock, CONNECT_S)
        os.setgroups(groups)
        os.setegid(account.pw_gid)
        os.seteuid(uid)
        sock.connect(str(path))
        socket.send_fds(back, [b"+"], [sock.fileno()])
