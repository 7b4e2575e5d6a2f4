"""The dispatcher's cost of deciding when malleable jobs start, while 10,000 jobs wait.

A thousand slots, a tenth of the jobs malleable; arrivals, starts and ends as in a busy cluster.
Each strategy's CPU per event stands beside free's, in turns: once the dispatcher's deciding code
with its ledger on disk, but without the wait for the disk, and once the queue's code alone.
Predictor A is measured too, for a thousand slots.
"""

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, TypeVar

from lbd.config.dispatch import Strategy
from lbd.dispatch.core.discipline import HostSlots, QueuedJob, Start
from lbd.dispatch.core.disciplines.registry import make
from lbd.dispatch.core.hosts import Terms
from lbd.dispatch.core.ledger_rows import Submission
from lbd.dispatch.core.lifecycle import Lifecycle
from lbd.dispatch.core.malleable.decision import Rule
from lbd.dispatch.core.queues import Queues
from lbd.dispatch.core.records import Action, Begin, Cause, Ending, Record
from lbd.dispatch.ledger import work
from lbd.dispatch.ledger.sqlite import carry_out, connect, migrate
from lbd.model import HostId, JobId
from lbd.theory.free_slots import quantile_s
from lbd.theory.lifetimes import UniformLog
from lbd.theory.queue_time import Releases
from tests.bench.measure import summarise
from tests.bench.row import Bound, Row
from tests.bench.stage import Stage

if TYPE_CHECKING:
    import sqlite3

SLOTS = 4  # of a host, and the most that a malleable job can use
WAITING, QUICK_WAITING = 10_000, 1000
EVENTS, QUICK_EVENTS, SAMPLE = 4000, 300, 100
EVENTS_A_S = 50.0
MALLEABLE = 0.1  # of the jobs
SPEEDUP, WORK_S = (4.0, 0.5), 400.0
RUNS_S = 10.0, 4000.0
KEPT_TOGETHER = 10  # records, in one transaction
COMPARED: tuple[Strategy, ...] = ("free", "avg", "pred", "heur")
PREDICTOR_SLOTS, PREDICTOR_RUNS = 1000, 20
EVENT_ASKED, PREDICTOR_ASKED = Bound(1.2), Bound(50, of_ratio=False)
SEED = 7


def costs(stage: Stage, _: set[str]) -> list[Row]:
    mark = stage.others.mark()
    waiting = QUICK_WAITING if stage.quick else WAITING
    events = QUICK_EVENTS if stage.quick else EVENTS
    rows = []
    with tempfile.TemporaryDirectory(dir=stage.directory) as directory:
        dispatcher_us = in_turns(lambda name: WithLedger(name, Path(directory)), waiting, events)
    queue_us = in_turns(QueueAlone, waiting, events)
    for what, each_us, asked in (
        ("an event, with its records on the ledger", dispatcher_us, EVENT_ASKED),
        ("an event, of the queue's code alone", queue_us, None),
    ):
        free = summarise(each_us["free"])
        rows += [
            Row(f"{what}, {waiting} wait, {name}", "us", summarise(each_us[name]), "free", free,
                asked)
            for name in COMPARED if name != "free"
        ]  # fmt: skip
    title = f"predictor A for {PREDICTOR_SLOTS} slots"
    rows.append(Row(title, "ms", summarise(predictor_ms()), asked=PREDICTOR_ASKED))
    others = stage.others.share_since(mark)
    return [replace(row, others=others) for row in rows]


class QueueAlone:
    """The queue's code, and nothing around it."""

    def __init__(self, strategy: Strategy) -> None:
        self.rng, self.now_s, self.count = Random(SEED), 0.0, 0
        self.queues = Queues(make("fcfs", ()), malleable=Rule(strategy))
        self.running: list[JobId] = []
        prepare(self.queues, self.rng)

    def arrive(self) -> None:
        self.count += 1
        job = QueuedJob(JobId(str(self.count)))
        if self.rng.random() < MALLEABLE:
            job = QueuedJob(job.id, slots_most=SLOTS, speedup=SPEEDUP, work_s=WORK_S)
        self._begin(self.queues.arrived(job, self.now_s, self.rng))

    def end_one(self) -> None:
        job = at_random(self.running, self.rng)
        self._begin(self.queues.ended(job, self.now_s, self.rng))

    def tick(self) -> None:
        self._begin(self.queues.asked_again(self.now_s, self.rng))

    def settle(self) -> None:
        pass

    def _begin(self, starts: Sequence[Start]) -> None:
        self.running += [start.job.id for start in starts]


