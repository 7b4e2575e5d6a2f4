"""How far the jobs ahead are unlike those that a forecast is learnt from: is it a guess? Pure."""

import math
from collections.abc import Hashable
from itertools import accumulate
from typing import NamedTuple

from lbd.dispatch.core.outlook.line_played import Caps, Line

ROUGH = 0.125  # of the jobs before it, as many outlive all that ended: a guess
MOST, SURELY = 0.5, 0.99
OUTLIVED = "the running jobs are already longer than those it was learnt from"
LITTLE_KNOWN = "little is known of the commands that run, or wait ahead of it"
TARGET_AHEAD = "how many slots an array with a target takes that is ahead of it may change"
TARGET = "target"  # the kind of a limit


class Novelty(NamedTuple):
    """How far the jobs of a line are unlike those that its forecasts are learnt from."""

    sums: tuple[float, ...]  # how many outlive these, among the running and the first n waiting
    runs: int
    outlived: int  # of the running jobs, those that are already longer
    # How many wait before the first of an array with a target. It is before all while it is not
    # known how long its tasks take: it takes turns then, and has its place back later.
    targeted: float = math.inf

    def is_targeted(self, waiting: int) -> bool:
        """Whether an array with a target may go first. `waiting`: how many wait before the job that
        is asked about."""
        return waiting > self.targeted

    def why_rough(self, waiting: int) -> str:
        """`waiting`: as above."""
        if self.is_targeted(waiting):
            return TARGET_AHEAD
        if self.sums[waiting] < ROUGH * max(1, self.runs + waiting):
            return ""
        return OUTLIVED if self.outlived > MOST * self.runs else LITTLE_KNOWN


def novelty_of(line: Line, *, is_steered: bool = False) -> Novelty:
    """`is_steered`: an array waits that has a target and of which no task has ended."""
    # All jobs of a new command line are taken to be like the oldest that runs.
    new = dict[Hashable, float]()
    for one in line.runs:
        if one.lives.is_new:
            new.setdefault(one.lives.same, one.lives.outliving(one.age_s))
    chances = [new.get(one.lives.same, one.lives.outliving(one.age_s)) for one in line.runs]
    fresh = {id(one.lives): one.lives.outliving(0.0) for one in line.waits}
    chances += [new.get(one.lives.same, fresh[id(one.lives)]) for one in line.waits if one.takes]
    runs = len(line.runs)
    sums = tuple(accumulate(chances[runs:], initial=sum(chances[:runs])))
    takes = [one for one in line.waits if one.takes]
    targeted = next((n for n, one in enumerate(takes) if has_target(one.caps)), math.inf)
    outlived = sum(chance >= SURELY for chance in chances[:runs])
    return Novelty(sums, runs, outlived, -1 if is_steered else targeted)


def has_target(caps: Caps) -> bool:
    return any(isinstance(cap, tuple) and cap[0] == TARGET for cap, _ in caps)
