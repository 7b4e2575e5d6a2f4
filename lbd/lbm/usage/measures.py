"""The figures of `lbctl stats`: sums that add up over hosts, and what follows from them. Pure.

*Response* is the time from the question where to run until the end. *Waiting* is the part before
the command began: for an answer, a slot, the queue. *Slowdown* is all that a job waited, for that,
a CPU, a disk or a person, ÷ its CPU time, as in `lbd sim dispatch`; only for jobs with at least
`SIZE_S_MIN` of it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from lbd.errors import PeerError

NO_FIGURES = "the daemon's answer contains no figures; is it another version?"
SIZE_S_MIN = 0.01
GROUPS_MAX = 100  # of one kind, in one host's answer
STEPS = 10  # per factor of e in the value: percentiles are within 5 %
LEAST = 1e-4  # shorter times count as nothing
ROW_LENGTH = 19  # key, 5 counts and sums, 3 of each of 3 samples, the steps of each, slot_s
STEPS_MAX = 400  # different steps of a sample; there are fewer between LEAST and 1e12


@dataclass(slots=True)
class Moments:
    """Enough of a sample for its mean, its standard deviation and, nearly, its percentiles."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    steps: dict[int, int] = field(default_factory=dict)  # count for each `step_of`

    def add(self, other: "Moments") -> None:
        self.count += other.count
        self.total += other.total
        self.squares += other.squares
        for step, count in other.steps.items():
            self.steps[step] = self.steps.get(step, 0) + count

    def percentile(self, share: float) -> float:
        """NaN if the sample is empty, or a host sent fewer steps than values."""
        if not self.count or sum(self.steps.values()) != self.count:
            return math.nan
        rank, passed = share * self.count, 0
        for step in sorted(self.steps):
            passed += self.steps[step]
            if passed >= rank:
                break
        return math.exp(step / STEPS) if step > step_of(LEAST) else 0.0

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else math.nan

    @property
    def sd(self) -> float:
        """The standard deviation of a sample; NaN for fewer than two."""
        if self.count < 2:
            return math.nan
        variance = (self.squares - self.total * self.total / self.count) / (self.count - 1)
        return math.sqrt(max(0.0, variance))


@dataclass(slots=True)
class Measure:
    """The figures of all jobs that have something in common."""

    jobs: int = 0
    failed: int = 0
    moved: int = 0
    wrong: int = 0
    cpu_s: float = 0.0
    response: Moments = field(default_factory=Moments)
    waiting: Moments = field(default_factory=Moments)
    slowdown: Moments = field(default_factory=Moments)
    slot_s: float = 0.0  # how long they ran, times their slots

    def add(self, other: "Measure") -> None:
        self.jobs += other.jobs
        self.failed += other.failed
        self.moved += other.moved
        self.wrong += other.wrong
        self.cpu_s += other.cpu_s
        self.response.add(other.response)
        self.waiting.add(other.waiting)
        self.slowdown.add(other.slowdown)
        self.slot_s += other.slot_s

    @property
    def ran_s(self) -> float:
        """How long they ran in total, whatever they did meanwhile."""
        return max(0.0, self.response.total - self.waiting.total)

    @property
    def transferred(self) -> float:
        """The share of jobs that ran on another host than the one they came from."""
        return self.moved / self.jobs if self.jobs else math.nan

    @property
    def wrong_transfers(self) -> float:
        """The share of jobs sent to a host that was no less busy at the time."""
        return self.wrong / self.jobs if self.jobs else math.nan


def step_of(value: float) -> int:
    return round(math.log(max(value, LEAST)) * STEPS)


def merged(parts: Iterable[dict[str, Measure]]) -> dict[str, Measure]:
    """Adds the parts up by key; the keys with most jobs come first."""
    found: dict[str, Measure] = {}
    for part in parts:
        for key, measure in part.items():
            found.setdefault(key, Measure()).add(measure)
    return dict(sorted(found.items(), key=lambda item: (-item[1].jobs, item[0])))


def measure_of_row(row: object) -> tuple[str, Measure]:
    """Raises PeerError."""
    if (
        not isinstance(row, list)
        or len(row) != ROW_LENGTH
        or not isinstance(row[0], str)
        or not all(isinstance(value, int | float) for value in (*row[1:15], row[18]))
    ):
        raise PeerError(NO_FIGURES)
    key, jobs, failed, moved, wrong, cpu_s, *rest = row
    steps = map(steps_of_row, rest[9:12])
    response, waiting, slow = (
        Moments(rest[at], rest[at + 1], rest[at + 2], next(steps)) for at in (0, 3, 6)
    )
    return key, Measure(jobs, failed, moved, wrong, cpu_s, response, waiting, slow, rest[12])


def steps_of_row(pairs: object) -> dict[int, int]:
    """Raises PeerError."""
    if not isinstance(pairs, list) or len(pairs) > STEPS_MAX:
        raise PeerError(NO_FIGURES)
    found = {}
    for pair in pairs:
        match pair:
            case [int() as step, int() as count] if abs(step) <= STEPS_MAX and count > 0:
                found[step] = count
            case _:
                raise PeerError(NO_FIGURES)
    return found
