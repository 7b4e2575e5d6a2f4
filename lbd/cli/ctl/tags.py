"""`lbctl tags`: cutoffs for the TAGS tiers, from theory; and those that the queue uses."""

import argparse
from typing import TYPE_CHECKING

from lbd.cli.complaints import EXIT_FAILED, complain
from lbd.cli.ctl.tags_show import fit as fit_of_queue
from lbd.cli.ctl.tags_show import show
from lbd.cli.ctl.verb import Verb
from lbd.cli.program import Parser
from lbd.cli.quantities import count, not_negative, positive
from lbd.cli.swf_file import SKIP_BROKEN, read_trace
from lbd.config.dispatch import OBJECTIVES
from lbd.config.load import load
from lbd.console.daemons import Daemons
from lbd.console.output import print_json, print_table, put
from lbd.errors import ConfigError
from lbd.sim.queueing.trace import Trace
from lbd.theory.bounded_pareto import BoundedPareto, with_mean
from lbd.theory.cutoffs import Infeasible, solve
from lbd.theory.pareto_fit import Fit, fit
from lbd.theory.rivals import Means, at_random, least_work, sita_e
from lbd.theory.tags import TagsFigures, Traffic

if TYPE_CHECKING:
    from collections.abc import Callable

DESCRIPTION = """TAGS: every job starts in tier 1; at a tier's cutoff it is killed and starts from
scratch in the next. Here are the cutoffs to give the tiers, for job sizes of a bounded Pareto
distribution, and those that the queue has, with what they are solved from."""
EXAMPLES = (
    "lbctl tags solve --alpha 1 --mean 3000 --max 1e10 --load 0.5 --hosts 4",
    "lbctl tags fit --trace SDSC-SP2.swf.gz      alpha, smallest and largest job of a trace",
    "lbctl tags show                             the queue's tiers, and where they come from",
)
ABOUT = {
    "solve": "compute the best cutoffs and what they gain",
    "fit": "fit a bounded Pareto distribution to a trace's jobs, or the queue's",
    "show": "show the running dispatcher's tiers",
}
PROGRAM = "lbctl tags"
MOST_HOSTS = 64
MOST_JOBS = 5_000_000  # read from a trace


def run_command(options: argparse.Namespace, path: str | None) -> int:
    options.config = path
    run: Callable[[argparse.Namespace], int] = options.run
    return run(options)


def add_commands(parser: Parser) -> None:
    made = dict(parser.subcommands(ABOUT))
    solving, fitting = made["solve"], made["fit"]
    solving.set_defaults(run=run_solve)
    solving.add_argument("--alpha", type=not_negative, required=True, metavar="A",
                         help="exponent; smaller means a heavier tail")  # fmt: skip
    solving.add_argument("--mean", type=positive, required=True, metavar="S",
                         help="mean job size in CPU seconds")  # fmt: skip
    solving.add_argument("--max", type=positive, required=True, metavar="S",
                         help="size of the largest job")  # fmt: skip
    solving.add_argument("--load", type=positive, required=True, metavar="R",
                         help="system load: arrivals per second × mean ÷ hosts")  # fmt: skip
    solving.add_argument(
        "--hosts", type=count, required=True, metavar="H", help="number of hosts, one per tier"
    )
    solving.add_argument("--objective", choices=OBJECTIVES, default="slowdown",
                         help="what to minimise (fairness: the same slowdown for small and large "
                              "jobs); default slowdown")  # fmt: skip
    fitting.set_defaults(run=run_fit)
    fitting.add_argument("--trace", metavar="FILE",
                         help=".swf or .swf.gz; without it, the queue's own jobs")  # fmt: skip
    fitting.add_argument("--skip-broken", action="store_true", help=SKIP_BROKEN)
    made["show"].set_defaults(run=run_show)


def run_show(options: argparse.Namespace) -> int:
    return show(Daemons(load(options.config)), as_json=options.json)


# Solve


def run_solve(options: argparse.Namespace) -> int:
    if not 2 <= options.hosts <= MOST_HOSTS:
        raise ConfigError(
            f"tags solve: --hosts {options.hosts}: must be 2 to {MOST_HOSTS}, one per tier"
        )
    try:
        sizes = with_mean(options.mean, options.max, options.alpha)
        traffic = Traffic(sizes, options.load, options.hosts)
    except ValueError as problem:
        raise ConfigError(f"tags solve: {problem}") from None
    found = solve(traffic, options.objective)
    if isinstance(found, Infeasible):
        if options.json:
            print_json({"feasible": False, "max_load": found.max_load})
        else:
            complain(f"{PROGRAM} solve", no_cutoffs(traffic, found))
        return EXIT_FAILED
    rivals = {"random": at_random(traffic), "least_work": least_work(traffic)}
    rivals["sita_e"] = sita_e(traffic)
    if options.json:
        print_json(solved(traffic, found, rivals))
    else:
        show_solved(sizes, traffic, options.objective, found, rivals)
    return 0


def no_cutoffs(traffic: Traffic, found: Infeasible) -> str:
    return (
        f"no cutoffs: at load {traffic.load:g}, one of {traffic.hosts} hosts is overloaded "
        "whatever they are, since killed work is repeated; they exist below load "
        f"{found.max_load:.4g}"
    )


