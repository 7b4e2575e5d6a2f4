"""Jobs from a trace in the Standard Workload Format (SWF) of the Parallel Workloads Archive.

One job in a line, 18 numbers; -1 is unknown, `;` begins a comment. Used are the second (submit
time), the fourth (run time) and the ninth (requested time: the user's estimate), all in seconds,
and the fifth (processors).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

FIELDS = 18
SUBMIT, RUN, PROCESSORS, REQUESTED = 1, 3, 4, 8
LONGEST_LINE = 4096  # bytes; real lines have about 120
MOST_SLOTS = 1_000_000  # of a job
MOST_S = 1e12  # 30,000 years: anything longer is not a time, and cannot be summed


class BrokenLine(ValueError):
    """A line that is not in the format; the text says why."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number = number


class TraceJob(NamedTuple):
    submitted_s: float
    run_s: float
    requested_s: float | None  # the user's estimate
    slots: int = 1  # also if the trace does not say


@dataclass(frozen=True, slots=True)
class Trace:
    jobs: tuple[TraceJob, ...]  # by time of submission
    skipped: int  # jobs without a positive run time: cancelled while waiting, or unknown
    broken: int  # lines skipped


def read(
    lines: Iterable[bytes],
    limit: int | None = None,
    on_broken: Callable[[BrokenLine], None] | None = None,
) -> Trace:
    """Returns the jobs of an SWF file, the first `limit` of those that ran.

    A broken line raises BrokenLine, unless `on_broken` is given: then it is counted and skipped.
    """
    jobs: list[TraceJob] = []
    skipped = broken = 0
    for number, line in enumerate(lines, 1):
        if limit is not None and len(jobs) >= limit:
            break
        try:
            job = parsed(number, line)
        except BrokenLine as problem:
            if on_broken is None:
                raise
            on_broken(problem)
            broken += 1
            continue
        if job is None:
            continue
        if job.run_s > 0:
            jobs.append(job)
        else:
            skipped += 1
    jobs.sort(key=lambda job: job.submitted_s)
    return Trace(tuple(jobs), skipped, broken)


def parsed(number: int, line: bytes) -> TraceJob | None:
    """Returns the job of a line, None for comments and empty lines."""
    text = line.strip()
    if not text or text.startswith(b";"):
        return None
    if len(line) > LONGEST_LINE:
        raise BrokenLine(number, f"longer than {LONGEST_LINE} bytes")
    fields = text.split()
    if len(fields) != FIELDS:
        raise BrokenLine(number, f"{len(fields)} fields instead of {FIELDS}")
    submitted_s = value_of(number, fields, SUBMIT)
    if submitted_s < 0:
        raise BrokenLine(number, "no submit time (field 2)")
    requested_s = value_of(number, fields, REQUESTED)
    slots = value_of(number, fields, PROCESSORS, MOST_SLOTS, "processors")
    return TraceJob(
        submitted_s,
        value_of(number, fields, RUN),
        requested_s if requested_s > 0 else None,
        max(1, int(slots)),
    )


def value_of(
    number: int, fields: list[bytes], which: int, most: float = MOST_S, unit: str = "seconds"
) -> float:
    field = fields[which]
    try:
        value = float(field)
    except ValueError:
        value = math.nan
    if -most <= value <= most and b"_" not in field:
        return value
    if math.isfinite(value) and b"_" not in field:
        raise BrokenLine(number, f"field {which + 1}: {value:g} is more than {most:.7g} {unit}")
    shown = field[:20].decode("ascii", "replace")
    raise BrokenLine(number, f"field {which + 1} is no number: {shown!r}")
