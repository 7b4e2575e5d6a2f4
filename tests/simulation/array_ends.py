"""When an array will end, as its screens say, beside when it did: the dispatcher's own queue and
forecasts in virtual time.

`python -m tests.simulation.array_ends RUNS SEED` draws as many arrays and prints, by what was known
and how far they were, the ratio of the forecast rest to the true one (median, and the tenth and
ninetieth percentile) and the share of looks whose interval held.

Looks are at even times, as somebody's who watches, about twenty for each array. So a fair interval
of nine in ten holds at nine looks in ten: no look is chosen by how long it is going to take.
"""

import sys
from collections import defaultdict
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random
from statistics import median
from typing import NamedTuple

from lbd.dispatch.core.discipline import HostSlots, QueuedJob, Target
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.shares import Rules
from lbd.dispatch.core.targets.task_times import Earlier
from lbd.dispatch.predictions import Predictions
from lbd.model import HostId, JobId

TASK_S, LOOKS, GRACE_S = 6.0, 20, 1.0  # screens show seconds
PROGRESS = (0.1, 0.25, 0.5, 0.75, 0.9)
KINDS: dict[str, Callable[[Random], float]] = {
    "alike": lambda rng: TASK_S * rng.uniform(1.0, 1.01),
    "by half": lambda rng: TASK_S * rng.uniform(0.5, 1.5),
    "exponential": lambda rng: TASK_S * rng.expovariate(1.0),
}
KNOWN = ("nothing", "--work", "20 earlier")


class Case(NamedTuple):
    tasks: int
    slots: int
    kind: str
    known: str
    is_deadline: bool
    slack: float  # the time it is given, in multiples of what all slots need
    before: int  # jobs of others
    after: int
    seed: int
    by_s: float = 0.0  # its target itself, in place of the slack


class Look(NamedTuple):
    at_s: float
    ended: int  # tasks
    left_s: float  # expected
    low_s: float
    high_s: float


def drawn(rng: Random) -> Case:
    slots = rng.choice((1, 2, 4, 8))
    is_loaded = rng.random() < 0.5
    return Case(
        rng.choice((5, 10, 20, 50, 100)), slots, rng.choice(list(KINDS)), rng.choice(KNOWN),
        rng.random() < 0.6, rng.choice((0.8, 1.1, 1.5, 3.0)),
        rng.randrange(4 * slots) if is_loaded else 0, 30 if is_loaded else 0, rng.getrandbits(32),
    )  # fmt: skip


