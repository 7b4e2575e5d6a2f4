"""Terminals on both sides of a job: the pty its command gets, and the one its caller sits at.

The far side is a real pty in the caller's modes. It alone interprets what is typed: ^C, ^Z and ^D
are bytes on the way and become signals and ends of file there. What the caller's own terminal does
meanwhile is `lbrun`'s business (client/terminal.py); ours only if `lbrun` was killed.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import termios
from collections.abc import Callable
from functools import partial

from lbd.keeper.stdin_watch import parent_and_session
from lbd.launch.terminal_modes import (
    Attributes,
    Size,
    ends_lines,
    pack_modes,
    raw_modes,
    read_modes,
    read_size,
    same_flags,
)
from lbd.lbm.handover.codec import Fd
from lbd.lbm.handover.records import PtyState
from lbd.lbm.link.descriptor_kinds import DescriptorKind, kind_of
from lbd.lbm.link.user_threads import HUNG_S, Call, Threads
from lbd.net.gen import lbm_pb2

FORCE_WITHIN_S = 1.0
SWITCHED_OFF = b"\0"  # in place of a control character
SPACE, DELETE = 32, 127
CONTROLLING = (0, os.makedev(5, 0))  # /dev/tty, whichever it is


class Pty:
    """A terminal for a command of another host; `master` is our side of it.

    Once the command has it nothing is asked of it, or set, in the event loop: who reads more than
    64 bytes keeps the lock of its modes until they are written, which may be never, and so does who
    asks for the size with that one's; whoever reads it holds up its hanging up, too, which is what
    our close does.
    """

    def __init__(self, wanted: lbm_pb2.Terminal, threads: Threads) -> None:
        """`threads`: those of the user whose command it is for. Raises OSError if there is none to
        be had, ValueError on malformed modes or size."""
        self._threads = threads
        self._todo: dict[str, Callable[[int], object]] = {}  # in a thread: one of each sort
        self._working: Call | None = None
        self.master, self.slave = os.openpty()
        self._given: Attributes = termios.tcgetattr(self.slave)
        self._interrupted_s = float("-inf")
        self._last_typed = b"\n"
        try:
            self._device = (0, os.fstat(self.slave).st_rdev)
            if wanted.modes:
                self._set(self.slave, read_modes(wanted.modes))
            set_size(self.master, read_size(wanted.size))
            self._modes = termios.tcgetattr(self.slave)  # as they were last seen
        except (OSError, ValueError, termios.error) as problem:
            self.close()
            os.close(self.slave)
            if isinstance(problem, termios.error):
                raise OSError(*problem.args) from None
            raise

    @classmethod
    def restored(cls, left: PtyState, threads: Threads) -> "Pty":
        """As an earlier LBM has left it; the command's side is the command's. Raises ValueError."""
        made = cls.__new__(cls)
        made._threads, made._todo, made._working = threads, {}, None
        made.master, made.slave = left.master, -1
        made._given = made._modes = read_modes(left.given)
        made._interrupted_s = float("-inf")
        made._last_typed = left.last_typed
        made._device = (0, left.device)
        made._do("look", made.look)
        return made

    def left(self) -> PtyState | None:
        """None: it is closed."""
        if self.master < 0:
            return None
        device, modes = self._device[1], pack_modes(self._given)
        return PtyState(Fd(self.master), device, modes, self._last_typed)

    def close(self) -> None:
        """When nobody has a duplicate of it either, the terminal hangs up."""
        if self.master >= 0:
            self._threads.close(self.master, self._working)
            self.master = -1

    def _set(self, descriptor: int, modes: Attributes) -> None:
        termios.tcsetattr(descriptor, termios.TCSANOW, modes)
        self._given = termios.tcgetattr(descriptor)

    def _do(self, sort: str, call: Callable[[int], object]) -> None:
        """In a thread, with `master`; in place of one of that sort which has not been done."""
        self._todo[sort] = call
        self._go_on()

    def _go_on(self) -> None:
        is_working = self._working is not None and not self._working.done.done()
        if self._todo and self.master >= 0 and not is_working:
            self._working = self._threads.start(partial(self._work, self.master))
            self._working.done.add_done_callback(lambda _: self._go_on())

    def _work(self, master: int) -> None:
        """In a thread."""
        while self._todo:
            with contextlib.suppress(OSError, termios.error):
                self._todo.popitem()[1](master)

    def look(self, descriptor: int) -> None:
        """In a thread, by `master` or a duplicate: in what modes it is now."""
        with contextlib.suppress(termios.error):
            self._modes = termios.tcgetattr(descriptor)

    async def looked(self) -> bool:
        """Are its modes known as they are now?"""
        self._do("look", self.look)
        if self._working is not None:
            await asyncio.wait((self._working.done,), timeout=HUNG_S)
        return "look" not in self._todo and (self._working is None or self._working.done.done())

    def follow(self, modes: Attributes) -> None:
        """The caller's terminal is in other modes by now, as when its shell brings a job forward.

        What the command has set itself stays.
        """
        self._do("follow", partial(self._follow, modes))

    def _follow(self, modes: Attributes, master: int) -> None:
        if termios.tcgetattr(master) == self._given:
            self._set(master, modes)

    def still_ends_lines(self) -> bool:
        return self.master >= 0 and ends_lines(self._modes)

    def resize(self, text: bytes) -> None:
        """Raises ValueError."""
        self._do("resize", partial(set_size, size=read_size(text)))

    def end_of_file(self) -> bytes:
        """What to type so that the command reads the end of its input: ^D, also within a line."""
        code = self._code(termios.VEOF)
        return code if self._last_typed == b"\n" else code * 2

    def typed(self, data: bytes, now_s: float) -> bool:
        """Whether that was the second interrupt within a second."""
        self._last_typed = data[-1:] or self._last_typed
        if has_control(data):  # letters alone are worth no thread: few look at the codes for them
            self._do("look", self.look)
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
        """A control character as the terminal has had it lately."""
        code: bytes = self._modes[6][which]
        return code

    def hands_lines_on(self, leader: int) -> bool:
        """To the command itself, in front."""
        needed = termios.ICANON | termios.ISIG
        local = self._modes[3]
        assert isinstance(local, int)
        try:
            if local & needed != needed:
                return False
            return parent_and_session(os.tcgetpgrp(self.master))[0] == leader
        except (OSError, termios.error):
            return False


def has_control(typed: bytes) -> bool:
    """Any of the characters that mean something to a terminal, unless it was given letters."""
    return min(typed, default=DELETE) < SPACE or DELETE in typed


def set_size(descriptor: int, size: Size) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("4H", *size))


class CallersTerminal:
    """The one that `lbrun` has made raw, held so that it can be restored if `lbrun` is killed."""

    def __init__(self, descriptor: int, modes: Attributes | None, threads: Threads) -> None:
        """`modes`: None if it is not to be raw; `threads`: its user's."""
        self._threads = threads
        self._descriptor = descriptor
        if (
            kind_of(descriptor) is not DescriptorKind.TERMINAL
        ):  # what else it may be might never answer
            modes = None
        self._modes = modes
        self._last: Call | None = None

    def left(self) -> tuple[Fd, bytes]:
        """It, and the modes to restore."""
        return Fd(self._descriptor), pack_modes(self._modes) if self._modes is not None else b""

    def follow(self, modes: bytes) -> None:
        """It was set by somebody else meanwhile. Raises ValueError."""
        wanted = read_modes(modes)
        if self._modes is not None:
            self._modes = wanted

    def leave_output_alone(self) -> None:
        """From the next byte on, if `lbrun` has the terminal in front."""
        if (modes := self._modes) is not None:
            # And no byte of the output that comes now is written before.
            self._last = self._threads.start_first(
                partial(set_if_raw, self._descriptor, raw_modes(modes), modes)
            )

    def close(self, *, restore: bool) -> None:
        modes = self._modes if restore else None
        before = partial(set_if_raw, wanted=modes, modes=modes) if modes is not None else None
        self._threads.close(self._descriptor, self._last, before)


def set_if_raw(descriptor: int, wanted: Attributes, modes: Attributes) -> None:
    """In a thread. Unless somebody else has set it meanwhile, a shell for instance.

    It may be our own controlling terminal, and we in its background: then this would stop us.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))
    try:
        if same_flags(termios.tcgetattr(descriptor), raw_modes(modes)):
            termios.tcsetattr(descriptor, termios.TCSANOW, wanted)
    except (OSError, termios.error):  # it has vanished
        pass
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
