"""Reads a trace from a .swf or .swf.gz file, with one clear message for whatever is wrong."""

import argparse
from collections.abc import Iterable, Iterator

from lbd.cli.complaints import complain
from lbd.cli.input_file import UNREADABLE, opened, unreadable
from lbd.cli.program import Parser
from lbd.cli.quantities import count, positive
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


def add_trace_options(parser: Parser) -> None:
    add = parser.add_argument
    add("--trace", metavar="FILE", help="jobs from a file, .swf or .swf.gz, instead of drawn ones")
    add("--limit", type=count, metavar="N", help="only the first N jobs of the trace")
    add("--scale-load", type=positive, metavar="R", help="stretch the trace's gaps to this load")
    add("--skip-broken", action="store_true", help=SKIP_BROKEN)


def check_trace_options(
    program: str, options: argparse.Namespace, of_traces: Iterable[str], of_drawn: Iterable[str]
) -> None:
    """Raises ConfigError for options that go with a trace, or with drawn jobs, only."""
    if options.trace is None:
        for name in of_traces:
            if getattr(options, name):
                raise ConfigError(f"{program}: --{name.replace('_', '-')} goes with --trace only")
        return
    for name in of_drawn:
        if getattr(options, name) is not None:
            raise ConfigError(f"{program}: --trace and --{name} exclude each other")
    if options.scale_load is not None and options.scale_load > 100:
        raise ConfigError(f"{program}: --scale-load {options.scale_load:g}: allowed up to 100")


def lines_of(path: str) -> Iterator[bytes]:
    with opened(path) as stream:
        while line := stream.readline(LONGEST_LINE + 1):
            yield line
