"""The calls on a descriptor whose other end a user's process may have, or that a user has, too.

Any of them may wait for that user for ever. The kernel keeps the lock of a pipe or socket while it
copies from or to the memory of whoever reads or writes it, and that memory may be a page of a file
that never answers; a terminal is locked while it hangs up, and that waits for who reads it. So not
even a call that is "not to wait" is harmless, and a close is none either. When these calls may be
made in the event loop, and when in a thread of the user, is said in descriptor.py.
"""

import contextlib
import errno
import fcntl
import os
import select
import socket
from collections.abc import Iterator

from lbd.lbm.link.descriptor_kinds import DescriptorKind
from lbd.lbm.link.ferry import PIPE_BYTES, ferry, unread_bytes

SMALL_BYTES = 1 << 16


class FdCalls:
    """On one descriptor, one call at a time."""

    def __init__(self, number: int, kind: DescriptorKind, *, ours: bool) -> None:
        """`ours`: nobody else has this end, so it does not block."""
        self.number = number
        self._kind = kind
        self._ours = ours
        self._is_wide = False
        self.is_to_widen = False  # before more is read
        self.written_bytes = 0

    def read(self, limit_bytes: int, patience_ms: int = 0) -> bytes | None:
        """b"" at the end of file; None if nothing is there, nor comes in a moment. Raises
        OSError."""
        is_terminal = self._kind is DescriptorKind.TERMINAL and not self._ours
        # A terminal's reader that finds nothing would take what comes after we have been closed.
        if (is_terminal or patience_ms) and not self.is_ready(select.POLLIN, patience_ms):
            return None
        try:
            data = self._read(limit_bytes)
        except BlockingIOError:
            return None
        if self.is_to_widen or len(data) == SMALL_BYTES:
            self._widen()
        return data

    def _read(self, limit_bytes: int) -> bytes:
        if self._kind is DescriptorKind.PIPE and not self._ours:
            return ferry().read(self.number, limit_bytes)
        if self._kind is DescriptorKind.SOCKET:
            with borrowed(self.number) as sock:
                return sock.recv(limit_bytes, socket.MSG_DONTWAIT)
        return os.read(self.number, limit_bytes)

    def write(self, view: memoryview, patience_ms: int = 0) -> int:
        """How much of it went before there was no more room, nor is in a moment. Raises OSError."""
        done = 0
        while done < len(view):
            try:
                count = self._write(view[done:])
            except BlockingIOError:
                count = 0
            except OSError:
                if done:
                    break  # it comes again
                raise
            done += count
            self.written_bytes += count
            if count:
                continue
            if not self._is_wide and len(view) - done > SMALL_BYTES:
                self._widen()
            elif not patience_ms or not self.is_ready(select.POLLOUT, patience_ms):
                break
        return done

    def _write(self, view: memoryview) -> int:
        if self._kind is DescriptorKind.PIPE and not self._ours:
            return ferry().write(self.number, view)
        if self._kind is DescriptorKind.SOCKET:
            with borrowed(self.number) as sock:
                return sock.send(view, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        if self._kind is DescriptorKind.TERMINAL and not self._ours:
            # Being ready it takes that at once.
            view = view[: select.PIPE_BUF] if self.is_ready(select.POLLOUT) else view[:0]
        return os.write(self.number, view) if view else 0

    def is_ready(self, wanted: int, patience_ms: int = 0) -> int:
        """What of that, and of hang-ups and errors, poll(2) sees."""
        poll = select.poll()
        poll.register(self.number, wanted)
        found = poll.poll(patience_ms)
        return found[0][1] if found else 0

    def _widen(self) -> None:
        """Let a pipe hold a megabyte, so that large chunks move in one piece. A no-op elsewhere."""
        self.is_to_widen = False
        if not self._is_wide and self._kind is DescriptorKind.PIPE:
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.number, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._is_wide = True

    def unread_bytes(self) -> int:
        """What is still in the pipe. Raises OSError if that cannot be told."""
        return unread_bytes(self.number)

    def turn_round(self) -> int:
        """`unread_bytes`. If any are, the number becomes that of the other end of our pipe: to its
        readers this one is closed. Raises OSError."""
        unread = unread_bytes(self.number)
        if unread:
            path = f"/proc/self/fd/{self.number}"
            end = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.dup2(end, self.number, inheritable=False)
            os.close(end)
        return unread

    def check_mode(self, forbidden: int) -> None:
        """Raises OSError if that is how it was opened: then poll(2) would never say so."""
        mode = fcntl.fcntl(self.number, fcntl.F_GETFL) & os.O_ACCMODE
        if not self._ours and self._kind is DescriptorKind.PIPE and mode == forbidden:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))


@contextlib.contextmanager
def borrowed(descriptor: int) -> Iterator[socket.socket]:
    """Raises OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, descriptor)
    try:
        yield sock
    finally:
        sock.detach()
