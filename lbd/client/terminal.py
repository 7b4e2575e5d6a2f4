"""The caller's terminal while its command runs on another host. Imported only if there is one.

There are two modes, depending on what the command gets there:

- A pty (the default when standard input and output are terminals; -t). Our terminal is raw: each
  key is sent as it is typed, and ^C, ^Z and ^D act there as in any terminal.
- Pipes (-T, or standard output is no terminal). Our terminal stays as it is: lines are sent as they
  are entered; ^C and ^Z are signals here and are passed on.

As a background job of the shell (`&`, `bg`) we neither read nor change the terminal. If the command
there wants to read, it is stopped, and we stop ourselves by the signal that a local command would
get.
"""

import posix
from fcntl import ioctl
from select import select
from termios import TCSANOW, TIOCGWINSZ, VINTR, VQUIT, tcgetattr, tcsetattr
from termios import error as TerminalError
from time import monotonic

from lbd.client.complaints import Trouble
from lbd.launch.terminal_modes import ends_lines, pack_modes, pack_size, raw_modes, same_flags
from lbd.local import client_tags as tags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable

    from lbd.launch.terminal_modes import Attributes, Size

    SendFrame = Callable[[bytes, bytes], None]

STOP, CONT, TSTP, TTIN, TTOU, WINCH, HUP = 19, 18, 20, 21, 22, 28, 1
SIG_IGN = 1
READ_BYTES = 1 << 16
LOOK_S = 0.5  # between two checks whether we are in the foreground: no signal tells
UNANSWERED_S = 3.0  # if the LBM has not taken typed input for this long, ^C ends us
NO_SIZE = (24, 80, 0, 0)
STUCK = "interrupted: input is no longer accepted (this host's LBM has stopped?)"