class ArrayRun:
    """An array with a target among jobs of others, looked at until it ends."""

    def __init__(self, case: Case) -> None:
        self.case, self.rng = case, Random(case.seed)
        self.queues = Queues(make("fcfs", ()), Rules())
        self.predictions = Predictions(self.queues, None, by_uid=False)  # type: ignore[arg-type]
        self.now_s, self.order, self.events = 0.0, count(), list[tuple[float, int, str]]()
        self.sizes, self.left, self.looks = dict[str, float](), case.tasks, list[Look]()
        host = HostSlots(HostId("h1"), case.slots)
        self.note(self.queues.host_is(host, 0.0, self.rng))
        self.others(0, case.before)
        of = KINDS[case.kind]
        if case.known == "20 earlier":
            known = Earlier(others_s=tuple(of(self.rng) for _ in range(20)))
            self.queues.targets.expect(1, known)
        rounds = -(-case.tasks // case.slots) if case.kind == "alike" else case.tasks / case.slots
        wait_s = case.before * 10.0 / case.slots
        by_s = case.by_s or wait_s + case.slack * TASK_S * (rounds + (case.kind != "alike"))
        target = Target(by_s, is_deadline=case.is_deadline)
        work_s = TASK_S if case.known == "--work" else None
        for n in range(case.tasks):
            self.arrive(f"{1001 + n}", of(self.rng), array=1, user="ann", target=target,
                        work_s=work_s, command=1, command_line=1)  # fmt: skip
        self.others(case.before, case.after)
        self.by_s, self.end_s = by_s, 0.0
        self.watch()

    def others(self, first: int, number: int) -> None:
        for n in range(first, first + number):
            took_s = self.rng.uniform(5.0, 15.0)
            self.arrive(f"{n + 1}", took_s, user="bob", command=2, command_line=2)

    def arrive(self, name: str, took_s: float, **more: object) -> None:
        self.sizes[name] = took_s
        job = QueuedJob(JobId(name), **more)  # type: ignore[arg-type]
        self.note(self.queues.arrived(job, self.now_s, self.rng))

    def note(self, starts: list) -> None:  # type: ignore[type-arg]
        for start in starts:
            name = str(start.job.id)
            heappush(self.events, (self.now_s + self.sizes[name], next(self.order), name))

    def watch(self) -> None:
        every_s = max(0.5, TASK_S * self.case.tasks / self.case.slots / LOOKS)
        look_s = every_s * self.rng.random()
        while self.left:
            end_s, _, name = self.events[0]
            if look_s < end_s:
                self.now_s, look_s = look_s, look_s + every_s
                self.look()
                continue
            heappop(self.events)
            self.now_s = end_s
            self.note(self.queues.ended(JobId(name), end_s, self.rng))
            self.left -= len(name) == 4
        self.end_s = self.now_s

    def look(self) -> None:
        ours = [one for one in self.queues.registry.values() if one.kind.target]
        one = next((one for one in ours if one.line is not None), ours[0])
        begins = self.predictions.begins(one.id, self.now_s)
        found = self.queues.targets.standing(one.job, self.now_s, begins)
        if found is not None and found.end is not None:
            ended = self.case.tasks - found.left
            self.looks.append(Look(self.now_s, ended, *vars_of(found.end)))

    def outcomes(self) -> list["Outcome"]:
        return [
            Outcome(self.case, one.ended, one.left_s, self.end_s - one.at_s,
                    one.low_s - GRACE_S <= self.end_s - one.at_s <= one.high_s + GRACE_S)
            for one in self.looks
        ]  # fmt: skip


def vars_of(end) -> tuple[float, float, float]:  # type: ignore[no-untyped-def]
    return end.mean_s, end.low_s, end.high_s


class Outcome(NamedTuple):
    case: Case
    ended: int
    said_s: float
    true_s: float
    held: bool

    @property
    def ratio(self) -> float:
        return max(self.said_s, GRACE_S) / max(self.true_s, GRACE_S)

    @property
    def at(self) -> float:
        """The nearest of the shares of progress."""
        share = self.ended / self.case.tasks
        return min(PROGRESS, key=lambda one: abs(one - share))


def row(found: list[Outcome]) -> str:
    ratios = sorted(one.ratio for one in found)
    low, high = (ratios[int(share * (len(ratios) - 1))] for share in (0.1, 0.9))
    held = sum(one.held for one in found) / len(found)
    return f"{median(ratios):5.2f} ({low:4.2f} to {high:5.2f})  {held:4.0%}  {len(found):6}"


def main() -> None:
    runs, seed = int(sys.argv[1]), int(sys.argv[2])
    print(f"{runs} arrays, seed {seed}")
    rng, groups = Random(seed), defaultdict[str, list[Outcome]](list)
    met = defaultdict[str, list[bool]](list)
    for _ in range(runs):
        case = drawn(rng)
        run = ArrayRun(case)
        kind = "deadline" if case.is_deadline else "target"
        met[f"{kind} {case.slack}"].append(run.end_s <= run.by_s + 0.01)
        for one in run.outcomes():
            few = case.known != "20 earlier" and one.ended < 10
            groups[f"0 all at {one.at:4.0%}"].append(one)
            ended = "few" if few else "many"
            groups[f"1 {case.kind:11} known {case.known:10} {ended} ended"].append(one)
            groups[f"2 {case.kind:11} at {one.at:4.0%}"].append(one)
            groups[f"3 {kind:8} slack {case.slack} {case.kind}"].append(one)
            groups[f"4 {'loaded' if case.after else 'alone'} {case.slots} slots"].append(one)
    for name in sorted(groups):
        print(f"{name:50} {row(groups[name])}")
    for name, ones in sorted(met.items()):
        print(f"{name:50} met {sum(ones) / len(ones):4.0%} of {len(ones)}")


if __name__ == "__main__":
    main()
