"""How long to wait for a host's owner: what each answer would have cost on these hosts. Pure.

The rules of `wait_or_migrate` take hosts to be alike and their owners' comings to be independent.
Measured hosts are neither: a host whose owner is back has, more often than others, an owner who is
back again soon, so leaving it is worth more than the stay that is saved. No formula for that is
needed where the comings and goings of all hosts are known: on each host a task is imagined for each
of some limits, which waits so long and then moves at random to a host that is free. What waiting
and moving these had is kept apart, so any cost of a move can be asked for.

All limits see everything, so taking the best one so far ("follow the leader") comes as near to the
best of them in hindsight as chance allows. Until enough was seen, it is as long as a move costs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from lbd.theory.owner_periods import safe_limit_s

LIMITS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 60, 120, 240)  # steps
FEWEST_WAITS = 150  # times that an owner came back, before any is believed
MOST_HOSTS = 64  # that have such tasks; more would say no more


@dataclass(slots=True)
class Trial:
    """What one limit had so far, over all its imagined tasks, in steps and moves."""

    limit: float
    waited: int = 0
    worked: int = 0
    moved: int = 0
    places: list[int] = field(default_factory=list)
    stretches: list[int] = field(default_factory=list)  # steps of waiting without a stop

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
    """The trials of one group of hosts, always named in the same order."""

    trials: list[Trial] = field(default_factory=lambda: [Trial(n) for n in (*LIMITS, math.inf)])
    interruptions: int = 0
    _before: tuple[bool, ...] = ()

    def step(self, on: Sequence[bool], rng: Random) -> None:
        """A step has passed: which hosts are free of their owners now.

        When their number changes, the imagined tasks begin again on the hosts there are; what was
        counted stays.
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
        """What each limit had so far, for saving across a restart: waited, worked, moved."""
        return [[trial.waited, trial.worked, trial.moved] for trial in self.trials]

    def restore(self, rows: Sequence[Sequence[int]], interruptions: int) -> None:
        """What was kept. Raises ValueError, and takes nothing, if it cannot have been counted."""
        fits = len(rows) == len(self.trials) and all(len(row) == 3 for row in rows)
        if not fits or min(interruptions, *(min(row) for row in rows)) < 0:
            raise ValueError("the record of the trials is damaged and starts again empty")
        self.interruptions = interruptions
        for trial, row in zip(self.trials, rows, strict=True):
            trial.waited, trial.worked, trial.moved = row

    def limit(self, move: float) -> float:
        """How many steps to wait where a move costs so many; infinite: never move.

        Raises ValueError for a negative cost.
        """
        safe = safe_limit_s(move)
        if self.interruptions < FEWEST_WAITS:
            return safe
        return min(self.trials, key=lambda trial: trial.cost_of_work(move)).limit
