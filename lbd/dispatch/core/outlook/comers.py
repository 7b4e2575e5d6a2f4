"""How long the jobs run that came lately, as far as that is known when they come. Pure.

The line cannot be played again for every submission. The jobs that came since the last play are
ahead of the next one, each for as long as such jobs took before, so short jobs of a burst do not
count as long because those ahead of them are.
"""

from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from lbd.dispatch.core.outlook.lives import Lives


class Came(NamedTuple):
    """Jobs that have come, counted."""

    jobs: int = 0
    slots: int = 0
    known: int = 0  # of the slots, those with known run times
    work_s: float = 0.0  # of these, over all slots
    novel: float = 0.0  # how many outlive all that ended

    def plus(self, other: "Came", times: int = 1) -> "Came":
        return Came(
            self.jobs + times * other.jobs,
            self.slots + times * other.slots,
            self.known + times * other.known,
            self.work_s + times * other.work_s,
            self.novel + times * other.novel,
        )


NOBODY = Came()


@dataclass(slots=True)
class Comers:
    coming: Came = NOBODY  # on their way to the disk, before the queue
    came: Came = NOBODY  # since the start, those included

    @property
    def queued(self) -> Came:
        return self.came.plus(self.coming, -1)

    def comes(self, count: int, slots: int, lives: Lives, mean_s: float | None) -> Came:
        """So many jobs are being written; `arrived` follows. `mean_s`: of all that ended."""
        run_s = fmean(lives.like_s) if lives.like_s else mean_s
        known, novel = count * slots if run_s is not None else 0, 1.0
        if lives.is_known:
            novel = lives.outliving(0.0)
        work_s = known * min(run_s or 0.0, lives.most_s)
        found = Came(count, count * slots, known, work_s, count * novel)
        self.coming, self.came = self.coming.plus(found), self.came.plus(found)
        return found

    def arrived(self, came: Came) -> None:
        """They are in the queue, or will not be."""
        self.coming = self.coming.plus(came, -1)
