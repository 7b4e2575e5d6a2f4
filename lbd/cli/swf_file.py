"""Reads a trace from a .swf or .swf.gz file, with one clear message for whatever is wrong."""

from collections.abc import Iterator

from lbd.cli.complaints import complain
from lbd.cli.input_file import UNREADABLE, opened, unreadable
from lbd.errors import ConfigError
from lbd.sim.queueing.trace import LONGEST_LINE, BrokenLine, Trace, read

SHOWN = 5  # broken lines named individually
SKIP_BROKEN = "skip and count malformed lines in the trace"


def read_trace(program: str, path: str, limit: int | None, skip_broken: bool) -> Trace:
    """Raises ConfigError with the number of the first broken line, unless `skip_broken`."""
    met: list[int] = []

    def pass_over(problem: BrokenLine) -> None:
        met.append(problem.number)
        if len(met) <= SHOWN:
            complain(program, f"{path}:{problem.number}: {problem}; skipped")

    try:
        trace = read(lines_of(path), limit, pass_over if skip_broken else None)
    except BrokenLine as problem:
        raise ConfigError(
            f"{path}:{problem.number}: {problem}; use --skip-broken to skip such lines"
        ) from None
    except UNREADABLE as problem:
        raise unreadable(path, problem) from None
    if len(met) > SHOWN:
        complain(program, f"{path}: {len(met)} malformed lines in total")
    if not trace.jobs:
        raise ConfigError(f"{path}: no job with a positive run time ({trace.skipped} without)")
    return trace


def lines_of(path: str) -> Iterator[bytes]:
    with opened(path) as stream:
        while line := stream.readline(LONGEST_LINE + 1):
            yield line
