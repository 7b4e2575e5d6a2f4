"""Reading and writing a pipe that others have too, without ever waiting.

O_NONBLOCK must not be set on it, for it belongs to the open file description, which the caller's
shell shares. Nor may the pipe be opened again: that would be with our rights, and for whatever the
caller's own descriptor does not allow. splice can be told not to wait, between two pipes: so bytes
go by way of a pipe of our own, which is empty before and after.
"""

import array
import fcntl
import os
import termios
import threading

PIPE_BYTES = 1 << 20
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Ferry:
    """Our pipe. For one thread, which may wait for the lock of the other pipe."""

    def __init__(self) -> None:
        self._out, self._in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._bytes = fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:  # pipes of this user take too much memory
            self._bytes = fcntl.fcntl(self._in, fcntl.F_GETPIPE_SZ)

    def read(self, pipe: int, limit_bytes: int) -> bytes:
        """Some bytes, b"" at the end of file. Raises OSError, BlockingIOError if none are there."""
        limit_bytes = min(limit_bytes, self._bytes)
        count = os.splice(pipe, self._in, limit_bytes, flags=os.SPLICE_F_NONBLOCK)
        return self._take(count)

    def _take(self, count: int) -> bytes:
        data = os.read(self._out, count) if count else b""
        while len(data) < count:  # a pipe of packets: they come one by one
            data += os.read(self._out, count - len(data))
        return data

    def write(self, pipe: int, data: memoryview) -> int:
        """How much of it went. Raises OSError, BlockingIOError if there is no room."""
        left = os.write(self._in, data[: min(self._bytes, room_bytes(pipe))])
        try:
            done = os.splice(self._out, pipe, left, flags=os.SPLICE_F_NONBLOCK)
            left -= done
            return done
        finally:
            if left:
                self._take(left)

    def __del__(self) -> None:
        os.close(self._in)
        os.close(self._out)


def unread_bytes(pipe: int) -> int:
    """What of the written is still in it. Raises OSError if that cannot be told."""
    found = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, found)
    return found[0]


def room_bytes(pipe: int) -> int:
    """What a pipe takes at once, as far as that can be told."""
    used_bytes = unread_bytes(pipe)
    room = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) - used_bytes
    # The first and the last page of what is in it may be used in part.
    return max(PAGE_BYTES, room - 2 * PAGE_BYTES * bool(used_bytes))


class Mine(threading.local):
    ferry: Ferry | None = None


MINE = Mine()


def ferry() -> Ferry:
    """That of this thread."""
    found = MINE.ferry
    if found is None:
        found = MINE.ferry = Ferry()
    return found
