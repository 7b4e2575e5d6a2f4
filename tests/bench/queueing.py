"""The queue: how fast submissions are durable, one job's way through it, and thousands of them.

Submissions go to the dispatcher from 32 callers at once, over gRPC as the LBMs of as many hosts
send them, since it takes only a thousand a second from one host, after a burst of four thousand;
their jobs are for a host that does not exist, so that nothing else is measured. The rival is SQLite
itself on the same disk, full sync, 100 rows a commit; the note has what the disk itself can do. One
job and an array of them have Slurm and HyperQueue beside them, where available.
"""

import asyncio
import os
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TypeVar

from lbd.lbm.link.wire import MESSAGE_LIMIT_BYTES
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2
from lbd.net.peers import Peers
from lbd.net.transport import Plain, options, read_key
from tests.bench.measure import CannotMeasureError, in_turns, run_s, say, summarise
from tests.bench.queue_rivals import Slurm, tuned_slurm
from tests.bench.queue_rivals import hyperqueue as hyperqueue_at
from tests.bench.row import Bound, Row
from tests.bench.stage import Lab, Stage

Found = TypeVar("Found")
CALLERS = 32
SUBMISSIONS, QUICK_SUBMISSIONS = 4000, 400
ROUNDS = 5
ARRAY, QUICK_ARRAY = 10_000, 1000
MANY, QUICK_MANY = 5000, 200
ROWS_A_COMMIT = 100
NOBODY = "h9"
NOBODY_UID = 65534
SPEC_BYTES = 3000  # of arguments and environment, as a login has them
SETTINGS = (
    "dispatch.host=h1", "lbm.slots=2", "dispatch.load_ceiling=10000", "lim.hold_above=10000",
)  # fmt: skip
SUBMIT_ASKED = Bound(2000, at_least=True, of_ratio=False)
ARRAY_ASKED = Bound(20_000, at_least=True, of_ratio=False)
RUN_ASKED, SRUN_ASKED = Bound(1.6), Bound(0.2)  # srun takes 3.2 to 3.7 times a warm ssh
MANY_ASKED = Bound(0.55, at_least=True)
HYPERQUEUE_ASKED, SLURM_ASKED = Bound(2.2, at_least=True), Bound(100, at_least=True)
SLURM_MANY = 100  # which takes it half a minute


def measure(stage: Stage, wanted: set[str]) -> list[Row]:
    rows: list[Row] = []
    with stage.new_lab("queue", 1, *SETTINGS) as lab, ExitStack() as rivals:
        slurm = rival(rivals, tuned_slurm, stage.directory / "slurm", "Slurm")
        if "queue-run" in wanted:
            rows += one_by_one(stage, lab, slurm)
        if "queue-many" in wanted:
            hyperqueue = rival(rivals, hyperqueue_at, stage.directory / "hq", "HyperQueue")
            rows += thousands(stage, lab, hyperqueue, slurm)
        if "queue-submit" in wanted:
            rows += submitting(stage, lab)
    return rows


def rival(
    stack: ExitStack,
    start: Callable[[Path], AbstractContextManager[Found]],
    where: Path,
    name: str,
) -> Found | None:
    """A rival, or None if it is not available here."""
    try:
        return stack.enter_context(start(where))
    except CannotMeasureError as problem:
        say(f"no {name} beside us: {problem}")
        return None


def submitting(stage: Stage, lab: Lab) -> list[Row]:
    mark = stage.others.mark()
    count = QUICK_SUBMISSIONS if stage.quick else SUBMISSIONS
    rates, arrays = asyncio.run(submit_all(lab, count, QUICK_ARRAY if stage.quick else ARRAY))
    rival, synced = rows_per_s(stage.directory, count), syncs_per_s(stage.directory)
    return [
        Row(
            f"durable submissions, {CALLERS} callers", "1/s", summarise(rates),
            "SQLite, 100 rows a commit", summarise(rival), SUBMIT_ASKED,
            stage.others.share_since(mark), f"fdatasync by itself: {synced:.0f}/s on this disk",
        ),
        Row("durable jobs, one array", "1/s", summarise(arrays), asked=ARRAY_ASKED,
            others=stage.others.share_since(mark)),
    ]  # fmt: skip


