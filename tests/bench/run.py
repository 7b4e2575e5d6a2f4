"""tests/bench/run.py: the figures this project promises, each beside its rival in the same run.

    .venv/bin/python tests/bench/run.py             all of them (about three hours)
    .venv/bin/python tests/bench/run.py --quick     few runs each: does it work, roughly how fast
    .venv/bin/python tests/bench/run.py --only remote --only held

The first table has our value of each figure, the rival's, and the target; `(p10)` is the ratio of
the tenth percentiles, which a busy machine disturbs less; `others` is the CPU that other processes
took meanwhile, in cores. The exit status is 1 if a target is missed.
"""

import argparse
import json
import os
import platform
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TypeVar

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the repository, not this directory

from lbd.net.grpc_environment import settle

settle(os.environ)  # as the daemons do; read as gRPC is imported

from tests.bench import (
    builds,
    centre_cpu,
    dispatching,
    encrypted,
    failover,
    followers,
    forecasts,
    front,
    functions,
    growth,
    idle,
    idle_options,
    installed,
    keys,
    latency,
    malleable,
    malleable_cost,
    needs,
    newcomer,
    owners,
    pages,
    placements,
    queue_full,
    queue_million,
    queueing,
    sampling,
    scrape,
    simulation,
    slurm_commands,
    streams,
    targets,
)
from tests.bench.measure import CannotMeasureError, above_others, own_session, say
from tests.bench.row import HEADINGS, Row, cells, table
from tests.bench.stage import Stage, set_up

RUNS = 60
QUICK_RUNS = 5

Found = TypeVar("Found")
Measure = Callable[[Stage, set[str]], list[Row]]
# Figures that are measured together, in this order; those at rest come last.
GROUPS: tuple[tuple[tuple[str, ...], Measure], ...] = (
    (("local", "here", "remote", "held"), latency.measure),
    (("front-local", "front-remote", "front-crowd", "front-gcc"), front.measure),
    (("pip-local", "pip-remote", "pip-python"), installed.measure),
    (("lbsh-configure", "lbsh-make"), builds.measure),
    (("stdout", "stdin"), streams.measure),
    (("tls-remote", "tls-front-remote", "tls-stdout", "tls-stdin"), encrypted.measure),
    (("keys",), keys.measure),
    (("placements",), placements.measure),
    (("needs",), needs.measure),
    (("centre",), centre_cpu.measure),
    (("queue-run", "queue-many", "queue-submit"), queueing.measure),
    (slurm_commands.NAMES, slurm_commands.measure),
    (("queue-full",), queue_full.measure),
    (("queue-million",), queue_million.measure),
    (("malleable",), malleable.turnarounds),
    (("malleable-cost",), malleable_cost.costs),
    (functions.NAMES, functions.measure),
    (("fail-over",), failover.measure),
    (("sampler",), sampling.measure),
    (("simulator",), simulation.measure),
    (("tags", "dispatching"), dispatching.measure),
    (("targets",), targets.measure),
    (("forecasts",), forecasts.measure),
    (("owners",), owners.measure),
    (("scrape",), scrape.measure),
    (pages.NAMES, pages.measure),
    (followers.NAMES, followers.measure),
    (("idle",), idle.measure),
    (("idle-options",), idle_options.measure),
)
NAMES = [*(name for names, _ in GROUPS for name in names), "growth", "joining"]


def main() -> int:
    options = read_options()
    if options.list:
        print("\n".join(NAMES))
        return 0
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    own_session()
    if options.realtime:
        above_others()
    wanted = set(options.only or NAMES) - set(options.skip or ())
    runs = options.runs or (QUICK_RUNS if options.quick else RUNS)
    rows: list[Row] = []
    failures: dict[str, str] = {}
    with set_up(runs, options.quick, options.seed) as stage:
        for names, measure in GROUPS:
            if chosen := wanted.intersection(names):
                what = " ".join(name for name in names if name in chosen)
                say(f"measuring {what}")
                found_now = measured(what, partial(measure, stage, chosen), failures)
                rows += found_now
                for row in found_now:
                    say("  ".join(filter(None, cells(row))))
        traffic, joined = list[growth.Traffic](), list[newcomer.Cost]()
        if "growth" in wanted:
            traffic = measured("growth", partial(growth.measure, stage), failures)
        if "joining" in wanted:
            joined = measured("joining", partial(newcomer.measure, stage), failures)
        directory = str(stage.directory)
    if options.json:
        found = {"schema": 1, "machine": machine(), "directory": directory}
        found |= {
            "rows": [row.as_json() for row in rows],
            "growth": [asdict(one) | {"verdict": one.verdict} for one in traffic],
        }
        found["joining"] = list(map(asdict, joined))
        print(json.dumps(found | {"failures": failures}, indent=1))
    else:
        show(rows, traffic, joined, failures)
    return 1 if failures or any(row.verdict == "SHORT" for row in [*rows, *traffic]) else 0


def measured(
    what: str, measure: Callable[[], list[Found]], failures: dict[str, str]
) -> list[Found]:
    """Notes what could not be measured: what was before it took hours."""
    try:
        return measure()
    except CannotMeasureError as problem:
        failures[what] = str(problem)
    except Exception as problem:
        traceback.print_exc()
        failures[what] = repr(problem)
    return []


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="the figures, beside their rivals")
    parser.add_argument("--quick", action="store_true", help="few runs, small streams")
    parser.add_argument("--only", action="append", choices=NAMES, help="this figure; repeatable")
    parser.add_argument(
        "--skip", action="append", choices=NAMES,
        help="all but this figure; repeatable (owners alone takes 70 minutes)",
    )  # fmt: skip
    parser.add_argument("--runs", type=int, help=f"samples of each thing (default: {RUNS})")
    parser.add_argument(
        "--realtime", action="store_true",
        help="run both sides above the neighbours: the ratio a quiet machine would show (root)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, help="of the order within a round")
    parser.add_argument("--json", action="store_true", help="JSON on stdout instead of tables")
    parser.add_argument("--list", action="store_true", help="the names of the figures")
    return parser.parse_args()


def machine() -> dict[str, object]:
    return {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": os.getloadavg(),
    }


def show(
    rows: list[Row],
    traffic: list[growth.Traffic],
    joined: list[newcomer.Cost],
    failures: dict[str, str],
) -> None:
    if rows:
        print(table(HEADINGS, [cells(row) for row in rows]))
    if traffic:
        print(growth.shown(traffic))
    if joined:
        print(newcomer.shown(joined))
    for row in rows:
        if row.note:
            print(f"{row.figure}: {row.note}")
    for names, problem in failures.items():
        print(f"NOT MEASURED: {names}: {problem}")


if __name__ == "__main__":
    sys.exit(main())
