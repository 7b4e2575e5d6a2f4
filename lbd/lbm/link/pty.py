"""Terminals on both sides of a job: the pty its command gets, and the terminal of its caller.

The far side is a real pty in the caller's modes. Only the pty interprets what is typed: ^C, ^Z and
^D travel as bytes and become signals and ends of file there. The caller's own terminal is handled
by `lbrun` (client/terminal.py) meanwhile, and by us only if `lbrun` was killed.
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
CONTROLLING = (0, os.makedev(5, 0))  # /dev/tty, whichever terminal it is


class Pty:
    """A terminal for a command of another host; `master` is our side of it.

    Once the command has it, the event loop neither queries nor sets it. A process that reads more
    than 64 bytes holds the lock of its modes until they are copied, which may be never. A process
    that asks for the size holds the lock of the size in the same way. A reader also blocks the
    hang-up, which is what our close causes.
    """

    def __init__(self, wanted: lbm_pb2.Terminal, threads: Threads) -> None:
        """`threads`: those of the user whose command it is for. Raises OSError if no terminal is
        available, ValueError on malformed modes or size."""
        self._threads = threads
        # calls to make in a thread, one of each kind
        self._todo: dict[str, Callable[[int], object]] = {}
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
            self._modes = termios.tcgetattr(self.slave)  # as last seen
        except (OSError, ValueError, termios.error) as problem:
            self.close()
            os.close(self.slave)
            if isinstance(problem, termios.error):
                raise OSError(*problem.args) from None
            raise

    @classmethod
    def restored(cls, left: PtyState, threads: Threads) -> "Pty":
        """Returns one that an earlier LBM left; the command holds its side. Raises ValueError."""
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
        """Returns its state for another LBM; None: it is closed."""
        if self.master < 0:
            return None
        device, modes = self._device[1], pack_modes(self._given)
        return PtyState(Fd(self.master), device, modes, self._last_typed)

    def close(self) -> None:
        """Closes our side. The terminal hangs up once nobody has a duplicate of it either."""
        if self.master >= 0:
            self._threads.close(self.master, self._working)
            self.master = -1

    def _set(self, descriptor: int, modes: Attributes) -> None:
        termios.tcsetattr(descriptor, termios.TCSANOW, modes)
        self._given = termios.tcgetattr(descriptor)

    def _do(self, sort: str, call: Callable[[int], object]) -> None:
        """Calls `call` with `master` in a thread, in place of a pending call of the same kind."""
        self._todo[sort] = call
        self._go_on()

    def _go_on(self) -> None:
        is_working = self._working is not None and not self._working.done.done()
        if self._todo and self.master >= 0 and not is_working:
            self._working = self._threads.start(partial(self._work, self.master))
            self._working.done.add_done_callback(lambda _: self._go_on())

    def _work(self, master: int) -> None:
        """Runs in a thread."""
        while self._todo:
            with contextlib.suppress(OSError, termios.error):
                self._todo.popitem()[1](master)

    def look(self, descriptor: int) -> None:
        """Runs in a thread. Reads the current modes from `master` or a duplicate."""
        with contextlib.suppress(termios.error):
            self._modes = termios.tcgetattr(descriptor)

    async def looked(self) -> bool:
        """Reads the modes again. Returns whether that has worked in time."""
        self._do("look", self.look)
        if self._working is not None:
            await asyncio.wait((self._working.done,), timeout=HUNG_S)
        return "look" not in self._todo and (self._working is None or self._working.done.done())

    def follow(self, modes: Attributes) -> None:
        """Sets the modes of the caller's terminal, which have changed, as when its shell brings a
        job forward. Modes that the command has set itself stay."""
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
        """What to type so that the command reads the end of its input: ^D, twice within a line."""
        code = self._code(termios.VEOF)
        return code if self._last_typed == b"\n" else code * 2

    def typed(self, data: bytes, now_s: float) -> bool:
        """Returns whether that was the second interrupt within a second."""
        self._last_typed = data[-1:] or self._last_typed
        # plain letters do not justify a thread: they are rarely control codes
        if has_control(data):
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
        """The devices that a process waiting for input from it reads (keeper/stdin_watch.py)."""
        return {self._device, CONTROLLING}

    def _code(self, which: int) -> bytes:
        """A control character, by the modes last seen."""
        code: bytes = self._modes[6][which]
        return code

    def hands_lines_on(self, leader: int) -> bool:
        """Whether lines go to the command itself, in the foreground."""
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
    """Whether any character has a meaning for a terminal, unless letters were assigned one."""
    return min(typed, default=DELETE) < SPACE or DELETE in typed


def set_size(descriptor: int, size: Size) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("4H", *size))


class CallersTerminal:
    """The terminal that `lbrun` has made raw, held so that it can be restored if `lbrun` is
    killed."""

    def __init__(self, descriptor: int, modes: Attributes | None, threads: Threads) -> None:
        """`modes`: None if it must not be raw; `threads`: its user's."""
        self._threads = threads
        self._descriptor = descriptor
        if kind_of(descriptor) is not DescriptorKind.TERMINAL:  # anything else might never answer
            modes = None
        self._modes = modes
        self._last: Call | None = None

    def left(self) -> tuple[Fd, bytes]:
        """The descriptor, and the modes to restore."""
        return Fd(self._descriptor), pack_modes(self._modes) if self._modes is not None else b""

    def follow(self, modes: bytes) -> None:
        """Notes the modes that somebody else has set meanwhile. Raises ValueError."""
        wanted = read_modes(modes)
        if self._modes is not None:
            self._modes = wanted

    def leave_output_alone(self) -> None:
        """Makes the terminal pass output unchanged, if `lbrun` has it in the foreground."""
        if (modes := self._modes) is not None:
            # So that output that arrives now is written after the change.
            self._last = self._threads.start_first(
                partial(set_if_raw, self._descriptor, raw_modes(modes), modes)
            )

    def close(self, *, restore: bool) -> None:
        modes = self._modes if restore else None
        before = partial(set_if_raw, wanted=modes, modes=modes) if modes is not None else None
        self._threads.close(self._descriptor, self._last, before)


def set_if_raw(descriptor: int, wanted: Attributes, modes: Attributes) -> None:
    """Sets the modes, in a thread, unless somebody else, such as a shell, has set
    others meanwhile.

    It may be our own controlling terminal with us in its background: then SIGTTOU would stop us.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))
    try:
        if same_flags(termios.tcgetattr(descriptor), raw_modes(modes)):
            termios.tcsetattr(descriptor, termios.TCSANOW, wanted)
    except (OSError, termios.error):  # the terminal has vanished
        pass
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
