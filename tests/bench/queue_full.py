"""The dispatcher at rest with 100,000 jobs that wait and 1,000,000 that have ended, beside an empty
one: CPU, and memory for each job that waits.

The waiting jobs are for a host that does not exist: first all of one array, just submitted and
after a restart; then as many submissions of different commands by two users. The latter and the
ended jobs are written into the ledger while the dispatcher is down: to run a million takes too
long.
"""

import os
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.measure import cpu_s, pss_mib, summarise, wait_for
from tests.bench.row import Bound, Row
from tests.bench.stage import Lab, Stage

PENDING, ENDED = 100_000, 1_000_000
QUICK_PENDING, QUICK_ENDED = 10_000, 20_000
SETTLE_S, END_S, START_S = 3.0, 20.0, 60.0
AT_REST = 0.05  # of a core: it has started
WINDOW_S, WINDOWS, QUICK_WINDOWS = 1.0, 10, 2
FIRST_ENDED = 1 << 40  # the first of their ids
CPU_ASKED = Bound(1.0, of_ratio=False)
MEMORY_ASKED = Bound(200, of_ratio=False)


def measure(stage: Stage, _: set[str]) -> list[Row]:
    pending = QUICK_PENDING if stage.quick else PENDING
    ended = QUICK_ENDED if stage.quick else ENDED
    with stage.new_lab("full", 1, "dispatch.host=h1") as lab:
        mark = stage.others.mark()
        empty_mib, empty_cpu = at_rest(stage, lab)
        argv = ["-d", "-H", "h9", "--array", f"1-{pending}", "true"]
        subprocess.run(
            [str(stage.installation.lbrun), *argv], env=lab.environment("h1"), check=True,
            capture_output=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        come_mib, _ = at_rest(stage, lab)
        restart(stage, lab, lambda db: write_ended(db, ended))
        full_mib, full_cpu = at_rest(stage, lab)
        restart(stage, lab, make_singles)
        singles_mib, singles_cpu = at_rest(stage, lab)
        others = stage.others.share_since(mark)
    of_array = f"dispatcher, array of {pending} waits, {ended} have ended"
    of_singles = f"dispatcher, {pending} submissions wait, {ended} have ended"
    rows = [
        Row(of_array, "% of a core", full_cpu, "empty", empty_cpu, CPU_ASKED, others),
        Row(of_singles, "% of a core", singles_cpu, "empty", empty_cpu, CPU_ASKED, others),
    ]
    for title, mib in (
        (f"dispatcher, array of {pending} just submitted", come_mib),
        (of_array, full_mib),
        (of_singles, singles_mib),
    ):
        each_bytes = (mib - empty_mib) * (1 << 20) / pending
        note = f"{empty_mib:.1f} MiB when empty, {mib:.1f} MiB then"
        summary = summarise([each_bytes])
        rows.append(Row(title, "bytes a job", summary, asked=MEMORY_ASKED, note=note))
    return rows


def at_rest(stage: Stage, lab: Lab):
    """MiB, and % of a core."""
    time.sleep(SETTLE_S)
    pid = lab.pids("h1")["dispatcher"]
    wait_for(lambda: second_of(pid) < AT_REST, START_S, "a dispatcher that has read its ledger")
    windows = QUICK_WINDOWS if stage.quick else WINDOWS
    shares = [100 * second_of(pid) for _ in range(windows)]
    return pss_mib(pid), summarise(shares)


def second_of(pid: int) -> float:
    """Returns the share of a core that the process takes in the next second."""
    before_s = cpu_s(pid)
    time.sleep(WINDOW_S)
    return (cpu_s(pid) - before_s) / WINDOW_S


def lab_do(stage: Stage, lab: Lab, *words: str) -> None:
    argv = stage.installation.lbd("lab", *words, "--dir", lab.root)
    subprocess.run(argv, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def restart(stage: Stage, lab: Lab, meanwhile: Callable[[sqlite3.Connection], None]) -> None:
    """Restarts the dispatcher; `meanwhile` changes its ledger."""
    running = Path(f"/proc/{lab.pids('h1')['dispatcher']}/exe")
    lab_do(stage, lab, "kill", "h1", "dispatcher", "-s", "TERM")
    wait_for(lambda: not os.path.exists(running), END_S, "the end of the dispatcher")
    (path,) = (lab.root / "h1").rglob("ledger.sqlite")
    db = sqlite3.connect(path)
    meanwhile(db)
    db.commit()
    db.close()
    lab_do(stage, lab, "start", "h1", "dispatcher")


def make_singles(db: sqlite3.Connection) -> None:
    """Waiting jobs, of two users in turn; without the columns that only a start reads."""
    (last,) = db.execute("SELECT MAX(id) FROM submissions").fetchone()
    pending = "FROM jobs WHERE finished IS NULL"
    db.execute(
        'INSERT INTO submissions (id, "user", uid, origin, name, command, spec, slots,'
        " may_restart, only_host, idempotency_key, first_job, jobs)"
        " SELECT ? + id, 'user' || id % 2, id % 2, 'h1', '', CAST('true ' || id AS BLOB), x'', 1,"
        f" 1, 'h9', '', id, 1 {pending}",
        (last,),
    )
    db.execute(
        "UPDATE jobs SET submission = ? + id, array_index = NULL WHERE finished IS NULL", (last,)
    )


def write_ended(db: sqlite3.Connection, count: int) -> None:
    """Copies of the first job, ended now."""
    names = [row[1] for row in db.execute("PRAGMA table_info(jobs)")]
    first = dict(zip(names, db.execute("SELECT * FROM jobs LIMIT 1").fetchone(), strict=True))
    now = time.time()
    first |= {"state": "done", "attempt": 1, "started": now, "finished": now, "exit_status": 0}
    values = ", ".join(f":{name}" for name in names)
    rows = (first | {"id": FIRST_ENDED + n} for n in range(count))
    db.executemany(f"INSERT INTO jobs VALUES ({values})", rows)
