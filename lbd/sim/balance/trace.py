"""Jobs from a trace: a line each of arrival, CPU seconds and optionally I/Os and host, separated by
commas or spaces; or the 18 fields of the Standard Workload Format, of which submit and run time are
used.

A first line with words is a heading that says which column is which. Jobs without a host are
distributed at random. A requested utilisation stretches or squeezes the gaps.
"""

import math
from collections.abc import Iterable, Sequence
from random import Random

from lbd.errors import ConfigError
from lbd.sim.balance.workload import Job

SWF_FIELDS = 18
COLUMNS = {
    "arrival": 0, "arrival_s": 0, "start_epoch": 0, "submitted": 0, "time": 0, "time_s": 0,
    "cpu": 1, "cpu_s": 1, "ios": 2, "host": 3,
}  # fmt: skip

TraceJob = tuple[float, float, int, str]  # arrival, CPU seconds, I/Os, host or ""


def read_jobs(lines: Iterable[str], name: str) -> tuple[TraceJob, ...]:
    """Returns the jobs sorted by arrival, starting at 0. Raises ConfigError that names the line."""
    columns: dict[int, int] = {0: 0, 1: 1, 2: 2, 3: 3}  # ours -> the file's
    jobs: list[TraceJob] = []
    has_heading = False
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].partition(";")[0].strip()
        if not text:
            continue
        words = [word.strip() for word in text.split(",")] if "," in text else text.split()
        if not jobs and not is_number(words[0]):
            columns = heading(words, f"{name}:{number}")
            has_heading = True
            continue
        if len(words) == SWF_FIELDS and not has_heading:
            columns = {0: 1, 1: 3}
        job = read_job(words, columns, f"{name}:{number}")
        if job[1] > 0:  # a job without CPU time changes nothing
            jobs.append(job)
    if not jobs:
        raise ConfigError(f"{name}: holds no job that used CPU time")
    jobs.sort()
    first_s = jobs[0][0]
    return tuple((at_s - first_s, cpu_s, ios, host) for at_s, cpu_s, ios, host in jobs)


def heading(words: Sequence[str], where: str) -> dict[int, int]:
    found = {COLUMNS[word]: place for place, word in enumerate(words) if word in COLUMNS}
    if 0 not in found or 1 not in found:
        raise ConfigError(
            f"{where}: neither a job (arrival, CPU seconds, I/Os)"
            " nor a heading with arrival_s and cpu_s"
        )
    return found


def read_job(words: Sequence[str], columns: dict[int, int], where: str) -> TraceJob:
    def text(ours: int) -> str:
        place = columns.get(ours, len(words))
        return words[place] if place < len(words) else ""

    if not is_number(text(0)) or not is_number(text(1)) or not is_number(text(2) or "0"):
        raise ConfigError(f"{where}: not a job: arrival, CPU seconds, I/Os")
    return float(text(0)), float(text(1)), max(0, int(float(text(2) or "0"))), text(3)


def is_number(text: str) -> bool:
    try:
        return abs(float(text)) < 1e12  # excludes NaN as well
    except ValueError:
        return False


def dealt_out(
    trace: Sequence[TraceJob], hosts: int, duration_s: float, immobile: float, seed: str,
    stretch: float = 1.0, pinned: frozenset[int] = frozenset(),
) -> list[Job]:  # fmt: skip
    """Distributes a trace's jobs over our hosts, its own hosts in turn. `pinned` jobs must stay."""
    rng = Random(f"{seed} trace")
    known: dict[str, int] = {}
    jobs: list[Job] = []
    for at_s, cpu_s, ios, name in trace:
        if at_s * stretch >= duration_s:
            break
        host = known.setdefault(name, len(known)) % hosts if name else rng.randrange(hosts)
        mobile = rng.random() >= immobile and len(jobs) not in pinned
        jobs.append(Job(len(jobs), host, at_s * stretch, cpu_s, ios, mobile))
    return jobs


def utilisation(trace: Sequence[TraceJob], power: float) -> float:
    """Returns the utilisation of `power` reference cores by the trace as recorded; infinite if all
    jobs came at once."""
    span_s = trace[-1][0]
    return sum(job[1] for job in trace) / power / span_s if span_s else math.inf
