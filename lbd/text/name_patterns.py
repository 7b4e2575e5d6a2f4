"""Patterns for file names that differ from job to job: -o, --error, and --fetch with the queue."""

import re

SIGN = re.compile(rb"%(.?)", re.DOTALL)
LETTERS = (b"j", b"A", b"a", b"h", b"%")


def shown_id(job: str, array: int, index: int | None) -> str:
    """Returns the id of a job as people know it. `array`: the array's id if the job is a task, else
    0."""
    return f"{array}_{index}" if array else job


def fill_in(pattern: bytes, job: str, index: int | None, host: str) -> bytes:
    """Replaces %j job id, %A the id of its array, %a array index, %h host and %% per cent sign. Any
    other sequence stays as it is."""
    if b"%" not in pattern:
        return pattern
    meanings = {
        b"j": job.encode(),
        b"A": job.partition("_")[0].encode(),
        b"a": b"%d" % index if index is not None else b"",
        b"h": host.encode(),
        b"%": b"%",
    }
    return SIGN.sub(lambda found: meanings.get(found[1], found[0]), pattern)


def unknown_in(pattern: bytes) -> bytes:
    """Returns the first sequence that `fill_in` leaves as it is, b"" if there is none."""
    return next((one[0] for one in SIGN.finditer(pattern) if one[1] not in LETTERS), b"")
