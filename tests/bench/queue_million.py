"""The dispatcher with a million jobs that wait and ten million that have ended: its answers, the
rate of acknowledged submissions beside an empty queue's, and the time that it takes to start.

All is in one process, on ledgers that are written by one statement each: to run so many takes too
long. The waiting jobs are submissions of 100 users; the ended ones are tasks of arrays. Times are
of CPU, including the ledger's threads, except for submissions, which wait for the disk.
"""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from random import Random

from lbd.config.schema import Config
from lbd.dispatch.core.discipline import HostSlots
from lbd.dispatch.ledger.sqlite import connect, migrate
from lbd.model import HostId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.boot_clock import clock_s
from tests.bench.measure import CannotMeasureError, Summary, summarise
from tests.bench.row import Bound, Row
from tests.bench.stage import Stage
from tests.unit.dispatch.services import World, asking

PENDING, ENDED = 1_000_000, 10_000_000
QUICK_PENDING, QUICK_ENDED = 10_000, 100_000
TASKS, USERS, CALLERS, EACH = 1000, 100, 32, 50
ROUNDS, QUICK_ROUNDS = 5, 2
SUBMIT_ASKED = Bound(0.9, at_least=True)
ANSWER_ASKED = Bound(1.0, of_ratio=False)
START_ASKED = Bound(60.0, of_ratio=False)
NUMBERS = "WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)"
SUBMISSION = (
    'INSERT INTO submissions (id, "user", uid, origin, name, command, spec, slots, may_restart,'
    " only_host, idempotency_key, first_job, jobs, indexes)"
)
JOB = (
    "INSERT INTO jobs (id, submission, array_index, state, tier, attempt, crashes, barred, reason,"
    " host, submitted, started, finished, cpu_s, exit_status, signal, cause, predicted_s)"
)


def measure(stage: Stage, _: set[str]) -> list[Row]:
    sizes = (QUICK_PENDING, QUICK_ENDED) if stage.quick else (PENDING, ENDED)
    full, empty = stage.directory / "million.sqlite", stage.directory / "none.sqlite"
    write_ledger(full, *sizes)
    write_ledger(empty, 0, 0)
    mark = stage.others.mark()
    found, rates, empty_rates = asyncio.run(measured(full, empty, stage.quick))
    others, what = stage.others.share_since(mark), f"{sizes[0]} wait, {sizes[1]} have ended"
    rows = [
        Row(f"{name}, {what}", "s", summary, asked=START_ASKED if name == "start" else ANSWER_ASKED,
            others=others)
        for name, summary in found.items()
    ]  # fmt: skip
    beside = summarise(empty_rates)
    title = f"submissions, {what}"
    return [*rows, Row(title, "1/s", summarise(rates), "empty", beside, SUBMIT_ASKED, others)]


def write_ledger(path: Path, pending: int, ended: int) -> None:
    db = connect(path)
    migrate(db, path)
    db.execute("PRAGMA journal_mode = OFF")
    db.execute("PRAGMA synchronous = OFF")
    indexes = [
        (str(name), str(sql))
        for name, sql in db.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        )
    ]
    db.execute("BEGIN")
    for name, _ in indexes:
        db.execute(f"DROP INDEX {name}")
    if pending:
        write_jobs(db, pending, ended, time.time())
    for _, sql in indexes:
        db.execute(sql)
    db.execute("COMMIT")
    db.close()


def write_jobs(db: sqlite3.Connection, pending: int, ended: int, now: float) -> None:
    whose = "'user' || i % ?, 1000 + i % ?, 'h1', '', CAST('true' AS BLOB), zeroblob(300), 1, 1,"
    arrays = ended // TASKS
    db.execute(
        f"{NUMBERS} {SUBMISSION} SELECT i + 1, {whose} '', 'e' || i, 1 + i * ?, ?, ? FROM n",
        (arrays, USERS, USERS, TASKS, TASKS, f"0-{TASKS - 1}"),
    )
    db.execute(
        f"{NUMBERS} {JOB} SELECT i + 1, 1 + i / ?, i % ?, 'done', 1, 1, 0, '', '', 'h1', ?, ?, ?,"
        " 1.0, 0, 0, '', 3.0 FROM n",
        (ended, TASKS, TASKS, now - 30, now - 20, now - 10),
    )
    db.execute(
        f"{NUMBERS} {SUBMISSION} SELECT ? + i, {whose} '', 'p' || i, ? + i, 1, '' FROM n",
        (pending, arrays + 1, USERS, USERS, ended + 1),
    )
    db.execute(
        f"{NUMBERS} {JOB} SELECT ? + i, ? + i, NULL, 'pending', 1, 0, 0, '', '', '', ?, NULL, NULL,"
        " NULL, NULL, 0, '', 60.0 FROM n",
        (pending, ended + 1, arrays + 1, now),
    )
    db.execute("UPDATE counters SET value = ? WHERE name = 'next_job'", (ended + pending + 1,))


async def measured(
    full: Path, empty: Path, quick: bool
) -> tuple[dict[str, Summary], list[float], list[float]]:
    """CPU seconds of each question; submissions a second, and those of the empty queue."""
    rounds = QUICK_ROUNDS if quick else ROUNDS
    config = Config()
    config = replace(config, dispatch=replace(config.dispatch, max_jobs=4 * PENDING))
    world, other = World(full, config=config), World(empty, config=config)
    following = [
        asyncio.create_task(one.dispatcher._follow_up(), name="follow up") for one in (world, other)
    ]
    try:
        found = {"start": await cpu_s(world.dispatcher._restore, 1)}
        for one in (world, other):  # a host with all slots taken
            host = HostSlots(HostId("h1"), 4, open_slots=0)
            one.dispatcher.life.queues.host_is(host, clock_s(), Random(1))
        jobs = world.dispatcher.life.jobs
        middle = str(max(map(int, jobs)) - len(jobs) // 2)
        me, nobody = {"user": "user3", "uid": 1003}, {"user": "nobody", "uid": 77}
        questions: dict[str, Callable[[], Awaitable[object]]] = {
            "status": world.status,
            "jobs ID": lambda: world.jobs(selectors=[middle], **me),
            "jobs of nobody": lambda: world.jobs(selectors=["@me"], by_array=True, **nobody),
            "last of nobody": lambda: world.jobs(selectors=["last"], ended_too=True, **nobody),
            "last of a user": lambda: world.jobs(selectors=["last"], ended_too=True, **me),
            "predict": lambda: predict(world),
        }
        for name, question in questions.items():
            found[name] = await cpu_s(question, rounds)
        rates, empty_rates = [], []
        for _ in range(rounds):
            rates.append(await submitted_per_s(world))
            empty_rates.append(await submitted_per_s(other))
        return found, rates, empty_rates
    finally:
        for task in following:
            task.cancel()
        await world.ledger.close()
        await other.ledger.close()


async def cpu_s(ask: Callable[[], Awaitable[object]], rounds: int) -> Summary:
    samples = []
    for _ in range(rounds):
        began_s = time.process_time()
        await ask()
        samples.append(time.process_time() - began_s)
    return summarise(samples)


async def predict(world: World) -> bytes:
    asked = pb.PredictAsked(user="ann", slots=1, slots_most=1)
    return await world.desk._predict(asked.SerializeToString(), None)


async def submitted_per_s(world: World) -> float:
    async def caller() -> None:
        for _ in range(EACH):
            if error := (await world.submit(asking(only="h9"))).error:
                raise CannotMeasureError(error)

    began_s = time.monotonic()
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return CALLERS * EACH / (time.monotonic() - began_s)
