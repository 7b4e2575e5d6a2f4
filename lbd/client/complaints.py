"""The error messages of `lbrun` and the exit status after them."""

import posix
import sys

FAILED = 125
SAID_CHARS_MAX = 8000
ERROR = 2  # the descriptor of standard error
REMOVED = "the working directory has been removed; go to another one"


class Trouble(Exception):
    """lbrun itself has failed: one line on stderr, exit 125."""


class Voice:
    """Whether there is a standard error. If the caller closed it, another file may have its
    number."""

    is_there = True


def encode(text: str) -> bytes:
    return text.encode(sys.getfilesystemencoding(), "surrogateescape")


def say(text: str, name: str = "lbrun") -> None:
    """Prints one line on standard error, if the caller has one; on a terminal broken at words."""
    from lbd.text.one_line import at_words, one_line

    if Voice.is_there:
        line = f"{name}: {one_line(text, SAID_CHARS_MAX)}"
        try:
            if columns := terminal_columns():
                line = "\r\n".join(at_words(line, columns))  # the terminal may be in raw mode
            posix.write(ERROR, encode(f"{line}\n"))
        except OSError:
            pass


def terminal_columns() -> int:
    """Returns the width of standard error; 0 if it is no terminal, or the width is not known."""
    try:
        return posix.get_terminal_size(ERROR).columns
    except OSError:
        return 0
