"""`lbd sim faults`: the algorithms on a network that fails, by schedules drawn from seeds."""

import argparse
from dataclasses import asdict, dataclass
from functools import partial

from lbd.cli.output import figure, print_json, print_table
from lbd.cli.program import Parser
from lbd.cli.sim_balance import whole
from lbd.cli.sim_pool import WORKERS, Pool
from lbd.config import ALGORITHMS
from lbd.lim.settings import check_algorithm
from lbd.one_line import one_line
from lbd.sim.fault_schedule import FAULTS, HEALED_S, KINDS, FaultRun

HEADER = ("algorithm", ">runs", ">commands", ">moved", ">whole again", ">at most", ">violations")
DESCRIPTION = f"""the algorithms on a network that fails, by schedules drawn from seeds

A run is {HEALED_S:.0f} s of hosts that place commands, with {FAULTS} faults on the way:
{", ".join(KINDS)}.
After every event and every decision what must hold is checked; then all is healed, and the hosts
must come together again. Exit status 1 if anything was violated."""


@dataclass(frozen=True, slots=True)
class Run:
    algorithm: str
    seed: int
    commands: int
    moved: int
    settled_s: float  # after the last fault
    violation: str  # or ""


def main(argv: list[str]) -> int:
    options = parsed(argv)
    every = options.algorithm.upper() == "ALL"
    names = ALGORITHMS if every else (check_algorithm(options.algorithm),)
    seeds = range(options.seed, options.seed + options.seeds)
    wanted = [(name, seed) for name in names for seed in seeds]
    runs = Pool("lbd sim faults", options.workers)(partial(run_one, options.hosts), wanted)
    if options.json:
        print_json({"hosts": options.hosts, "runs": [asdict(run) for run in runs]})
    else:
        print_table(HEADER, [row([run for run in runs if run.algorithm == name]) for name in names])
        for run in runs:
            if run.violation:
                print(f"{run.algorithm}, --seed {run.seed}: {run.violation}")
    return 1 if any(run.violation for run in runs) else 0


def run_one(hosts: int, wanted: tuple[str, int]) -> Run:
    run = FaultRun(*wanted, hosts)
    violation = ""
    try:
        run.run()
        run.converge()
    except AssertionError as problem:
        violation = one_line(str(problem)) or "an invariant without a name"
    return Run(*wanted, run.decided, run.moved, run.settled_s, violation)


def row(runs: list[Run]) -> list[str]:
    healed = [run.settled_s for run in runs if not run.violation]
    return [
        runs[0].algorithm,
        str(len(runs)),
        str(sum(run.commands for run in runs)),
        f"{sum(run.moved for run in runs) / max(1, sum(run.commands for run in runs)):.0%}",
        f"{figure(sum(healed) / len(healed), 1)} s" if healed else "–",
        f"{figure(max(healed), 1)} s" if healed else "–",
        str(sum(bool(run.violation) for run in runs)),
    ]


MOST_HOSTS = 1000  # each keeps a table of all, as in a cluster


def parsed(argv: list[str]) -> argparse.Namespace:
    parser = Parser("lbd sim faults", DESCRIPTION)
    parser.add_version()
    add = parser.add_argument
    add("--algorithm", default="ALL", metavar="A", help="one of lim.algorithm, or ALL (default)")
    add("--hosts", type=whole(2, MOST_HOSTS), default=6, metavar="N", help="(default 6)")
    add("--seed", type=whole(0, 1 << 62), default=1, metavar="S", help="the first (default 1)")
    add("--seeds", type=whole(1, 1_000_000), default=10, metavar="N",
        help="how many, one after the other (default 10)")  # fmt: skip
    add("--workers", type=whole(1, 1024), default=WORKERS, metavar="N",
        help="processes (default: all cores but one)")  # fmt: skip
    add("--json", action="store_true", help="the numbers, for programs")
    return parser.parse_args(argv)
