"""What metrics and the settings for all hosts cost an idle LIM and LBM: CPU and wake-ups.

Three kinds of labs of two hosts with certificates, in host scope as in `idle`: one as installed,
one with `lbd metrics` that nobody scrapes, one with a signed record of settings. They are measured
in the same seconds, and each starts again for every round, since labs with equal settings differ,
too. So the plain lab runs twice, and the difference between its two is what the row cannot resolve.
"""

import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

from tests.bench.idle import REAL_SCOPE, SETTLE_S, WINDOW_S, pids_of
from tests.bench.measure import CannotMeasureError, cpu_s, summarise
from tests.bench.row import Bound, Row
from tests.bench.scrape import free_port
from tests.bench.stage import Lab, Stage

BARE, TWIN, METRICS, SETTINGS = "bare", "bare again", "metrics on", "signed settings"
CASES = (BARE, TWIN, METRICS, SETTINGS)
ROUNDS, QUICK_ROUNDS = 3, 1
WINDOWS, QUICK_WINDOWS = 30, 8
ASKED = Bound(1.1)
Used = dict[str, tuple[float, int]]  # CPU seconds and wake-ups of each lab


def measure(stage: Stage, _: set[str]) -> list[Row]:
    stage.end_shared_lab()
    mark = stage.others.mark()
    found: dict[str, list[tuple[float, float]]] = {case: [] for case in CASES}
    for number in range(QUICK_ROUNDS if stage.quick else ROUNDS):
        with ExitStack() as stack:
            pids = {case: started(stage, stack, case, number) for case in CASES}
            time.sleep(SETTLE_S)
            before, began_s = used(pids), time.monotonic()
            time.sleep(WINDOW_S * (QUICK_WINDOWS if stage.quick else WINDOWS))
            after, took_s = used(pids), time.monotonic() - began_s
        for case in CASES:
            (cpu, woken), (cpu_then, woken_then) = before[case], after[case]
            found[case].append((100 * (cpu_then - cpu) / took_s, (woken_then - woken) / took_s))
    others = stage.others.share_since(mark)
    return [
        row(found, case, at, unit, others)
        for case in (TWIN, METRICS, SETTINGS)
        for at, unit in enumerate(("% of a core", "wake-ups a second"))
    ]


def row(
    found: dict[str, list[tuple[float, float]]],
    case: str,
    at: int,
    unit: str,
    others: float | None,
) -> Row:
    ours, bare = (summarise([one[at] for one in found[name]]) for name in (case, BARE))
    return Row(f"idle LIM + LBM, {case}", unit, ours, "as installed", bare, ASKED, others)


def started(stage: Stage, stack: ExitStack, case: str, number: int) -> list[int]:
    """The LIM and LBM of one host of the lab, with all their processes."""
    more = (f"metrics.listen=:{free_port()}",) if case == METRICS else ()
    name = f"options-{CASES.index(case)}-{number}"
    lab = stack.enter_context(stage.new_lab(name, 2, REAL_SCOPE, *more, tls=True))
    if case == SETTINGS:
        set_for_all(stage, lab)
    parts = pids_of(lab)
    return parts["LIM"] + parts["LBM"]


def set_for_all(stage: Stage, lab: Lab) -> None:
    """Raises CannotMeasureError unless the settings are saved and signed."""
    argv = [str(stage.installation.python), "-P", "-m", "lbd.cli.lbctl"]
    argv += ["config", "set", "lim.min_gain", "0.2", "--cluster"]
    done = subprocess.run(argv, env=lab.environment("h1"), capture_output=True, text=True)
    if done.returncode:
        raise CannotMeasureError(f"lbctl config set: {done.stderr.strip()}")


def used(pids: dict[str, list[int]]) -> Used:
    return {case: (sum(map(cpu_s, some)), sum(map(wake_ups, some))) for case, some in pids.items()}


def wake_ups(pid: int) -> int:
    """How often the threads of the process have slept and continued."""
    found = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        lines = status.read_text().splitlines()
        found += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))
    return found
