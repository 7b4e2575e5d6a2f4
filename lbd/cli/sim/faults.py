"""`lbd sim faults`: LIMs alone, and whole clusters, under random faults from a seed."""

import argparse
from dataclasses import asdict, dataclass
from functools import partial

from lbd.cli.program import Parser
from lbd.cli.quantities import whole
from lbd.cli.sim.pool import Pool, add_workers
from lbd.config.schema import ALGORITHMS
from lbd.console.figures import figure
from lbd.console.output import print_json, print_table, put
from lbd.lim.core.settings import check_algorithm
from lbd.sim.faults import scenarios
from lbd.sim.faults.promises import BrokenPromise
from lbd.sim.faults.scenarios import SCENARIOS, ClusterRun
from lbd.sim.faults.schedule import FAULTS, HEALED_S, KINDS, FaultRun
from lbd.sim.faults.signed_settings import KINDS as SIGNED_KINDS
from lbd.sim.faults.signed_settings import SignedRun
from lbd.text.one_line import one_line

SIGNED = "SIGNED"
HEADER = ("algorithm", ">runs", ">commands", ">moved", ">whole again", ">at most", ">violations")
SCENARIO_HEADER = ("scenario", ">runs", ">commands", ">jobs", ">moments", ">violations")
DESCRIPTION = f"""LIMs alone, and whole clusters, under faults drawn from seeds

First each algorithm: {HEALED_S:.0f} s of LIMs that place commands, with {FAULTS} faults on the way:
{", ".join(KINDS)}.
{SIGNED} is GLOBAL with signed settings for all hosts, and hosts that forge them:
{", ".join(dict.fromkeys(SIGNED_KINDS))}.
Then each scenario: a cluster of LIMs, LBMs and a dispatcher runs commands and queued jobs for
{scenarios.HEALED_S:.0f} s, with {scenarios.FAULTS} faults on the way:
{"; ".join(f"{name} ({', '.join(kinds)})" for name, kinds in SCENARIOS.items() if kinds)}.
After every event what is promised is checked; then all is healed, and everything must come to its
end. With --algorithm or --scenario only those run. Exit status 1 if anything was violated."""


@dataclass(frozen=True, slots=True)
class Run:
    algorithm: str
    seed: int
    commands: int
    moved: int
    settled_s: float  # after the last fault
    violation: str  # or ""


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    scenario: str
    seed: int
    commands: int  # that users ran and waited for
    jobs: int  # queued jobs
    moments: int  # events after which the promises were checked
    violation: str  # or ""; may have several lines


def main(argv: list[str]) -> int:
    options = parsed(argv)
    seeds = range(options.seed, options.seed + options.seeds)
    pool = Pool("lbd sim faults", options.workers)
    algorithms, names = chosen(options)
    wanted = [(name, seed) for name in algorithms for seed in seeds]
    runs = pool(partial(run_one, options.hosts), wanted) if wanted else []
    wanted = [(name, seed) for name in names for seed in seeds]
    clusters = pool(partial(run_scenario, options.hosts), wanted) if wanted else []
    if options.json:
        shown = [asdict(run) for run in runs], [asdict(run) for run in clusters]
        print_json({"hosts": options.hosts, "runs": shown[0], "scenarios": shown[1]})
    else:
        show(algorithms, runs, names, clusters)
    violations = [*(run.violation for run in runs), *(run.violation for run in clusters)]
    return 1 if any(violations) else 0


def chosen(options: argparse.Namespace) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the named algorithms and scenarios, or all of both."""
    algorithm, scenario = options.algorithm, options.scenario
    algorithms: tuple[str, ...] = () if scenario else (*ALGORITHMS, SIGNED)
    if algorithm and algorithm.upper() not in ("ALL", SIGNED):
        algorithms = (check_algorithm(algorithm),)
    elif algorithm:
        algorithms = (SIGNED,) if algorithm.upper() == SIGNED else (*ALGORITHMS, SIGNED)
    if scenario and scenario != "all":
        return algorithms, (scenario,)
    return algorithms, () if algorithm and not scenario else tuple(SCENARIOS)


def show(
    algorithms: tuple[str, ...], runs: list[Run], names: tuple[str, ...],
    clusters: list[ScenarioRun],
) -> None:  # fmt: skip
    if algorithms:
        ours = [row([run for run in runs if run.algorithm == name]) for name in algorithms]
        print_table(HEADER, ours)
    if names:
        rows = [scenario_row([run for run in clusters if run.scenario == name]) for name in names]
        print_table(SCENARIO_HEADER, rows)
    for run in runs:
        if run.violation:
            put(f"{run.algorithm}, --seed {run.seed}: {run.violation}")
    for cluster in clusters:
        if cluster.violation:
            put(f"--scenario {cluster.scenario} --seed {cluster.seed}: {cluster.violation}")


def run_scenario(hosts: int, wanted: tuple[str, int]) -> ScenarioRun:
    run, violation = ClusterRun(*wanted, hosts), ""
    try:
        run.run()
    except BrokenPromise as problem:
        violation = str(problem)
    cluster = run.cluster
    jobs = len(cluster.promises.acknowledged)
    return ScenarioRun(*wanted, len(cluster.calls), jobs, cluster.moments, violation)


def scenario_row(runs: list[ScenarioRun]) -> list[str]:
    return [
        runs[0].scenario,
        str(len(runs)),
        str(sum(run.commands for run in runs)),
        str(sum(run.jobs for run in runs)),
        str(sum(run.moments for run in runs)),
        str(sum(bool(run.violation) for run in runs)),
    ]


def run_one(hosts: int, wanted: tuple[str, int]) -> Run:
    algorithm, seed = wanted
    run = SignedRun(seed, hosts) if algorithm == SIGNED else FaultRun(algorithm, seed, hosts)
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


MOST_HOSTS = 1000  # each holds a table of all hosts, as in a cluster


def parsed(argv: list[str]) -> argparse.Namespace:
    parser = Parser("lbd sim faults", DESCRIPTION)
    parser.add_version()
    add = parser.add_argument
    add(
        "--algorithm",
        default="",
        metavar="A",
        help="of LIMs alone: one of lim.algorithm, SIGNED, or ALL",
    )
    add("--scenario", default="", choices=("all", *SCENARIOS), metavar="NAME",
        help="of a whole cluster: one of the above, or all")  # fmt: skip
    add("--hosts", type=whole(2, MOST_HOSTS), default=6, metavar="N", help="(default 6)")
    add("--seed", type=whole(0, 1 << 62), default=1, metavar="S", help="the first (default 1)")
    add("--seeds", type=whole(1, 1_000_000), default=10, metavar="N",
        help="how many, one after the other (default 10)")  # fmt: skip
    add_workers(parser)
    add("--json", action="store_true", help="the numbers, for programs")
    return parser.parse_args(argv)
