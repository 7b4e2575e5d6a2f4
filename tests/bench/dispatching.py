"""How long a person waits for advice on queueing disciplines: cutoffs solved, a trace simulated.

Both are whole processes on one core. The trace is SDSC SP2's, from $LBD_TRACES or from
../shared/traces beside the repository; without it, as many random jobs take its place.
"""

import os
import shutil
import subprocess
from pathlib import Path

from tests.bench.measure import CannotMeasureError, run_s, summarise
from tests.bench.row import Bound, Row
from tests.bench.stage import ROOT, Stage

TRACE = "SDSC-SP2-1998-4.2-cln.swf.gz"
TRACES = Path(os.environ.get("LBD_TRACES", ROOT.parent / "shared/traces"))
TRACE_JOBS = 54_034
HOSTS = 8
SOLVE_S, SIMULATE_S = 1.0, 60.0
SIMULATIONS = 3
MANY_JOBS, MANY_HOSTS, ONE_S = 50_000, 114, 2.0
# The tail, the load and the objective: an easy case, one near its limit, the slowest.
CASES = (
    ("1.0", "0.5", "slowdown"),
    ("0.6", "0.4", "waiting"),
    ("1.5", "0.35", "slowdown"),
    ("1.9", "0.2", "fairness"),
)


def measure(stage: Stage, wanted: set[str]) -> list[Row]:
    rows = []
    if "tags" in wanted:
        rows.append(solving(stage))
    if "dispatching" in wanted:
        rows += [simulating(stage), one_discipline(stage)]
    return rows


def solving(stage: Stage) -> Row:
    mark = stage.others.mark()
    found = [(solve_s(stage, case), case) for case in CASES * max(stage.runs // 4, 1)]
    slowest_s, case = max(found)
    return Row(
        f"lbctl tags solve, {HOSTS} hosts", "s", summarise([sample_s for sample_s, _ in found]),
        asked=Bound(SOLVE_S, of_ratio=False), others=stage.others.share_since(mark),
        note=f"whole process; slowest {slowest_s:.2f} s (alpha, load, for: {', '.join(case)})",
    )  # fmt: skip


def solve_s(stage: Stage, case: tuple[str, str, str]) -> float:
    alpha, load, objective = case
    words = ["--alpha", alpha, "--mean", "3000", "--max", "1e10", "--load", load]
    words += ["--hosts", str(HOSTS), "--objective", objective]
    return run_s(one_core(stage, "lbd.cli.lbctl", "tags", "solve", *words), dict(os.environ))


def simulating(stage: Stage) -> Row:
    mark = stage.others.mark()
    trace = TRACES / TRACE
    if trace.exists():
        words, note = (
            ("--trace", str(trace), "--scale-load", "0.45"),
            f"{TRACE_JOBS} jobs of {TRACE}",
        )
    else:
        words, note = ("--jobs", str(TRACE_JOBS), "--max", "1e7"), f"drawn jobs: no {trace}"
    command = one_core(
        stage, "lbd.cli.main", "sim", "dispatch", "--mode", "ALL", "--hosts", "4", "--json", *words
    )
    modes = subprocess.run(command, capture_output=True, text=True).stdout.count('"mode"')
    if modes != 7:
        raise CannotMeasureError(f"lbd sim dispatch gave {modes} modes instead of 7")
    samples = [run_s(command, dict(os.environ)) for _ in range(1 if stage.quick else SIMULATIONS)]
    return Row(
        "lbd sim dispatch --mode ALL", "s", summarise(samples),
        asked=Bound(SIMULATE_S, of_ratio=False), others=stage.others.share_since(mark), note=note,
    )  # fmt: skip


def one_discipline(stage: Stage) -> Row:
    mark = stage.others.mark()
    trace, hosts = TRACES / TRACE, ("--hosts", str(MANY_HOSTS))
    words = ("--trace", str(trace), "--limit", str(MANY_JOBS)) if trace.exists() else (
        "--jobs", str(MANY_JOBS), "--max", "1e7"
    )  # fmt: skip
    command = one_core(
        stage, "lbd.cli.main", "sim", "dispatch", "--mode", "fcfs", "--json", *hosts, *words
    )
    samples = [run_s(command, dict(os.environ)) for _ in range(1 if stage.quick else SIMULATIONS)]
    return Row(
        f"lbd sim dispatch, fcfs, {MANY_JOBS} jobs, {MANY_HOSTS} hosts", "s", summarise(samples),
        asked=Bound(ONE_S, of_ratio=False), others=stage.others.share_since(mark),
        note="of a trace" if trace.exists() else f"drawn jobs: no {trace}",
    )  # fmt: skip


def one_core(stage: Stage, module: str, *words: str) -> list[str]:
    taskset = shutil.which("taskset")
    if taskset is None:
        raise CannotMeasureError("no taskset: apt-get install util-linux")
    core = str(min(os.sched_getaffinity(0)))
    return [taskset, "-c", core, str(stage.installation.python), "-P", "-m", module, *words]
