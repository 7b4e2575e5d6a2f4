"""`lbd sim migrate`: tasks on hosts whose owners come and go: wait for the owner, or move."""

import argparse
import math
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from lbd.cli.program import Parser
from lbd.cli.quantities import count, not_negative, number, whole
from lbd.cli.sim.balance import share
from lbd.console.output import print_json, print_table, put
from lbd.errors import ConfigError
from lbd.policy.wait_or_migrate import Rule
from lbd.sim.balance.migrate import (
    BUSY_PERCENT,
    Decide,
    Learning,
    LearningLimit,
    LearningStays,
    MigrationOutcome,
    Row,
    after,
    by_table,
    drawn,
    is_lively,
    rows_of,
    rule_named,
    run_endless,
    run_rows,
)
from lbd.theory.migration_process import Alike, best_of_alike
from lbd.theory.wait_or_migrate import (
    MOST_TASKS,
    Metrics,
    OnOff,
    metrics,
    metrics_by_start,
    myopic_thresholds,
    thresholds,
    wait_below,
    work_thresholds,
)
from lbd.theory.wait_or_migrate import binomial as chances

DESCRIPTION = """tasks that go on only while all their hosts are free: wait for owners to leave, or
move at a cost (He, Chen, Kim, Tong, Lee). A step of waiting costs 1. Hosts are free (ON) or not by
chances from a step to the next, or as in measured series of their CPU load."""
EXAMPLES = (
    "lbd sim migrate --hosts 3 --p01 0.1 --p11 0.9 --beta 0.9 --cost 2",
    "lbd sim migrate --hosts 2 --spare-hosts 4 --p01 0.1 --p11 0.9 --beta 0.999 --cost 2",
    "lbd sim migrate --series planetlab.tar.xz --hosts 2 --spare-hosts 4 --cost 4",
    "lbd sim migrate --series planetlab.tar.xz --hosts 1 --spare-hosts 4 --cost 20"
    " --value-steps 5 --timers 1,5,15",
)
RULES = ("threshold", "myopic", "always", "never")
STAYS: dict[str, Rule] = {"stays": "threshold", "stays-work": "work"}
TIMERS = (1, 3, 12)  # steps that rules with a fixed time wait by default, on series
MOST_TIMERS = 20
MOST_SPARE = 1000
MOST_STEPS = 100_000_000  # steps times hosts
MOST_FILES = 100_000
MOST_BYTES = 1 << 20  # size of one series


@dataclass(frozen=True, slots=True)
class Known:
    """Results from theory."""

    found: tuple[float, ...]
    rules: tuple[Metrics, ...]
    best: Alike | None
    optimal_cost: float | None


def main(argv: list[str]) -> int:
    options = parsed(argv)
    if options.series is not None:
        return main_series(options)
    if options.p01 is None or options.p11 is None:
        raise ConfigError("migrate: --p01 and --p11 are needed, or --series FILE")
    try:
        chain = OnOff(options.p01, options.p11)
    except ValueError as problem:
        raise ConfigError(f"migrate: {problem}") from None
    known = theory(options, chain)
    outcomes = [] if options.cost is None else simulate(options, chain, known.best)
    show(options, chain, known, outcomes)
    return 0


def parsed(argv: list[str]) -> argparse.Namespace:
    parser = Parser("lbd sim migrate", DESCRIPTION, EXAMPLES)
    parser.add_version()
    add = parser.add_argument
    add("--hosts", type=whole(1, MOST_TASKS), required=True, metavar="N",
        help="that the tasks need, all of them free")  # fmt: skip
    add("--p01", type=number, metavar="A", help="chance that an owner leaves in a step")
    add("--p11", type=number, metavar="B", help="chance that one stays away")
    add("--beta", type=share, default=0.999, metavar="D", help="discount a step (default 0.999)")
    add("--cost", type=not_negative, metavar="G", help="of moving one task, in steps of waiting")
    add("--spare-hosts", type=whole(0, MOST_SPARE), metavar="M",
        help="others to move to (default: as many as are needed are always free)")  # fmt: skip
    add("--steps", type=whole(1, MOST_STEPS), default=20_000, metavar="T", help="(default 20000)")
    add("--series", metavar="FILE.tar[.xz]",
        help="CPU %% a line, a file a host and day; chances are learnt on the way")  # fmt: skip
    add("--busy", type=not_negative, default=BUSY_PERCENT, metavar="PERCENT",
        help="of a series: free up to this load (default 15)")  # fmt: skip
    add("--value-steps", type=whole(1, 60), default=1, metavar="K",
        help="of a series: steps that a value lasts; 5 for a step of a minute where they are of"
        " five minutes (default 1)")  # fmt: skip
    add("--timers", type=timers, default=TIMERS, metavar="T1,T2…",
        help="of a series: steps that rules with a fixed time wait (default 1,3,12)")  # fmt: skip
    add("--sets", type=whole(1, 10_000), default=50, metavar="K",
        help="of a series: draws of N + M hosts (default 50)")  # fmt: skip
    add("--seed", type=whole(0, 1 << 62), default=1, metavar="S", help="(default 1)")
    add("--json", action="store_true", help="the numbers, for programs")
    return parser.parse_args(argv)


