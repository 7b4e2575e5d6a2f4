"""A dispatcher in virtual time: the production queueing disciplines on single hosts.

Each host runs one job at a time. A job's size is the CPU seconds that it needs on one host; under
tags it is killed at its tier's cutoff and starts again from the start, as the keeper does it. A run
begins with empty hosts, continues until the last job has ended, and depends only on its arguments.

Waiting is summed from its parts (each time in a queue, each service that was killed), never
computed as response less size: at a clock of 1e8 s the size of a short job would be lost.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import NamedTuple

from lbd.dispatch.core.discipline import Discipline, HostSlots, QueuedJob, Start
from lbd.dispatch.core.queues import Queues
from lbd.model import HostId, JobId

PROGRESS_EVERY = 4096  # arrivals


class Arrival(NamedTuple):
    at_s: float
    size_s: float
    estimate_s: float | None  # what least-work and sita-e use


@dataclass(slots=True)
class Run:
    """The results for the jobs, in order of arrival, and for the hosts."""

    waited_s: list[float]
    killed_s: list[float]  # part of the waiting: discarded service
    busy_s: list[float] = field(default_factory=list)  # by host, including killed service
    ended_s: float = 0.0


# The end of an attempt: time, its number in order of starts (so no two compare equal), job, and
# whether it was the tier's cutoff.
Ending = tuple[float, int, JobId, bool]


def simulate(
    arrivals: Sequence[Arrival],
    discipline: Discipline,
    hosts: Sequence[HostSlots],
    rng: Random,
    progress: Callable[[int], None] | None = None,
) -> Run:
    """Runs `arrivals`, in ascending order of time, under a fresh `discipline`."""
    world = QueueWorld(arrivals, discipline, hosts, rng)
    for job, arrival in enumerate(arrivals):
        if progress is not None and job % PROGRESS_EVERY == 0:
            progress(job)
        world.run_until(arrival.at_s)
        world.arrive(job)
    world.run_until(float("inf"))
    return world.run


class QueueWorld:
    def __init__(
        self,
        arrivals: Sequence[Arrival],
        discipline: Discipline,
        hosts: Sequence[HostSlots],
        rng: Random,
    ) -> None:
        self.arrivals = arrivals
        self.rng = rng
        self.queues = Queues(discipline, keeps_backlog=False)
        self.hosts = {host.name: index for index, host in enumerate(hosts)}
        self.queues.hosts_are(hosts, 0.0, rng)
        self.run = Run([0.0] * len(arrivals), [0.0] * len(arrivals), [0.0] * len(hosts))
        self.queued_s = [arrival.at_s for arrival in arrivals]  # when its present wait began
        self.endings: list[Ending] = []
        self.started = 0

    def arrive(self, job: int) -> None:
        at_s, _, estimate_s = self.arrivals[job]
        queued = QueuedJob(JobId(str(job)), estimate_s=estimate_s)
        self.begin(self.queues.arrived(queued, at_s, self.rng), at_s)

    def begin(self, starts: list[Start], now_s: float) -> None:
        run = self.run
        for start in starts:
            job = int(start.job.id)
            run.waited_s[job] += now_s - self.queued_s[job]
            service_s = self.arrivals[job].size_s
            cut = start.cutoff_s is not None and service_s > start.cutoff_s
            if cut and start.cutoff_s is not None:
                service_s = start.cutoff_s
                run.waited_s[job] += service_s
                run.killed_s[job] += service_s
            run.busy_s[self.hosts[start.host]] += service_s
            self.started += 1
            heappush(self.endings, (now_s + service_s, self.started, start.job.id, cut))

    def run_until(self, end_s: float) -> None:
        """Processes all ends up to that time; at the same time, ends come before arrivals."""
        endings, queues = self.endings, self.queues
        while endings and endings[0][0] <= end_s:
            now_s, _, job, cut = heappop(endings)
            self.run.ended_s = now_s
            if cut:
                self.queued_s[int(job)] = now_s
                starts = queues.cut_off(job, now_s, self.rng)
            else:
                starts = queues.ended(job, now_s, self.rng)
            self.begin(starts, now_s)


def single_hosts(count: int, tiered: bool) -> list[HostSlots]:
    """Returns h1 … hN with one slot each; `tiered` gives each host a tier of its own."""
    return [
        HostSlots(HostId(f"h{number}"), tiers=(number if tiered else 1,))
        for number in range(1, count + 1)
    ]
