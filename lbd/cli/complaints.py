"""How each of our programs ends: one-line error messages and exit codes.

An error is one line on stderr that starts with the program's name. Exit 2: the command line or the
configuration is wrong; 1: any other error; 130: interrupted; 141: the reader of stdout is gone.
"""

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from lbd.console.errors import error_object, kind_of
from lbd.errors import ConfigError, LbdError
from lbd.text.one_line import at_words, one_line

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
COMPLAINT_CHARS_MAX = 8000


class Errors:
    """How this program reports errors; set when it starts."""

    as_json = False


def complain(program: str, text: object) -> None:
    said = one_line(str(text), COMPLAINT_CHARS_MAX)
    print(for_stderr(f"{error_mark()}{program}: {said}"), file=sys.stderr)


def for_stderr(line: str) -> str:
    """Breaks a line at words if stderr is a terminal."""
    with suppress(OSError, ValueError):
        if columns := os.get_terminal_size(sys.stderr.fileno()).columns:
            return "\n".join(at_words(line, columns))
    return line


def report_error(program: str, problem: Exception) -> None:
    """Reports the error that stopped a program on stderr, as a line or (--json) an object."""
    if not Errors.as_json:
        complain(program, problem)
        return
    notes: list[str] = getattr(problem, "__notes__", [])
    said, *more = (one_line(one, COMPLAINT_CHARS_MAX) for one in (str(problem), *notes))
    print(error_object(kind_of(problem), said, *more), file=sys.stderr)


def error_mark() -> str:
    """Returns the prefix that marks a line as an error if stderr is the journal (sd-daemon(3))."""
    if "JOURNAL_STREAM" not in os.environ:
        return ""
    from lbd.cli.daemons.journal import ERROR, is_journal

    return f"<{ERROR}>" if is_journal() else ""


def replace_closed() -> None:
    """Replaces output streams that are None because the caller closed them. Printing to stdout then
    fails, as in other programs."""
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), "w")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), "w")


def guard(program: str, body: Callable[[], int]) -> int:
    """Runs `body`. Turns whatever stops it into one line and an exit code, never a traceback."""
    replace_closed()
    try:
        code = exit_code(body)
        sys.stdout.flush()
    except LbdError as problem:
        report_error(program, problem)
        return EXIT_USAGE if is_usage(problem) else EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        drop_output()
        return EXIT_BROKEN_PIPE
    except OSError as problem:
        drop_output()
        report_error(program, LbdError(system_error(problem)))
        return EXIT_FAILED
    finally:
        Errors.as_json = False  # the next program in this process sets it again
    return code


@contextmanager
def taking_back() -> Iterator[None]:
    """Makes TERM and HUP raise SystemExit inside the block, as Ctrl-C raises KeyboardInterrupt, so
    that what was started is undone however the program ends."""

    def leave(number: int, _frame: object) -> None:
        for one in before:  # nothing may interrupt the undoing
            signal.signal(one, signal.SIG_IGN)
        sys.exit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def system_error(problem: OSError) -> str:
    """Returns what failed on which file. Without a file name it was our output."""
    what = problem.filename or ("standard output" if problem.errno in UNWRITABLE else "")
    why = problem.strerror or str(problem)
    return f"{what}: {why}" if what else why


def exit_code(body: Callable[[], int]) -> int:
    try:
        return body()
    except SystemExit as left:  # argparse, or a signal while leaving
        return left.code if isinstance(left.code, int) else 0


def drop_output() -> None:
    """Redirects stdout to nowhere, because Python flushes it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_usage(problem: LbdError) -> bool:
    """Returns whether the user's command line is at fault: our own check, or a daemon's refusal."""
    return isinstance(problem, ConfigError) or getattr(problem, "code", "") == "usage"
