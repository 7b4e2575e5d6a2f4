"""How long the tasks of an array take, from its own ended tasks and those of earlier arrays. Pure.

Earlier ones are the same user's jobs with the same name; for jobs without a name, those with the
same kind of command (`policy/invocation.py`).

A mean says little where a few tasks take very long, so two further things are used: how long the
drain is for tasks like the observed ones (`SeenDrain`), and how long the running tasks are likely
to continue, by their ages (Downey's uniform-log lifetimes, `theory/lifetimes.py`).
"""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from lbd.dispatch.core.cutoffs import ran_whole
from lbd.dispatch.core.ledger_rows import JobRow, command_of
from lbd.theory.lifetimes import UniformLog, fit
from lbd.theory.target_time import Drain, SeenDrain, TaskMean, harmonic

KEPT = 200  # times
FEWEST = 10  # times needed to judge their distribution
EARLIER_COUNT = 20  # tasks: earlier arrays may have had other data, so they count at most this much
# squared coefficients of variation: within these a few tasks show no difference
LIKE_EXPONENTIAL = 0.5, 2.0
# the same within which 2, 3, … tasks seem alike; of samples of exponential tasks, 1 in 20 does
ALIKE = (0.0, 0.0, 0.0025, 0.041, 0.1, 0.15, 0.2, 0.23, 0.26, 0.28)
# A running task tells something beyond this share of the only time known, of the longest if alike.
OF_ONE, OF_ALIKE = 0.95, 1.5
AGES_MAX = 512  # running tasks whose ages are considered
SHORTEST_S = 1e-3


@dataclass(frozen=True, slots=True)
class Earlier:
    """The times of tasks that ended earlier, of this array and of similar ones."""

    own_s: tuple[float, ...] = ()
    others_s: tuple[float, ...] = ()

    def mean(self, declared_s: float | None = None) -> TaskMean | None:
        """Returns None if nothing is known. `declared_s`: what its user says a task takes; that
        counts as one task, instead of what other arrays took."""
        others = min(len(self.others_s), EARLIER_COUNT)
        other_s = fmean(self.others_s) if others else 0.0
        if declared_s is not None:
            others, other_s = 1, declared_s
        tasks = len(self.own_s) + others
        if not tasks:
            return None
        total_s = sum(self.own_s) + others * other_s
        return TaskMean(max(total_s / tasks, SHORTEST_S), float(tasks))


def earlier(rows: Iterable[JobRow], submission: int, name: str, command: bytes) -> Earlier:
    """Selects from this user's `rows` those similar to the tasks of this submission."""
    own, others = list[float](), list[float]()
    kind = command_of(command)
    for row in rows:
        if row.run_s is None or not ran_whole(row):
            continue
        time_s = max(SHORTEST_S, row.run_s)
        if row.submission == submission:
            own.append(time_s)
        elif row.name == name and (name or command_of(row.command) == kind):
            others.append(time_s)
    return Earlier(tuple(own), tuple(others))


@dataclass(slots=True)
class TaskTimes:
    """What is known of the distribution; recomputed when it has grown by a twentieth."""

    seen_s: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    drain: Drain = harmonic
    lives: UniformLog | None = None  # if a few tasks take very long
    spread: float = 1.0  # the squared coefficient of variation; 1 for exponential tasks, or too few
    seen_spread: float = 0.0  # the same of those seen, also of few
    seem_alike: bool = False  # also from few: not enough to plan with
    _count: int = 0
    _next: int = 2

    def add(self, times_s: Iterable[float]) -> None:
        for time_s in times_s:
            self.seen_s.append(max(SHORTEST_S, time_s))
            self._count += 1
        if self._count >= self._next:
            self._next = self._count + max(1, min(self._count, KEPT) // 20)
            self._look()

    @property
    def are_alike(self) -> bool:
        """Whether the tasks differ so little that they run in rounds."""
        return self.spread < LIKE_EXPONENTIAL[0]

    @property
    def may_be_alike(self) -> bool:
        """The same as far as few tasks tell: enough to say when they end, not to plan with."""
        return self.seem_alike or self._count == 1

    @property
    def tells_of_ages(self) -> bool:
        """Whether how long ended tasks took tells what is left of one by its age. It does not of
        exponential tasks, nor do a few that differ."""
        return bool(self.seen_s) and (self.may_be_alike or self.lives is not None)

    @property
    def unlike(self) -> float:
        """The part of an exponential drain that is expected beyond the last round: the coefficient
        of variation, with one more task that is half unlike. Of ten the drain itself is known."""
        count = len(self.seen_s)
        return 1.0 if count >= FEWEST else math.sqrt((count * self.seen_spread + 0.5) / (count + 1))

    def is_told_by(self, ages_s: Sequence[float]) -> bool:
        """Whether running tasks of these ages tell how long tasks take, besides ended ones. They
        do not if the ended ones are alike, or only one, and none is older. (Tasks that began
        together are as old as the first to end, and tell that it is perhaps the shortest.)"""
        if not self.may_be_alike:
            return True
        share = OF_ALIKE if self.seem_alike else OF_ONE
        return max(ages_s, default=0.0) > share * max(self.seen_s)

    def left_s(self, ages_s: Sequence[float]) -> list[float]:
        """Returns what is left of tasks of these ages, where all take about the same time: that of
        the median of the longer ones. One that is longer than all of them is late, and as likely as
        not to be as late again."""
        seen_s, count, found = sorted(self.seen_s), len(self.seen_s), list[float]()
        for age_s in ages_s:
            shorter = bisect_right(seen_s, age_s)
            low, high = (shorter + count - 1) // 2, (shorter + count) // 2  # in the middle
            is_late = shorter == count
            typical_s = 2 * age_s - seen_s[-1] if is_late else (seen_s[low] + seen_s[high]) / 2
            found.append(typical_s - age_s)
        return found

    def _look(self) -> None:
        mean_s = fmean(self.seen_s)
        spread = fmean((time_s / mean_s - 1) ** 2 for time_s in self.seen_s)
        self.seen_spread = spread
        low, high = LIKE_EXPONENTIAL
        if (count := len(self.seen_s)) < FEWEST:
            self.seem_alike = spread <= ALIKE[count]
            return
        self.spread, self.seem_alike = spread, spread < low
        self.drain = harmonic if low <= spread <= high else SeenDrain(self.seen_s)
        self.lives = fit(self.seen_s) if spread > high else None

    def beyond_means(self, ages_s: Sequence[float], mean_s: float) -> int:
        """Returns how many means the running tasks are likely to take beyond one each."""
        if self.lives is None or not 0 < len(ages_s) <= AGES_MAX:
            return 0
        left_s = sum(self._left_s(age_s) for age_s in ages_s)
        return max(0, round(left_s / mean_s) - len(ages_s))

    def _left_s(self, age_s: float) -> float:
        """For a task older than all that ended, returns its age: the even chance of lasting as long
        again."""
        assert self.lives is not None
        if age_s >= self.lives.longest_s:
            return age_s
        return max(0.0, self.lives.mean_left_s(age_s))
