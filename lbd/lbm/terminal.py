"""Terminals on both sides of a job: the pty its command gets, and the one its caller sits at.

The far side is a real pty in the caller's modes. It alone interprets what is typed: ^C, ^Z and ^D
are bytes on the way and become signals and ends of file there. What the caller's own terminal does
meanwhile is `lbrun`'s business (cli/lbrun_terminal.py); ours only if `lbrun` was killed.
"""

import contextlib
import fcntl
import os
import signal
import struct
import termios

from lbd.lbm.bundle import Bundle
from lbd.lbm.kinds import Kind, kind_of
from lbd.lbm.modes import (
    Attributes,
    Size,
    ends_lines,
    pack_modes,
    raw_modes,
    read_modes,
    read_size,
    same_flags,
)
from lbd.lbm.readers import parent_and_session
from lbd.lbm.user_threads import Threads
from lbd.rpc.gen import lbm_pb2
from lbd.rpc.gen.handover_pb2 import HeldPty

FORCE_WITHIN_S = 1.0
SWITCHED_OFF = b"\0"  # in place of a control character
CONTROLLING = (0, os.makedev(5, 0))  # /dev/tty, whichever it is


class Pty:
    """A terminal for a command of another host; `master` is our side of it."""

    def __init__(self, wanted: lbm_pb2.Terminal) -> None:
        """Raises OSError if there is none to be had, ValueError on malformed modes or size."""
        self.master, self.slave = os.openpty()
        self._given: Attributes = termios.tcgetattr(self.slave)
        self._interrupted_s = float("-inf")
        self._last_typed = b"\n"
        try:
            self._device = (0, os.fstat(self.slave).st_rdev)
            if wanted.modes:
                self._set(self.slave, read_modes(wanted.modes))
            self.resize(wanted.size)
        except (OSError, ValueError, termios.error) as problem:
            self.close()
            os.close(self.slave)
            if isinstance(problem, termios.error):
                raise OSError(*problem.args) from None
            raise

    @classmethod
    def restored(cls, held: HeldPty, master: int) -> "Pty":
        """As `save` has left it; the command's side is the command's."""
        made = cls.__new__(cls)
        made.master, made.slave = master, -1
        made._given = read_modes(held.given)
        made._interrupted_s = float("-inf")
        made._last_typed = held.last_typed
        made._device = (0, held.device)
        return made

    def save(self, bundle: Bundle) -> HeldPty:
        return HeldPty(
            master=bundle.add(self.master),
            device=self._device[1],
            given=pack_modes(self._given),
            last_typed=self._last_typed,
        )

    def close(self) -> None:
        """When nobody has a duplicate of it either, the terminal hangs up."""
        if self.master >= 0:
            os.close(self.master)
            self.master = -1

    def _set(self, descriptor: int, modes: Attributes) -> None:
        termios.tcsetattr(descriptor, termios.TCSANOW, modes)
        self._given = termios.tcgetattr(descriptor)

    def follow(self, modes: Attributes) -> None:
        """The caller's terminal is in other modes by now, as when its shell brings a job forward.

        What the command has set itself stays.
        """
        with contextlib.suppress(OSError, termios.error):
            if termios.tcgetattr(self.master) == self._given:
                self._set(self.master, modes)

    def still_ends_lines(self) -> bool:
        try:
            return self.master >= 0 and ends_lines(termios.tcgetattr(self.master))
        except termios.error:
            return False

    def resize(self, text: bytes) -> None:
        """Raises ValueError."""
        set_size(self.master, read_size(text))

    def end_of_file(self) -> bytes:
        """What to type so that the command reads the end of its input: ^D, also within a line."""
        code = self._code(termios.VEOF)
        return code if self._last_typed == b"\n" else code * 2

    def typed(self, data: bytes, now_s: float) -> bool:
        """Whether that was the second interrupt within a second."""
        self._last_typed = data[-1:] or self._last_typed
        code = self._code(termios.VINTR)
        interrupts = data.count(code) if code != SWITCHED_OFF else 0
        if not interrupts:
            return False
        again = interrupts > 1 or now_s - self._interrupted_s < FORCE_WITHIN_S
        self._interrupted_s = now_s
        return again

    @property
    def devices(self) -> set[tuple[int, int]]:
        """What who waits for input from it reads (readers.py)."""
        return {self._device, CONTROLLING}

    def _code(self, which: int) -> bytes:
        """A control character as the terminal has it now."""
        try:
            code: bytes = termios.tcgetattr(self.master)[6][which]
        except termios.error:
            return SWITCHED_OFF
        return code

    def hands_lines_on(self, leader: int) -> bool:
        """To the command itself, in front."""
        needed = termios.ICANON | termios.ISIG
        try:
            if termios.tcgetattr(self.master)[3] & needed != needed:
                return False
            return parent_and_session(os.tcgetpgrp(self.master))[0] == leader
        except (OSError, termios.error):
            return False


def set_size(descriptor: int, size: Size) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("4H", *size))


class CallersTerminal:
    """The one that `lbrun` has made raw, held so that it can be restored if `lbrun` is killed."""

    def __init__(self, descriptor: int, modes: Attributes | None, threads: Threads) -> None:
        """`modes`: None if it is not to be raw; `threads`: its user's."""
        self._threads = threads
        self._descriptor = descriptor
        if kind_of(descriptor) is not Kind.TERMINAL:  # what else it may be might never answer
            modes = None
        self._modes = modes

    def save(self, bundle: Bundle) -> tuple[int, bytes]:
        """Its place there, and the modes to restore."""
        modes = pack_modes(self._modes) if self._modes is not None else b""
        return bundle.add(self._descriptor), modes

    def follow(self, modes: bytes) -> None:
        """It was set by somebody else meanwhile. Raises ValueError."""
        wanted = read_modes(modes)
        if self._modes is not None:
            self._modes = wanted

    def leave_output_alone(self) -> None:
        """From the next byte on, if `lbrun` has the terminal in front."""
        if self._modes is not None:
            self._set_if_raw(raw_modes(self._modes), self._modes)

    def close(self, *, restore: bool) -> None:
        if restore and self._modes is not None:
            self._set_if_raw(self._modes, self._modes)
        self._threads.close(self._descriptor)

    def _set_if_raw(self, wanted: Attributes, modes: Attributes) -> None:
        """Unless somebody else has set it meanwhile, a shell for instance.

        It may be our own controlling terminal, and we in its background: then this would stop us.
        """
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))
        try:
            if same_flags(termios.tcgetattr(self._descriptor), raw_modes(modes)):
                termios.tcsetattr(self._descriptor, termios.TCSANOW, wanted)
        except (OSError, termios.error):  # it has vanished
            pass
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