async def submit_all(lab: Lab, count: int, array: int) -> tuple[list[float], list[float]]:
    """Submissions a second, and an array's jobs a second."""
    key, limits = read_key(str(lab.root / "key")), options(MESSAGE_LIMIT_BYTES, 30.0)
    peers = Peers(Plain("h1", key), limits)
    text = (lab.root / "h1/lbd.toml").read_text()
    address = text.partition('address = "')[2].partition('"')[0]
    ask = peers.channel("h1", f"{address}:7903").unary_unary("/lbd.v1.Dispatch/Submit")

    hosts = [f"h{n + 10}" for n in range(CALLERS)]
    metadata = {host: Peers(Plain(host, key), limits).metadata for host in hosts}

    async def submit(jobs: int, host: str) -> None:
        run = lbm_pb2.RunRequest(argv=[b"true"], environment=[b"X=" + b"x" * SPEC_BYTES])
        request = pb.SubmitRequest(
            user="nobody", uid=NOBODY_UID, origin=host, command=[b"true"], only=NOBODY, count=jobs,
            may_restart=True, spec=pb.StoredSpec(run_request=run.SerializeToString()),
        )  # fmt: skip
        data = await ask(request.SerializeToString(), metadata=metadata[host])
        if error := pb.SubmitReply.FromString(data).error:
            raise CannotMeasureError(error)

    async def caller(times: int, host: str) -> None:
        for _ in range(times):
            await submit(1, host)

    try:
        rates, arrays = [], []
        for _ in range(ROUNDS):
            began_s = time.monotonic()
            await asyncio.gather(*(caller(count // CALLERS, host) for host in hosts))
            rates.append(count // CALLERS * CALLERS / (time.monotonic() - began_s))
            began_s = time.monotonic()
            await submit(array, hosts[0])
            arrays.append(array / (time.monotonic() - began_s))
        return rates, arrays
    finally:
        await peers.close()


def rows_per_s(directory: Path, count: int) -> list[float]:
    db = sqlite3.connect(directory / "rival.sqlite", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, spec BLOB)")
    rates = []
    for _ in range(ROUNDS):
        began_s = time.monotonic()
        for _ in range(count // ROWS_A_COMMIT):
            db.execute("BEGIN")
            rows = ((b"x" * SPEC_BYTES,) for _ in range(ROWS_A_COMMIT))
            db.executemany("INSERT INTO rows VALUES (NULL, ?)", rows)
            db.execute("COMMIT")
        rates.append(count / (time.monotonic() - began_s))
    db.close()
    return rates


def syncs_per_s(directory: Path) -> float:
    descriptor = os.open(directory / "synced", os.O_WRONLY | os.O_CREAT)
    try:
        began_s, count = time.monotonic(), 0
        while time.monotonic() - began_s < 1.0:
            os.write(descriptor, b"x")
            os.fdatasync(descriptor)
            count += 1
        return count / (time.monotonic() - began_s)
    finally:
        os.close(descriptor)


def one_by_one(stage: Stage, lab: Lab, slurm: Slurm | None) -> list[Row]:
    """`lbrun -q true` with an empty queue, the whole process."""
    environment, ssh, lbrun = lab.environment("h1"), stage.ssh(), stage.installation.front()
    mark = stage.others.mark()
    things = {
        "ours": lambda: run_s([str(lbrun), "-q", "true"], environment),
        "python": lambda: run_s([str(stage.installation.lbrun), "-q", "true"], environment),
        "ssh": lambda: run_s(ssh.command("true"), dict(os.environ)),
    }
    if slurm is not None:
        things["srun"] = slurm.one_s
    found = in_turns(things, stage.runs, stage.rng, warm_up=2)
    others = stage.others.share_since(mark)
    title, ours = "lbrun -q true, whole process", in_ms(found["ours"])
    python = f"by the Python client {in_ms(found['python']).median:.1f} ms"
    ssh_ms = in_ms(found["ssh"])
    rows = [Row(title, "ms", ours, "warm ssh", ssh_ms, RUN_ASKED, others, python)]
    if slurm is not None:
        rows.append(Row(title, "ms", ours, "srun true", in_ms(found["srun"]), SRUN_ASKED, others))
    return rows


def in_ms(samples: list[float]):
    return summarise([sample_s * 1e3 for sample_s in samples])


def thousands(
    stage: Stage, lab: Lab, hyperqueue: Callable[[int], float] | None, slurm: Slurm | None
) -> list[Row]:
    """An array of `true` on two slots until all have ended, beside xargs -P2 and other queues."""
    count = QUICK_MANY if stage.quick else MANY
    environment = lab.environment("h1")
    lbrun, lbctl = str(stage.installation.lbrun), ["-P", "-m", "lbd.cli.lbctl"]

    def ours() -> float:
        began_s = time.monotonic()
        submitted = subprocess.run(
            [lbrun, "-d", "--array", f"1-{count}", "true"], env=environment, check=True,
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        wait = [str(stage.installation.python), *lbctl, "wait", submitted.stdout.strip()]
        subprocess.run(wait, env=environment, check=True)
        return count / (time.monotonic() - began_s)

    def xargs() -> float:
        began_s = time.monotonic()
        numbers = "\n".join(map(str, range(count)))
        subprocess.run(["xargs", "-P2", "-I@", "true"], input=numbers, text=True, check=True)
        return count / (time.monotonic() - began_s)

    mark = stage.others.mark()
    things = {"ours": ours, "xargs": xargs}
    if hyperqueue is not None:
        things["hq"] = lambda: hyperqueue(count)
    found = in_turns(things, 1 if stage.quick else 3, stage.rng, 0)
    others = stage.others.share_since(mark)
    title, rate = f"{count} x true, one array, 2 slots", summarise(found["ours"])
    beside = [("xargs -P2", found["xargs"], MANY_ASKED)]
    if hyperqueue is not None:
        beside.append(("HyperQueue, in memory", found["hq"], HYPERQUEUE_ASKED))
    if slurm is not None:
        beside.append(("Slurm array, tuned", [slurm.many(SLURM_MANY)], SLURM_ASKED))
    return [
        Row(title, "1/s", rate, name, summarise(rates), asked, others)
        for name, rates, asked in beside
    ]
