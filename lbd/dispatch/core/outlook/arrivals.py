"""When a job that arrives now will start: cheap, as every submission asks. Pure.

One prediction serves further submissions of the same kind for a moment. What has come since, or is
on its way to the disk, is worked off before the next job (`comers.py`).
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from lbd.dispatch.core.discipline import HostConnection, QueuedJob
from lbd.dispatch.core.outlook.comers import Came
from lbd.dispatch.core.outlook.forecast import Forecast
from lbd.dispatch.core.outlook.line_maker import NEW
from lbd.dispatch.core.outlook.novelty import ROUGH
from lbd.dispatch.core.outlook.plays import is_quick
from lbd.dispatch.core.outlook.queue_outlook import QueueOutlook
from lbd.theory.queue_time import later

ARRIVALS_S = 0.5  # how long one look at the hosts serves new submissions
ARRIVALS_MAX = 256  # distinct kinds of jobs


class Foreseen(NamedTuple):
    """When an arriving job starts, from now."""

    wait_s: float
    within_s: tuple[float, float] | None  # nine in ten such jobs start in it; None: unknown
    is_rough: bool


@dataclass(frozen=True, slots=True)
class Arrival:
    """The prediction for a job that has just arrived, and the queue at that time."""

    line: HostConnection
    wait_s: float
    within_s: tuple[float, float] | None
    slots: int
    is_rough: bool
    is_quick: bool  # it takes no time worth mentioning to predict another one
    spare: int  # slots that others may take before it has to wait
    jobs: int  # that run, or wait before it
    novel: float  # of these, how many outlive all that ended
    before: Came  # all that had come to the queue

    def behind(self, slots: int, since: Came, outlook: QueueOutlook) -> Foreseen:
        """Returns the prediction for a job that comes behind so many more. `since`: those that came
        since, of which some may run by now."""
        by_s = outlook.behind_s(max(0, slots - self.spare), since) or 0.0
        within_s = later(self.within_s, self.wait_s, by_s)
        novel, jobs = self.novel + since.novel, self.jobs + since.jobs
        is_rough = self.is_rough or (by_s > 0 and novel >= ROUGH * max(1, jobs))
        return Foreseen(self.wait_s + by_s, within_s, is_rough)


@dataclass(slots=True)
class Arrivals:
    forecast: Forecast
    _known: dict[Hashable, Arrival | None] = field(default_factory=dict)
    _known_s: float = float("-inf")

    def of(self, job: QueuedJob, now_s: float) -> Foreseen | None:
        """Predicts the wait of a job arriving now. For a moment the hosts count as unchanged."""
        forecast = self.forecast
        if now_s - self._known_s > ARRIVALS_S:
            self._known, self._known_s = {}, now_s
        key = job.slots, job.needs, job.only, job.barred, forecast.queues.shares.flow(job)
        if key in self._known and self._serves(self._known[key], job.user, now_s):
            found = self._known[key]
        else:
            line = forecast.line_for(job, now_s)
            found = self._arrives(line, job, now_s) if line is not None else None
            waits = found is None or found.wait_s > 0  # the next may have to wait, too
            if waits and len(self._known) < ARRIVALS_MAX:
                self._known[key] = found
        if found is None:
            return None
        comers, outlook = forecast.plays.comers, forecast.outlook(found.line, now_s)
        there = max(0, forecast.places.end_of(found.line).slots - found.slots)
        return found.behind(
            comers.coming.slots + there, comers.came.plus(found.before, -1), outlook
        )

    def _arrives(self, line: HostConnection, job: QueuedJob, now_s: float) -> Arrival | None:
        forecast = self.forecast
        predicted = forecast.of_new_in(line, job, now_s)
        if (wait_s := predicted.wait_s) is None:
            return None
        played, outlook = None, forecast.outlook(line, now_s)
        if wait_s and not job.needs:
            new = job._replace(id=NEW)
            played = forecast.plays.of(line, outlook.general, outlook.head_s, now_s, new)
        within_s = predicted.within_s if played is not None else None
        jobs, novel = played.ahead_of(NEW) if played is not None else (0, 0.0)
        return Arrival(
            line, wait_s, within_s, forecast.places.end_of(line).slots, predicted.is_rough,
            is_quick(played), 0 if wait_s else outlook.free - job.slots,
            jobs or outlook.total - outlook.free, novel, forecast.plays.comers.queued,
        )  # fmt: skip

    def _serves(self, known: Arrival | None, user: str, now_s: float) -> bool:
        """Whether what was predicted a moment ago still serves. What is known of the jobs that came
        since is a mean, so it is used only where playing the line again would take too long."""
        forecast = self.forecast
        if known is None or known.slots == forecast.places.end_of(known.line).slots:
            return True
        return not (known.is_quick and forecast.plays.allowance.has(user, now_s))
