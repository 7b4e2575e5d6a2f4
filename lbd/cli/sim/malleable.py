"""`lbd sim malleable`: jobs that start with fewer slots now or wait for more, in virtual time."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict
from random import Random

from lbd.cli.program import Parser
from lbd.cli.quantities import count, one_or_all, positive
from lbd.cli.sim.progress import Progress
from lbd.cli.swf_file import add_trace_options, check_trace_options, read_trace
from lbd.console.output import print_json, print_table, put
from lbd.errors import ConfigError
from lbd.sim.queueing.malleable import NAMES
from lbd.sim.queueing.malleable_report import (
    VIEWS,
    MalleableResult,
    MalleableSetup,
    Prediction,
    Replication,
    prediction,
    replicate,
    results,
)
from lbd.sim.queueing.malleable_workload import (
    DAY_S,
    MalleableWorkload,
    RecordedWorkload,
    Workload,
    load_of,
)

MOST_JOBS = 2_000_000  # all in memory, some 500 bytes each under each strategy
MOST_SLOTS = 100_000
DAYS, LOAD = 30, 0.75  # for a random workload
DESCRIPTION = """jobs that can run on few or many slots, in one first-come line: does the head take
what is free now, or wait for more? The strategies and the jobs are those of Downey 1997
(UCB/CSD-97-929), by the code that decides live. AVG takes what is free, at most its average
parallelism; OPT knows when running jobs end; PRED predicts it from their ages; BIAS corrects that
by what came true before; HEUR waits for a fifth of what more slots would save. In the application's
view all do as AVG says and each job is asked what it would have gained alone; in the system's view
all follow the strategy. With --trace, arrivals, run times and processors are a trace's; how much
faster its jobs are on more slots is drawn as in the paper, again for each replication."""
HEADER = (
    *("strategy", ">turnaround s", ">duration s", ">median s", ">rebels", ">of them lose"),
    *(">saved s a job", ">±", ">median rebel's", ">mean rebel's", ">utilisation"),
)
EXAMPLES = (
    "lbd sim malleable --days 120",
    "lbd sim malleable --view system --strategy PRED --load 0.9 --replications 10",
    "lbd sim malleable --trace SDSC-SP2.swf.gz --limit 10000 --scale-load 0.5 --view system",
)


def main(argv: list[str]) -> int:
    options = make_parser().parse_args(argv)
    check(options)
    workload = drawn(options) if options.trace is None else recorded(options)
    setup = MalleableSetup(workload, options.days, options.view, options.seed)
    progress = Progress("replications", options.replications)
    found: list[Replication] = []
    for number in range(options.replications):
        found.append(replicate(setup, options.strategy, number))
        progress.one_more()
    rows, predicted = results(found, options.strategy), prediction(found)
    served = sum(len(one.tallies["AVG"].served) for one in found)
    if not served:
        raise ConfigError("malleable: not one job arrived: more --days or --load")
    if options.json:
        show_json(options, served, rows, predicted)
    else:
        show(options, served, rows, predicted)
    return 0


def make_parser() -> Parser:
    parser = Parser("lbd sim malleable", DESCRIPTION, EXAMPLES)
    parser.add_version()
    add = parser.add_argument
    add("--strategy", type=one_or_all("strategy", NAMES), default=NAMES, metavar="S",
        help=f"{', '.join(NAMES)}, or ALL (default)")  # fmt: skip
    add("--view", choices=VIEWS, default="application", help="(default application)")
    add("--days", type=count, metavar="N", help=f"of 12 hours (default {DAYS})")
    add("--load", type=positive, metavar="R", help=f"by day (default {LOAD})")
    add_trace_options(parser)
    add("--slots", type=count, default=128, metavar="N", help="of the machine (default 128)")
    add("--seed", type=int, default=1, metavar="S", help="the same seed, the same result")
    add("--replications", type=count, default=1, metavar="R", help="independent runs")
    parser.add_json()
    return parser


def check(options: argparse.Namespace) -> None:
    """Checks combinations of options, which argparse cannot."""
    if options.slots > MOST_SLOTS:
        raise ConfigError(f"malleable: --slots {options.slots}: allowed 1 to {MOST_SLOTS}")
    of_traces = ("limit", "scale_load", "skip_broken")
    check_trace_options("malleable", options, of_traces, ("days", "load"))


def drawn(options: argparse.Namespace) -> Workload:
    options.days, options.load = options.days or DAYS, options.load or LOAD
    workload = MalleableWorkload(options.slots, options.load)
    check_number(workload.rate_per_s * DAY_S * options.days * options.replications)
    return workload


def recorded(options: argparse.Namespace) -> Workload:
    """Reads a trace. Unless it is scaled, the load is that of the first replication."""
    limit = min(options.limit or MOST_JOBS, MOST_JOBS)
    trace = read_trace("lbd sim malleable", options.trace, limit, options.skip_broken)
    check_number(len(trace.jobs) * options.replications)
    workload = RecordedWorkload(trace.jobs, options.slots, options.scale_load)
    options.days = 1
    try:
        options.load = load_of(workload.day(Random(f"{options.seed} 0")), options.slots)
    except ValueError as problem:
        raise ConfigError(f"malleable: {options.trace}: {problem}") from None
    return workload


def check_number(jobs: float) -> None:
    if jobs > MOST_JOBS:
        raise ConfigError(f"malleable: some {jobs:.0f} jobs: allowed up to {MOST_JOBS}")


def show_json(
    options: argparse.Namespace,
    jobs: int,
    rows: Sequence[MalleableResult],
    found: Prediction | None,
) -> None:
    head = {name: getattr(options, name) for name in ("view", "load", "slots", "days", "seed")}
    if options.trace is not None:
        head |= {"days": None, "trace": options.trace}
    print_json(
        {
            "jobs": jobs,
            **head,
            "replications": options.replications,
            "results": [asdict(row) for row in rows],
            "prediction": asdict(found) if found is not None else None,
        }
    )


def show(
    options: argparse.Namespace,
    jobs: int,
    rows: Sequence[MalleableResult],
    found: Prediction | None,
) -> None:
    put(
        f"{jobs} jobs on {options.slots} slots at load {options.load:.3g},"
        f" the {options.view}'s view, seed {options.seed}",
        "",
    )
    print_table(HEADER, [line(row) for row in rows])
    if found is not None:
        put(
            "",
            f"waits by prediction: slope {found.slope:.2f}, intercept {found.intercept:.2f}"
            f" (log10), correlation {shown(found.cc_raw, '.2f')},"
            f" corrected {shown(found.cc_corrected, '.2f')}",
        )


def line(row: MalleableResult) -> list[str]:
    return [
        row.strategy,
        shown(row.mean_turnaround_s, ".0f"),
        shown(row.mean_duration_s, ".0f"),
        shown(row.median_duration_s, ".0f"),
        shown(row.rebels, ".1%"),
        shown(row.losers, ".0%"),
        shown(row.mean_saving_s, ".0f"),
        shown(row.ci95_saving_s, ".0f"),
        shown(row.median_rebel_saving_s, ".0f"),
        shown(row.mean_rebel_saving_s, ".0f"),
        shown(row.utilisation, ".1%"),
    ]


def shown(value: float | None, form: str) -> str:
    return "–" if value is None or math.isnan(value) else format(value, form)
