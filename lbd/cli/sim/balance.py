"""`lbd sim balance`: reads the options, spreads the runs over cores, prints the results."""

import argparse
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import TextIO

from lbd.cli.input_file import text_file
from lbd.cli.program import Parser
from lbd.cli.quantities import whole
from lbd.cli.sim.pool import Pool, add_workers
from lbd.console.figures import figure
from lbd.console.output import print_json, print_table, put
from lbd.errors import ConfigError
from lbd.sim.balance.runs import BalanceResult, Outcome, load_of, run_once, stretch_of, summed_up
from lbd.sim.balance.setup import Setup, algorithms, with_settings
from lbd.sim.balance.trace import TraceJob, read_jobs
from lbd.sim.balance.workload import WORKLOADS
from lbd.sim.queueing.trace import LONGEST_LINE
from lbd.text.spelling import hint
from lbd.text.units import duration_s, show_duration

EXAMPLES = (
    "lbd sim balance --algorithm ALL",
    "lbd sim balance --hosts 49 --utilisation 0.8 --set exchange_period_s=2 --set probe_limit=5",
    "lbd sim balance --workload jobs.csv --set speeds=1,1,2 --set cores=2,4 --json",
)
MOST_HOSTS = 1_000_000  # all in memory, some KiB each
HEADER = (
    "algorithm", ">mean s", ">± 95 %", ">sd s", ">p99 s", ">of NOLB", ">moved", ">wrong", ">τ",
    ">msg/host/s", ">CPU cost",
)  # fmt: skip


def main(argv: list[str]) -> int:
    options = parsed(argv)
    names = algorithms(options.algorithm)
    setup = setup_of(options)
    runs = [(name, number) for name in names for number in range(options.replications)]
    pool = Pool("lbd sim balance", options.workers)
    outcomes = dict(zip(runs, pool(partial(run_one, setup), runs), strict=True))
    if not all(outcome.jobs for outcome in outcomes.values()):
        raise ConfigError("no job comes; take a longer --duration or a higher --utilisation")
    results = []
    for name in names:
        mine, base = (
            [outcomes[who, number] for number in range(options.replications)]
            for who in (name, "NOLB")
        )
        results.append(summed_up(mine, base))
    if options.algorithm.upper() != "ALL" and len(results) > 1:
        results = results[1:]  # NOLB ran only for the ratio
    show(setup, options, results)
    return 0


def run_one(setup: Setup, run: tuple[str, int]) -> Outcome:
    return run_once(setup, *run)


def parsed(argv: list[str]) -> argparse.Namespace:
    parser = Parser(
        "lbd sim balance",
        "simulate hosts, jobs and the daemons' own placement code; ratios are to NOLB, same jobs",
        EXAMPLES,
    )
    parser.add_version()
    add = parser.add_argument
    add("--hosts", type=whole(1, MOST_HOSTS), default=28, metavar="N", help="(default 28)")
    add("--algorithm", default="ALL", metavar="A",
        help="one of lim.algorithm, PartCOST, NoCOST, or ALL (default)")  # fmt: skip
    add("--workload", default="berkeley", metavar="W",
        help="berkeley, bell, lbl, or a file: arrival, CPU s, I/Os a line (or .swf)")  # fmt: skip
    add("--utilisation", type=share, default=0.0, metavar="U",
        help="of all CPUs by the jobs (default: as the workload was measured)")  # fmt: skip
    add("--duration", metavar="DUR", help="of arrivals (default 1h, or the whole file)")
    add("--seed", type=whole(0, 1 << 62), default=1, metavar="S", help="(default 1)")
    add("--replications", type=whole(1, 10_000), default=5, metavar="R", help="(default 5)")
    add("--set", action="append", default=[], metavar="PARAM=VALUE", dest="settings",
        help="a parameter of [lim], a cost, cores, speeds, index, quantum_s, disks …")  # fmt: skip
    add_workers(parser)
    add("--json", action="store_true", help="the numbers, for programs")
    return parser.parse_args(argv)


def share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number between 0 and 1")
    return value


def setup_of(options: argparse.Namespace) -> Setup:
    """Raises ConfigError."""
    name = options.workload
    known = WORKLOADS.get(name.lower())
    trace = () if known else read_trace(name)
    workload = known or replace(WORKLOADS["berkeley"], name=name)
    setup = Setup(
        workload,
        hosts=options.hosts,
        utilisation=options.utilisation,
        seed=options.seed,
        costs=workload.costs,
        trace=trace,
    )
    setup = with_settings(setup, options.settings)
    return replace(setup, duration_s=length_of(setup, options.duration))


def length_of(setup: Setup, text: str | None) -> float:
    """Returns the simulated time: by default a whole trace, as it is stretched."""
    trace = setup.trace
    if trace and setup.utilisation and trace[-1][0] == 0:
        raise ConfigError("--utilisation: all jobs of the file came at once: no gaps to stretch")
    if trace and text is None:
        return trace[-1][0] * stretch_of(setup) + 1.0
    return length_s("1h" if text is None else text)


def length_s(text: str) -> float:
    try:
        found = duration_s(text)
    except ValueError as problem:
        raise ConfigError(f"--duration: {problem}") from None
    if not 1.0 <= found <= 1e9:
        raise ConfigError(f"--duration: {text} is out of range; allowed: 1s to 11574d")
    return found


def read_trace(name: str) -> tuple[TraceJob, ...]:
    """Raises ConfigError."""
    if not os.path.exists(name):
        raise ConfigError(f'no workload "{name}", nor a file of that name; {hint(name, WORKLOADS)}')
    with text_file(name) as file:
        return read_jobs(bounded(file, name), name)


def bounded(file: TextIO, name: str) -> Iterator[str]:
    """Yields the file's lines. Raises ConfigError for a file that may be endless."""
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise ConfigError(f"{name}: a line of more than {LONGEST_LINE} characters is no job's")
        yield line


def show(setup: Setup, options: argparse.Namespace, results: list[BalanceResult]) -> None:
    if options.json:
        reply = {
            "hosts": setup.hosts,
            "workload": setup.workload.name,
            "utilisation": load_of(setup),
            "duration_s": setup.duration_s,
            "seed": setup.seed,
            "replications": options.replications,
            "results": [asdict(result) for result in results],
        }
        print_json(reply)
        return
    put(
        f"{setup.hosts} hosts, {setup.workload.name}, utilisation {load_of(setup):.3g}, "
        f"{show_duration(setup.duration_s)} of arrivals, seed {setup.seed}, "
        f"{options.replications} replications"
    )
    print_table(HEADER, [row(result) for result in results])


def row(result: BalanceResult) -> list[str]:
    ratio = figure(result.ratio_to_nolb, 3)
    if result.ratio_ci95 > 0:
        ratio += f" ±{result.ratio_ci95:.3f}"
    return [
        result.algorithm,
        figure(result.mean_response_s),
        figure(result.ci95_s),
        figure(result.sd_response_s),
        figure(result.p99_response_s),
        ratio,
        f"{result.transferred:.1%}",
        f"{result.wrong_transfers:.2%}",
        f"{result.host_overloading:.1%}",
        figure(result.messages_per_host_s),
        f"{result.overhead:.1%}",
    ]
