"""Malleable jobs in one first-come queue, each with a choice: fewer slots now or more later.

Downey (UCB/CSD-97-929, 1997), sections 4 to 6. All strategies except OPT are those of
`dispatch/core/malleable/`. OPT knows when each running job ends. Nothing passes the head of the
queue, so the jobs that run when a job gets there determine when more slots become free, whatever
else arrives: OPT is exact, and the outcome of every prediction is known.

A job that waits at the head is asked again when slots become free, when a job arrives, and when the
predicted time is over. Every day begins with all slots free: the night is as long as necessary. Two
views:

- `application`: all jobs follow AVG, and each is simulated beside it as if it alone had chosen.
- `system`: all jobs follow the strategy.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf
from typing import Literal, NamedTuple, get_args

from lbd.config.dispatch import Strategy
from lbd.dispatch.core.malleable.decision import (
    BeginOn,
    FreeSlots,
    Head,
    Hold,
    Rule,
    decide,
    expected_wait,
)
from lbd.model import HostId
from lbd.sim.queueing.malleable_workload import LIFETIMES, Day
from lbd.theory.allocation import (
    PAPER,
    Choice,
    Malleable,
    Rules,
    better_of,
    what_is_free,
)
from lbd.theory.calibration import Bias, Outcome
from lbd.theory.lifetimes import UniformLog
from lbd.theory.queue_time import Releases

Name = Literal["AVG", "OPT", "PRED", "BIAS", "HEUR"]
NAMES: tuple[Name, ...] = get_args(Name)
LIVE: dict[Name, Strategy] = {"AVG": "avg", "PRED": "pred", "BIAS": "bias", "HEUR": "heur"}
MACHINE = HostId("machine")


class Running(NamedTuple):
    ends_s: float
    began_s: float
    slots: int


@dataclass(slots=True)
class Machine:
    """The slots and the jobs that run on them."""

    free: int
    running: list[Running] = field(default_factory=list)  # a heap by end time
    lifetimes: UniformLog = LIFETIMES  # of sequential work, as predictors assume them

    def begin(self, slots: int, now_s: float, run_s: float) -> None:
        self.free -= slots
        heappush(self.running, Running(now_s + run_s, now_s, slots))

    def end_until(self, now_s: float) -> None:
        while self.running and self.running[0].ends_s <= now_s:
            self.free += heappop(self.running).slots

    @property
    def next_end_s(self) -> float:
        return self.running[0].ends_s if self.running else inf

    def releases(self, now_s: float) -> Releases:
        """Returns what a predictor sees: ages and slots."""
        return Releases.of(
            [(now_s - one.began_s, one.slots) for one in self.running], self.lifetimes
        )

    def waits_s(self, now_s: float) -> list[tuple[int, float]]:
        """Returns what an oracle sees: at each end, how many slots are then free, and how soon."""
        free, found = self.free, []
        for one in sorted(self.running):
            free += one.slots
            found.append((free, one.ends_s - now_s))
        return found

    def copy(self) -> "Machine":
        running = list(self.running)
        heapify(running)
        return Machine(self.free, running, self.lifetimes)


@dataclass(slots=True)
class Decider:
    """One strategy, and what it learns on the way. Only BIAS uses that; it is reported for all."""

    name: Name
    rules: Rules = PAPER
    lock_in: bool = False
    bias: Bias = field(default_factory=Bias)
    outcomes: list[Outcome] = field(default_factory=list)  # predicted, actual, in order of ends
    # the time when each outcome becomes known
    _to_come: list[tuple[float, Outcome]] = field(default_factory=list)

    def ask(self, job: Malleable, machine: Machine, now_s: float, head: Head) -> BeginOn | Hold:
        """Decides what the job at the head does now."""
        if self.name == "OPT":
            return oracle(job, machine, now_s, head)
        self._learn_until(now_s)
        releases = machine.releases(now_s)
        if head.since_s is None and self.name in ("PRED", "BIAS"):
            self._note(job, machine, now_s, releases)
        known = self.bias.correction() if self.name == "BIAS" else None
        rule = Rule(LIVE[self.name], self.rules, self.lock_in, correction=known)
        return decide(job, [FreeSlots(MACHINE, machine.free, releases)], rule, head, now_s)

    def _note(self, job: Malleable, machine: Machine, now_s: float, releases: Releases) -> None:
        """Records the prediction behind a job's first decision, and its outcome."""
        correction = self.bias.correction() if self.name == "BIAS" else None
        expected = expected_wait(job, machine.free, releases, correction)
        if expected is None:
            return
        wanted, raw_s = expected
        actual_s = next(wait_s for slots, wait_s in machine.waits_s(now_s) if slots >= wanted)
        heappush(self._to_come, (now_s + actual_s, (raw_s, actual_s)))

    def _learn_until(self, now_s: float) -> None:
        while self._to_come and self._to_come[0][0] <= now_s:
            outcome = heappop(self._to_come)[1]
            self.bias.learn(*outcome)
            self.outcomes.append(outcome)


