"""The error messages of `lbrun` and the exit status after them."""

import posix
import sys

FAILED = 125
SAID_CHARS_MAX = 8000
ERROR = 2  # the descriptor of standard error
MISSING = 2  # ENOENT
SHELL_SIGNS = frozenset(" ;|&<>")  # the same, with the messages, in lbrun.c
REMOVED = "the working directory has been removed; go to another one"
NO_SHELL_LINE = "not found; lbrun runs a program; for a shell line, use lbrun sh -c 'LINE'"


class Trouble(Exception):
    """lbrun itself has failed: one line on stderr, exit 125."""


class Voice:
    """Whether there is a standard error. If the caller closed it, another file may have its
    number."""

    is_there = True


def encode(text: str) -> bytes:
    return text.encode(sys.getfilesystemencoding(), "surrogateescape")


def say(text: str, name: str = "lbrun") -> None:
    """Prints one line on standard error, if the caller has one."""
    from lbd.text.one_line import one_line

    if Voice.is_there:
        try:
            posix.write(ERROR, encode(f"{name}: {one_line(text, SAID_CHARS_MAX)}\n"))
        except OSError:
            pass


def why_not_run(command: list[str], failure: OSError) -> str:
    """Returns why a command could not be executed here."""
    if failure.errno == MISSING and len(command) == 1 and set(command[0]) & SHELL_SIGNS:
        return NO_SHELL_LINE
    return failure.strerror or ""
