"""What a job arriving now could expect on each number of slots: its start and its end. Pure.

If no job waits before it, a number of slots is available when the jobs running on one of the hosts
have released as many (`theory/queue_time.py`). Otherwise it starts as `outlook/` says for the
fewest slots, and later by a mean lifetime, spread over all slots of the line, for each further
slot.

Once `CALIBRATED` predicted jobs have started, predictions are shown corrected where that helps
(`theory/calibration.py`), with the interval in which nine in ten started. Otherwise the interval is
the model's own: 5 to 95 % of the possible remaining times of the running jobs. If fewer than
`CALIBRATED` jobs have ended, the time of one in twenty is unknown, and there is no interval.

A decision may take many milliseconds where thousands of slots are held: create a `Situation` where
the queue is, and evaluate it in a thread.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lbd.dispatch.core.malleable.decision import FreeSlots, KnownSpeedup, Rule
from lbd.dispatch.core.malleable.heads import now_chosen
from lbd.dispatch.core.outlook.line_played import (
    EXACT_DRAWS,
    EXACT_STEPS,
    Line,
    Spread,
    draws_for,
)
from lbd.theory.allocation import PAPER, Malleable
from lbd.theory.calibration import FEWEST, Correction
from lbd.theory.free_slots import interval_90_s, quantile_s
from lbd.theory.queue_time import Releases

CALIBRATED = FEWEST
ROWS = 64  # the most numbers of slots shown, evenly spaced
PICKED = ("FREE", "AVG", "PRED", "BIAS", "HEUR")
ALIKE_S = 1e-6  # starts within this time count as simultaneous
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Situation:
    """The hosts that a job may go to, and what is before it."""

    rooms: tuple[FreeSlots, ...]
    ahead_jobs: int
    base_s: float | None  # when it would start on the fewest slots; None: unknown
    slot_s: float  # delay for each further slot, if other jobs are before it
    all_held: Releases | None  # on all these hosts, if lifetimes are known
    ahead_slots: int  # that must be released before it has the fewest
    correction: Correction
    lacks_needs: bool = False  # no host has its needs besides slots free now
    has_intervals: bool = True  # enough jobs have ended
    runs_s: float | None = None  # run time of similar jobs, for one that takes the fewest slots
    is_unknown: bool = False  # also where slots are free: something else holds it back
    line: Line | None = None  # its line, with itself last; for a job that needs only slots
    rules: Mapping[str, Rule] = field(default_factory=dict)  # of each strategy
    slots_left: float = math.inf  # that its user may have

    @property
    def free(self) -> int:
        return max((room.free for room in self.rooms), default=0)

    @property
    def most(self) -> int:
        return max((room.total for room in self.rooms), default=0)


@dataclass(frozen=True, slots=True)
class Prospect:
    slots: int
    raw_s: float | None  # as predicted; None: unknown
    begins_in_s: float | None  # corrected, if that has been learnt; else the median, if known
    interval_90_s: Interval | None
    runs_s: float | None  # None: its work is unknown

    @property
    def ends_in_s(self) -> float | None:
        if self.begins_in_s is None or self.runs_s is None:
            return None
        return self.begins_in_s + self.runs_s


@dataclass(frozen=True, slots=True)
class Answer:
    prospects: tuple[Prospect, ...]
    picks: dict[str, int]  # by strategy


def answer(now: Situation, least: int, most: int, known: KnownSpeedup | None) -> Answer:
    """`known`: None for a job with a fixed number of slots and unknown work."""
    sizes = shown(least, min(most, now.most))
    if now.line is not None:
        played = played_rows(now.line, sizes)
        now = comparably_corrected(now, [median_s for _, median_s, _ in played])
        begins_s = zip(sizes, played, strict=True)
        rows = [played_prospect(now, slots, begin, known) for slots, begin in begins_s]
    else:
        now = comparably_corrected(now, [begins(now, least, slots)[0] for slots in sizes])
        rows = [prospect(now, least, slots, known) for slots in sizes]
    if not rows:
        return Answer((), {})
    if known is None or least == most:
        return Answer(tuple(rows), dict.fromkeys(PICKED, least))
    found = picks(rows, least, most, known)
    if now.base_s == 0 and now.free >= least:  # it would start at once, or choose to wait
        job = Malleable(least, int(min(most, now.slots_left)), known.speedup, known.work_s)
        for name, rule in now.rules.items():
            found[name] = now_chosen(job, now.rooms, rule)
    return Answer(tuple(rows), found)


def comparably_corrected(now: Situation, waits_s: Sequence[float | None]) -> Situation:
    """Returns it without its correction unless that is known for all these waits: if only the
    shorter ones were lengthened, more slots would seem to start sooner than fewer."""
    if all(wait_s is None or now.correction.tells_of(wait_s) for wait_s in waits_s):
        return now
    return replace(now, correction=Correction())


def shown(least: int, most: int) -> Sequence[int]:
    if most - least < ROWS:
        return range(least, most + 1)
    step = (most - least) / (ROWS - 1)
    return sorted({least + round(step * n) for n in range(ROWS)})


def played_rows(line: Line, sizes: Sequence[int]) -> list[Spread]:
    """Returns when each number of slots is available to the last job in line, in its turn."""
    if not sizes:
        return []
    *before, last = line.waits
    asked = [last.on(slots) for slots in sizes]
    there = replace(line, waits=(*before, *asked))
    return there.spreads(draws_for(there.jobs, EXACT_DRAWS, EXACT_STEPS))[-len(sizes) :]


def played_prospect(
    now: Situation, slots: int, begin: Spread, known: KnownSpeedup | None
) -> Prospect:
    runs_s = run_s(now, slots, known)
    low_s, raw_s, high_s = begin
    if math.isinf(raw_s):
        return Prospect(slots, None, None, None, runs_s)
    interval_s = (low_s, high_s) if now.has_intervals or raw_s <= 0 else None
    if now.correction.tells_of(raw_s):
        return Prospect(slots, raw_s, *now.correction.corrected(raw_s, interval_s), runs_s)
    return Prospect(slots, raw_s, raw_s, interval_s, runs_s)


def run_s(now: Situation, slots: int, known: KnownSpeedup | None) -> float | None:
    return known.speedup.run_s(known.work_s, slots) if known is not None else now.runs_s


def prospect(now: Situation, least: int, slots: int, known: KnownSpeedup | None) -> Prospect:
    raw_s, room = begins(now, least, slots)
    runs_s = run_s(now, slots, known)
    if raw_s is None:
        return Prospect(slots, None, None, None, runs_s)
    exact = modelled(now, least, slots, raw_s, room)
    if now.correction.tells_of(raw_s):
        drawn_s = (exact[0], exact[2]) if exact is not None else None
        return Prospect(slots, raw_s, *now.correction.corrected(raw_s, drawn_s), runs_s)
    if exact is None:
        return Prospect(slots, raw_s, raw_s, None, runs_s)
    begin_s = likely_s(raw_s, exact, now.ahead_jobs)
    return Prospect(slots, raw_s, begin_s, (exact[0], exact[2]), runs_s)


def begins(now: Situation, least: int, slots: int) -> tuple[float | None, FreeSlots | None]:
    """Returns the predicted start, and on which host if known."""
    if now.is_unknown:
        return None, None
    if now.ahead_jobs or now.lacks_needs:
        base_s = now.base_s
        return (None if base_s is None else base_s + (slots - least) * now.slot_s), None
    able = [room for room in now.rooms if room.total >= slots]
    if any(room.free >= slots for room in able):
        return 0.0, None
    if now.all_held is None or not able:
        return None, None
    waits = [(room.releases.combined_s(slots - room.free), n) for n, room in enumerate(able)]
    wait_s, n = min(waits)
    return wait_s, able[n]


def modelled(
    now: Situation, least: int, slots: int, raw_s: float, room: FreeSlots | None
) -> Spread | None:
    """Returns the exact model where the paper's predictors are only fast: B gives the latest end
    for the last slot."""
    if raw_s <= 0:
        return 0.0, 0.0, 0.0
    if not now.has_intervals:
        return None
    if room is not None:
        return spread(slots - room.free, room.releases)
    return within(now.ahead_slots + slots - least, now.all_held)


def spread(needed: int, releases: Releases) -> Spread:
    low_s, high_s = interval_90_s(needed, releases)
    return low_s, quantile_s(needed, releases), high_s


def within(needed: int, held: Releases | None) -> Spread | None:
    """Returns when `needed` slots are released; more than are held are released in several
    rounds."""
    if held is None or not held.total:
        return None
    needed = max(1, needed)
    low_s, median_s, high_s = spread(min(needed, held.total), held)
    beyond = max(1.0, needed / held.total)
    return low_s * beyond, median_s * beyond, high_s * beyond


def likely_s(wait_s: float, exact: Spread, ahead_jobs: int) -> float:
    """Returns the start shown with that interval: the median if the job is next. Behind other jobs
    their mean lifetimes count, as in `wait_s`, limited to the interval."""
    low_s, median_s, high_s = exact
    return min(max(wait_s, low_s), high_s) if ahead_jobs else median_s


def picks(rows: Sequence[Prospect], least: int, most: int, known: KnownSpeedup) -> dict[str, int]:
    """Returns what each strategy would take, as far as foreseeable: what is free when the job could
    first start, the earliest end by prediction, and for HEUR what comes within its patience. The
    dispatcher decides by the run times of all jobs, and only once the job is next."""
    job = Malleable(least, most, known.speedup, known.work_s)
    useful = [row for row in rows if row.slots <= job.useful]
    if not useful or useful[0].raw_s is None:
        return {}
    first_s = useful[0].raw_s
    at_once = [r.slots for r in useful if r.raw_s is not None and r.raw_s <= first_s + ALIKE_S]
    average = max(at_once)

    def least_end(begin_s: Sequence[float | None]) -> int:
        ends = [
            (s + job.run_s(row.slots), row.slots)
            for s, row in zip(begin_s, useful, strict=True)
            if s is not None
        ]
        return min(ends)[1]

    target = useful[-1]
    patience_s = PAPER.patience * (job.run_s(average) - job.run_s(target.slots))
    comes_s = math.inf if target.raw_s is None else target.raw_s - first_s
    begin_alike = [r.slots for r in rows if r.raw_s is not None and r.raw_s <= first_s + ALIKE_S]
    return {
        "FREE": max(begin_alike),
        "AVG": average,
        "PRED": least_end([row.raw_s for row in useful]),
        "BIAS": least_end([row.begins_in_s for row in useful]),
        "HEUR": target.slots if comes_s <= patience_s else average,
    }