class WithLedger:
    """All the dispatcher's work except to talk to hosts and to wait for the disk."""

    def __init__(self, strategy: Strategy, directory: Path) -> None:
        self.rng, self.now_s = Random(SEED), 0.0
        self.life = Lifecycle(make("fcfs", ()), Terms(lease_s=1e9), malleable=Rule(strategy))
        self.running: list[Begin] = []
        self.records: list[Record] = []
        path = directory / f"{strategy}.sqlite"
        self.db: sqlite3.Connection = connect(path)
        migrate(self.db, path)
        self.db.execute("PRAGMA synchronous = OFF")
        prepare(self.life.queues, self.rng)

    def arrive(self) -> None:
        sent = Submission("ann", 1000, "h1", "", b"true\0", b"")
        if self.rng.random() < MALLEABLE:
            sent = Submission(
                "ann",
                1000,
                "h1",
                "",
                b"true\0",
                b"",
                slots_most=SLOTS,
                speedup=SPEEDUP,
                work_s=WORK_S,
            )
        accepted = carry_out(self.db, work.insert(sent, self.now_s))
        self._follow(self.life.submitted(sent.jobs(accepted), self.now_s, self.rng))

    def end_one(self) -> None:
        begun, how = at_random(self.running, self.rng), Ending(Cause.EXITED, 0, cpu_s=1.0)
        where = begun.host, begun.job, begun.attempt
        self._follow(self.life.ended(*where, how, self.now_s, self.rng))

    def tick(self) -> None:
        self._follow(self.life.tick(self.now_s, self.rng))

    def settle(self) -> None:
        if self.records:
            self.db.execute("BEGIN IMMEDIATE")
            carry_out(self.db, work.apply_all([(one, self.now_s) for one in self.records]))
            self.db.execute("COMMIT")
            self.records = []

    def _follow(self, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, Begin):
                self.running.append(action)
                self.life.sending(action.job, action.attempt, self.now_s)
                self.records.append(action)
                self._follow(self.life.begun(action.host, action.job, action.attempt))
            elif isinstance(action, Record):
                self.records.append(action)
        if len(self.records) >= KEPT_TOGETHER:
            self.settle()


Subject = QueueAlone | WithLedger
Item = TypeVar("Item")


def prepare(queues: Queues, rng: Random) -> None:
    low_s, high_s = RUNS_S
    for _ in range(500):
        queues.slot_times.ended(rng.uniform(low_s, high_s))
    names = [HostId(f"h{n}") for n in range(PREDICTOR_SLOTS // SLOTS)]
    queues.hosts_are([HostSlots(name, SLOTS) for name in names], 0.0, rng)


def in_turns(
    subject: Callable[[Strategy], Subject], waiting: int, events: int
) -> dict[Strategy, list[float]]:
    """Microseconds an event, a hundred events a sample; the strategies take turns."""
    subjects = {name: subject(name) for name in COMPARED}
    found: dict[Strategy, list[float]] = {name: [] for name in COMPARED}
    for one in subjects.values():
        for _ in range(waiting + PREDICTOR_SLOTS):
            one.arrive()
        one.settle()
    for _ in range(events // SAMPLE):
        for name, one in subjects.items():
            found[name].append(sample_us(one))
    return found


def sample_us(subject: Subject) -> float:
    """CPU of a hundred arrivals, ends and ticks."""
    began_s = time.thread_time()
    for _ in range(SAMPLE):
        subject.now_s += subject.rng.expovariate(EVENTS_A_S)
        subject.tick()
        if subject.rng.random() < 0.5 or not subject.running:
            subject.arrive()
        else:
            subject.end_one()
    return 1e6 * (time.thread_time() - began_s) / SAMPLE


def at_random(items: list[Item], rng: Random) -> Item:
    """Takes a random item out of the list."""
    at = rng.randrange(len(items))
    items[at], items[-1] = items[-1], items[at]
    return items.pop()


def predictor_ms() -> list[float]:
    """The time to compute exactly when half of a thousand slots are free again (equations 6 to
    8)."""
    rng, found = Random(SEED), list[float]()
    for _ in range(PREDICTOR_RUNS):
        held = [(rng.uniform(1.0, 1e5), SLOTS) for _ in range(PREDICTOR_SLOTS // SLOTS)]
        releases = Releases.of(held, UniformLog(math.exp(2), math.exp(12)))
        began_s = time.thread_time()
        quantile_s(PREDICTOR_SLOTS // 2, releases)
        found.append(1000 * (time.thread_time() - began_s))
    return found
