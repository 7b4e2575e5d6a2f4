"""`lbctl stats`: response time, waiting, slowdown and moves of the cluster's ended jobs."""

import argparse
import math
import time

from lbd.cli.daemons import Daemons
from lbd.cli.output import Row, print_json, print_table, put
from lbd.cli.program import complain
from lbd.cli.quantities import duration
from lbd.cli.reply import Json, number, text
from lbd.cli.usage_hosts import Gathered, ask_host, complain_of, gather
from lbd.errors import PeerError
from lbd.lbm.measures import Measure, Moments, measure_of_row, merged
from lbd.units import duration_text, show_duration

DAY_S = 86400.0
SHOWN = 12  # rows of a kind
KINDS = {"by_command": "command", "by_user": "user", "by_host": "host"}
HEADER = (">JOBS", ">FAILED", ">RESPONSE", ">± SD", ">WAITING", ">± SD", ">SLOWDOWN", ">± SD",
          ">MOVED", ">WRONG", ">CPU")  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", metavar="DUR", type=span, default=DAY_S,
                        help="of jobs that ended within it (default 1d)")  # fmt: skip


def span(given: str) -> float:
    found = duration(given)
    if found <= 0:
        raise argparse.ArgumentTypeError(f"{given!r} is no time at all")
    return found


def stats(daemons: Daemons, options: argparse.Namespace) -> int:
    until = time.time()
    since = max(0.0, until - options.since)
    found = gather(daemons, lambda host: ask_host(daemons, "stats", host, since=since))
    complain_of(found.missing)
    complain_of_lost(found)
    total, groups = summed(found)
    if options.json:
        print_json(as_json(found, total, groups, since, until))
    elif total.jobs:
        show(found, total, groups, options.since)
    else:
        mine = " of yours" if whose(found) else ""
        complain("lbctl", f"no job{mine} ended within {duration_text(options.since)}")
    return 0


def summed(found: Gathered[Json]) -> tuple[Measure, dict[str, dict[str, Measure]]]:
    """Over all hosts. Raises PeerError."""
    total = Measure()
    for answer in found.answers.values():
        total.add(measure_of_row(answer.get("all"))[1])
    return total, {
        kind: merged(rows_of(answer, kind) for answer in found.answers.values()) for kind in KINDS
    }


def rows_of(answer: Json, kind: str) -> dict[str, Measure]:
    rows = answer.get(kind)
    if not isinstance(rows, list):
        raise PeerError("the daemon's answer holds no figures; is it another version?")
    return dict(map(measure_of_row, rows))


def whose(found: Gathered[Json]) -> str:
    """The user whose jobs alone these are; "" for all users'."""
    return next((text(answer, "user") for answer in found.answers.values()), "")


def complain_of_lost(found: Gathered[Json]) -> None:
    for host, answer in found.answers.items():
        if lost := int(number(answer, "lost")):
            why = text(answer, "trouble") or "it is kept again now"
            complain("lbctl", f"{host} could not keep account of {lost} jobs: {why}")


def as_json(
    found: Gathered[Json], total: Measure, groups: dict[str, dict[str, Measure]], since: float,
    until: float,
) -> Json:  # fmt: skip
    return {
        "since": since,
        "until": until,
        "user": whose(found) or None,
        "hosts": sorted(found.answers),
        "missing": sorted(found.missing),
        "not_recorded": sum(int(number(one, "lost")) for one in found.answers.values()),
        **measure_json(total),
        **{
            kind: [{name: key, **measure_json(one)} for key, one in groups[kind].items()]
            for kind, name in KINDS.items()
        },
        "left_out": {kind: left_out(total, groups[kind]) for kind in KINDS},
    }


def left_out(total: Measure, groups: dict[str, Measure]) -> int:
    """Jobs in no group of a kind: a host tells of its most frequent ones; some jobs have none."""
    return total.jobs - sum(one.jobs for one in groups.values())


def measure_json(measure: Measure) -> Json:
    shown: Json = {"jobs": measure.jobs, "failed": measure.failed, "cpu_s": measure.cpu_s}
    for name, moments, unit in (
        ("response", measure.response, "_s"),
        ("waiting", measure.waiting, "_s"),
        ("slowdown", measure.slowdown, ""),
    ):
        shown[f"mean_{name}{unit}"] = moments.mean
        shown[f"sd_{name}{unit}"] = moments.sd
    shown["transferred"] = measure.transferred
    shown["wrong_transfers"] = measure.wrong_transfers
    return shown


def show(
    found: Gathered[Json], total: Measure, groups: dict[str, dict[str, Measure]], span_s: float
) -> None:
    user = whose(found)
    hosts = len(found.answers)
    put(
        f"jobs{f' of {user}' if user else ''} that ended within {duration_text(span_s)} "
        f"on {hosts} host{'s' * (hosts != 1)}",
        "",
    )
    print_table(("", *HEADER), [row_of("all", total)])
    for kind, name in KINDS.items():
        rows = [row_of(key, measure) for key, measure in groups[kind].items()]
        put()
        print_table((name.upper(), *HEADER), rows[:SHOWN])
        if len(rows) > SHOWN:
            put(f"and {len(rows) - SHOWN} more (--json)")
        if jobs := left_out(total, groups[kind]):
            put(
                f"without {jobs} jobs of other {name}s: a host tells of its most frequent ones only"
            )


def row_of(key: str, measure: Measure) -> Row:
    return (
        key,
        str(measure.jobs),
        str(measure.failed),
        *times(measure.response),
        *times(measure.waiting),
        *ratios(measure.slowdown),
        share(measure.transferred),
        share(measure.wrong_transfers),
        show_duration(measure.cpu_s),
    )


def times(moments: Moments) -> tuple[str, str]:
    return seconds(moments.mean), seconds(moments.sd)


def seconds(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value * 1000:.1f} ms" if value < 1.0 else show_duration(value)


def ratios(moments: Moments) -> tuple[str, str]:
    return ratio(moments.mean), ratio(moments.sd)


def ratio(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.3g}"


def share(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1%}"
