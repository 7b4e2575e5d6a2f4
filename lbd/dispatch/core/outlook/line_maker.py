"""The jobs of a line as it is played through, with what is known of the run time of each. Pure."""

import math
from collections.abc import Hashable

from lbd.dispatch.core.discipline import HostConnection, QueuedJob
from lbd.dispatch.core.outlook.line_played import TARGET, USER, Caps, Line, Queued, Running
from lbd.dispatch.core.outlook.lives import Lives
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.run_times import kind_of
from lbd.dispatch.core.servers import Server
from lbd.model import HostId, JobId
from lbd.theory.lifetimes import UniformLog
from lbd.theory.next_run import mean_excess_s, spread_out

PLAYED_MAX = 1000  # of waiting jobs
PLAYED_STEPS = 3000  # of these in one draw; more if many hosts are excluded
FITS_A_STEP = 16  # checks whether a host has a job's needs that take as long as a step
# Standard deviation of the logarithm, before it is known, by tests/bench/forecasts.py
RUNS_VARY, LINES_VARY = 0.2, 0.4  # of a command's runs; of its command lines' times
NEW = JobId("")


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
        beyond_s = mean_excess_s(times_s) if weight == 1.0 else 0.0
        of = times_s, general, most_s, near.key, unlike, None, weight
        return Lives(*of, beyond_s=beyond_s)
    times_s, weight = spread_out(near.times_s, LINES_VARY)
    line = job.user, near.line, job.slots
    return Lives(times_s, general, most_s, near.key, 1.0, line, weight)


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
