"""`lbd sim dispatch`: queueing disciplines on hosts that run one job at a time, in virtual time."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from lbd.cli.complaints import EXIT_FAILED, complain
from lbd.cli.program import Parser
from lbd.cli.quantities import count, not_negative, one_or_all, positive, rising
from lbd.cli.sim.progress import Progress
from lbd.cli.swf_file import add_trace_options, check_trace_options, read_trace
from lbd.config.dispatch import MODES, OBJECTIVES, Mode
from lbd.console.output import print_json, print_table, put
from lbd.errors import ConfigError
from lbd.sim.engine.intervals import BATCHES
from lbd.sim.queueing.dispatcher import PROGRESS_EVERY
from lbd.sim.queueing.report import Result
from lbd.sim.queueing.setup import (
    Cutoffs,
    NoCutoffs,
    Recorded,
    Synthetic,
    Workload,
    cutoffs_for,
    recorded,
    run_mode,
)
from lbd.theory.bounded_pareto import with_mean

PROGRAM = "lbd sim dispatch"
MOST_HOSTS = 1_000_000  # all in memory, some 2 KiB each
MOST_JOBS = 5_000_000  # all in memory, some 300 bytes each
DESCRIPTION = """queueing disciplines on hosts that run one job at a time: the code of the
dispatcher itself, in virtual time, on Poisson arrivals of bounded Pareto sizes or on a trace. A run
begins with empty hosts and goes on until the last job has ended; every job counts."""
EXAMPLES = (
    "lbd sim dispatch --alpha 1 --max 1e7 --load 0.5 --hosts 2 --replications 10",
    "lbd sim dispatch --mode tags --cutoffs 5e4 --load 0.3",
    "lbd sim dispatch --trace SDSC-SP2.swf.gz --scale-load 0.5 --hosts 4",
)
SYNTHETIC = {"alpha": 1.0, "mean": 3000.0, "max": 1e10, "load": 0.5, "jobs": 100_000}


@dataclass(frozen=True, slots=True)
class Source:
    workload: Workload
    jobs: int
    skipped: int
    broken: int


@dataclass(frozen=True, slots=True)
class Outcome:
    results: tuple[Result, ...]
    left_out: tuple[dict[str, str], ...]  # modes that cannot run, with the reason
    warnings: tuple[str, ...]


def main(argv: list[str]) -> int:
    options = make_parser().parse_args(argv)
    check(options)
    source = read_source(options)
    outcome = simulate_modes(options, source)
    if not outcome.results:
        complain(PROGRAM, outcome.left_out[0]["reason"])
        return EXIT_FAILED
    for one in outcome.left_out:
        complain(PROGRAM, f"without {one['mode']}: {one['reason']}")
    for warning in outcome.warnings:
        complain(PROGRAM, warning)
    if options.json:
        show_json(options, source, outcome)
    else:
        show(options, source, outcome.results)
    return 0


def make_parser() -> Parser:
    parser = Parser(PROGRAM, DESCRIPTION, EXAMPLES)
    parser.add_version()
    add_jobs_options(parser)
    add_run_options(parser)
    return parser


def add_jobs_options(parser: Parser) -> None:
    add_trace_options(parser)
    add = parser.add_argument
    add(
        "--estimates",
        choices=("exact", "user"),
        help="what least-work and sita-e know of a job "
        "of the trace: its size (default, as in the paper) or the time its user requested",
    )
    add(
        "--fitted",
        action="store_true",
        help="solve tags' cutoffs for the bounded Pareto nearest to "
        "the trace's sizes (lbctl tags fit), not for the sizes themselves",
    )
    add("--alpha", type=not_negative, metavar="A", help="tail exponent of the sizes (default 1)")
    add("--mean", type=positive, metavar="M", help="mean size, seconds (default 3000)")
    add("--max", type=positive, metavar="P", help="largest size, seconds (default 1e10)")
    add("--load", type=positive, metavar="R", help="system load, below 1 (default 0.5)")
    add("--jobs", type=count, metavar="N", help="how many (default 100000)")


def add_run_options(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "--mode",
        type=one_or_all("mode", MODES),
        default=MODES,
        metavar="M",
        help=f"{', '.join(MODES)}, or ALL (default) for one table",
    )
    add("--hosts", type=count, default=2, metavar="N", help="each runs one job (default 2)")
    add(
        "--cutoffs",
        type=rising,
        metavar="S1,S2…",
        help="of tags, CPU seconds (default: the best by theory)",
    )
    add(
        "--work-conserving",
        action="store_true",
        help="tags: a host with nothing to do in its own tier helps a lower one",
    )
    add(
        "--objective",
        choices=OBJECTIVES,
        default="slowdown",
        help="what those are best for (default slowdown)",
    )
    add("--seed", type=int, default=1, metavar="S", help="the same seed, the same result")
    add(
        "--replications",
        type=count,
        default=1,
        metavar="R",
        help="independent runs; with one, intervals are by batch means",
    )
    parser.add_json()


def check(options: argparse.Namespace) -> None:
    """Checks combinations of options, which argparse cannot."""
    of_traces = ("limit", "scale_load", "estimates", "fitted")
    check_trace_options("dispatch", options, of_traces, SYNTHETIC)
    if options.trace is None:
        for name, value in SYNTHETIC.items():
            if getattr(options, name) is None:
                setattr(options, name, value)
        if options.load >= 1:
            raise ConfigError(f"dispatch: --load {options.load:g}: must be below 1")
    if options.trace is None and options.jobs > MOST_JOBS:
        raise ConfigError(f"dispatch: --jobs {options.jobs}: allowed 1 to {MOST_JOBS}")
    if options.hosts > MOST_HOSTS:
        raise ConfigError(f"dispatch: --hosts {options.hosts}: allowed 1 to {MOST_HOSTS}")
    if options.cutoffs is not None and len(options.cutoffs) != options.hosts - 1:
        raise ConfigError(
            f"dispatch: {options.hosts} hosts are {options.hosts} tiers, with"
            f" {options.hosts - 1} cutoffs between, not {len(options.cutoffs)}"
        )
    if options.cutoffs is not None and "tags" not in options.mode:
        raise ConfigError("dispatch: --cutoffs are for tags only")
    if options.work_conserving and "tags" not in options.mode:
        raise ConfigError("dispatch: --work-conserving is for tags only")


def read_source(options: argparse.Namespace) -> Source:
    try:
        if options.trace is None:
            sizes = with_mean(options.mean, options.max, options.alpha)
            drawn = Synthetic(sizes, options.load, options.hosts, options.jobs)
            return Source(drawn, options.jobs, 0, 0)
        limit = min(options.limit or MOST_JOBS, MOST_JOBS)
        trace = read_trace(PROGRAM, options.trace, limit, options.skip_broken)
        by_user = options.estimates == "user"
        jobs = recorded(trace, options.hosts, options.scale_load, by_user, options.fitted)
        return Source(jobs, len(jobs.jobs), trace.skipped, trace.broken)
    except ValueError as problem:
        raise ConfigError(f"dispatch: {problem}") from None


def simulate_modes(options: argparse.Namespace, source: Source) -> Outcome:
    settled: list[tuple[Mode, Cutoffs | None]] = []
    left_out: list[dict[str, str]] = []
    for mode in options.mode:
        try:
            given = (options.cutoffs, options.objective)
            settled.append((mode, cutoffs_for(mode, source.workload, options.hosts, *given)))
        except NoCutoffs as problem:
            left_out.append({"mode": mode, "reason": str(problem)})
    steps = -(-source.jobs // PROGRESS_EVERY) * options.replications
    progress = Progress("jobs", steps * len(settled))
    results = tuple(
        run_mode(
            mode, source.workload, options.hosts, cutoffs.cutoffs_s if cutoffs else None,
            options.seed, options.replications, lambda _: progress.one_more(),
            options.work_conserving,
        )
        for mode, cutoffs in settled
    )  # fmt: skip
    warnings = [cutoffs.warning for _, cutoffs in settled if cutoffs and cutoffs.warning]
    if (load := source.workload.load) >= 1:
        warnings.append(
            f"load {load:.3g}: the hosts cannot keep up; waits depend on how long that lasts"
        )
    return Outcome(results, tuple(left_out), tuple(warnings))


def interval(options: argparse.Namespace, source: Source) -> str:
    if options.replications > 1 and not isinstance(source.workload, Recorded):
        return f"{options.replications} replications"
    return f"{BATCHES} batch means"


def show_json(options: argparse.Namespace, source: Source, outcome: Outcome) -> None:
    print_json(
        {
            "jobs": source.jobs,
            "skipped": source.skipped,
            "broken": source.broken,
            "hosts": options.hosts,
            "load": source.workload.load,
            "seed": options.seed,
            "replications": options.replications,
            "ci95_by": interval(options, source),
            "results": [as_json(one) for one in outcome.results],
            "left_out": list(outcome.left_out),
            "warnings": list(outcome.warnings),
        }
    )


def as_json(one: Result) -> dict[str, object]:
    return {
        "mode": one.mode,
        "cutoffs": list(one.cutoffs_s) if one.cutoffs_s is not None else None,
        "mean_waiting_s": one.waiting_s,
        "mean_response_s": one.response_s,
        "mean_slowdown": one.slowdown,
        "p99_slowdown": one.p99_slowdown,
        "ci95_slowdown": one.ci95_slowdown,
        "max_waiting_s": one.max_waiting_s,
        "utilisation": list(one.utilisation),
        "wasted_s": one.wasted_s,
        "mean_queueing_s": one.queueing_s,
        "mean_queueing_slowdown": one.queueing_slowdown,
    }


def show(options: argparse.Namespace, source: Source, results: Sequence[Result]) -> None:
    left = (
        f" ({source.skipped} without a positive run time were left out)" if source.skipped else ""
    )
    put(
        f"{source.jobs} jobs{left} on {options.hosts} hosts at load {source.workload.load:.3g},"
        f" seed {options.seed}, 95 % intervals by {interval(options, source)}",
        "",
    )
    rows = [
        [
            one.mode,
            f"{one.slowdown:.4g}",
            f"±{one.ci95_slowdown:.2g}" if one.ci95_slowdown is not None else "–",
            f"{one.p99_slowdown:.4g}",
            f"{one.waiting_s:.4g}",
            f"{one.response_s:.4g}",
            f"{one.max_waiting_s:.3g}",
            f"{one.wasted_s:.3g}",
            " ".join(f"{used:.2f}" for used in one.utilisation[:8])
            + (" …" if len(one.utilisation) > 8 else ""),
        ]
        for one in results
    ]
    header = ("MODE", ">SLOWDOWN", ">95 %", ">P99", ">WAITING S", ">RESPONSE S", ">LONGEST S")
    print_table((*header, ">WASTED S", "UTILISATION"), rows, ("UTILISATION",))
    for one in results:
        if one.cutoffs_s is not None:
            put(f"{one.mode}: cutoffs {', '.join(f'{s:.6g}' for s in one.cutoffs_s)} s")