def timers(text: str) -> tuple[int, ...]:
    found = tuple(count(part) for part in text.split(","))
    if len(found) > MOST_TIMERS:
        raise argparse.ArgumentTypeError(f"{len(found)} timers: must be 1 to {MOST_TIMERS}")
    return found


def theory(options: argparse.Namespace, chain: OnOff) -> Known:
    tasks, beta, cost = options.hosts, options.beta, options.cost
    found = thresholds(tasks, chain, beta)
    rules = tuple(metrics(i, tasks, chain, beta) for i in range(tasks + 1))
    if cost is None:
        return Known(found, rules, None, None)
    if options.spare_hosts is None:
        return Known(found, rules, None, endless_optimum(options, chain, found))
    best = best_of_alike(tasks, options.spare_hosts, chain, cost, beta)
    return Known(found, rules, best, best.mean_cost(chain) if best else None)


def endless_optimum(options: argparse.Namespace, chain: OnOff, found: Sequence[float]) -> float:
    """Returns 1/(1 - β) less the reward of equation (4), with hosts in their long-run state."""
    tasks, beta, cost = options.hosts, options.beta, options.cost
    rule = metrics_by_start(wait_below(cost, found), tasks, chain, beta)
    starts = chances(tasks, chain.on_share)
    reward = math.fsum(
        weight * (one.processing - cost * one.migrations)
        for weight, one in zip(starts, rule, strict=True)
    )
    return float(1 / (1 - beta) - reward)


def simulate(
    options: argparse.Namespace, chain: OnOff, best: Alike | None
) -> list[tuple[str, MigrationOutcome]]:
    tasks, spare, seed = options.hosts, options.spare_hosts, options.seed
    if (tasks + (spare or 0)) * options.steps > MOST_STEPS:
        raise ConfigError(f"migrate: hosts times steps are more than {MOST_STEPS}")
    rules = {name: rule_named(name, options.cost, tasks, chain, options.beta) for name in RULES}
    if spare is None:
        rules["optimal"] = rules["threshold"]  # by theorem III.4
        return [
            (name, run_endless(tasks, chain, options.steps, decide, Random(seed), False))
            for name, decide in rules.items()
        ]
    if best is not None:
        rules["optimal"] = by_table(best)
    rows = list(drawn(tasks + spare, chain, options.steps, Random(seed)))
    return [(name, run_rows(rows, tasks, rule, Random(seed))) for name, rule in rules.items()]


# -- series ----------------------------------------------------------------------------------------


def main_series(options: argparse.Namespace) -> int:
    if options.cost is None or options.spare_hosts is None:
        raise ConfigError("migrate: --series goes with --cost and --spare-hosts")
    hosts = options.hosts + options.spare_hosts
    series = [one for one in read_series(options.series) if is_lively(one, options.busy)]
    if len(series) < hosts:
        raise ConfigError(
            f"migrate: {options.series}: {len(series)} lively series for {hosts} hosts"
        )
    rng = Random(options.seed)
    sets = [
        [row for row in rows_of(rng.sample(series, hosts), options.busy)
         for _ in range(options.value_steps)]
        for _ in range(options.sets)
    ]  # fmt: skip
    names = series_rules(options.hosts, options.timers)
    results = [(name, over_sets(options, sets, name)) for name in names]
    if options.json:
        print_json(
            {
                "series": len(series), "sets": options.sets, "hosts": options.hosts,
                "spare_hosts": options.spare_hosts, "cost": options.cost, "seed": options.seed,
                "results": [as_json(options, *result) for result in results],
            }
        )  # fmt: skip
        return 0
    put(f"{options.sets} draws of {hosts} hosts from {len(series)} series, seed {options.seed}", "")
    print_results(options, results)
    return 0


def series_rules(tasks: int, waits: Sequence[int]) -> list[str]:
    learning = (*STAYS, "work", "trials") if tasks == 1 else ("work", "trials")
    return [*RULES, *learning, *(f"timer-{steps}" for steps in waits)]


