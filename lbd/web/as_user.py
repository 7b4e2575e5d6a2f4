"""Connects to this host's daemons as a given user, for a web page that runs as root.

A daemon identifies its peer by the process that connected. So a helper process, forked before there
are any threads, forks again for each connection; that child connects as the user and passes the
connection on. It connects only to the sockets that were named at the start.

A user can stop or kill any process whose ids are all theirs. So the child keeps root's real uid,
nothing waits for it to end, and each request has a reply socket of its own: a late or repeated
reply never reaches another request.
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

REQUEST = struct.Struct("=iI")  # which socket, the user's uid; the reply socket comes along
CONNECT_S = 5.0
PATIENCE_S = 10.0


class Connector:
    def __init__(self, paths: tuple[Path, ...], not_ours: Sequence[socket.socket] = ()) -> None:
        """`not_ours`: sockets of the page that the helper process must close."""
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
    """Serves requests until the page is gone."""
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
    """Connects as the user and passes the connection on. Raises OSError, KeyError."""
    account = pwd.getpwuid(uid)
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    with socket.socket(socket.AF_UNIX) as sock:
        wait_for_room(sock, CONNECT_S)
        os.setgroups(groups)
        os.setegid(account.pw_gid)
        os.seteuid(uid)
        sock.connect(str(path))
        socket.send_fds(back, [b"+"], [sock.fileno()])
