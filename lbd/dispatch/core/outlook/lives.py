"""How long a job runs, and goes on running, as far as ended jobs tell. Pure.

A run time is drawn from those of similar jobs and, with part of the weight of one more such run,
from those of all ended jobs. For a running job it is drawn from those longer than its age. Where
few similar ones have ended, their times are spread (`theory/next_run.py`).

All ended jobs say little about another command if they are of few kinds: after a thousand tasks of
0.3 s, a command never seen may take a minute. Of n kinds, the next is the longest once in n + 1
times, and its jobs then outlive the longest of the others in half of the cases. So with that chance
(`unlike`) a job drawn from all of them outlives all that ended; from then on it has, at any age, an
even chance of lasting as long again. The older a job is, the more likely it is one of these; once
it is older than all that ended, what is left is about its age. That holds for a command with a few
runs of its own, too: short tasks of others do not tell how much longer than these the next may
take, and by the few runs alone, the oldest running job would be sure to end by the time that the
longest of them took.

A command line that has not run, of a command that has, is drawn from the times of the known lines,
one of each: of n lines, the next is the longest once in n + 1 times, and then outlives the longest
of these in half of the cases. All jobs of that line take the same time. If it outlives all known
lines, other new lines of that command are longer, too (`line_played.py`): users often go on to
larger ones. Likewise it is the shortest once in n + 1 times, and then takes, in half of these, less
than half of what the shortest of them took.

Of n runs of a command, the next is the longest once in n + 1 times. So with the weight of one more
run a job outlives them all (`beyond_s` says by how much): without it, the last task of an array was
said to end at once as soon as only one task had taken longer, and took as long again in one of two
cases. Where the times of a few runs are spread, that says it already.

No two runs take exactly as long. So a job that is a little older than the longest of those it is
like may still be like it, and ends soon; else the second of two twins would be taken for one that
lasts much longer as soon as the first has ended.
"""

import math
from bisect import bisect_right
from collections.abc import Hashable, Sequence
from math import exp, log
from typing import NamedTuple

from lbd.theory.lifetimes import UniformLog, outlives

SPREAD = 0.1  # of runs that are alike
# The weight of all ended jobs, in similar runs, by tests/bench/forecasts.py. With 1, the first end
# of four that run was too early by a factor of 3 in one of ten cases.
SELDOM_UNLIKE = 0.15  # a command line that has run takes about as long again
LINE_UNLIKE = 0.5


