"""How many events a second `lbd sim balance` handles on one core, by CPU time of this process.

Under NOLB these are the queue's own (arrivals, ends of bursts, disks); under all others the
daemons' LIM states decide, which is most of the work then. The jobs are drawn beforehand.

Also how long a day of work under every algorithm would take with ten seeds: ten minutes of one seed
times 1440, including the drawing of the jobs and the sums.
"""

import time

from lbd.config.schema import ALGORITHMS
from lbd.sim.balance.engine import Engine
from lbd.sim.balance.runs import jobs_of, placement_of, run_once
from lbd.sim.balance.setup import EVERY, Setup
from lbd.sim.balance.workload import WORKLOADS
from tests.bench.measure import summarise
from tests.bench.row import Bound, Row
from tests.bench.stage import Stage

HOSTS = 28
ASKED = Bound(300_000, at_least=True, of_ratio=False)
RUNS, QUICK_RUNS = 5, 2
PART_S, DAY_S, SEEDS = 600.0, 86400.0, 10


def measure(stage: Stage, _: set[str]) -> list[Row]:
    runs = QUICK_RUNS if stage.quick else RUNS
    day = Row(
        f"simulator, {HOSTS} hosts, a day, {len(EVERY)} algorithms, {SEEDS} seeds", "core min",
        summarise([day_min(number) for number in range(runs)]), note="minutes are asked",
    )  # fmt: skip
    rates = [
        Row(
            f"simulator, {HOSTS} hosts, {algorithm}", "events/s",
            summarise([events_per_s(algorithm, number) for number in range(runs)]), asked=ASKED,
        )
        for algorithm in ALGORITHMS
    ]  # fmt: skip
    return [*rates, day]


def setup_of(duration_s: float) -> Setup:
    workload = WORKLOADS["berkeley"]
    return Setup(workload, hosts=HOSTS, duration_s=duration_s, costs=workload.costs)


def day_min(replication: int) -> float:
    began_s = time.process_time()
    for algorithm in EVERY:
        run_once(setup_of(PART_S), algorithm, replication)
    return (time.process_time() - began_s) * DAY_S / PART_S * SEEDS / 60.0


def events_per_s(algorithm: str, replication: int) -> float:
    setup = setup_of(1200.0)
    seed = f"1 {replication}"
    engine = Engine(setup)
    jobs = jobs_of(setup, seed)
    engine.placement = placement_of(engine, algorithm, seed)
    began_s = time.process_time()
    engine.run(jobs)
    return engine.handled / (time.process_time() - began_s)
