"""The options of `lbd lab experiment`, a separate file because every `lbd lab` command reads it."""

import argparse
from pathlib import Path

from lbd.cli.program import Parser
from lbd.cli.quantities import count, duration, positive
from lbd.experiment.commands import NAMES
from lbd.experiment.design import INDEX, NOLB
from lbd.sim.scripts import LOADS, USERS

ABOUT = "run a scripted workload under each algorithm and report"
EVERY = "GLOBAL,LOWEST,CENTRAL,DISTED,RANDOM"


def add_options(parser: Parser) -> None:
    add = parser.add_argument
    add("--out", type=Path, default=Path("lbd-experiment"), metavar="DIR",
        help="directory for results and report.html; after an interruption, the same command "
             "continues there (default: lbd-experiment)")  # fmt: skip
    add("--hosts", type=count, default=6, metavar="N", help="(default 6)")
    add("--cpus", type=positive, default=0.0, metavar="X",
        help="cores per host (default: an equal share of most of this machine)")  # fmt: skip
    add("--load", type=words, default=["canonical"], metavar="LOAD,…",
        help=f"{', '.join(LOADS)} (default canonical: a third of the hosts each heavily, "
             "moderately and lightly loaded)")  # fmt: skip
    add("--algorithm", type=words, default=EVERY.split(","), metavar="A,…",
        help=f"algorithms besides {NOLB}; ALL for all (default {EVERY})")  # fmt: skip
    add("--index", type=words, default=[INDEX], metavar="INDEX,…",
        help="instant, queue/T, smoothed/T, load-average, utilisation/T; T in the thesis's seconds "
             f"(default {INDEX})")  # fmt: skip
    add("--users", type=count, default=USERS, metavar="N",
        help=f"users on each busy host (default {USERS})")  # fmt: skip
    add("--demand", type=positive, default=0.25, metavar="S",
        help="mean CPU time of a command, s (default 0.25)")  # fmt: skip
    add("--duration", type=span, default=20.0, metavar="DUR",
        help="approximate length of a run (default 20s)")  # fmt: skip
    add("--replications", type=count, default=1, metavar="R", help=
        "replications, each with different scripts (default 1; intervals are reliable from 4)"
        )  # fmt: skip
    add("--seed", type=int, default=1, metavar="S", help="seed of the scripts (default 1)")
    add("--commands", type=words, default=[], metavar="NAME,…",
        help=f"from {', '.join(NAMES)} (default: those installed here)")  # fmt: skip
    add("--set", action="append", default=[], dest="settings", metavar="SECTION.KEY=VALUE",
        help="a setting for every host's lbd.toml (repeatable)")  # fmt: skip
    add("--json", action="store_true", help="print the results as one JSON object")


def words(given: str) -> list[str]:
    return [word.strip() for word in given.split(",") if word.strip()]


def span(given: str) -> float:
    found = duration(given)
    if found < 1.0:
        raise argparse.ArgumentTypeError(f"{given!r} is too short; must be at least 1s")
    return found
