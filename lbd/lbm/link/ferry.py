"""Reading and writing a pipe that other processes share, without ever waiting.

O_NONBLOCK must not be set on it, because that flag belongs to the open file description, which the
caller's shell shares. Nor may the pipe be opened again: that would use our rights, and might allow
more than the caller's own descriptor does. But splice between two pipes can be told not to wait. So
the bytes go through a pipe of our own, which is empty before and after.
"""

import array
import fcntl
import os
import termios
import threading

PIPE_BYTES = 1 << 20
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Ferry:
    """Our own pipe. Used by one thread, which may wait for the lock of the other pipe."""

    def __init__(self) -> None:
        self._out, self._in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._bytes = fcntl.fcntl(self._in, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:  # pipes of this user take too much memory
            self._bytes = fcntl.fcntl(self._in, fcntl.F_GETPIPE_SZ)

    def read(self, pipe: int, limit_bytes: int) -> bytes:
        """Returns bytes, b"" at the end. Raises OSError, BlockingIOError if there are none."""
        limit_bytes = min(limit_bytes, self._bytes)
        count = os.splice(pipe, self._in, limit_bytes, flags=os.SPLICE_F_NONBLOCK)
        return self._take(count)

    def _take(self, count: int) -> bytes:
        data = os.read(self._out, count) if count else b""
        while len(data) < count:  # in a pipe of packets they come one by one
            data += os.read(self._out, count - len(data))
        return data

    def write(self, pipe: int, data: memoryview) -> int:
        """Returns how much was written. Raises OSError, BlockingIOError if there is no room."""
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
    """How much of what was written is still in the pipe. Raises OSError if that is unknown."""
    found = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, found)
    return found[0]


def empty(pipe: int) -> None:
    """Drops what is unread in a pipe of ours, given either end. It takes our memory, and a user's
    process may keep the other end. May wait for that process. Raises OSError."""
    end = os.open(f"/proc/self/fd/{pipe}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        while os.read(end, PIPE_BYTES):
            pass
    except BlockingIOError:
        pass
    finally:
        os.close(end)


def room_bytes(pipe: int) -> int:
    """How much a pipe takes at once, as far as that is known."""
    used_bytes = unread_bytes(pipe)
    room = fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) - used_bytes
    # The first and the last page in the pipe may be partly used.
    return max(PAGE_BYTES, room - 2 * PAGE_BYTES * bool(used_bytes))


class Mine(threading.local):
    ferry: Ferry | None = None


MINE = Mine()


def ferry() -> Ferry:
    """The ferry of this thread."""
    found = MINE.ferry
    if found is None:
        found = MINE.ferry = Ferry()
    return found
