"""A progress line on a terminal, which is erased before anything else is printed."""

import posix

ERROR = 2
CLEAR = b"\r\x1b[K"
USUAL_COLUMNS = 80


def has_terminal() -> bool:
    """Returns whether standard error is a terminal that can clear a line."""
    return posix.isatty(ERROR) and posix.environ.get(b"TERM", b"dumb") not in (b"dumb", b"")


class Progress:
    def __init__(self, is_on: bool) -> None:
        self.is_on = is_on
        self._shown = False
        self._mid_line = False  # the last output did not end with a newline

    def show(self, text: str) -> None:
        if not self.is_on or self._mid_line:
            return
        try:
            columns = posix.get_terminal_size(ERROR).columns or USUAL_COLUMNS
            posix.write(ERROR, CLEAR + text[: columns - 1].encode("ascii", "replace"))
        except OSError:
            return
        self._shown = True

    def clear(self) -> None:
        """Erases the line; called before anything else is printed."""
        if self._shown:
            self._shown = False
            try:
                posix.write(ERROR, CLEAR)
            except OSError:
                return

    def printed(self, data: bytes) -> None:
        """Notes that the command has printed this."""
        self._mid_line = not data.endswith(b"\n")