class Lives(NamedTuple):
    """The distribution of a job's run time."""

    like_s: tuple[float, ...]  # similar jobs that ended, shortest first
    general: UniformLog | None  # all that ended; None: too few
    most_s: float = math.inf  # time limit
    alike: Hashable = None  # key shared by similar jobs; None: there are none
    # The chance that it outlives all that ended, if it is like none of the similar ones.
    unlike: float = 0.0
    # Key of its command line, if only others of the same command have run; `like_s` is of those.
    line: Hashable = None
    weight: float = 1.0  # of each of `like_s`, in similar runs
    is_declared: bool = False  # `like_s` is what its user says, as none has run
    # By how much one that outlives all of `like_s` does so, on average; 0: they tell it themselves.
    beyond_s: float = 0.0

    @property
    def is_known(self) -> bool:
        return (bool(self.like_s) and self.line is None) or self.general is not None

    @property
    def is_new(self) -> bool:
        """Whether its command line has not run before: its jobs are like one another."""
        return self.alike is not None and (not self.like_s or self.line is not None)

    @property
    def is_unseen(self) -> bool:
        """Whether no run of its command has ended, by any argument."""
        return self.alike is not None and not self.like_s

    @property
    def same(self) -> Hashable:
        """The key shared by the jobs of one command line, or else by similar jobs."""
        return self.line if self.line is not None else self.alike

    def left_s(
        self, share: float, age_s: float = 0.0, drawn_s: Sequence[float] = (), *,
        may_be_shorter: bool = True,
    ) -> float:  # fmt: skip
        """Returns the remaining run time at this age, for a random share between 0 and 1.
        `drawn_s`: the run times drawn earlier in this play for similar jobs, all longer than its
        age. `may_be_shorter`: than all known lines."""
        like_s = self.like_s
        longer, drawn = self._longer(age_s), len(drawn_s)
        other, _ = self._others(age_s) if like_s or not drawn else (0.0, 0.0)
        like, beyond = longer * self.weight, self._beyond(age_s)
        ran, below = like + beyond, self._below(age_s) if may_be_shorter else 0.0
        at = share * (below + ran + drawn + other) - below
        if at < 0:
            left_s = (like_s[0] - age_s) * (1 + at / below)
        elif at < like:
            like_one_s = like_s[len(like_s) - longer + int(at / like * longer)]
            left_s = (like_one_s if like_one_s > age_s else like_one_s * (1 + SPREAD)) - age_s
        elif at < ran:
            left_s = max(0.0, like_s[-1] - age_s)
            left_s += exceeding_s((at - like) / beyond, self.beyond_s)
        elif at < ran + drawn:
            left_s = drawn_s[int(at - ran)] - age_s
        elif other > 0:
            left_s = self._left_as_others_s((at - ran - drawn) / other, age_s)
        else:
            left_s = lasting_s(share, age_s, age_s)
        return max(0.0, min(left_s, self.most_s - age_s))

    def outliving(self, age_s: float) -> float:
        """Returns the chance that a job of this age outlives all that it is predicted from."""
        like = self._longer(age_s) * self.weight
        other, unlike = self._others(age_s)
        of_all = like + self._beyond(age_s) + other
        return unlike * other / of_all if of_all > 0 else 1.0

    def _longer(self, age_s: float) -> int:
        """Returns how many of the similar jobs took longer, or as good as."""
        longer = len(self.like_s) - bisect_right(self.like_s, age_s)
        return longer or int(bool(self.like_s) and age_s < self.like_s[-1] * (1 + SPREAD))

    def _beyond(self, age_s: float) -> float:
        """Returns the weight of one that outlives all similar jobs, in similar runs."""
        if not self.beyond_s:
            return 0.0
        return exp(min(0.0, self.like_s[-1] - age_s) / self.beyond_s)

    def _below(self, age_s: float) -> float:
        """Returns the weight of one that is shorter than all known lines, in similar runs."""
        if self.line is None or not self.like_s:
            return 0.0
        return LINE_UNLIKE * max(0.0, 1 - age_s / self.like_s[0])

    def _others(self, age_s: float) -> tuple[float, float]:
        """Returns the weight of all ended jobs for a job of this age, in similar runs, and the part
        of it of jobs that outlive them all."""
        if self.general is None:
            return 0.0, 0.0
        ended = (1 - self.unlike) * self.general.share_at(age_s)
        unlike = self.unlike * outlives(age_s, self._last_s)
        if ended + unlike <= 0:
            return (0.0, 0.0) if self.like_s else (1.0, 1.0)
        weight = SELDOM_UNLIKE if self.line is None else LINE_UNLIKE
        other = weight * (ended + unlike) if self.like_s else 1.0
        return other, unlike / (ended + unlike)

    @property
    def _last_s(self) -> float:
        assert self.general is not None
        if self.line is not None and self.like_s:
            return self.like_s[-1]
        return max(self.general.last_s, self.like_s[-1]) if self.like_s else self.general.last_s

    def _left_as_others_s(self, share: float, age_s: float) -> float:
        assert self.general is not None
        _, unlike = self._others(age_s)
        if unlike <= 0 or share < 1 - unlike:
            return self.general.left_s(share / (1 - unlike), age_s)
        return lasting_s((share - (1 - unlike)) / unlike, age_s, self._last_s)


def exceeding_s(share: float, mean_s: float) -> float:
    """Returns by how much one that outlives its like does so."""
    return -mean_s * log(1 - share) if share < 1 else math.inf


def lasting_s(share: float, age_s: float, last_s: float) -> float:
    """Returns the remaining run time of one that outlives all that ended, the longest of which took
    `last_s`."""
    return max(age_s, last_s) / (1 - share) - age_s if share < 1 else math.inf
