"""The nursery: a small child of the keeper (spare.c) that makes its spares for plain orders.

A fork of it copies a handful of pages where a fork of the interpreter copies hundreds, and the exec
that follows tears down as many. Its spares are the keeper's own children, in their cgroup from
birth. Where it is not compiled, or will not work, the keeper forks itself (child.py).
"""

import contextlib
import errno
import os
import signal
import socket
import struct

from lbd.lbm.child import Parent, Spare, leave_keeper

SPARES = 8  # they take hardly any memory
NO_CGROUP, CGROUP_DIRECTORY, CGROUP_PROCS = b"n", b"d", b"p"
ANSWER = struct.Struct("=i")
ANSWER_S = 5.0  # it answers within microseconds, unless it is stopped


class Nursery:
    """`pid` is 0 while there is none."""

    def __init__(self, parent: Parent, program: bytes) -> None:
        self._parent = parent
        self._program = program
        self._socket: socket.socket | None = None
        self.pid = 0

    def spare(self) -> Spare:
        """Raises OSError, having ended itself if it is of no use any more."""
        if self.pid and self._socket is None:
            raise ConnectionError("the nursery is ending")
        if self._socket is None:
            self._begin()
        group = self._parent.containment.new_group()
        ours, theirs = socket.socketpair()
        try:
            pid = self._ask(theirs.fileno(), group)
        except OSError:
            ours.close()
            self._parent.containment.forget(group)
            raise
        finally:
            theirs.close()
        return Spare(pid, ours, group)

    def _begin(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                self._become(theirs)
            self.pid = pid
        except OSError:
            ours.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            theirs.close()
        ours.settimeout(ANSWER_S)
        self._socket = ours

    def _become(self, theirs: socket.socket) -> None:
        parent = self._parent
        with contextlib.suppress(BaseException):
            leave_keeper(parent, theirs.fileno())
            theirs.set_inheritable(True)
            mark, kernel = parent.containment.mark, parent.kernel.encode() or b"-"
            os.execv(self._program, [self._program, b"%d" % theirs.fileno(), mark, kernel])
        os._exit(127)

    def _ask(self, theirs: int, group: str) -> int:
        """The new spare's process number."""
        kind = self._parent.containment.kind
        pid = -errno.ENOSYS
        if group and kind == "cgroup2" and self._parent.clones_into_groups:
            pid = self._tell(theirs, CGROUP_DIRECTORY, group, os.O_RDONLY | os.O_DIRECTORY)
            # Not an old kernel, nor a seccomp filter; any other error comes again below.
            self._parent.clones_into_groups = pid > 0
        if group and pid < 0:
            pid = self._tell(theirs, CGROUP_PROCS, f"{group}/cgroup.procs", os.O_WRONLY)
        elif not group:
            pid = self._tell(theirs, NO_CGROUP)
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
        return pid

    def _tell(self, theirs: int, how: bytes, path: str = "", flags: int = 0) -> int:
        """Its answer: a process number, or an errno, negative. Raises OSError if it is gone."""
        assert self._socket is not None
        attached = [theirs]
        try:
            if path:
                attached.append(os.open(path, flags | os.O_CLOEXEC))
            socket.send_fds(self._socket, [how], attached)
            answer = self._socket.recv(ANSWER.size)
            if len(answer) != ANSWER.size:
                raise ConnectionError("the nursery is gone")
        except OSError:
            self.end()
            raise
        finally:
            for descriptor in attached[1:]:
                os.close(descriptor)
        return int(ANSWER.unpack(answer)[0])

    def end(self) -> None:
        """The keeper reaps it as it does every child, and says so (`reaped`)."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)

    def reaped(self) -> None:
        """The next spare takes a new one."""
        self.pid = 0
        self.end()
