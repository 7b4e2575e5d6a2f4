"""The terminal's alternate screen, restored on every way out: q, ^C, TERM, HUP, ^Z, an error."""

import os
import select
import signal
import sys
import termios
import tty
from contextlib import suppress
from types import FrameType, TracebackType

USUAL = (80, 24)  # columns and lines, for a terminal that does not know its size
ENTER = "\x1b[?1049h\x1b[?25l"  # alternate screen, hidden cursor
LEAVE = "\x1b[?25h\x1b[?1049l"
HOME, CLEAR_LINE = "\x1b[H", "\x1b[K"


class Screen:
    """`with Screen() as screen: screen.draw(lines); key = screen.key(1.0)`.

    INT, TERM and HUP become exceptions, so that leaving the `with` restores the terminal. Only the
    first signal does that, because another one would interrupt the restoring.
    """

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._saved = termios.tcgetattr(self._fd)
        # A signal writes a byte here, which ends the wait for a key: a resize redraws at once.
        self._wake_read, self._wake_write = os.pipe()
        self.is_leaving = False

    def __enter__(self) -> "Screen":
        os.set_blocking(self._wake_write, False)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGWINCH, lambda *_: None)
        signal.signal(signal.SIGTSTP, self._suspend)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._leave)
        self._take()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.is_leaving = True
        signal.set_wakeup_fd(-1)
        self._give_back()

    def _take(self) -> None:
        tty.setcbreak(self._fd)
        sys.stdout.write(ENTER)
        sys.stdout.flush()

    def _give_back(self) -> None:
        termios.tcsetattr(self._fd, termios.TCSADRAIN, self._saved)
        try:
            sys.stdout.write(LEAVE)
            sys.stdout.flush()
        except OSError:
            return  # the terminal is gone: nothing to restore

    def _leave(self, number: int, frame: FrameType | None) -> None:
        if self.is_leaving:
            return
        self.is_leaving = True
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    def _suspend(self, number: int, frame: FrameType | None) -> None:
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        # Continues here after `fg`.
        signal.signal(signal.SIGTSTP, self._suspend)
        self._take()

    def size(self) -> tuple[int, int]:
        """Returns the current columns and lines."""
        # Not shutil's version: it uses COLUMNS, which many shells export and no resize changes.
        try:
            found = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            return USUAL
        return found.columns or USUAL[0], found.lines or USUAL[1]

    def draw(self, lines: list[str]) -> None:
        """Draws the whole screen from lines that fit, without flicker or scrolling."""
        # Each line is cleared first: clearing after a full line would erase its last character.
        rows = [*lines, *[""] * (self.size()[1] - len(lines))]
        sys.stdout.write(HOME + "\r\n".join(CLEAR_LINE + row for row in rows))
        sys.stdout.flush()

    def wake(self) -> None:
        """Ends the wait for a key; may be called from any thread."""
        with suppress(OSError):  # the pipe is full, so the wait ends anyway
            os.write(self._wake_write, b"\0")

    def key(self, timeout_s: float) -> str:
        """Returns the key pressed in that time; "" for none or after a signal, q at end of
        input."""
        ready, _, _ = select.select([self._fd, self._wake_read], [], [], timeout_s)
        if self._wake_read in ready:
            os.read(self._wake_read, 1024)
        if self._fd not in ready:
            return ""
        try:
            return os.read(self._fd, 32).decode(errors="replace") or "q"
        except OSError:
            return "q"
