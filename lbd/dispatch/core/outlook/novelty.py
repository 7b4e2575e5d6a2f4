"""How far the jobs ahead are unlike those that a forecast is learnt from: is it a guess? Pure."""

from collections.abc import Collection, Hashable, Mapping
from itertools import accumulate, chain
from types import MappingProxyType
from typing import NamedTuple

from lbd.dispatch.core.outlook.line_played import TARGET, Line
from lbd.dispatch.core.outlook.lives import Lives

ROUGH = 0.125  # of the jobs before it, as many are unlike all that ended: a guess
MOST, SURELY = 0.5, 0.99
OUTLIVED = "the running jobs are already longer than those it was learnt from"
LITTLE_KNOWN = "little is known of the commands that run, or wait ahead of it"
GANG_AHEAD = "the tasks of job {}, a gang ahead of it, start together, and others may pass them"
TARGET_AHEAD = "how many slots an array with a target takes that is ahead of it may change"
TARGET_OWN = "how many slots its array takes may change, as that has a target"


class Novelty(NamedTuple):
    """How far the jobs of a line are unlike those that its forecasts are learnt from."""

    sums: tuple[float, ...]  # how many are unlike these, among the running and the first n waiting
    runs: int
    outlived: int  # of the running jobs, those that are already longer
    # By array with a target: how many wait before its first task. It is before all while it is not
    # known how long its tasks take: it takes turns then, and has its place back later.
    targeted: Mapping[int, int] = MappingProxyType({})
    # By gang, likewise. It is before all once its turn has come.
    gangs: Mapping[int, int] = MappingProxyType({})

    def goes_otherwise(self, waiting: int) -> bool:
        """Whether an array is ahead whose tasks do not start as played: a gang, or one with a
        target. `waiting`: how many wait before the job that is asked about."""
        arrays = chain(self.targeted.values(), self.gangs.values())
        return any(waiting > before for before in arrays)

    def why_rough(self, waiting: int, own: int = 0) -> str:
        """`waiting`: as above. `own`: the array of the job that is asked about."""
        gangs = (gang for gang, before in self.gangs.items() if waiting > before)
        if (gang := next(gangs, None)) is not None:
            return GANG_AHEAD.format(gang)
        if self.goes_otherwise(waiting):
            others = (before for array, before in self.targeted.items() if array != own)
            return TARGET_AHEAD if any(waiting > before for before in others) else TARGET_OWN
        if self.sums[waiting] < ROUGH * max(1, self.runs + waiting):
            return ""
        return OUTLIVED if self.outlived > MOST * self.runs else LITTLE_KNOWN


def novelty_of(line: Line, steered: Collection[int] = (), gangs: Collection[int] = ()) -> Novelty:
    """`steered`: the arrays that wait, have a target, and of which no task has ended; `gangs`:
    those whose turn has come, and that wait for room."""
    # All jobs of a new command line are taken to be like the oldest that runs.
    new = dict[Hashable, float]()
    for one in line.runs:
        if one.lives.is_new:
            new.setdefault(one.lives.same, unlike(one.lives, one.age_s))
    chances = [new.get(one.lives.same, unlike(one.lives, one.age_s)) for one in line.runs]
    fresh = {id(one.lives): unlike(one.lives, 0.0) for one in line.waits}
    chances += [new.get(one.lives.same, fresh[id(one.lives)]) for one in line.waits if one.takes]
    runs = len(line.runs)
    sums = tuple(accumulate(chances[runs:], initial=sum(chances[:runs])))
    takes = [one for one in line.waits if one.takes]
    targeted, together = dict.fromkeys(steered, -1), dict.fromkeys(gangs, -1)
    for n, waits in enumerate(takes):
        if (TARGET, waits.array) in (cap for cap, _ in waits.caps):
            targeted.setdefault(waits.array, n)
        if waits.is_gang:
            together.setdefault(waits.array, n)
    outlived = sum(one.lives.outliving(one.age_s) >= SURELY for one in line.runs)
    return Novelty(sums, runs, outlived, targeted, together)


def unlike(lives: Lives, age_s: float) -> float:
    """Returns the chance that a job is unlike those that its run time is drawn from. A command that
    has never run may as well take a tenth of what all others took as ten times that, and so do all
    of its jobs in line."""
    return 1.0 if lives.is_unseen else lives.outliving(age_s)
