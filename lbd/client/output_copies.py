"""Copies a command's output to where the LBM must not write it itself.

To the reader of a Unix socket the kernel can show who writes. If that is a service (systemd's
notify socket, the journal), it must be shown us and not the LBM. The other end of a stream stays
with whom it was connected to, so one of our own user gets its output from the LBM itself. A file in
memory (tmpfs, memfd) counts as the memory of who writes it.
"""

import _signal  # type: ignore[import-not-found]  # `signal` without its enums
import posix

from lbd.client.complaints import Trouble
from lbd.client.signals import give_back

TYPE_CHECKING = False  # importing typing would cost a millisecond
if TYPE_CHECKING:
    from _socket import socket

    from lbd.client.signals import Handlers

PIECE_BYTES = 1 << 16
BLOCK, SET = 0, 2  # of pthread_sigmask
KILL = 9
FILE_TYPE, SOCKET = 0o170000, 0o140000  # of `st_mode`
ALL = _signal.valid_signals()
OUTPUTS = (1, 2)


class OutputCopies:
    """The children that copy, and the pipes they copy from, by the descriptor they copy to."""

    def __init__(self, closed: int, *, joined: bool) -> None:
        """`closed`: bit N where descriptor N is; `joined`: both outputs are one file, so one child
        keeps their order. Raises Trouble."""
        self._pids: list[int] = []
        self._pipes: dict[int, int] = {}
        for number in OUTPUTS:
            if not closed >> number & 1 and is_copied_to(number):
                if joined and self._pipes:
                    self._pipes[number] = self._pipes[OUTPUTS[0]]
                    break
                try:
                    self._pipes[number] = self._copied_to(number)
                except OSError as problem:
                    raise Trouble(f"cannot copy its output: {problem.strerror}") from None

    def given(self, number: int) -> int:
        """Returns what the command gets as this descriptor."""
        return self._pipes.get(number, number)

    def close_given(self) -> None:
        """The command has the pipes now: the children end once nobody has them open."""
        for pipe in set(self._pipes.values()):
            posix.close(pipe)

    def finish(self, sock: "socket", handlers: "Handlers", *, is_forced: bool) -> None:
        """Waits until all output has been copied; `is_forced`: no more, as the user wants an end.
        `handlers`: of signals, which are ours again, so that ^C ends the wait for a reader."""
        sock.close()  # and with it what the LBM still holds for us
        give_back(handlers)
        for pid in self._pids:
            if is_forced:
                posix.kill(pid, KILL)
            posix.waitpid(pid, 0)

    def _copied_to(self, number: int) -> int:
        source, pipe = posix.pipe2(posix.O_CLOEXEC)
        before = _signal.pthread_sigmask(BLOCK, ALL)  # it ends when the command has closed it
        try:
            pid = posix.fork()
            if not pid:
                copy(source, number)
        finally:
            _signal.pthread_sigmask(SET, before)
            posix.close(source)
        self._pids.append(pid)
        return pipe


def is_copied_to(number: int) -> bool:
    from lbd.launch.outputs import is_in_memory, shows_writer

    is_socket = posix.fstat(number).st_mode & FILE_TYPE == SOCKET  # for others no need for ctypes
    return shows_writer(number, posix.geteuid()) if is_socket else is_in_memory(number)


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
