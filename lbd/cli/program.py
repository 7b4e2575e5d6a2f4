"""What every program of ours shares: options, one-line complaints, exit codes.

A complaint is one line on stderr that starts with the program's name. Exit 2: the command line or
the configuration is wrong; 1: anything else; 130: interrupted; 141: our reader went away.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import lbd
from lbd.errors import ConfigError, LbdError
from lbd.one_line import one_line

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
COMPLAINT_CHARS_MAX = 8000


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors, no guessing of shortened options, and examples in --help."""

    def __init__(self, prog: str, description: str, examples: Sequence[str] = ()) -> None:
        lines = "".join(f"  {line}\n" for line in examples)
        super().__init__(
            prog=prog,
            description=description,
            epilog=f"examples:\n{lines}" if lines else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        said = one_line(message, COMPLAINT_CHARS_MAX)
        self.exit(EXIT_USAGE, f"{self.prog}: {said}; see {self.prog} --help\n")

    def add_config_options(self) -> None:
        self.add_argument("--config", metavar="FILE", help="lbd.toml to use instead of $LBD_CONFIG,"
                          " ~/.config/lbd/lbd.toml or /etc/lbd/lbd.toml")  # fmt: skip

    def add_version(self) -> None:
        self.add_argument("--version", action="version", version=f"{self.prog} {lbd.__version__}")


def complain(program: str, text: object) -> None:
    said = one_line(str(text), COMPLAINT_CHARS_MAX)
    print(f"{error_mark()}{program}: {said}", file=sys.stderr)


def error_mark() -> str:
    """What makes a line an error for the journal (sd-daemon(3)), where stderr is the journal."""
    if "JOURNAL_STREAM" not in os.environ:
        return ""
    from lbd.cli.journal import ERROR, is_journal

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
        complain(program, problem)
        return EXIT_USAGE if is_usage(problem) else EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        drop_output()
        return EXIT_BROKEN_PIPE
    except OSError as problem:
        drop_output()
        complain(program, problem)
        return EXIT_FAILED
    return code


def exit_code(body: Callable[[], int]) -> int:
    try:
        return body()
    except SystemExit as left:  # argparse, or a signal on the way out
        return left.code if isinstance(left.code, int) else 0


def drop_output() -> None:
    """Python flushes stdout once more at exit; let that go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_usage(problem: LbdError) -> bool:
    """Whether the user mends it on the command line: our own check, or a daemon's refusal."""
    return isinstance(problem, ConfigError) or getattr(problem, "code", "") == "usage"
