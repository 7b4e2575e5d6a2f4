"""The dispatcher at rest with 100,000 jobs that wait and 1,000,000 that have ended, beside an empty
one: CPU, and memory for each job that waits.

Those that wait are for a host that is not there. The ended ones are written into the ledger while
the dispatcher is down: running a million takes too long.
"""

import os
import sqlite3
import subprocess
import time
from pathlib import Path

from tests.bench.measure import cpu_s, pss_mib, summarise, wait_for
from tests.bench.row import Bound, Row
from tests.bench.stage import Lab, Stage

PENDING, ENDED = 100_000, 1_000_000
QUICK_PENDING, QUICK_ENDED = 10_000, 20_000
SETTLE_S, END_S = 3.0, 20.0
WINDOW_S, WINDOWS, QUICK_WINDOWS = 1.0, 10, 2
FIRST_ENDED = 1 << 40  # their ids
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
        running = Path(f"/proc/{lab.pids('h1')['dispatcher']}/exe")
        lab_do(stage, lab, "kill", "h1", "dispatcher", "-s", "TERM")
        wait_for(lambda: not os.path.exists(running), END_S, "the end of the dispatcher")
        write_ended(lab, ended)
        lab_do(stage, lab, "start", "h1", "dispatcher")
        full_mib, full_cpu = at_rest(stage, lab)
    each_bytes = (full_mib - empty_mib) * (1 << 20) / pending
    title = f"dispatcher, {pending} jobs wait, {ended} have ended"
    note = f"{empty_mib:.0f} MiB when empty, {full_mib:.0f} MiB then"
    others = stage.others.share_since(mark)
    return [
        Row(title, "% of a core", full_cpu, "empty", empty_cpu, CPU_ASKED, others),
        Row(title, "bytes a job", summarise([each_bytes]), asked=MEMORY_ASKED, note=note),
    ]


def at_rest(stage: Stage, lab: Lab):
    """MiB, and % of a core."""
    time.sleep(SETTLE_S)
    pid = lab.pids("h1")["dispatcher"]
    shares = []
    for _ in range(QUICK_WINDOWS if stage.quick else WINDOWS):
        before_s = cpu_s(pid)
        time.sleep(WINDOW_S)
        shares.append(100 * (cpu_s(pid) - before_s) / WINDOW_S)
    return pss_mib(pid), summarise(shares)


def lab_do(stage: Stage, lab: Lab, *words: str) -> None:
    argv = stage.installation.lbd("lab", *words, "--dir", lab.root)
    subprocess.run(argv, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def write_ended(lab: Lab, count: int) -> None:
    """Copies of the first job, ended now."""
    (path,) = (lab.root / "h1").rglob("ledger.sqlite")
    db = sqlite3.connect(path)
    names = [row[1] for row in db.execute("PRAGMA table_info(jobs)")]
    first = dict(zip(names, db.execute("SELECT * FROM jobs LIMIT 1").fetchone(), strict=True))
    now = time.time()
    first |= {"state": "done", "attempt": 1, "started": now, "finished": now, "exit_status": 0}
    values = ", ".join(f":{name}" for name in names)
    rows = (first | {"id": FIRST_ENDED + n} for n in range(count))
    db.executemany(f"INSERT INTO jobs VALUES ({values})", rows)
    db.commit()
    db.close()