def over_sets(
    options: argparse.Namespace, sets: Sequence[list[Row]], name: str
) -> MigrationOutcome:
    outcomes = [run_set(options, rows, name) for rows in sets]
    return MigrationOutcome(
        sum(one.steps for one in outcomes),
        sum(one.waited for one in outcomes),
        sum(one.moved for one in outcomes),
    )


def run_set(options: argparse.Namespace, rows: list[Row], name: str) -> MigrationOutcome:
    tasks, rng = options.hosts, Random(options.seed)
    if name in STAYS:
        decide: Decide = LearningStays(rows, options.cost, STAYS[name])
    elif name == "trials":
        decide = LearningLimit(rows, tasks, options.cost, Random(options.seed))
    elif name.startswith("timer-"):
        decide = after(int(name.removeprefix("timer-")), tasks)
    else:
        decide = Learning(rows, tasks, options.cost, name)
    return run_rows(rows, tasks, decide, rng)


def read_series(name: str, command: str = "migrate") -> list[list[float]]:
    """Raises ConfigError."""
    found: list[list[float]] = []
    try:
        with tarfile.open(name) as archive:
            for member in archive:
                if not member.isfile():
                    continue
                if member.size > MOST_BYTES or len(found) >= MOST_FILES:
                    raise ConfigError(f"{command}: {name}: {member.name}: too large, or too many")
                file = archive.extractfile(member)
                if file is not None:
                    found.append([float(word) for word in file.read().split()])
    except (OSError, tarfile.TarError, EOFError, ValueError) as problem:
        raise ConfigError(f"{command}: --series {name}: {problem}") from None
    return found


# -- results ---------------------------------------------------------------------------------------


def as_json(options: argparse.Namespace, name: str, outcome: MigrationOutcome) -> dict[str, object]:
    cost = options.cost
    return {
        "policy": name,
        "cost_per_step": outcome.cost_per_step(cost),
        "cost_per_work": outcome.cost_per_work(cost),
        "waited": outcome.waited / outcome.steps,
        "moved": outcome.moved / outcome.steps,
    }


def show(
    options: argparse.Namespace,
    chain: OnOff,
    known: Known,
    outcomes: list[tuple[str, MigrationOutcome]],
) -> None:
    below = None if options.cost is None else wait_below(options.cost, known.found)
    if options.json:
        print_json(
            {
                "hosts": options.hosts,
                "spare_hosts": options.spare_hosts,
                "p01": chain.p01,
                "p11": chain.p11,
                "beta": options.beta,
                "seed": options.seed,
                "thresholds": list(known.found),
                "myopic": list(myopic_thresholds(options.hosts)),
                "work": list(work_thresholds(options.hosts, chain)),
                "processing": [rule.processing for rule in known.rules],
                "migrations": [rule.migrations for rule in known.rules],
                "wait_below": below,
                "results": [as_json(options, *one) for one in outcomes],
                "optimal_cost": known.optimal_cost,
            }
        )
        return
    show_theory(options, chain, known)
    if below is None:
        return
    put("", f"at a cost of {options.cost:g}: wait while fewer than {below} hosts are free")
    if known.optimal_cost is not None:
        put(f"the best there is costs {known.optimal_cost:.6g}, discounted")
    put()
    print_results(options, outcomes)


def show_theory(options: argparse.Namespace, chain: OnOff, known: Known) -> None:
    columns = [known.found, myopic_thresholds(options.hosts), work_thresholds(options.hosts, chain)]
    rows = [["0", "", "", "", *shown(known.rules[0])]]
    for i, values in enumerate(zip(*columns, strict=True), 1):
        rows.append([str(i), *(f"{value:.7g}" for value in values), *shown(known.rules[i])])
    header = (">I", ">THRESHOLD", ">MYOPIC", ">BY WORK", ">PROCESSING", ">MIGRATIONS")
    print_table(header, rows)


def shown(rule: Metrics) -> list[str]:
    return [f"{rule.processing:.6g}", f"{rule.migrations:.6g}"]


def print_results(
    options: argparse.Namespace, outcomes: list[tuple[str, MigrationOutcome]]
) -> None:
    rows = [
        [
            name,
            f"{one.cost_per_step(options.cost):.5f}",
            f"{one.cost_per_work(options.cost):.5f}",
            f"{one.waited / one.steps:.2%}",
            f"{one.moved / one.steps:.5f}",
        ]
        for name, one in outcomes
    ]
    print_table(
        ("POLICY", ">COST A STEP", ">COST A STEP OF WORK", ">WAITED", ">MOVES A STEP"), rows
    )