def oracle(job: Malleable, machine: Machine, now_s: float, head: Head) -> BeginOn | Hold:
    """OPT, section 5.2: the least Q(n) + R(n), with known Q."""
    now = what_is_free(job, machine.free)
    later = [
        Choice(slots, wait_s, job.run_s(slots), "ends first though it waits")
        for free, wait_s in machine.waits_s(now_s)
        if (slots := min(free, job.useful)) >= job.least
    ]
    best = min(later, key=lambda one: one.ends_in_s, default=None)
    if now is not None and (best is None or better_of(now, best) is now):
        return BeginOn(MACHINE, now.slots, now.reason)
    assert best is not None  # with all slots free it can start
    if now is not None and head.since_s is None:
        head = Head(now_s, now.slots)
    return Hold(best.slots, MACHINE, now_s + best.begins_in_s, head, best.reason)


@dataclass(slots=True)
class Served:
    """The result for one job."""

    job: Malleable
    arrived_s: float
    began_s: float = 0.0
    slots: int = 0
    offered: int = 0  # slots that were free when it could first have started
    rebelled: bool = False

    @property
    def turnaround_s(self) -> float:
        return self.began_s - self.arrived_s + self.duration_s

    @property
    def duration_s(self) -> float:
        return self.job.run_s(self.slots)

    @property
    def spoiled(self) -> bool:
        """Returns whether it was offered all the slots it can use (section 5.2)."""
        return self.offered >= self.job.useful


@dataclass(slots=True)
class OneLine:
    """One day of the system view: every job follows the decider."""

    machine: Machine
    decider: Decider
    watch: Callable[[Served, Machine], None] | None = None  # called just before a job starts
    served: list[Served] = field(default_factory=list)
    waiting: deque[Served] = field(default_factory=deque)
    head: Head = field(default_factory=Head)
    ask_s: float = inf  # when the job at the head is asked at the latest

    def run(self, day: Day) -> list[Served]:
        """Returns the jobs in order of arrival."""
        for at_s, job in day:
            self.until(at_s)
            one = Served(job, at_s)
            self.served.append(one)
            self.waiting.append(one)
            self.move(at_s)
        while self.waiting:
            self.step()
        return self.served

    def until(self, at_s: float) -> None:
        while self.next_s() <= at_s:
            self.step()

    def next_s(self) -> float:
        return min(self.machine.next_end_s, self.ask_s if self.waiting else inf)

    def step(self) -> None:
        now_s = self.next_s()
        self.machine.end_until(now_s)
        self.move(now_s)

    def move(self, now_s: float) -> None:
        """Starts the jobs that can start and decide to."""
        while self.waiting and self.machine.free:
            one = self.waiting[0]
            one.offered = one.offered or self.machine.free
            answer = self.decider.ask(one.job, self.machine, now_s, self.head)
            if isinstance(answer, Hold):
                self.head, self.ask_s = answer.head, answer.ask_at_s
                one.rebelled = self.head.since_s is not None
                return
            self.began(one, answer, now_s)
        self.ask_s = inf  # until a slot is free

    def began(self, one: Served, answer: BeginOn, now_s: float) -> None:
        one.began_s, one.slots = now_s, answer.slots
        if self.watch is not None:
            self.watch(one, self.machine)
        self.machine.begin(one.slots, now_s, one.duration_s)
        self.waiting.popleft()
        self.head = Head()


def alone(decider: Decider, one: Served, machine: Machine, arrivals_s: Sequence[float]) -> Served:
    """The application view: returns `one`, which AVG starts now, as if it alone had chosen for
    itself. `arrivals_s` are the arrivals still to come."""
    machine, head, now_s = machine.copy(), Head(), one.began_s
    coming = iter(arrivals_s)
    arrival_s = next(coming, inf)
    while True:
        answer = decider.ask(one.job, machine, now_s, head)
        if isinstance(answer, BeginOn):
            rebelled = head.since_s is not None
            return Served(one.job, one.arrived_s, now_s, answer.slots, one.offered, rebelled)
        head = answer.head
        while arrival_s <= now_s:
            arrival_s = next(coming, inf)
        now_s = min(machine.next_end_s, arrival_s, answer.ask_at_s)
        machine.end_until(now_s)
