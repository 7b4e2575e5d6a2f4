"""When arrays end, by the plays of their line. Pure.

In each play an array ends with the last of its tasks. Of a long array only the first tasks are
played. Then the others follow at its pace: as many of them run at once as in the second half of the
play, which has what other jobs in line leave to it, and each takes as long as those played.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import fmean, median
from typing import NamedTuple

from lbd.dispatch.core.outlook.line_played import Line, PlayedTimes, Queued, Running, Spread, spread

WHOLE_LINE = 0  # the key of all jobs together, in place of an array's


class EndPlayed(NamedTuple):
    """The end of an array's tasks that run or were played."""

    end_s: Spread  # from the time of the play
    pace_s: Spread  # by how much each further task delays it
    run_s: float  # how long its waiting tasks run, on average
    waits: int  # how many of its waiting tasks were played
    through: int  # the waiting jobs up to its last one


def ends_of(line: Line, plays: Sequence[PlayedTimes]) -> Mapping[int, EndPlayed]:
    jobs: dict[int, list[int]] = {WHOLE_LINE: []}
    both: chain[Running | Queued] = chain(line.runs, line.waits)
    for number, one in enumerate(both):
        jobs[WHOLE_LINE].append(number)
        if one.array != WHOLE_LINE:
            jobs.setdefault(one.array, []).append(number)
    return {array: end_of(numbers, len(line.runs), plays) for array, numbers in jobs.items()}


def end_of(jobs: Sequence[int], runs: int, plays: Sequence[PlayedTimes]) -> EndPlayed:
    """`jobs`: numbers of the jobs; the first `runs` numbers are those of running jobs."""
    running = [number for number in jobs if number < runs]
    waits = [number - runs for number in jobs[len(running) :]]
    ends_s, paces_s, runs_s = list[float](), list[float](), list[float]()
    for begins_s, all_ends_s in plays:
        own_s = [all_ends_s[number] for number in jobs]
        ends_s.append(max(own_s, default=0.0))
        run_s, at_once = pace([begins_s[n] for n in waits], own_s)
        runs_s.append(run_s)
        paces_s.append(run_s / at_once)
    through = waits[-1] + 1 if waits else 0
    paces, run_s = spread(sorted(paces_s)), median(runs_s)
    return EndPlayed(spread(sorted(ends_s)), paces, run_s, len(waits), through)


def pace(begins_s: Sequence[float], ends_s: Sequence[float]) -> tuple[float, float]:
    """Returns how long the waiting jobs run, and how many run at once while the second half of them
    begins. `begins_s`: of these jobs; `ends_s`: of the running ones and then of these."""
    last_s = max(begins_s, default=0.0)
    if not begins_s or max(ends_s) == math.inf:
        return 0.0, 1.0
    running = len(ends_s) - len(begins_s)
    from_s = (min(begins_s) + last_s) / 2
    spans = list(zip(chain([0.0] * running, begins_s), ends_s, strict=True))
    at_once: float = sum(begin_s <= last_s < end_s for begin_s, end_s in spans)
    if last_s > from_s:
        busy_s = (min(end_s, last_s) - max(begin_s, from_s) for begin_s, end_s in spans)
        at_once = sum(one_s for one_s in busy_s if one_s > 0) / (last_s - from_s)
    run_s = fmean(end_s - begin_s for begin_s, end_s in spans[running:])
    return run_s, at_once or 1.0


def sooner(own: EndPlayed, left: int, whole: EndPlayed, others: int) -> float:
    """Returns the part of its pace at which an array goes on behind what was played, since it has
    all slots once the others have ended. `left`: its tasks there, `others`: other jobs there."""
    alone_s = left * own.pace_s[1]
    if not alone_s or not whole.run_s or whole.waits <= own.waits:
        return 1.0
    work_s = whole.run_s * whole.waits - own.run_s * own.waits
    work_s = left * own.run_s + others * max(0.0, work_s) / (whole.waits - own.waits)
    return min(1.0, work_s * whole.pace_s[1] / whole.run_s / alone_s)