class Terminal:
    """`typing`: standard input is a terminal and we read it for the command."""

    def __init__(self, closed: int, typing: bool, pty: bool) -> None:
        """`closed`: bits of the descriptors the caller has closed."""
        mine = [n for n in (0, 1, 2) if not closed >> n & 1 and posix.isatty(n)]
        # A copy, unless it stays ours: we give up what the command is given.
        self.descriptor = None if not mine else 0 if typing else posix.dup(mine[0])
        self.typing = typing
        self.pty = pty
        self.stderr_apart = pty and 2 not in mine
        self.modes: Attributes | None = None
        self.size: Size = NO_SIZE
        self.raw = False
        self.attached = False  # the command has begun elsewhere
        self.may_type = False
        self.typed_s = 0.0  # since when the LBM should have taken typed input
        self.held = b""  # typed while the LBM took nothing
        self.interrupting = False  # ^C or ^\\ was typed last
        self.wanted = False  # the command wants to read, and we are in the background
        if self.descriptor is not None:
            try:
                self.modes = tcgetattr(self.descriptor)
                self.size = self.look_at_size()
            except (OSError, TerminalError):
                self.descriptor = None
        self.behind = not self.in_front()
        # Other programs' output to our terminal should look as usual for as long as possible.
        self.lines = bool(
            pty and typing and 1 in mine and self.modes is not None and ends_lines(self.modes)
        )

    def fields(self) -> "list[tuple[bytes, bytes]]":
        """Returns the request's fields about the terminal."""
        pairs = []
        if self.pty:
            pairs.append((tags.TERMINAL, pack_size(self.size)))
        if self.pty and self.modes is not None:
            pairs.append((tags.MODES, pack_modes(self.modes)))
        return pairs

    def flags(self) -> bytes:
        behind = tags.FLAG_BACKGROUND if self.behind else b""
        lines = tags.FLAG_ENDS_LINES if self.lines else b""
        return behind + lines + (tags.FLAG_STDERR_APART if self.stderr_apart else b"")

    def in_front(self) -> bool:
        """Also True for a terminal of another session, where nobody would stop us."""
        if self.descriptor is None:
            return True
        try:
            return posix.tcgetpgrp(self.descriptor) == posix.getpgrp()
        except OSError:
            return True

    def look_at_size(self) -> "Size":
        assert self.descriptor is not None
        found = ioctl(self.descriptor, TIOCGWINSZ, bytes(8))
        rows, columns, width, height = memoryview(found).cast("H")
        return (rows, columns, width, height)

    # Raw mode and back

    def go_raw(self) -> None:
        """Sets raw mode if the command has a terminal and ours is in the foreground."""
        if not (self.pty and self.typing and self.attached and not self.raw and self.in_front()):
            return
        try:
            modes = tcgetattr(0)
            if self.modes is None or not same_flags(modes, raw_modes(self.modes)):
                if modes != self.modes:  # after a stop they may have changed
                    self.send_frame(tags.SET_MODES, pack_modes(modes))
                self.modes = modes
            tcsetattr(0, TCSANOW, raw_modes(self.modes, lines=self.lines))
            self.raw = True
        except (OSError, TerminalError):  # the terminal is gone
            pass

    def leave_raw(self) -> None:
        """Restores the modes, unless another process has set them meanwhile."""
        if not self.raw or self.modes is None:
            return
        self.raw = False
        try:
            if same_flags(tcgetattr(0), raw_modes(self.modes)):
                tcsetattr(0, TCSANOW, self.modes)
        except (OSError, TerminalError):
            pass

    def give_back(self) -> None:
        """Restores the modes at the end and tells the LBM, which does so if we are killed."""
        self.leave_raw()
        if self.attached:
            self.send_frame(tags.RESTORED, b"")

    def leave_output_alone(self) -> None:
        """The command uses the full screen. In the foreground, the LBM has acted on that."""
        self.lines = False

    # While the command runs

    def attach(self, send_frame: "SendFrame", set_signal: "Callable[[int, int], object]") -> None:
        """Notes that the command has begun elsewhere."""
        self.send_frame = send_frame
        self.attached, self.typed_s = True, monotonic()
        set_signal(TTOU, SIG_IGN)  # restoring the terminal must not stop us
        if self.behind and not self.pty:
            send_frame(tags.GROUND, b"\1")
        self.look()

    def look(self) -> None:
        """Checks whether we are in the foreground: no message tells us when that changes."""
        behind = not self.in_front()
        if behind != self.behind:
            self.behind = behind
            self.send_frame(tags.GROUND, b"\1" if behind else b"\0")
        if behind:
            self.raw = False  # another process has it now, with its own modes
        else:
            self.go_raw()

    def wait(self, sock: "socket") -> bool:
        """Waits until the LBM has sent something, a key was typed, or it is time to look.

        Returns False if the caller must go on waiting. Does nothing before the command has begun.
        """
        if not self.attached:
            return True
        self.look()
        watched: list[socket | int] = [sock]
        stuck = (
            not self.may_type and bool(self.typed_s) and monotonic() - self.typed_s > UNANSWERED_S
        )
        if self.typing and not self.behind and (self.may_type or (stuck and self.raw)):
            watched.append(0)
        ready, _, _ = select(watched, [], [], LOOK_S)
        if 0 in ready:
            self.type_in()
        return sock in ready

    def type_in(self) -> None:
        """Sends typed input one piece at a time, each once the last one has been taken.

        Raises Trouble if nobody takes it and the user types ^C.
        """
        try:
            data = posix.read(0, READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self.typing = False
            if self.pty:  # the terminal is gone: it has no other end
                self.send_frame(tags.SIGNAL, bytes((HUP,)))
                return
        if self.raw and self.modes is not None:
            characters = self.modes[6]
            assert isinstance(characters, list)
            ending = [characters[which] for which in (VINTR, VQUIT) if characters[which] != b"\0"]
            self.interrupting = data[-1:] in ending
            if self.interrupting and not self.may_type:
                raise Trouble(STUCK)
        if self.may_type:
            self.send(data)
        else:
            self.held = (self.held + data)[:READ_BYTES]

    def send(self, data: bytes) -> None:
        self.may_type, self.typed_s = False, monotonic()
        self.send_frame(tags.INPUT, data)

    def taken(self) -> None:
        """Notes that the LBM has accepted what was sent."""
        self.may_type, self.typed_s = self.typing, 0.0
        if self.held:
            data, self.held = self.held, b""
            self.send(data)

    def resized(self) -> bool:
        """Returns whether the size has changed; if so, reports it to the command."""
        if not self.pty or self.descriptor is None:
            return False
        try:
            size = self.look_at_size()
        except OSError:
            return False
        if size == self.size:
            return False
        self.size = size
        self.send_frame(tags.RESIZE, pack_size(size))
        return True

    def come_back(self) -> None:
        """Continues after a stop."""
        self.wanted = False
        self.look()
        self.resized()

    def stop_reading(self) -> None:
        """Stops the command, which wants to read; we stop once it has stopped."""
        self.wanted = True
        self.send_frame(tags.SIGNAL, bytes((STOP,)))

    def how_to_stop(self) -> "tuple[int, bool]":
        """Returns the signal to stop by, and whether for our whole group, as the kernel would."""
        self.leave_raw()
        if self.behind and (self.pty or self.wanted):
            return TTIN, True
        return TSTP, self.pty
