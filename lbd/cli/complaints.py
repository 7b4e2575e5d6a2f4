"""How every program of ours ends: one-line complaints and exit codes.

A complaint is one line on stderr that starts with the program's name. Exit 2: the command line or
the configuration is wrong; 1: anything else; 130: interrupted; 141: our reader went away.
"""

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lbd.console.errors import json_error, kind_of
from lbd.errors import ConfigError, LbdError
from lbd.text.one_line import one_line

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
COMPLAINT_CHARS_MAX = 8000


class Errors:
    """How this program reports them; set as it begins."""

    as_json = False


def complain(program: str, text: object) -> None:
    said = one_line(str(text), COMPLAINT_CHARS_MAX)
    print(f"{error_mark()}{program}: {said}", file=sys.stderr)


def report_error(program: str, problem: Exception) -> None:
    """What has stopped a program: its line, or under --json an object, on standard error."""
    if not Errors.as_json:
        complain(program, problem)
        return
    said = one_line(str(problem), COMPLAINT_CHARS_MAX)
    message, found, fix = said.rpartition("; ")
    what, advice = (message, fix) if found else (said, None)
    print(json_error(kind_of(problem), what, advice), file=sys.stderr)


def error_mark() -> str:
    """What makes a line an error for the journal (sd-daemon(3)), where stderr is the journal."""
    if "JOURNAL_STREAM" not in os.environ:
        return ""
    from lbd.cli.daemons.journal import ERROR, is_journal

    return f"<{ERROR}>" if is_journal() else ""


def replace_closed() -> None:
    """Python has None for what its caller has closed. To print to that is to fail, as elsewhere."""
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), "w")
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), "w")


def guard(program: str, body: Callable[[], int]) -> int:
    """Run `body`; whatever stops it becomes one line and an exit code, never a traceback."""
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
        Errors.as_json = False  # the next program of this process says itself how
    return code


@contextmanager
def taking_back() -> Iterator[None]:
    """TERM and HUP raise SystemExit within, as Ctrl-C raises KeyboardInterrupt: so what was begun
    is taken back, however we end."""

    def leave(number: int, _frame: object) -> None:
        for one in before:  # nothing interrupts the taking back
            signal.signal(one, signal.SIG_IGN)
        sys.exit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def system_error(problem: OSError) -> str:
    """What failed at what; what has no name is our output, the one file that others open for us."""
    what = problem.filename or ("standard output" if problem.errno in UNWRITABLE else "")
    why = problem.strerror or str(problem)
    return f"{what}: {why}" if what else why


def exit_code(body: Callable[[], int]) -> int:
    try:
        return body()
    except SystemExit as left:  # argparse, or a signal on the way out
        return left.code if isinstance(left.code, int) else 0


def drop_output() -> None:
    """Redirects stdout to nowhere, as Python flushes it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_usage(problem: LbdError) -> bool:
    """Whether the user fixes it on the command line: our own check, or a daemon's refusal."""
    return isinstance(problem, ConfigError) or getattr(problem, "code", "") == "usage"
