"""The lines of the queue as they are played through, and cached results. Pure.

Only the first jobs of a line are played; behind them, the rate at which all slots of the line are
worked off is used. A play of many jobs takes long, so it is done rarely, and with fewer draws. All
plays together have part of the time, since each submission may ask for another one: when that is
used up, the last play of the line is used, or that rate.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate, islice
from typing import NamedTuple

from lbd.dispatch.core.discipline import HostConnection, QueuedJob
from lbd.dispatch.core.outlook.allowance import LINES, Allowance
from lbd.dispatch.core.outlook.arrays_played import EndPlayed, ends_of
from lbd.dispatch.core.outlook.comers import NOBODY, Came, Comers
from lbd.dispatch.core.outlook.line_played import (
    TARGET,
    USER,
    Caps,
    Line,
    Queued,
    Running,
    draws_for,
    spreads_of,
)
from lbd.dispatch.core.outlook.lives import Lives
from lbd.dispatch.core.outlook.novelty import Novelty, novelty_of
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.run_times import kind_of
from lbd.dispatch.core.servers import Server
from lbd.model import HostId, JobId
from lbd.theory.lifetimes import UniformLog
from lbd.theory.next_run import spread_out
from lbd.theory.queue_time import later

PLAYED_MAX = 1000  # of waiting jobs
PLAYED_STEPS = 3000  # of these in one draw; more if many hosts are excluded
FITS_A_STEP = 16  # checks whether a host has a job's needs that take as long as a step
DRAWS, STEPS = 21, 10_000
FRESH_S, STEPS_PER_S = 1.0, 1000  # a play serves for FRESH_S, or 200 times as long as it took
QUICK = 1000  # a shorter play may be repeated at any time
TURNING = 5  # once this part of the line has begun, a play serves only for FRESH_S
LINES_MAX = 64
# Standard deviation of the logarithm, before it is known, by tests/bench/forecasts.py
RUNS_VARY, LINES_VARY = 0.2, 0.4  # of a command's runs; of its command lines' times
NEW = JobId("")


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


@dataclass(slots=True)
class Plays:
    queues: Queues
    _lines: Known = field(default_factory=dict)
    _arrivals: Known = field(default_factory=dict)
    allowance: Allowance = field(default_factory=Allowance)
    comers: Comers = field(default_factory=Comers)

    def forget(self) -> None:
        self._lines.clear()
        self._arrivals.clear()

    def of(
        self, name: HostConnection, general: UniformLog | None, head_s: float, now_s: float,
        new: QueuedJob | None = None,
    ) -> Played | None:  # fmt: skip
        """Returns the played line; None if some job running there has no known run time. `head_s`:
        the head does not start before, because of its needs. `new`: include this job as arriving
        now."""
        key: tuple[object, ...] = (name,)
        known = self._lines
        if new is not None:
            flow = self.queues.shares.flow(new)
            key = name, flow, new.slots, new.only, new.barred, new.needs
            known = self._arrivals
        events = self.queues.shares.events
        if (found := known.get(key)) is not None:
            seen, played = found
            if is_fresh(played, now_s) and (seen == events or self._holds(played, now_s)):
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
        return made.line() if NEW in self._fill(made, name, head_s, new)[0] else None

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
        places, slots = self._fill(made, name, head_s, new)
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
        self, made: "LineMaker", name: HostConnection, head_s: float, new: QueuedJob | None
    ) -> tuple[dict[JobId, int], int]:
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
        return places, slots


def unplayed(head_s: float, now_s: float) -> Played:
    """Returns an empty play: the whole line is worked off at the mean rate."""
    return Played(
        Line((), (), (), (), {}), {}, 0, (Sources(),), False, now_s, (head_s,),
        ((head_s, head_s),), 0.0,
    )  # fmt: skip


def lives_of(
    queues: Queues, job: QueuedJob, general: UniformLog | None, cutoff_s: float | None = None
) -> Lives:
    """Returns what is known of the run time of a job. `general`: of all that ended."""
    most_s = min(one for one in (job.limit_s, cutoff_s, math.inf) if one)
    # Jobs of a new command are alike whatever their labels: with a draw for each, the shortest of
    # many would make the forecast.
    near = queues.run_times.nearest(job)
    if job.target is not None and job.work_s is not None and (near.line or not near.runs):
        unlike = queues.resource_times.slots.unlike_all(kind_of(job))
        times_s, weight = spread_out((job.work_s / job.slots,), LINES_VARY)
        alike = near.key, job.work_s
        return Lives(times_s, general, most_s, alike, unlike, None, weight, is_declared=True)
    if not near.line:
        times_s, weight = spread_out(near.times_s, RUNS_VARY)
        unlike = queues.resource_times.slots.unlike_all(kind_of(job))
        return Lives(times_s, general, most_s, near.key, unlike, None, weight)
    times_s, weight = spread_out(near.times_s, LINES_VARY)
    line = job.user, near.line, job.slots
    return Lives(times_s, general, most_s, near.key, 1.0, line, weight)


def is_quick(played: Played | None) -> bool:
    return played is None or played.steps <= QUICK


def is_fresh(played: Played | None, now_s: float) -> bool:
    if played is None:
        return True
    lasting_s = played.steps / STEPS_PER_S if played.steps > QUICK else 0.0
    return 0 <= now_s - played.at_s <= max(FRESH_S, lasting_s)


class LineMaker:
    """A line's jobs, with what is known of the run time of each."""

    def __init__(
        self, queues: Queues, name: HostConnection, general: UniformLog | None, now_s: float
    ) -> None:
        self.queues, self.general = queues, general
        self.cutoff_s = queues.discipline.cutoff_s(name)
        self.now_s = now_s
        self.servers = [one for one in queues.servers.get(name, ()) if one.host is not None]
        self.room: dict[Hashable, int] = {}
        self.waits: list[Queued] = []
        self.steps = 0.0  # of one draw, for waiting jobs
        self._lives: dict[Hashable, Lives] = {}
        self._barred: dict[tuple[object, ...], frozenset[HostId]] = {}
        self._unknown = 0  # number of jobs with unknown run times
        self.runs = [one for n, server in enumerate(self.servers) for one in self._runs(n, server)]

    def knows_all(self) -> bool:
        """Whether the run times of all jobs considered so far are known."""
        return not self._unknown

    @property
    def is_full(self) -> bool:
        """Whether it has reached the limit of jobs or steps."""
        return len(self.waits) >= PLAYED_MAX or self.steps >= PLAYED_STEPS

    def line(self) -> Line:
        hosts = tuple(one.host.name for one in self.servers if one.host is not None)
        free = tuple(one.free for one in self.servers)
        oldest_first = sorted(self.runs, key=lambda one: -one.age_s)
        return Line(hosts, free, tuple(oldest_first), tuple(self.waits), self.room)

    def _runs(self, host: int, server: Server) -> list[Running]:
        return [
            Running(
                host, entry.slots, max(0.0, entry.ran_s(self.now_s)), *self._times(entry.job),
                self._caps(entry.job), entry.job.array,
            )
            for entry in server.running.values()
        ]  # fmt: skip

    def waits_for(self, job: QueuedJob, not_before_s: float) -> None:
        """Adds the next job in line. All jobs of a gang stand in one place."""
        for _ in range(min(job.gang or 1, PLAYED_MAX)):
            times, caps = self._times(job), self._caps(job)
            barred = self._not_for(job)
            of = job.slots, *times, caps, job.only, barred, not_before_s, True, job.array
            self.waits.append(Queued(*of, is_gang=job.gang > 0))
            self.steps += self.waits[-1].steps

    def asks(self, job: QueuedJob, not_before_s: float) -> None:
        """Adds a query for when a job would have its slots."""
        nothing, caps = (Lives((), None), NEW), self._caps(job)
        barred = self._not_for(job)
        of = job.slots, *nothing, caps, job.only, barred, not_before_s
        self.waits.append(Queued(*of, takes=False))

    def _times(self, job: QueuedJob) -> tuple[Lives, Hashable]:
        declares = job.work_s, job.target is not None
        like = job.user, job.command_line, job.name, job.command, job.slots, job.limit_s, *declares
        if like not in self._lives:
            self._lives[like] = lives_of(self.queues, job, self.general, self.cutoff_s)
        lives = self._lives[like]
        self._unknown += not lives.is_known
        return lives, lives.same if lives.is_new else job.id

    def _caps(self, job: QueuedJob) -> Caps:
        """Returns the limits it counts towards, and by how much; notes what is left of each."""
        shares, caps = self.queues.shares, list[tuple[Hashable, int]]()
        if job.at_once:  # also before the first of its tasks runs
            caps.append((("array", job.array), 1))
            self.room.setdefault(caps[-1][0], job.at_once - shares.arrays.get(job.array, 0))
        if not shares.passes_over:
            return tuple(caps)
        if (left := shares.targets.room(job, self.now_s)) is not None:
            caps.append(((TARGET, job.array), 1))
            self.room.setdefault(caps[-1][0], left)
        if shares.rules.user_slots:
            caps.append(((USER, job.user), job.slots))
            self.room.setdefault(caps[-1][0], int(shares.slots_left(job.user)))
        if limit := shares.name_limit(job.name):
            caps.append((("name", job.name), 1))
            self.room.setdefault(caps[-1][0], limit - shares.names.get(job.name, 0))
        return tuple(caps)

    def _not_for(self, job: QueuedJob) -> frozenset[HostId]:
        """Returns the hosts where it may not start."""
        if not job.needs:
            return job.barred
        key = job.needs, job.only, job.barred, job.slots
        if key not in self._barred:
            self.steps += len(self.servers) / FITS_A_STEP
            unfit = {one.host.name for one in self.servers if one.host and not one.suits(job)}
            self._barred[key] = job.barred | unfit
        return self._barred[key]
