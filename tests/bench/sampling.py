"""The cost of sampling the load, by scope, in % of a core: the real sampler at its own pace.

`SLEEPERS` processes exist to be scanned; for the jobs scope they are one job's tree. The scans slow
themselves down to `load.scan_core_share`, so the figure shows only that they do.
"""

import os
import signal
import subprocess
import time

from lbd.config.schema import LoadConfig
from lbd.errors import LbdError
from lbd.load.sampler import make_sampler, usable_cores
from lbd.load.scopes import JobsScope, Root
from tests.bench.measure import Summary, quantile, say
from tests.bench.row import Bound, Row
from tests.bench.stage import Stage

SLEEPERS = 200
SETTLE_S = 3.0
WINDOW_S = 1.0
WINDOWS = 8
QUICK_WINDOWS = 2
ASKED = {"host": 0.5, "container": 1.0, "jobs": 1.0}


def measure(stage: Stage, _: set[str]) -> list[Row]:
    loop = f"i=0; while [ $i -lt {SLEEPERS} ]; do sleep 600 & i=$((i+1)); done; wait"
    tree = subprocess.Popen(["sh", "-c", loop], start_new_session=True)
    try:
        time.sleep(1)
        return [row for scope in ASKED if (row := one_scope(stage, scope, tree.pid))]
    finally:
        os.killpg(tree.pid, signal.SIGKILL)
        tree.wait()


def one_scope(stage: Stage, scope: str, job: int) -> Row | None:
    try:
        now_s = time.monotonic()
        sampler = make_sampler(LoadConfig(scope=scope), usable_cores(0.0), lambda: set(), now_s)
    except (LbdError, OSError) as problem:
        say(f"the {scope} scope is left out: {problem}")
        return None
    if isinstance(sampler.scope, JobsScope):
        sampler.scope.add("bench-1", Root(job, None))
    watch(sampler, SETTLE_S)
    mark = stage.others.mark()
    windows = QUICK_WINDOWS if stage.quick else WINDOWS
    began = sampler.readings
    shares = sorted(watch(sampler, WINDOW_S) for _ in range(windows))
    rate_hz = (sampler.readings - began) / (windows * WINDOW_S)
    mean = sum(shares) / len(shares)
    found = Summary(mean, quantile(shares, 0.95), quantile(shares, 0.1), windows)
    processes = sum(name.isdigit() for name in os.listdir("/proc"))
    cost_ms = 1e3 * sampler.cost_s
    note = f"mean; {rate_hz:.1f} readings/s of {cost_ms:.3f} ms, {processes} processes"
    asked = Bound(ASKED[scope], of_ratio=False)
    others = stage.others.share_since(mark)
    return Row(
        f"sampler, {scope} scope", "% of a core", found, asked=asked, others=others, note=note
    )


def watch(sampler, seconds: float) -> float:
    """Samples for so long; returns this thread's CPU time meanwhile, in % of a core."""
    began_s, began_cpu_s = time.monotonic(), time.thread_time()
    while time.monotonic() - began_s < seconds:
        sampler.read(time.monotonic())
        time.sleep(sampler.interval_s())
    return 100 * (time.thread_time() - began_cpu_s) / (time.monotonic() - began_s)
