"""How long to wait for a host's owner: what each limit would have cost on these hosts. Pure.

The rules of `wait_or_migrate` assume that hosts are alike and that owners come back independently.
Measured hosts are neither: a host whose owner is back is more likely than others to have its owner
back again soon, so leaving it saves more than the current stay. No formula is needed where the
comings and goings of all hosts are known. For each of some limits, one imaginary task per host
waits up to that limit and then moves at random to a free host. The costs of waiting and of moving
are kept apart, so the total can be computed for any cost of a move.

All limits see the same data, so taking the best one so far ("follow the leader") comes as near to
the best in hindsight as chance allows. Until enough data is seen, the limit is the cost of a move.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from lbd.theory.owner_periods import safe_limit_s

LIMITS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 60, 120, 240)  # steps
FEWEST_WAITS = 150  # times that an owner came back, before any result is trusted
MOST_HOSTS = 64  # with imaginary tasks; more would add nothing


@dataclass(slots=True)
class Trial:
    """The totals of one limit over all its imaginary tasks, in steps and moves."""

    limit: float
    waited: int = 0
    worked: int = 0
    moved: int = 0
    places: list[int] = field(default_factory=list)
    stretches: list[int] = field(default_factory=list)  # steps waited without interruption

    def cost_of_work(self, move: float) -> float:
        return (self.waited + move * self.moved) / max(1, self.worked)

    def step(self, on: Sequence[bool], free: Sequence[int], rng: Random) -> None:
        for task, place in enumerate(self.places):
            if not on[place] and free and self.stretches[task] >= self.limit:
                self.places[task] = place = rng.choice(free)
                self.moved += 1
            if on[place]:
                self.stretches[task] = 0
                self.worked += 1
            else:
                self.stretches[task] += 1
                self.waited += 1


@dataclass(slots=True)
class WaitTrials:
    """The trials of one group of hosts, always given in the same order."""

    trials: list[Trial] = field(default_factory=lambda: [Trial(n) for n in (*LIMITS, math.inf)])
    interruptions: int = 0
    _before: tuple[bool, ...] = ()

    def step(self, on: Sequence[bool], rng: Random) -> None:
        """Advances one step; `on` says which hosts are free of their owners now.

        When the number of hosts changes, the imaginary tasks start over on the current hosts; the
        totals stay.
        """
        free = [host for host, is_on in enumerate(on) if is_on]
        if len(on) != len(self._before):
            for trial in self.trials:
                trial.places = list(range(min(len(on), MOST_HOSTS)))
                trial.stretches = [0] * len(trial.places)
        else:
            went = zip(self._before, on, strict=True)
            self.interruptions += sum(was and not is_on for was, is_on in went)
        self._before = tuple(on)
        for trial in self.trials:
            trial.step(on, free, rng)

    def rows(self) -> list[list[int]]:
        """Returns the totals of each limit (waited, worked, moved), for saving across a restart."""
        return [[trial.waited, trial.worked, trial.moved] for trial in self.trials]

    def restore(self, rows: Sequence[Sequence[int]], interruptions: int) -> None:
        """Restores saved totals. Raises ValueError, and changes nothing, if they are impossible."""
        fits = len(rows) == len(self.trials) and all(len(row) == 3 for row in rows)
        if not fits or min(interruptions, *(min(row) for row in rows)) < 0:
            raise ValueError("the record of the trials is damaged and starts again empty")
        self.interruptions = interruptions
        for trial, row in zip(self.trials, rows, strict=True):
            trial.waited, trial.worked, trial.moved = row

    def limit(self, move: float) -> float:
        """Returns how many steps to wait where a move costs `move` steps; infinite: never move.

        Raises ValueError for a negative cost.
        """
        safe = safe_limit_s(move)
        if self.interruptions < FEWEST_WAITS:
            return safe
        return min(self.trials, key=lambda trial: trial.cost_of_work(move)).limit
