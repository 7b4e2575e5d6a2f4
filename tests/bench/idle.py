"""The cost of one host's daemons while nothing runs: CPU and memory, beside Slurm's and Dask's.

LIM, LBM and the keeper with its spare children run in host scope (a lab's own scope has nothing to
look at when idle). CPU is measured with a second host to exchange load with; memory in a lab of one
host, because two hosts would share pages and each would look smaller than one alone.
"""

import time
from contextlib import ExitStack
from itertools import pairwise

from tests.bench import rivals
from tests.bench.measure import (
    CannotMeasureError,
    Summary,
    cpu_s,
    descendants,
    pss_mib,
    quantile,
    say,
)
from tests.bench.row import Bound, Row
from tests.bench.stage import Lab, Stage

SETTLE_S = 6.0
WINDOW_S = 1.0
WINDOWS = 30
QUICK_WINDOWS = 4
REAL_SCOPE = "load.scope=host"
CPU_ASKED = Bound(0.4, of_ratio=False)
MEMORY_ASKED = Bound(60.0, of_ratio=False)
CPU, MEMORY = "% of a core", "MiB PSS"


def measure(stage: Stage, _: set[str]) -> list[Row]:
    stage.end_shared_lab()
    with stage.new_lab("idle", 2, REAL_SCOPE) as lab:
        cpu, others, note = at_rest(stage, pids_of(lab))
    with stage.new_lab("alone", 1, REAL_SCOPE) as lab:
        time.sleep(SETTLE_S / 2)
        memory, memory_note = memory_of(pids_of(lab))
    ours = "idle LIM + LBM + keeper"
    rows = [
        Row(ours, CPU, cpu, asked=CPU_ASKED, others=others, note=note),
        Row(ours, MEMORY, memory, asked=MEMORY_ASKED, note=memory_note),
    ]
    if not stage.quick:
        rows += [row for rival in rivals.ALL for row in beside(stage, rival)]
    return rows


def beside(stage: Stage, rival: rivals.Rival) -> list[Row]:
    """The rival's own rows, measured the same way; none if it is not available."""
    try:
        with ExitStack() as stack:
            pids = stack.enter_context(rival.running(stage.directory / f"idle-{rival.name}"))
            cpu, others, note = at_rest(stage, pids)
            memory, memory_note = memory_of(pids)
    except CannotMeasureError as problem:
        say(f"{rival.title} is left out: {problem}")
        return []
    return [
        Row(rival.title, CPU, cpu, others=others, note=note),
        Row(rival.title, MEMORY, memory, note=memory_note),
    ]


def pids_of(lab: Lab) -> dict[str, list[int]]:
    """The processes of h1's LIM, LBM and keeper, each without those of the others."""
    pids = lab.pids("h1")
    keeper = descendants(pids["keeper"])
    lbm = [pid for pid in descendants(pids["lbm"]) if pid not in keeper]
    return {"LIM": descendants(pids["lim"]), "LBM": lbm, "keeper and spares": keeper}


def at_rest(stage: Stage, pids: dict[str, list[int]]) -> tuple[Summary, float | None, str]:
    """CPU in % of a core for all processes, in windows of a second; the note has each part's
    share."""
    time.sleep(SETTLE_S)
    stage.others.wait_until_quiet(0 if stage.quick else 20)
    windows = QUICK_WINDOWS if stage.quick else WINDOWS
    mark = stage.others.mark()
    seen = [(time.monotonic(), used(pids))]
    for _ in range(windows):
        time.sleep(WINDOW_S)
        seen.append((time.monotonic(), used(pids)))
    others = stage.others.share_since(mark)
    shares = sorted(
        100 * (sum(after.values()) - sum(before.values())) / (then - now)
        for (now, before), (then, after) in pairwise(seen)
    )
    (began, first), (ended, last) = seen[0], seen[-1]
    by_part = {name: 100 * (last[name] - first[name]) / (ended - began) for name in pids}
    # The mean, not the median of the windows: work done every five seconds counts too.
    mean = sum(by_part.values())
    note = f"mean of {windows} s: " + ", ".join(f"{n} {share:.3f}" for n, share in by_part.items())
    return Summary(mean, quantile(shares, 0.95), quantile(shares, 0.1), windows), others, note


def used(pids: dict[str, list[int]]) -> dict[str, float]:
    return {name: sum(map(cpu_s, some)) for name, some in pids.items()}


def memory_of(pids: dict[str, list[int]]) -> tuple[Summary, str]:
    by_part = {name: sum(map(pss_mib, some)) for name, some in pids.items()}
    total = sum(by_part.values())
    note = ", ".join(f"{name} {mib:.1f}" for name, mib in by_part.items())
    return Summary(total, total, total, 1), note
