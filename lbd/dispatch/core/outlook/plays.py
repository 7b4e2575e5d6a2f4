"""The lines of the queue as they are played through, and cached results. Pure.

Only the first jobs of a line are played; behind them, the rate at which all slots of the line are
worked off is used. A play of many jobs takes long, so it is done rarely, and with fewer draws. All
plays together have part of the time, since each submission may ask for another one: when that is
used up, the last play of the line is used, or that rate.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate, islice
from typing import NamedTuple

from lbd.dispatch.core.discipline import HostConnection, QueuedJob
from lbd.dispatch.core.outlook.allowance import FOUND_STEPS, LINES, Allowance
from lbd.dispatch.core.outlook.arrays_played import EndPlayed, ends_of
from lbd.dispatch.core.outlook.comers import NOBODY, Came, Comers
from lbd.dispatch.core.outlook.line_maker import NEW, LineMaker
from lbd.dispatch.core.outlook.line_played import (
    Line,
    draws_for,
    spreads_of,
)
from lbd.dispatch.core.outlook.lives import Lives
from lbd.dispatch.core.outlook.novelty import Novelty, novelty_of
from lbd.dispatch.core.queues import Queues
from lbd.model import JobId
from lbd.theory.lifetimes import UniformLog
from lbd.theory.queue_time import later

DRAWS, STEPS = 21, 10_000
FRESH_S, STEPS_PER_S = 1.0, 1000  # a play serves for FRESH_S, or 200 times as long as it took
QUICK = 1000  # a shorter play may be repeated at any time
TURNING = 5  # once this part of the line has begun, a play serves only for FRESH_S
LINES_MAX = 64


class Sources(NamedTuple):
    """Of how many jobs the run times are taken from what."""

    same: int = 0  # earlier runs of the same commands
    other_arguments: int = 0  # earlier runs of these commands with other arguments
    all_ended: int = 0  # all jobs that ended
    declared: int = 0  # what their user says by --work, of an array with a target


def sources_of(line: Line) -> tuple[Sources, ...]:
    def source(lives: Lives) -> Sources:
        if lives.is_declared:
            return Sources(declared=1)
        if not lives.like_s:
            return Sources(0, 0, 1)
        return Sources(1, 0, 0) if lives.line is None else Sources(0, 1, 0)

    def plus(before: Sources, one: Sources) -> Sources:
        return Sources(*map(sum, zip(before, one, strict=True)))

    runs = reduce(plus, (source(one.lives) for one in line.runs), Sources())
    waits = (source(one.lives) for one in line.waits if one.takes)
    return tuple(accumulate(waits, plus, initial=runs))


@dataclass(frozen=True, slots=True)
class Played:
    line: Line
    places: dict[JobId, int]  # of waiting jobs
    slots: int  # that they need
    sources: tuple[Sources, ...]  # of the running jobs and the first n waiting ones
    stops: bool  # nothing is known of the last job, nor of those behind it
    at_s: float
    begins_s: tuple[float, ...]  # medians, from `at_s`
    within_s: tuple[tuple[float, float], ...]  # intervals that hold for nine in ten
    steps: float  # that it took
    novelty: Novelty = field(default_factory=lambda: Novelty((0.0,), 0, 0))
    before: Came | None = None  # all that had come to the queue; None: nothing was played
    ends: Mapping[int, EndPlayed] = field(default_factory=dict)  # by array, and of the whole line
    is_whole: bool = False  # all jobs in line were played

    @property
    def turning(self) -> JobId | None:
        """The job that ends the first fifth of the line."""
        return next(islice(self.places, len(self.places) // TURNING, None), None)

    def begin_s(self, job: JobId, now_s: float) -> float | None:
        """Returns the start, from now; None if the job was not played."""
        place = self.places.get(job)
        return self._from_now(self.begins_s[place], now_s) if place is not None else None

    def interval_of(self, job: JobId, until_s: float, now_s: float) -> tuple[float, float] | None:
        """`until_s`: its wait, which is longer than played if others came before it since, or if
        not the whole line was played. None behind tasks that do not start as played."""
        if not self.places or self.goes_otherwise(job):
            return None
        place = self.places.get(job, len(self.within_s) - 1)
        low_s, high_s = (self._from_now(one_s, now_s) for one_s in self.within_s[place])
        played_s = self._from_now(self.begins_s[place], now_s)
        return later((low_s, high_s), played_s, until_s - played_s)

    def goes_otherwise(self, job: JobId) -> bool:
        """Whether tasks ahead of it do not start as played."""
        return self.novelty.goes_otherwise(self._ahead_of(job))

    def why_rough(self, job: JobId) -> str:
        """Returns why its forecast is only a rough guess; "" if it is not."""
        place = self.places.get(job)
        own = self.line.waits[place].array if place is not None else 0
        return self.novelty.why_rough(self._ahead_of(job), own)

    def sources_before(self, job: JobId) -> Sources:
        """Returns what the run times of the jobs before it are taken from."""
        return self.sources[self._ahead_of(job)]

    def ahead_of(self, job: JobId) -> tuple[int, float]:
        """Returns how many jobs run or wait before it, and how many of these outlive all that
        ended."""
        ahead = self._ahead_of(job)
        return self.novelty.runs + ahead, self.novelty.sums[ahead]

    def _ahead_of(self, job: JobId) -> int:
        return self.places.get(job, len(self.novelty.sums) - 1)

    def last_s(self, now_s: float) -> float:
        return self._from_now(self.begins_s[-1], now_s) if self.begins_s else 0.0

    def _from_now(self, begin_s: float, now_s: float) -> float:
        return max(0.0, begin_s + self.at_s - now_s)


Known = dict[tuple[object, ...], tuple[int, Played | None]]


class Still(NamedTuple):
    """What was played as waiting, and still waits after so many events."""

    played: Played
    events: int
    jobs: tuple[JobId, ...]  # in the order of the play
    of_arrays: Counter[int]


@dataclass(slots=True)
class Plays:
    queues: Queues
    _lines: Known = field(default_factory=dict)
    _arrivals: Known = field(default_factory=dict)
    allowance: Allowance = field(default_factory=Allowance)
    comers: Comers = field(default_factory=Comers)
    _still: Still | None = None

    def forget(self) -> None:
        self._still = None
        self._lines.clear()
        self._arrivals.clear()

    def of(
        self, name: HostConnection, general: UniformLog | None, head_s: float, now_s: float,
        new: QueuedJob | None = None, *, is_outdated: bool = False,
    ) -> Played | None:  # fmt: skip
        """Returns the played line; None if some job running there has no known run time. `head_s`:
        the head does not start before, because of its needs. `new`: include this job as arriving
        now. `is_outdated`: the last play does not tell what is asked, so another is made if the
        allowance has room."""
        key: tuple[object, ...] = (name,)
        known = self._lines
        if new is not None:
            flow = self.queues.shares.flow(new)
            key = name, flow, new.slots, new.only, new.barred, new.needs
            known = self._arrivals
        events = self.queues.shares.events
        if (found := known.get(key)) is not None:
            seen, played = found
            holds = is_fresh(played, now_s) and (seen == events or self._holds(played, now_s))
            if holds and not (is_outdated and seen != events):
                return played
        if not self.allowance.has(new.user if new is not None else LINES, now_s):
            if found is not None:
                return found[1]
            if new is not None:
                return self.of(name, general, head_s, now_s)
            return unplayed(head_s, now_s)
        known.pop(key, None)
        if len(known) >= LINES_MAX:
            del known[next(iter(known))]  # the oldest
        made = self._play(name, general, head_s, now_s, new)
        known[key] = events, made
        return made

    def telling_of(
        self, job: QueuedJob, job_id: JobId, ahead: int, name: HostConnection,
        general: UniformLog | None, head_s: float, now_s: float,
    ) -> tuple[Played | None, JobId]:  # fmt: skip
        """Returns the played line, and the job in it that tells when this one starts. If it has
        come since, and is not the last (later tasks of an array are behind it, or jobs of lower
        priority), the line is played again; if that would take too long, it is the job that stands
        where this one does now, if that may start where this one may. `ahead`: the waiting jobs
        before it."""
        new = job._replace(id=NEW) if job_id == NEW else None
        played = self.of(name, general, head_s, now_s, new)
        if played is not None and self._passes(job_id, ahead, played):
            played = self.of(name, general, head_s, now_s, new, is_outdated=True)
        if played is None or not self._passes(job_id, ahead, played):
            return played, job_id
        other_id = self.still_in(played).jobs[ahead]
        other = played.line.waits[played.places[other_id]]
        is_alike = (other.slots, other.only, other.barred) == (job.slots, job.only, job.barred)
        return played, other_id if is_alike and not job.needs else job_id

    def _passes(self, job_id: JobId, ahead: int, played: Played) -> bool:
        """Whether it was not played, and is before jobs that were."""
        if job_id in played.places:
            return False
        return ahead < len(played.places) and ahead < len(self.still_in(played).jobs)

    def still_in(self, played: Played) -> Still:
        """Lists of jobs and of arrays ask for each of them."""
        events, find = self.queues.shares.events, self.queues.registry.find
        still = self._still
        if still is None or still.played is not played or still.events != events:
            found = ((job, find(job)) for job in played.places)
            jobs = tuple(job for job, one in found if one is not None and one.line is not None)
            of_arrays = Counter(played.line.waits[played.places[job]].array for job in jobs)
            still = self._still = Still(played, events, jobs, of_arrays)
        return still

    def _holds(self, played: Played | None, now_s: float) -> bool:
        """Whether a play serves although something has happened since. A long array of short tasks
        may end before its play has been used for long, and an error of that play stays the same."""
        if is_quick(played) or played is None:
            return False
        if now_s - played.at_s <= FRESH_S or played.turning is None:
            return True
        turning = self.queues.registry.find(played.turning)
        return turning is not None and turning.line is not None

    def line_with(
        self, name: HostConnection, general: UniformLog | None, head_s: float, now_s: float,
        new: QueuedJob,
    ) -> Line | None:  # fmt: skip
        """Returns the line as it is now with this job in its turn, to be played in a thread; None
        if it is too long, or if the run time of a job before it is unknown."""
        made = LineMaker(self.queues, name, general, now_s)
        return made.line() if NEW in self._fill(made, name, head_s, now_s, new)[0] else None

    def since(self, played: Played) -> Came:
        """Returns what has come to the queue since the line was played."""
        return self.comers.queued.plus(played.before, -1) if played.before is not None else NOBODY

    def next_of_array(self, played: Played | None, array: int, now_s: float) -> dict[JobId, float]:
        """Returns when the waiting tasks of an array begin, from now, as far as they are played."""
        if played is None:
            return {}
        find = self.queues.registry.find
        tasks = ((id_, find(id_)) for id_ in played.places)
        ours = (id_ for id_, task in tasks if task is not None and task.kind.array == array)
        return {id_: played.begin_s(id_, now_s) or 0.0 for id_ in ours}

    def _play(
        self, name: HostConnection, general: UniformLog | None, head_s: float, now_s: float,
        new: QueuedJob | None,
    ) -> Played | None:  # fmt: skip
        user = new.user if new is not None else LINES
        made = LineMaker(self.queues, name, general, now_s)
        if not made.knows_all():
            self.allowance.took(len(made.runs), user, now_s)
            return None
        places, slots = self._fill(made, name, head_s, now_s, new)
        line = made.line()
        steps = len(made.runs) + made.steps
        draws = draws_for(steps, DRAWS, STEPS)
        steps *= draws
        self.allowance.took(steps, user, now_s)
        plays = line.plays(draws)
        spreads = spreads_of(plays)
        begins_s = tuple(median for _, median, _ in spreads)
        within_s = tuple((low_s, high_s) for low_s, _, high_s in spreads)
        stops = not made.knows_all()
        targets = self.queues.shares.targets.arrays.items()
        steered = [n for n, one in targets if one.batch.waiting and not one.is_known]
        gangs = [one.job.array for one in self.queues.gangs.leaders()]
        return Played(
            line, places, slots, sources_of(line), stops, now_s, begins_s, within_s, steps,
            novelty_of(line, steered, gangs), self.comers.queued,
            ends_of(line, plays) if new is None else {},
            not (stops or made.is_full),
        )  # fmt: skip

    def _fill(
        self, made: LineMaker, name: HostConnection, head_s: float, now_s: float,
        new: QueuedJob | None,
    ) -> tuple[dict[JobId, int], int]:  # fmt: skip
        """Adds the waiting jobs up to the new one; returns their places, and the slots that those
        in line need."""
        waiting = self.queues.lines.get(name)
        jobs = waiting.in_turn(new) if waiting is not None else iter(())
        places: dict[JobId, int] = {}
        slots, is_last = 0, waiting is None
        for waiter in jobs if made.knows_all() else ():
            if (is_last := waiter.id == NEW) or made.is_full:
                break
            kind = self.queues.registry[waiter.id].job
            made.waits_for(kind, head_s if not places else 0.0)
            places[waiter.id] = len(made.waits) - 1
            slots += waiter.slots
            if not made.knows_all():  # nothing is known of the jobs behind it either
                break
        if new is not None and is_last and made.knows_all():
            made.asks(new, 0.0 if places else head_s)
            places[NEW] = len(made.waits) - 1
        user = new.user if new is not None else LINES
        self.allowance.took(FOUND_STEPS * len(places), user, now_s)
        return places, slots


def unplayed(head_s: float, now_s: float) -> Played:
    """Returns an empty play: the whole line is worked off at the mean rate."""
    return Played(
        Line((), (), (), (), {}), {}, 0, (Sources(),), False, now_s, (head_s,),
        ((head_s, head_s),), 0.0,
    )  # fmt: skip


def is_quick(played: Played | None) -> bool:
    return played is None or played.steps <= QUICK


def is_fresh(played: Played | None, now_s: float) -> bool:
    if played is None:
        return True
    lasting_s = played.steps / STEPS_PER_S if played.steps > QUICK else 0.0
    return 0 <= now_s - played.at_s <= max(FRESH_S, lasting_s)
