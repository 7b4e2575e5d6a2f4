"""`lbd sim speedup` and `lbd sim queue-time`: evaluates Downey's formulas."""

import argparse
from typing import TYPE_CHECKING

from lbd.cli.program import Parser
from lbd.cli.quantities import count, not_negative, positive
from lbd.console.figures import figure
from lbd.console.output import print_json, print_table, put
from lbd.errors import ConfigError
from lbd.theory import free_slots
from lbd.theory.lifetimes import UniformLog
from lbd.theory.queue_time import Held, Releases
from lbd.theory.speedup import Speedup

if TYPE_CHECKING:
    from lbd.console.reply import Json

MOST_VALUES = 10_000  # in a table
MOST_SLOTS = 100_000  # held by running jobs, or needed
PAPERS = "Downey 1997, UCB/CSD-97-929"
SPEEDUP = f"how much faster a malleable job is on n slots ({PAPERS}, equations 1 and 2)"
QUEUE_TIME = f"""how long until so many more slots are free, by the ages of the jobs that hold them
({PAPERS}, section 3). Lifetimes are uniform in their logarithm; all times are seconds from now.
Exact is the median over all outcomes; predictor A its approximation by the benefactors, the jobs
that hold enough slots each; predictor B the mean of a gradual flow; combined is A where there are
two benefactors or more, else B."""


def main_speedup(argv: list[str]) -> int:
    examples = ("lbd sim speedup --parallelism 64 --variance 0.5 --slots 1-128",)
    parser = Parser("lbd sim speedup", SPEEDUP, examples)
    parser.add_version()
    add = parser.add_argument
    add("--parallelism", type=positive, required=True, metavar="A", help="average, 1 or more")
    add("--variance", type=not_negative, required=True, metavar="SIGMA", help="σ, 0 or more")
    add("--slots", type=slots_list, required=True, metavar="LIST", help="1-8,16")
    parser.add_json()
    options = parser.parse_args(argv)
    try:
        speedup = Speedup(options.parallelism, options.variance)
    except ValueError as problem:
        raise ConfigError(f"speedup: {problem}") from None
    values = [(slots, speedup.at(slots)) for slots in options.slots]
    if options.json:
        print_json({"values": [{"slots": slots, "speedup": value} for slots, value in values]})
    else:
        rows = [(str(slots), figure(value), f"{value / slots:.1%}") for slots, value in values]
        print_table([">slots", ">speedup", ">efficiency"], rows)
    return 0


def main_queue_time(argv: list[str]) -> int:
    examples = ("lbd sim queue-time --running 600:8,60:4,7200:32 --need 8 --lifetimes 7.4:162755",)
    parser = Parser("lbd sim queue-time", QUEUE_TIME, examples)
    parser.add_version()
    add = parser.add_argument
    add("--running", type=running, required=True, metavar="AGE:SLOTS,…", help="seconds, slots")
    add("--need", type=count, required=True, metavar="N", help="slots, beyond those that are free")
    add("--lifetimes", type=lifetimes, required=True, metavar="MIN:MAX", help="seconds")
    parser.add_json()
    options = parser.parse_args(argv)
    releases = Releases.of(options.running, options.lifetimes)
    if options.need > releases.total:
        raise ConfigError(f"queue-time: --need {options.need}: all that run hold {releases.total}")
    answer: Json = {
        "benefactors": releases.benefactors(options.need),
        "median_exact_s": free_slots.quantile_s(options.need, releases),
        "median_s": releases.median_s(options.need),
        "mean_s": releases.mean_s(options.need),
        "combined_s": releases.combined_s(options.need),
    }
    if options.json:
        print_json(answer)
        return 0
    low_s, high_s = free_slots.interval_90_s(options.need, releases)
    median_s = releases.median_s(options.need)
    rows = [
        ("exact median", f"{answer['median_exact_s']:.6g}"),
        ("  nine cases in ten", f"{low_s:.6g} to {high_s:.6g}"),
        ("predictor A", "-" if median_s is None else f"{median_s:.6g}"),
        ("predictor B", f"{answer['mean_s']:.6g}"),
        ("combined", f"{answer['combined_s']:.6g}"),
    ]
    put(f"benefactors: {answer['benefactors']}; seconds until {options.need} more slots are free")
    print_table(["by", ">seconds"], rows)
    return 0


def slots_list(text: str) -> list[int]:
    """Parses lists such as "1,2,4-8,16-64:16"."""
    found: list[int] = []
    for part in text.split(","):
        span, stepped, step = part.partition(":")
        first, ranged, last = span.partition("-")
        low, high = count(first), count(last) if ranged else count(first)
        if high < low:
            raise argparse.ArgumentTypeError(f"{part}: a range must increase")
        if (high - low) // (by := count(step) if stepped else 1) + len(found) >= MOST_VALUES:
            raise argparse.ArgumentTypeError(f"{text}: more than {MOST_VALUES} values")
        found += range(low, high + 1, by)
    return found


def running(text: str) -> list[Held]:
    found = []
    for part in text.split(","):
        age, separator, slots = part.partition(":")
        if not separator:
            raise argparse.ArgumentTypeError(f"{part!r}: must be AGE:SLOTS")
        found.append((not_negative(age), count(slots)))
    if sum(slots for _, slots in found) > MOST_SLOTS:
        raise argparse.ArgumentTypeError(f"all together hold more than {MOST_SLOTS} slots")
    return found


def lifetimes(text: str) -> UniformLog:
    shortest, separator, longest = text.partition(":")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r}: must be MIN:MAX")
    try:
        return UniformLog(positive(shortest), positive(longest))
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
