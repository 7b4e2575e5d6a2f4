"""`lbd sim target`: a batch of tasks with a target time, with static and dynamic slots."""

import argparse
from dataclasses import asdict, dataclass
from random import Random

from lbd.cli.input_file import text_file
from lbd.cli.program import Parser
from lbd.cli.quantities import not_negative, number, one_or_all, positive, whole
from lbd.cli.sim.pool import Pool, add_workers
from lbd.console.output import print_json, print_table, put
from lbd.errors import ConfigError
from lbd.sim.queueing.target import (
    ENDLESS,
    POLICIES,
    BatchRun,
    BatchWork,
    Pareto,
    Policy,
    Sizes,
    TargetCluster,
    TargetResult,
    deterministic,
    exponential,
    measured,
    simulate,
    static_end_s,
    summed_up,
    uniform,
)

DESCRIPTION = """how long N tasks take, P at a time, with a number of slots that stays (SAA) or that
follows the target (DAA): Sleiman, Lipsky, Sheahan. Times are in means of a task. The target is the
static rule's expected end, if no other is given."""
EXAMPLES = (
    "lbd sim target --tasks 64 --slots 4 --replications 20000",
    "lbd sim target --tasks 64 --slots 4 --size pareto:1.5 --learn",
    "lbd sim target --tasks 64 --slots 4 --arrays 2 --cluster 10 --policy DAA",
)
MOST_TASKS = 100_000
MOST_SIZES = 1_000_000  # read from a file
MOST_EVENTS = 1_000_000_000
LONGEST_LINE = 1000
CHUNKS = 4  # chunks of replications for each process
SHOWN = ("tasks", "slots", "size", "learn", "replications", "seed")  # of the options, in JSON
SHAPES: dict[str, Sizes] = {
    "exponential": exponential,
    "uniform": uniform,
    "deterministic": deterministic,
}


@dataclass(frozen=True, slots=True)
class Part:
    """Replications that one process runs one after the other."""

    work: BatchWork
    cluster: TargetCluster
    arrays: int
    seed: int
    first: int
    end: int


def main(argv: list[str]) -> int:
    options = parsed(argv)
    if options.tasks * options.arrays * options.replications > MOST_EVENTS:
        raise ConfigError(f"target: more than {MOST_EVENTS} tasks in all replications together")
    if options.arrays > 1 and options.cluster is None:
        raise ConfigError("target: --arrays share what --cluster SLOTS gives; say how many")
    sizes = sizes_of(options.size)
    target_s = options.target
    work = BatchWork(options.tasks, options.slots, sizes, target_s or 1.0, learns=options.learn)
    if target_s is None:
        target_s = static_end_s(work, options.replications, options.seed)
    results = [run_policy(options, sizes, target_s, policy) for policy in options.policy]
    show(options, target_s, results)
    return 0


def parsed(argv: list[str]) -> argparse.Namespace:
    parser = Parser("lbd sim target", DESCRIPTION, EXAMPLES)
    parser.add_version()
    add = parser.add_argument
    add("--tasks", type=whole(1, MOST_TASKS), default=64, metavar="N", help="(default 64)")
    add("--slots", type=whole(1, MOST_TASKS), default=4, metavar="P",
        help="of SAA; DAA begins with as many (default 4)")  # fmt: skip
    add(
        "--policy",
        type=one_or_all("policy", POLICIES),
        default=POLICIES,
        metavar="P",
        help="SAA, DAA or ALL (default)",
    )
    add("--target", type=positive, metavar="X", help="means of a task from the start")
    add("--size", default="exponential", metavar="S",
        help="of the tasks: exponential (default), uniform, deterministic, pareto:ALPHA, or a file"
        " with a size a line; scaled to a mean of 1")  # fmt: skip
    add("--learn", action="store_true", help="the mean is learnt on the way, not known")
    add("--speeds", type=speeds, default=(1.0,), metavar="S1,S2…",
        help="of the slots in turn (default: all 1)")  # fmt: skip
    add("--loss-rate", type=not_negative, default=0.0, metavar="R",
        help="how often a slot loses its task, in a mean task's time (default 0)")  # fmt: skip
    add("--arrays", type=whole(1, 100), default=1, metavar="N", help="as many at once (default 1)")
    add("--cluster", type=whole(1, MOST_TASKS), metavar="N",
        help="slots for all of them (default: endless)")  # fmt: skip
    add("--replications", type=whole(1, 10_000_000), default=2000, metavar="R",
        help="(default 2000)")  # fmt: skip
    add("--seed", type=whole(0, 1 << 62), default=1, metavar="S", help="(default 1)")
    add_workers(parser)
    add("--json", action="store_true", help="the numbers, for programs")
    return parser.parse_args(argv)


def speeds(text: str) -> tuple[float, ...]:
    return tuple(positive(part) for part in text.split(","))


def sizes_of(text: str) -> Sizes:
    """Raises ConfigError."""
    try:
        if text in SHAPES:
            return SHAPES[text]
        name, colon, value = text.partition(":")
        if name == "pareto" and colon:
            return Pareto(number(value))
        return measured(read_sizes(text))
    except (ValueError, argparse.ArgumentTypeError) as problem:
        raise ConfigError(f"target: --size {text}: {problem}") from None


def read_sizes(name: str) -> list[float]:
    found: list[float] = []
    with text_file(name) as file:
        while line := file.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE or len(found) >= MOST_SIZES:
                raise ConfigError(f"target: {name}: more than {MOST_SIZES} sizes, or a long line")
            if line.strip() and not line.startswith("#"):
                found.append(number(line.strip()))
    return found


def run_policy(
    options: argparse.Namespace, sizes: Sizes, target_s: float, policy: Policy
) -> TargetResult:
    work = BatchWork(options.tasks, options.slots, sizes, target_s, policy, options.learn)
    cluster = TargetCluster(options.cluster or ENDLESS, options.speeds, options.loss_rate)
    count = options.replications
    edges = sorted(
        {count * i // (CHUNKS * options.workers) for i in range(CHUNKS * options.workers)}
    )
    parts = [
        Part(work, cluster, options.arrays, options.seed, first, end)
        for first, end in zip(edges, [*edges[1:], count], strict=True)
    ]
    found = Pool(f"lbd sim target: {policy}", options.workers)(run_part, parts)
    return summed_up(policy, [run for part in found for run in part])


def run_part(part: Part) -> list[BatchRun]:
    works = [part.work] * part.arrays
    return [
        run
        for number in range(part.first, part.end)
        for run in simulate(works, part.cluster, Random(f"{part.seed}:{number}"))
    ]


def show(options: argparse.Namespace, target_s: float, results: list[TargetResult]) -> None:
    if options.json:
        print_json(
            {
                **{name: getattr(options, name) for name in SHOWN},
                "target_s": target_s,
                "results": [asdict(result) for result in results],
            }
        )
        return
    put(
        f"{options.tasks} tasks ({options.size}), {options.slots} slots, target {target_s:.6g},"
        f" seed {options.seed}, {options.replications} replications",
        "",
    )
    header = (
        "POLICY", ">ENDS", ">VARIANCE", ">AT N-P", ">ITS VAR.", ">SLOTS", ">PEAK", ">CHANGES",
    )  # fmt: skip
    rows = [
        [
            one.policy, f"{one.mean_s:.4f}", f"{one.variance:.4f}", f"{one.drain_mean_s:.4f}",
            f"{one.drain_variance:.4f}", f"{one.mean_slots:.2f}", f"{one.peak_slots:.2f}",
            f"{one.changes:.1f}",
        ]
        for one in results
    ]  # fmt: skip
    print_table(header, rows)