def solved(traffic: Traffic, found: TagsFigures, rivals: dict[str, Means]) -> dict[str, object]:
    return {
        "feasible": True,
        "k": traffic.sizes.k,
        "cutoffs": list(found.cutoffs_s),
        "mean_slowdown": found.slowdown,
        "mean_waiting_s": found.waiting_s,
        "mean_response_s": found.response_s,
        "loads": [tier.load for tier in found.tiers],
        "spare": [tier.spare for tier in found.tiers],
        "excess": found.excess,
        "unfairness": found.unfairness,
        "arrival_rate_per_s": found.arrival_rate_per_s,
        "compare": {
            name: {"mean_slowdown": means.slowdown, "mean_waiting_s": means.waiting_s}
            for name, means in rivals.items()
        },
    }


def show_solved(
    sizes: BoundedPareto,
    traffic: Traffic,
    objective: str,
    found: TagsFigures,
    rivals: dict[str, Means],
) -> None:
    put(
        f"{traffic.hosts} hosts at load {traffic.load:g}; jobs of {sizes.k:.4g} to {sizes.p:.4g} s,"
        f" mean {sizes.mean_s:.4g} s, alpha {sizes.alpha:g}; best for {objective}",
        "",
    )
    cutoffs = [f"{s:.6g}" for s in found.cutoffs_s]
    rows = [
        [
            str(number),
            cutoff,
            spare_shown(tier.spare),
            f"{tier.visit_share:.3g}",
            f"{tier.final_share:.3g}",
            f"{tier.wait_s:.4g}",
            f"{tier.slowdown:.4g}",
        ]
        for number, (cutoff, tier) in enumerate(zip([*cutoffs, "–"], found.tiers, strict=True), 1)
    ]
    header = (">TIER", ">CUTOFF S", ">LOAD", ">VISIT", ">END HERE", ">WAIT S", ">SLOWDOWN")
    print_table(header, rows)
    put()
    means = {"tags": Means(found.waiting_s, found.slowdown)} | rivals
    print_table(
        ("", ">SLOWDOWN", ">WAITING S"),
        [[name, f"{m.slowdown:.4g}", f"{m.waiting_s:.4g}"] for name, m in means.items()],
    )
    put(
        "",
        f"response {found.response_s:.4g} s including killed service; repeated work: a load of "
        f"{found.excess:.3g} in total",
    )


def spare_shown(spare: float) -> str:
    """Formats a load, including one that differs from 1 by less than the digits show."""
    return f"{1.0 - spare:.4f}" if spare > 5e-4 else f"1-{spare:.1e}"


# Fit


def run_fit(options: argparse.Namespace) -> int:
    if options.trace is None:
        return fit_of_queue(Daemons(load(options.config)), as_json=options.json)
    trace = read_trace(f"{PROGRAM} fit", options.trace, MOST_JOBS, options.skip_broken)
    try:
        found = fit([job.run_s for job in trace.jobs])
    except ValueError as problem:
        raise ConfigError(f"{options.trace}: {problem}") from None
    rate = arrival_rate_per_s(trace)
    if options.json:
        print_json(fitted(trace, found, rate))
    else:
        show_fitted(trace, found, rate)
    return 0


def arrival_rate_per_s(trace: Trace) -> float | None:
    """Returns None if all jobs arrived at once."""
    span_s = trace.jobs[-1].submitted_s - trace.jobs[0].submitted_s
    return (len(trace.jobs) - 1) / span_s if span_s > 0 else None


def fitted(trace: Trace, found: Fit, rate: float | None) -> dict[str, object]:
    sizes = found.sizes
    return {
        "k": sizes.k,
        "p": sizes.p,
        "alpha": sizes.alpha,
        "jobs": found.jobs,
        "ks_distance": found.ks_distance,
        "arrival_rate_per_s": rate,
        "by": found.by,
        "mean_s": found.mean_s,
        "fitted_mean_s": sizes.mean_s,
        "skipped": trace.skipped,
        "broken": trace.broken,
    }


def show_fitted(trace: Trace, found: Fit, rate: float | None) -> None:
    sizes = found.sizes
    put(f"{found.jobs} jobs; {trace.skipped} without a positive run time were left out")
    put(f"k {sizes.k:.6g} s   p {sizes.p:.6g} s   alpha {sizes.alpha:.4f}   (by {found.by})")
    put(f"mean {found.mean_s:.6g} s, of the fit {sizes.mean_s:.6g} s")
    put(f"Kolmogorov-Smirnov distance {found.ks_distance:.4f}: {how_good(found)}")
    if rate is not None:
        put(f"arrivals {rate:.6g} a second: a load of {rate * found.mean_s:.3g} hosts")


def how_good(found: Fit) -> str:
    if found.ks_distance <= found.chance:
        return "no worse than chance"
    if found.ks_distance <= 0.05:
        return "good"
    return (
        "fair"
        if found.ks_distance <= 0.2
        else "poor: these jobs do not follow a bounded Pareto distribution"
    )


VERBS = {
    "tags": Verb(run_command, add_commands, EXAMPLES, description=DESCRIPTION, own_options=True),
}
