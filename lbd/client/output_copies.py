"""Copies a command's output to sockets that show their reader who writes.

To the reader of a Unix socket the kernel can show who writes. If that is a service (systemd's
notify socket, the journal), it must be shown us and not the LBM. The other end of a stream stays
with whom it was connected to, so one of our own user gets its output from the LBM itself.
"""

import posix
import struct

from lbd.client.complaints import Trouble

PIECE_BYTES = 1 << 16
PEER = struct.Struct("3i")  # pid, uid, gid
BLOCK, SET = 0, 2  # of pthread_sigmask
KILL = 9
OUTPUTS = (1, 2)


class OutputCopies:
    """The children that copy, by the descriptor they copy to."""

    def __init__(self) -> None:
        self._pids: list[int] = []
        self._pipes: dict[int, int] = {}

    def make(self, closed: int) -> None:
        """Makes a child for each output that needs one. Raises Trouble."""
        for number in OUTPUTS:
            if not closed >> number & 1 and shows_writer(number):
                try:
                    self._pipes[number] = self._copied_to(number)
                except OSError as problem:
                    raise Trouble(f"cannot copy its output: {problem.strerror}") from None

    def given(self, number: int) -> int:
        """Returns what the command gets as this descriptor."""
        return self._pipes.get(number, number)

    def close(self) -> None:
        """The command has the pipes now: the children end once nobody has them open."""
        for pipe in self._pipes.values():
            posix.close(pipe)

    def wait(self) -> None:
        """Waits until all output has been copied."""
        for pid in self._pids:
            posix.waitpid(pid, 0)

    def end(self) -> None:
        """Leaves what its reader has not read."""
        for pid in self._pids:
            posix.kill(pid, KILL)

    def _copied_to(self, number: int) -> int:
        from _signal import pthread_sigmask, valid_signals  # type: ignore[import-not-found]

        source, pipe = posix.pipe2(posix.O_CLOEXEC)
        before = pthread_sigmask(BLOCK, valid_signals())  # it ends when the command has closed it
        try:
            pid = posix.fork()
            if not pid:
                copy(source, number)
        finally:
            pthread_sigmask(SET, before)
            posix.close(source)
        self._pids.append(pid)
        return pipe


def shows_writer(number: int) -> bool:
    from _socket import AF_UNIX, SO_PEERCRED, SOCK_DGRAM, SOL_SOCKET, socket

    try:
        sock = socket(fileno=number)
    except OSError:
        return False
    try:
        if sock.family != AF_UNIX:
            return False
        reader = PEER.unpack(sock.getsockopt(SOL_SOCKET, SO_PEERCRED, PEER.size))[1]
        return sock.type == SOCK_DGRAM or reader != posix.geteuid()
    finally:
        sock.detach()


def copy(source: int, number: int) -> None:
    """Runs in the child."""
    try:
        for other in range(256):
            if other not in (source, number):
                try:
                    posix.close(other)
                except OSError:
                    pass
        while data := posix.read(source, PIECE_BYTES):
            view = memoryview(data)
            while view:
                try:
                    view = view[posix.write(number, view) :]
                except BlockingIOError:
                    from select import POLLOUT, poll

                    waiting = poll()
                    waiting.register(number, POLLOUT)
                    waiting.poll()
    finally:
        posix._exit(0)
