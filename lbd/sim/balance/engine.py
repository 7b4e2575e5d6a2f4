"""Jobs, CPUs and disks in virtual time; a `Placement` decides where jobs run.

An event is (time, order, function, argument). The function returns when to call it again, or None;
calling again costs half as much as another event. A host has one valid CPU event, that at
`cpu.due_s`. A new task or a message only postpones the next end, and the event finds that out when
it fires. A shorter task makes the next end earlier, which invalidates the later event.

A job alternates between the CPU and the disks. Its I/Os are spread evenly over its run, in at most
`IO_BURSTS` pieces: the mean response of such a network depends only on the sums.
"""

import math
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import Protocol, TypeVar

from lbd.sim.balance.setup import Setup
from lbd.sim.balance.workload import Job
from lbd.sim.engine.cpu import NEVER, SharedCpu
from lbd.sim.engine.cpu_round_robin import RoundRobinCpu
from lbd.sim.engine.disks import Disks

IO_BURSTS = 3
NO_MORE: tuple[float, Job | None] = (math.inf, None)

What = TypeVar("What")
Body = Callable[[What, float], float | None]  # returns when to call it again
Process = Generator[float, float, None]  # yields when to continue, and is sent that time


Cpu = SharedCpu[Job] | RoundRobinCpu[Job]


class Placement(Protocol):
    """An algorithm, or a bound on all algorithms."""

    job_threshold_s: float  # shorter jobs are not worth a placement

    def place(self, job: Job, now_s: float) -> None:
        """Calls the engine's `start` or `move`, now or once its probes are answered."""
        ...

    def ended(self, job: Job, now_s: float) -> None: ...

    def departed(self, host: int) -> None: ...


class Engine:
    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.costs = setup.costs
        self.cpus: list[Cpu] = [cpu_of(setup, number) for number in range(setup.hosts)]
        # empty: there are always enough disks, and nothing waits for one
        self.disks = [Disks(setup.disks) for _ in range(setup.hosts)] if setup.disks else []
        self.coming = [0] * setup.hosts  # jobs on their way to each host
        self.handled = 0  # number of events
        self.messages = 0
        self.moved = 0
        self.wrong = 0  # jobs moved to a host no less busy than their origin
        self.seen: Counter[int] = Counter()  # queue lengths that arriving jobs found
        self.placement: Placement
        self.on_end: Callable[[Job, float], None] | None = None  # for users who wait for each job
        self._events: list[tuple[float, int, Body[object], object]] = []
        self._next_order = count(1).__next__

    # -- time ------------------------------------------------------------------------------------

    def at(self, moment_s: float, body: Body[What], what: What) -> None:
        """Calls body(what, moment_s) at that time."""
        heappush(self._events, (moment_s, self._next_order(), body, what))  # type: ignore[misc]

    def run(self, jobs: Sequence[Job]) -> None:
        """Runs until every job has ended."""
        events, arrive, next_order = self._events, self.arrive, self._next_order
        coming = ((job.arrived_s, job) for job in jobs)
        next_s, job = next(coming, NO_MORE)
        handled = 0
        while True:
            if events and events[0][0] < next_s:
                now_s, _, body, what = events[0]
                # events that it adds come later, so this one is still the first
                again_s = body(what, now_s)
                if again_s is None:
                    heappop(events)
                else:
                    heapreplace(events, (again_s, next_order(), body, what))
            elif job is not None:
                arrive(job, next_s)
                next_s, job = next(coming, NO_MORE)
            else:
                break
            handled += 1
        self.handled = handled

    def follow(self, process: Process) -> None:
        """Resumes the process at each time that it yields, until it ends."""
        self.at(next(process), resumed, process)

    @property
    def overhead_s(self) -> float:
        """Returns the CPU time of load balancing on all hosts."""
        return sum(cpu.overhead_s for cpu in self.cpus)

    # -- jobs ------------------------------------------------------------------------------------

    def arrive(self, job: Job, now_s: float) -> None:
        self.seen[len(self.cpus[job.origin])] += 1
        if job.mobile and job.cpu_s > self.placement.job_threshold_s:
            self.placement.place(job, now_s)
        else:
            self.start(job, job.origin, now_s)

    def start(self, job: Job, host: int, now_s: float) -> None:
        job.host = host
        ios = job.ios
        job.bursts = job.bursts_left = ios or 1 if ios < IO_BURSTS else IO_BURSTS
        self._compute(job, now_s)

    def move(self, job: Job, to: int, now_s: float, costly: bool = True) -> None:
        self.moved += 1
        there, here = self.cpus[to], self.cpus[job.origin]
        if len(there) * here.power >= len(here) * there.power:
            self.wrong += 1
        if not costly:
            self.start(job, to, now_s)
            return
        self.follow(self._moving(job, to, now_s))

    def _moving(self, job: Job, to: int, now_s: float) -> Process:
        transfer_s, not_before_s = self.costs.transfer_s, now_s + self.costs.transfer_delay_s
        self.coming[to] += 1
        now_s = yield self.cpus[job.origin].overhead(transfer_s, now_s)
        now_s = yield max(self.cpus[to].overhead(transfer_s, now_s), not_before_s)
        self.coming[to] -= 1
        self.start(job, to, now_s)

    def _compute(self, job: Job, now_s: float) -> None:
        host = job.host
        due_s = self.cpus[host].add(job, job.cpu_s / job.bursts, now_s)
        if due_s is not None:
            self.at(due_s, self._cpu_due, host)

    def _cpu_due(self, host: int, now_s: float) -> float | None:
        cpu = self.cpus[host]
        if cpu.due_s != now_s:
            return None  # an earlier event took its place
        for job in cpu.finished(now_s):
            job.bursts_left -= 1
            if job.ios:
                seconds = job.ios * self.costs.io_s / job.bursts
                disks = self.disks
                done_s = disks[host].begin(seconds, now_s) if disks else now_s + seconds
                self.at(done_s, self._io_done, job)
            else:
                self._end(job, now_s)
        return cpu.due_s if cpu.due_s < NEVER else None

    def _io_done(self, job: Job, now_s: float) -> None:
        if self.disks:
            self.disks[job.host].end(now_s)
        if job.bursts_left:
            self._compute(job, now_s)
        else:
            self._end(job, now_s)

    def _end(self, job: Job, now_s: float) -> None:
        job.response_s = now_s - job.arrived_s
        self.placement.departed(job.host)
        if job.charged:
            self.placement.ended(job, now_s)
        if self.on_end is not None:
            self.on_end(job, now_s)


def resumed(process: Process, now_s: float) -> float | None:
    try:
        return process.send(now_s)
    except StopIteration:
        return None


def cpu_of(setup: Setup, host: int) -> Cpu:
    cores, speed = setup.power(host)
    cpu: Cpu = SharedCpu(cores, speed)
    if setup.quantum_s:
        cpu = RoundRobinCpu(cores, speed, setup.quantum_s)
    cpu.is_metered = setup.smoothing_s > 0 or setup.window_s > 0
    return cpu


class AtHome:
    """NOLB: every job runs where it was submitted."""

    job_threshold_s = math.inf

    def place(self, job: Job, now_s: float) -> None:
        raise AssertionError("no job is longer than for ever")

    def ended(self, job: Job, now_s: float) -> None:
        pass

    def departed(self, host: int) -> None:
        pass
