"""How many events a second `lbd sim balance` handles on one core, by CPU time of this process.

Under NOLB these are the queue's own (arrivals, ends of bursts, disks); under all others LIM states
as of the daemons decide, which is most of the work then. The jobs are drawn beforehand.
"""

import time

from lbd.config import ALGORITHMS
from lbd.sim.balance import jobs_of, placement_of
from lbd.sim.balance_engine import Engine
from lbd.sim.balance_setup import Setup
from lbd.sim.balance_workload import WORKLOADS
from tests.bench.measure import summarise
from tests.bench.row import Bound, Row
from tests.bench.stage import Stage

HOSTS = 28
ASKED = Bound(300_000, at_least=True, of_ratio=False)
RUNS, QUICK_RUNS = 5, 2


def measure(stage: Stage, _: set[str]) -> list[Row]:
    runs = QUICK_RUNS if stage.quick else RUNS
    return [
        Row(
            f"simulator, {HOSTS} hosts, {algorithm}", "events/s",
            summarise([events_per_s(algorithm, number) for number in range(runs)]), asked=ASKED,
        )
        for algorithm in ALGORITHMS
    ]  # fmt: skip


def events_per_s(algorithm: str, replication: int) -> float:
    workload = WORKLOADS["berkeley"]
    setup = Setup(workload, hosts=HOSTS, duration_s=1200.0, costs=workload.costs)
    seed = f"1 {replication}"
    engine = Engine(setup)
    jobs = jobs_of(setup, seed)
    engine.placement = placement_of(engine, algorithm, seed)
    began_s = time.process_time()
    engine.run(jobs)
    return engine.handled / (time.process_time() - began_s)
